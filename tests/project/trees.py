"""The modules of the project as syntax trees, each parsed once in a process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def modules(*folders: str) -> dict[str, ast.Module]:
    """The modules below some folders, by their paths."""
    return {path: tree for folder in folders for path, tree in _below(folder).items()}


@cache
def _below(folder: str) -> dict[str, ast.Module]:
    """Without the collector, which goes through all that is there again and again while trees grow."""
    gc.disable()
    try:
        paths = sorted((PROJECT / folder).rglob("*.py"))
        return {path.relative_to(PROJECT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}
    finally:
        gc.enable()
