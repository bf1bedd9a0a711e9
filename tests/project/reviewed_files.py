"""Writes the list of files that a privacy reviewer reads to docs/privacy.md: `make docs`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "privacy.md"
#: Folders, and files of features, in the order in which they are best read.
FOLDERS = (
    "pipeline/privacy",
    "pipeline/privacy/noise",
    "pipeline/privacy/accounting",
    "pipeline/privacy/ledger",
    "pipeline/confidential",
    "postprocess/positive.py",
    "pipeline/questions",
    "features/*/confidential.py",
    "features/amounts/link.py",
    "features/amounts/measure.py",
    "features/marginals/choice.py",
    "features/marginals/records.py",
    "features/marginals/stage.py",
    "features/questions/kept.py",
    "features/questions/request.py",
    "features/questions/work.py",
    "features/years/confidential.py",
    "features/years/chain.py",
    "features/years/design.py",
    "features/years/series.py",
)

_BLOCK = re.compile(r"(<!-- reviewed files -->\n).*?(<!-- end of reviewed files -->)", re.DOTALL)


def with_list(page: str) -> str:
    """The page with the list as the files are now."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{reviewed_table()}\n{block[2]}", page)


def reviewed_table() -> str:
    """Each folder with its files and their lines of code; the sum at the end."""
    rows = ["| folder | files | lines of code |", "|---|---|---|"]
    folders: dict[str, dict[str, int]] = {}
    for folder in FOLDERS:
        for path in sorted(PROJECT.glob(f"{folder}/*.py" if (PROJECT / folder).is_dir() else folder)):
            if lines := code_lines(path.read_text("utf-8")):
                folders.setdefault(path.parent.relative_to(PROJECT).as_posix(), {})[path.stem] = lines
    for name, files in folders.items():
        rows.append(f"| `{name}` | {', '.join(files)} | {sum(files.values()):,} |")
    total = sum(sum(files.values()) for files in folders.values())
    return "\n".join([*rows, f"| all of it | | {total:,} |"]) + "\n"


def code_lines(text: str) -> int:
    """Lines that hold code: no blank line, no comment, no docstring."""
    tree = ast.parse(text)
    prose: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            first = node.body[0]
            prose.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(1 for number, line in lines if line.strip() and not line.strip().startswith("#") and number not in prose)


if __name__ == "__main__":
    PAGE.write_text(with_list(PAGE.read_text("utf-8")), "utf-8")
