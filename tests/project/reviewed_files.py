"""Writes the list of files that a privacy reviewer reads to docs/privacy.md: `make docs`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "privacy.md"
#: Folders, and files of others, in the order in which they are best read: what is promised and bought, what one person
#: moves, how it is drawn, charged, counted, measured; who sees the records; what features add.
FOLDERS = (
    "pipeline/privacy",
    "pipeline/model/measure.py",
    "pipeline/model/universe.py",
    "pipeline/model/source.py",
    "pipeline/model/draw.py",
    "pipeline/model/selection.py",
    "pipeline/model/promise.py",
    "pipeline/plan.py",
    "geography/spine.py",
    "pipeline/privacy/accounting",
    "pipeline/privacy/noise",
    "pipeline/privacy/ledger",
    "pipeline/records",
    "pipeline/confidential",
    "postprocess/positive.py",
    "features/confidential_registry.py",
    "features/*/confidential.py",
    "features/amounts/measure.py",
    "features/local/collect",
    "features/marginals/choice.py",
    "features/marginals/stage.py",
    "pipeline/questions",
    "features/questions/kept.py",
    "features/questions/work.py",
    "features/years/chain.py",
    "features/years/design.py",
    "features/years/series.py",
)
#: Files of these folders that see neither records nor keys nor noise, and decide about none: the grammar of questions,
#: and the form of what is published of their answers.
LEFT_OUT = (
    "pipeline/questions/manifest.py",
    "pipeline/questions/stated_domain.py",
    "pipeline/questions/tables.py",
    "pipeline/questions/text.py",
)

_BLOCK = re.compile(r"(<!-- reviewed files -->\n).*?(<!-- end of reviewed files -->)", re.DOTALL)


def with_list(page: str) -> str:
    """The page with the list as the files are now."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{reviewed_table()}\n{block[2]}", page)


def reviewed_table() -> str:
    """Each folder with its files that hold code."""
    folders: dict[str, list[str]] = {}
    for name in reviewed_files():
        folder, _, file = name.removesuffix(".py").rpartition("/")
        folders.setdefault(folder, []).append(file)
    rows = ["| folder | files |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {', '.join(files)} |" for name, files in folders.items())]) + "\n"


def reviewed_files() -> list[str]:
    """The files, in the order in which they are best read; FileNotFoundError where one of the list is not there."""
    found = []
    for folder in FOLDERS:
        paths = sorted(PROJECT.glob(f"{folder}/*.py" if (PROJECT / folder).is_dir() else folder))
        if not paths:
            raise FileNotFoundError(folder)
        found += [path for path in paths if any(not is_prose(node) for node in ast.parse(path.read_text("utf-8")).body)]
    return [name for path in found if (name := path.relative_to(PROJECT).as_posix()) not in LEFT_OUT]


def is_prose(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


if __name__ == "__main__":
    PAGE.write_text(with_list(PAGE.read_text("utf-8")), "utf-8")
