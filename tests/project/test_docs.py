"""What README and docs show is true: code runs, links lead somewhere, tables are those of the code; the site works."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer.main
from project.documents import PROJECT, CodeBlock, anchors, code_blocks, links, pages
from project.spec_reference import SPEC_PAGE, models, tables_of, with_tables
from releases.browser import chromium, opened

from features.registry import slots
from flows.cli import app
from pipeline.execution.settings import Settings
from pipeline.execution.steps import Silent
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec, spec_of

PAGES = pages()
#: Tables in docs/spec.md that name what its first spec does not have; the names of the others are resolved.
NAMED_ELSEWHERE = {"strategy", "join"}
#: Words that a line of shell may begin with, besides make and spinewise.
OTHER_PROGRAMS = {"prefect", "export", ".", "docker", "cp", "python"}
#: Files and folders whose text is the project's own.
TEXTS = (
    *("Makefile", "Dockerfile", "pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
    *("CITATION.cff", ".pre-commit-config.yaml", ".ci", ".github", "benchmarks", "docs", "examples", "tests"),
)
PACKAGES = ("geography", "pipeline", "postprocess", "features", "flows", "spinewise", "auditor")


def name_of(path: Path) -> str:
    return str(path.relative_to(PROJECT))


@pytest.mark.parametrize("page", [*PAGES, *sorted((PROJECT / "features").rglob("README.md"))], ids=name_of)
def test_links(page: Path) -> None:
    """Every link of a page leads to a file of the project, and to a heading that is there."""
    for link in links(page):
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / unquote(target)).resolve() if target else page
        assert path.exists(), f"{link}: there is no {path}"
        assert PROJECT in path.parents, f"{link} leads out of the project"
        assert not anchor or anchor in anchors(path), f"{link}: no such heading; there are {sorted(anchors(path))}"


@pytest.mark.parametrize("block", code_blocks("toml"), ids=str)
def test_specs(block: CodeBlock) -> None:
    """A whole spec is valid; a part of one is, in the place of its tables in the spec that its page begins with."""
    content = tomllib.loads(block.text)
    if "geography" in content and "schema" in content:
        parse_spec(block.text, str(block))
        return
    if set(content) <= set(Settings.model_fields):
        assert Settings(**content)
        return
    whole = next((other for other in code_blocks("toml") if other.page == block.page and "[schema" in other.text), None)
    if whole is None:  # a page about something else: the part has to fit into the spec of docs/spec.md
        whole = next(other for other in code_blocks("toml") if other.page == SPEC_PAGE)
    spec = _placed(tomllib.loads(whole.text), content, block.text)
    if block.page == SPEC_PAGE and set(content) & NAMED_ELSEWHERE:
        ReleaseSpec.model_validate(spec, context={"folder": PROJECT, "slots": slots()})
    else:
        spec_of(spec, folder=PROJECT)


def _placed(spec: dict[str, Any], part: Mapping[str, Any], text: str, above: str = "") -> dict[str, Any]:
    """`spec` with each table that has a head of its own in `text` in the place of the table of the same name."""
    placed = dict(spec)
    for name, value in part.items():
        path = f"{above}.{name}" if above else name
        inner = isinstance(value, dict) and not re.search(rf"^\[+{re.escape(path)}\]", text, re.MULTILINE)
        placed[name] = _placed(placed.get(name, {}), value, text, path) if inner else value
    return placed


def test_tables_of_keys() -> None:
    """docs/spec.md lists the keys that the program knows, with their types and defaults; `make docs` writes them."""
    page = SPEC_PAGE.read_text("utf-8")
    assert with_tables(page) == page, "run `make docs`"
    assert sorted(tables_of(page)) == sorted(models())


def _check_command(words: list[str], block: object) -> None:
    """The command of a line of shell is one that there is, with options that there are."""
    if words[0] == "make":
        subprocess.run(["make", "--dry-run", *words[1:]], cwd=PROJECT, check=True, capture_output=True)
    elif words[0].endswith("spinewise"):
        command: Any = typer.main.get_command(app)
        for before, word in pairwise(words):
            below = {name: one for name, one in getattr(command, "commands", {}).items() if not one.hidden}
            if word.startswith("--"):
                options = {option for parameter in command.params for option in parameter.opts}
                assert word in options, f"{block}: {words}: no option {word}"
            elif (
                below
                and word != "..."
                and (word in below or not before.startswith("--") or before in ("--quiet", "--verbose"))
            ):
                assert word in below, f"{block}: no command {word}"
                command = below[word]
    else:
        raise AssertionError(f"{block}: {words[0]} is not known to this test")


@pytest.mark.parametrize("block", code_blocks("sh"), ids=str)
def test_commands(block: CodeBlock) -> None:
    """Shell is shown for make and spinewise, with targets, commands and options that exist."""
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] not in OTHER_PROGRAMS:
            _check_command(words, block)


def test_own_data(tmp_path: Path) -> None:
    """README's spec for one's own data runs with files as README describes them; without the engine, to be quick."""
    (block,) = (block for block in code_blocks("toml") if block.page.name == "README.md")
    spec = tmp_path / "little-state.toml"
    spec.write_text(block.text)
    blocks = [f"44{county:03d}{number:010d}" for county in (1, 3) for number in range(6)]
    (tmp_path / "blocks.csv").write_text("block\n" + "\n".join(blocks) + "\n")
    ages, sexes = ("0-17", "18-64", "65+"), ("female", "male")
    rows = [f"{blocks[i % 11]},{ages[i % 3]},{sexes[i * i % 2]}" for i in range(500)]
    (tmp_path / "persons.csv").write_text("block,age,sex\n" + "\n".join(rows) + "\n")
    request = Request(spec, tmp_path / "releases", data=None, workers=1)
    run_release(check_request(request), Silent())
    assert (tmp_path / "releases" / "little-state" / "public" / "manifest.json").exists()


def test_own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """README's three small files, with more rows of the same, are imported, accepted, released and read as it says."""
    from typer.testing import CliRunner

    page = (PROJECT / "README.md").read_text("utf-8")
    shown = re.search(r"^    (persons.csv +)(areas.csv +)values.toml\n((?:    .*\n)+)", page, re.MULTILINE)
    assert shown is not None
    ends = (4, 4 + len(shown[1]), 4 + len(shown[1]) + len(shown[2]), 200)
    persons, areas, values = (
        [text for line in shown[3].splitlines() if (text := line[start:end].strip()) not in ("", "...")]
        for start, end in pairwise(ends)
    )
    for name, lines in (("persons.csv", persons + persons[1:] * 299), ("areas.csv", areas), ("values.toml", values)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    (block,) = (one for one in code_blocks("sh") if one.page.name == "README.md" and "areas.csv" in one.text)
    for line in block.text.splitlines()[1:]:
        words = [*shlex.split(line, comments=True)[1:], *(["--no-prefect"] if " run " in line else [])]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{line}: {done.output}"
    read = re.findall(r"^(\w+) +([\d,]+) \(", done.output, re.MULTILINE)
    assert [name for name, _ in read] == sorted(areas[1:])
    truth = {name: sum(row.startswith(f"{name},") for row in persons + persons[1:] * 299) for name in areas[1:]}
    assert all(abs(int(number.replace(",", "")) - truth[name]) <= 20 for name, number in read)


def test_settings_of_mathematics() -> None:
    """The constants that docs/mathematics.md states are those of the code."""
    page = (PROJECT / "docs" / "mathematics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+(?:\.\w+)+)\.(\w+)` \| (\S+)", page, re.MULTILINE)
    assert len(rows) >= 5
    for module, constant, stated in rows:
        assert getattr(importlib.import_module(module), constant) == float(stated), f"{module}.{constant}"


def test_no_other_place_is_named() -> None:
    """The project's texts name no folder of the machine that it is written on, and no data but ../shared/data."""
    here = f"{PROJECT.parent}/"
    files = [path for name in (*TEXTS, *PACKAGES) for path in [PROJECT / name, *(PROJECT / name).rglob("*")]]
    for path in files:
        if not path.is_file() or "__pycache__" in path.parts or path.suffix in {".parquet", ".pyc", ".png"}:
            continue
        text = path.read_text("utf-8")
        assert len(PROJECT.parents) < 2 or here not in text, f"{name_of(path)} names {here}"
        assert not re.search(r"\.\./shared/(?!data\b)", text), (
            f"{name_of(path)} names another folder than ../shared/data"
        )


def test_no_text_installs_spinewise_from_a_registry() -> None:
    """No registry has the name: whoever took it would run code where the records are."""
    forbidden = re.compile(r"spinewise" r"\[[a-z]|pip install ['\"]?spinewise\b")
    folders = [PROJECT / name for name in (*TEXTS, *PACKAGES) if (PROJECT / name).exists()]
    files = [path for one in folders for path in ([one] if one.is_file() else sorted(one.rglob("*"))) if path.is_file()]
    texts = [
        path for path in files if path.suffix in {".py", ".md", ".toml", ".j2", ".html", ".js", ".json", ".yml", ""}
    ]
    assert [path for path in texts if forbidden.search(path.read_text("utf-8", "replace"))] == []


_LOADS = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["'](https?:)?//|<link[^>]*rel=["'](?:stylesheet|preconnect)["'][^>]*//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning is an error."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=PROJECT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")}
    expected = {"index.html", "readme.html", "tutorial.html", "howto/audit.html", "reference/spinewise.html"}
    assert expected <= pages.keys()
    assert [name for name, page in pages.items() if _LOADS.search(page)] == []
    assert 'id="spinewise.runs.run"' in pages["reference/spinewise.html"]
    assert (site / "images" / "report.png").is_file()
    assert not (site / "site").exists()


@pytest.mark.slow
def test_the_search_works_in_a_page_from_a_file(site: Path) -> None:
    with chromium() as browser:
        page = opened(browser, site / "tutorial.html", ready=False).page
        page.fill(".md-search__input", "margin of error")
        page.wait_for_selector(".md-search-result__link[href*='using_a_release.html']", state="attached")
