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
    "features/years/chain.py",
    "features/years/design.py",
    "features/years/series.py",
)

_BLOCK = re.compile(r"(<!-- reviewed files -->\n).*?(<!-- end of reviewed files -->)", re.DOTALL)


def with_list(page: str) -> str:
    """The page with the list as the files are now."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{reviewed_table()}\n{block[2]}", page)


def reviewed_table() -> str:
    """Each folder with its files that hold code."""
    folders: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for path in sorted(PROJECT.glob(f"{folder}/*.py" if (PROJECT / folder).is_dir() else folder)):
            body = ast.parse(path.read_text("utf-8")).body
            if not all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body):
                folders.setdefault(path.parent.relative_to(PROJECT).as_posix(), []).append(path.stem)
    rows = ["| folder | files |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {', '.join(files)} |" for name, files in folders.items())]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(with_list(PAGE.read_text("utf-8")), "utf-8")
