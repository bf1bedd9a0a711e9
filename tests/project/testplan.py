"""Writes the table of docs/testplan.md from the docstrings of the test modules; run it with `make docs`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "testplan.md"

_BLOCK = re.compile(r"(<!-- suites -->\n).*?(<!-- end of suites -->)", re.DOTALL)
#: A row stands for a folder this deep below the project, with all that is in it.
_DEPTH = 3


def with_suites(page: str) -> str:
    """The page with the table as the tests are now."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{suites_table()}\n{block[2]}", page)


def suites_table() -> str:
    """A row for each folder of tests, with what each of its modules shows."""
    folders: dict[str, list[str]] = {}
    for path in sorted((PROJECT / "tests").rglob("test_*.py")):
        folder = path.parent.relative_to(PROJECT).parts[:_DEPTH]
        folders.setdefault("/".join(folder), []).append(purpose(path))
    rows = ["| folder | what its tests show |", "|---|---|"]
    rows += [f"| `{name}` | {'; '.join(shown)} |" for name, shown in sorted(folders.items())]
    return "\n".join(rows) + "\n"


def purpose(path: Path) -> str:
    """What a module's tests show: the first clause of its docstring; empty where there is none."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    clause = re.split(r"(?<=\w\w\w)[:;.](?= |$)", " ".join(docstring.split()), maxsplit=1)[0]
    return clause.rstrip(".").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_suites(PAGE.read_text("utf-8")), encoding="utf-8")
