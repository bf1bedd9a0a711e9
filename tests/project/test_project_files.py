"""The files for those who carry on are true: versions agree, paths exist, the workflow runs, benchmarks start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from project.documents import PROJECT, pages
from project.messages import PAGE, messages
from project.report_script import TARGET, bundle

PYPROJECT: dict[str, Any] = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
PACKAGES = [pattern.rstrip("*") for pattern in PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
#: A path of the project within `backticks`: a file or folder below one of these, or one of the files beside them.
_BELOW = (
    *("auditor", "geography", "pipeline", "postprocess", "features", "flows", "spinewise", "tests", "docs"),
    *("benchmarks", ".ci", ".github"),
)
_PATH = re.compile(rf"`((?:{'|'.join(map(re.escape, _BELOW))})/[\w./-]+|[\w.-]+\.(?:toml|md|cff|yaml|yml))`")
README_OF_FEATURES = sorted((PROJECT / "features").glob("*/README.md"))
#: File names that stand for files of users.
_OF_USERS = {"persons.parquet", "release.toml", "blocks.csv"}


def _text(name: str) -> str:
    return (PROJECT / name).read_text("utf-8")


def _yaml(name: str) -> Any:
    return yaml.safe_load(_text(name))


def test_changelog_and_citation_have_the_version() -> None:
    """CHANGELOG.md begins with what is unreleased; its newest version is pyproject.toml's, and dates go backwards."""
    headings = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d{2}-\d{2}))?$", _text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    versions = [tuple(map(int, version.split("."))) for version, _ in headings[1:]]
    dates = [date for _, date in headings[1:]]
    assert headings[1][0] == PYPROJECT["project"]["version"]
    assert versions == sorted(set(versions), reverse=True)
    assert dates == sorted(dates, reverse=True)
    project, citation = PYPROJECT["project"], _yaml("CITATION.cff")
    stated = str(citation["version"]), citation["license"], str(citation["date-released"])
    assert stated == (project["version"], project["license"], dates[0])


def test_the_workflow_calls_ci_run() -> None:
    """GitHub runs .ci/run with the oldest Python, few rights, one run at a time, and an end."""
    workflow = _yaml(".github/workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    (job,) = workflow["jobs"].values()
    assert 0 < job["timeout-minutes"] <= 120
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert (PROJECT / ".ci" / "run").stat().st_mode & 0o111
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used), "actions are pinned by their commit"
    (python,) = [step["with"]["python-version"] for step in job["steps"] if "setup-python" in step.get("uses", "")]
    assert PYPROJECT["project"]["requires-python"] == f">={python}"


def test_the_image_holds_the_packages_and_no_more() -> None:
    """.dockerignore shuts out everything but what the wheel is built from; the image's user has no rights."""
    lines = [line for line in _text(".dockerignore").splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    let_in = {line.removeprefix("!") for line in lines if line.startswith("!")}
    packages = {package for package in PACKAGES if (PROJECT / package).is_dir()}
    assert packages <= let_in
    assert let_in - packages - {"spinewise"} == {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    commands = re.findall(r"^([A-Z]+) (.+)$", _text("Dockerfile"), re.MULTILINE)
    assert [text for name, text in commands if name == "FROM"] == ["python:3.11-slim AS build", "python:3.11-slim"]
    assert [text for name, text in commands if name == "USER"] == ["spinewise"]
    assert dict(commands)["ENTRYPOINT"] == '["spinewise"]'
    assert "pip install --constraint constraints.txt" in _text("Dockerfile")
    extras = re.search(r'^ARG EXTRAS="(.*)"$', _text("Dockerfile"), re.MULTILINE)
    assert extras
    assert set(extras[1].split(",")) <= PYPROJECT["project"]["optional-dependencies"].keys()


def _missing(text: str) -> list[str]:
    """The files and folders of the project that a text names and that are not there."""
    named = sorted(set(_PATH.findall(text)) - _OF_USERS)
    return [path for path in named if "/" in path and not (PROJECT / path).exists()]


def test_paths_of_all_pages_exist() -> None:
    """So it is with those below a folder, on any page but that of versions, whose folders had other names."""
    texts = {page: page.read_text("utf-8") for page in (*pages(), *README_OF_FEATURES) if page.name != "CHANGELOG.md"}
    found = {str(page): _missing(text) for page, text in texts.items()}
    assert {page: missing for page, missing in found.items() if missing} == {}
    assert _missing("`pipeline/nowhere.py` and `docs/index.md`") == ["pipeline/nowhere.py"]


def test_picture_shows_the_rooms() -> None:
    """It has every room of the four packages, and no other; it is drawn by hand, an element a line."""
    shown = set(re.findall(r'class="room">([^<]+)<', _text("docs/images/architecture.svg")))
    for package in ("features", "flows", "pipeline", "postprocess"):
        folders = {path.parent for path in (PROJECT / package).rglob("__init__.py")} - {PROJECT / package}
        rooms = {f"{package}/{folder.relative_to(PROJECT / package).parts[0]}" for folder in folders}
        assert rooms - shown == set()
    assert [room for room in sorted(shown) if not (PROJECT / room).is_dir()] == []


def test_messages_of_errors_are_those_that_people_read() -> None:
    """After a change: `make docs`, and read the lines that are other than before."""
    assert messages() == PAGE.read_text("utf-8")
    assert "{" in messages()


def test_the_plotting_library_of_the_report_is_that_of_its_package_unchanged() -> None:
    stated = "vl-convert-python 1.9.0"
    assert stated in (TARGET.parent / "LICENSE-vega.txt").read_text("utf-8")
    if not metadata.version("vl-convert-python").startswith(stated.split()[-1]):
        pytest.skip("another version of vl-convert-python is installed than the script was made with")
    assert TARGET.read_text("utf-8") == bundle()


def test_a_folder_of_the_second_programs_name_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "auditor").mkdir()
    (tmp_path / "auditor" / "__init__.py").touch()
    (tmp_path / "auditor" / "__main__.py").write_text("print('harm')\n", encoding="utf-8")
    run = [sys.executable, "-P", "-m", "auditor", "--help"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: python -P -m auditor")


#: Each in a fork, so that none finds what another one has imported or where it has looked for it.
_HELP_OF_EACH = """
import io, json, os, runpy, sys
from contextlib import redirect_stdout
import numpy, pandas, pyarrow.parquet, pipeline.runs.run
for path in sys.argv[1:]:
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        sys.argv, sys.path[0], shown = [path, "--help"], "benchmarks", io.StringIO()
        try:
            with redirect_stdout(shown):
                runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            os.write(writer, (shown.getvalue() if not end.code else f"exit {end.code}").encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        print(json.dumps([path, told.read()]))
    os.waitpid(process, 0)
"""


def test_each_starts_and_takes_its_options() -> None:
    """Those that `make bench` calls take --json; each is called without any path to the tests."""
    paths = sorted(path.relative_to(PROJECT) for path in (PROJECT / "benchmarks").glob("*.py"))
    with_options = [str(path) for path in paths if "ArgumentParser(" in (PROJECT / path).read_text("utf-8")]
    assert len(paths) <= 16
    assert len(with_options) == len(paths) - 1, "the others are helpers"
    command = [sys.executable, "-c", _HELP_OF_EACH, *with_options]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    shown = dict(json.loads(line) for line in done.stdout.splitlines())
    assert {path: text for path, text in shown.items() if not text.startswith("usage: ")} == {}
    dry = ["make", "--dry-run", "bench"]
    lines = subprocess.run(dry, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    called = set(re.findall(r"benchmarks/\w+\.py", lines))
    assert len(called) > 8
    assert [path for path in sorted(called) if "--json" not in shown[path]] == []
