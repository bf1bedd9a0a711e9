"""Whoever types what README and docs show gets what they say: each page is walked with nothing but what a reader sees.

A page is walked in a folder of its own, from its first block to its last: shell is run by a shell, Python is executed,
and what is printed is compared with the text below. A block of TOML is a file if its first line says which one
(`# release.toml`, or `# other.toml: release.toml with this [geography]`). A page that begins where the tutorial ends
says so. A block of shell that needs more than the page makes says that in its first line (`# with ...`).
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from project.documents import PROJECT, CodeBlock, code_blocks
from releases.command import environment, forks

TUTORIAL = PROJECT / "docs" / "tutorial.md"
#: What a page says that begins in the tutorial's folder.
BEGINS = re.compile(r"begin where\s+\[the\s+tutorial\]\([./\w]*tutorial\.md\)\s+ends")
FILE = re.compile(r"# (?P<name>[\w.]+\.toml)(?:: (?P<other>[\w.]+\.toml) with this \[.*)?")
#: What a block needs that a page does not make -> the tests that type it, or why none does.
NEEDS = {
    "the census data of ../shared/data": "here, where it is there",
    "blocks.csv and persons.csv of your own": "project/test_docs.py::test_own_data",
    "persons.csv, areas.csv and values.toml of your own": "project/test_docs.py::test_own_table",
    "a Prefect server": "system/test_operations.py",
}
#: Pages that other tests type: `make`, a walk with a server, a folder of the program (features/test_taken_away.py).
ELSEWHERE = {
    PROJECT / "CONTRIBUTING.md", PROJECT / "docs" / "operations.md", PROJECT / "docs" / "howto" / "new_kind.md",
}  # fmt: skip
#: The county of the example that the pages are walked with, to be quick; they hold for all five.
COUNTY = "99001"
SHOWN = ("python", "toml", "sh", "text")
PAGES = sorted({block.page for block in code_blocks("python", "sh")} - ELSEWHERE)

#: Pages whose runs Prefect records, as `spinewise run` does, or that have no server by themselves; on others they begin
#: without it, which takes as long as they do.
WITH_PREFECT = {
    PROJECT / "README.md", TUTORIAL, PROJECT / "docs" / "howto" / "flows.md", PROJECT / "docs" / "howto" / "add_up.md",
}  # fmt: skip

_SPINEWISE = """#!/bin/sh
forked="{python} -S -E {tests}/releases/typed.py {place}"
case "$*" in
*--measurements*) ;;
run*) shift; set -- run $RUN_OPTIONS "$@" ;;
esac
$forked flows.cli "$@" || exit $?
if [ "$1" = example ] && [ ! -e "$2/areas.parquet" ]; then exec $forked releases.county "$2" {county}; fi
"""
_PYTHON = """#!/bin/sh
exec {python} "$@"
"""
_MAKE = """#!/bin/sh
case "$1" in
release) [ -e example ] || spinewise example example && spinewise run example/release.toml --out releases;;
esac
"""


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `make setup` installs; make is a stand-in, and `spinewise example` leaves one county.

    What `spinewise` does is done in a fork of a process that has loaded the program.
    """
    folder = tmp_path_factory.mktemp("commands")
    words = {"python": sys.executable, "tests": PROJECT / "tests", "county": COUNTY, "place": forks().place}
    for name, text in {"spinewise": _SPINEWISE, "python": _PYTHON, "make": _MAKE}.items():
        (folder / name).write_text(text if name == "make" else text.format(**words))
        (folder / name).chmod(0o755)
    return folder


class Reader:
    """Somebody who types a page in a folder."""

    def __init__(self, folder: Path, commands: Path) -> None:
        self.folder, self.commands = folder, commands
        (folder / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        (folder / ".venv" / "bin" / "activate").touch()

    def walk(self, page: Path) -> None:
        """Every block of the page, in order."""
        namespace: dict[str, object] = {}
        printed = ""
        for block in (block for block in code_blocks(*SHOWN) if block.page == page):
            if block.language == "python":
                with redirect_stdout(io.StringIO()) as out:
                    exec(compile("\n" * block.line + block.text, str(block), "exec"), namespace)
                printed = out.getvalue()
            elif block.language == "toml":
                self.write(block)
            elif block.language == "sh":
                printed = self.type(block)
            else:
                assert block.text.rstrip() == printed.rstrip(), f"{block}: printed was\n{printed}"

    def write(self, block: CodeBlock) -> None:
        """The file that the first line names."""
        if (mark := FILE.fullmatch(block.text.partition("\n")[0])) is None:
            return  # a part that is only described; tests/project/test_docs.py reads it
        text = block.text
        if mark["other"]:
            replaced = {f"[{table}]" for table in tomllib.loads(text)}
            tables = re.split(r"^(?=\[)", (self.folder / mark["other"]).read_text("utf-8"), flags=re.MULTILINE)
            kept = [table for table in tables if table.partition("\n")[0].split(" ")[0] not in replaced]
            text = "".join([*kept, "\n", text])
        (self.folder / mark["name"]).write_text(text, "utf-8")

    def type(self, block: CodeBlock) -> str:
        """Run a block of shell; what it prints."""
        if (need := re.match(r"# with (.*)", block.text)) is not None:
            assert need[1] in NEEDS, f"{block}: no test is known for {need[1]!r}"
            if not NEEDS[need[1]].startswith("here") or not self._census_data():
                return ""
        variables = environment(COLUMNS="80", HOME=str(self.folder), PREFECT_HOME=str(self.folder / "prefect"))
        variables["PATH"] = f"{self.commands}:{variables['PATH']}"
        variables["RUN_OPTIONS"] = "" if block.page in WITH_PREFECT else "--no-prefect"
        done = subprocess.run(
            ["bash", "-e", "-c", block.text],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{block}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def _census_data(self) -> bool:
        """Put the real data beside the folder, where it is beside the project."""
        data, beside = PROJECT.parent / "shared" / "data", self.folder.parent / "shared"
        if data.is_dir() and not beside.exists():
            beside.mkdir()
            (beside / "data").symlink_to(data)
        return data.is_dir()


@pytest.fixture(scope="session")
def tutorial(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which somebody has walked the tutorial to its end."""
    folder = tmp_path_factory.mktemp("tutorial") / "project"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setenv("HOME", str(folder))
        Reader(folder, commands).walk(TUTORIAL)
    return folder


def test_which_pages_are_walked() -> None:
    """No page with shell or Python is forgotten; what is typed elsewhere, and what is not typed, is listed above."""
    assert TUTORIAL in PAGES
    assert PROJECT / "README.md" in PAGES
    stated = {line for block in code_blocks("sh") for line in re.findall(r"^# with (.*)", block.text)}
    assert stated <= set(NEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_page(
    page: Path, commands: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block of the page, as a reader types it."""
    if page == TUTORIAL:
        request.getfixturevalue("tutorial")
        return
    folder = tmp_path / "project"
    if BEGINS.search(page.read_text("utf-8")):
        shutil.copytree(request.getfixturevalue("tutorial"), folder, symlinks=True)
    else:
        folder.mkdir()
    shutil.copytree(PROJECT / "examples", folder / "examples")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    Reader(folder, commands).walk(page)
