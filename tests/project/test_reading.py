"""No published file is read without a comparison with its manifest, but where this file says so, and why.

Readers take a `Readable`, which mypy tells from a path. It is made by comparing (`PublishedFiles.unchanged` and its
likes) or by `unchecked`. That each file that a reader opens is compared, tests/system/test_changed_files.py sees.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Final

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise")

#: module -> how often it names `unchecked` beyond its import, and why.
UNCHECKED: Final[dict[str, tuple[int, str]]] = {
    "pipeline/execution/job.py": (1, "a run reads what it has just written itself; no manifest lists it yet"),
    "pipeline/pages/facts.py": (1, "the report is written by the run that has written what it shows"),
    "pipeline/release/layout.py": (2, "files of restricted/, which no manifest lists"),
    "pipeline/questions/manifest.py": (1, "the manifest of an answer, with whose hashes the others are compared"),
    "pipeline/questions/released/combined.py": (1, "combined.json, which states the hash of combined.csv"),
    "pipeline/runs/questions/public_files.py": (1, "verify, which has compared the hash before"),
    "pipeline/runs/receipts.py": (1, "manifests of answers, whose receipts are compared with the ledger"),
    "pipeline/runs/updates.py": (1, "the manifest of an answer, of which all files are verified next"),
    "features/questions/answering.py": (1, "an answer reads what was just drawn; its manifest follows"),
    "features/local/central.py": (2, "verify, which has compared every file before"),
}

#: module -> how often it says of a path that it is readable, after it has compared a hash.
COMPARED: Final = {
    "pipeline/storage/readable.py": 1,  # `unchecked`
    "pipeline/release/published_files.py": 1,
    "pipeline/questions/manifest.py": 1,
    "pipeline/questions/released/combined.py": 1,
    "features/years/vintage.py": 1,
}


@cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    paths = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
    return tuple((path.relative_to(PROJECT).as_posix(), ast.parse(path.read_text("utf-8"))) for path in paths)


def _unchecked(tree: ast.Module) -> int:
    """How often a module that imports `unchecked` names it."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    if not any(node.module == "pipeline.storage.readable" for node in imports):
        return 0
    return sum(isinstance(node, ast.Name) and node.id == "unchecked" for node in ast.walk(tree))


def _makes(tree: ast.Module, name: str) -> int:
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sum(isinstance(call, ast.Name) and call.id == name for call in calls)


def test_what_is_read_unchecked_is_listed_with_the_reason() -> None:
    found = {module: count for module, tree in _modules() if (count := _unchecked(tree))}
    assert found == {module: count for module, (count, _) in UNCHECKED.items()}


def test_what_says_that_a_file_is_readable_is_listed() -> None:
    assert {module: count for module, tree in _modules() if (count := _makes(tree, "Readable"))} == COMPARED
