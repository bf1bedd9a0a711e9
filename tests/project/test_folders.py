"""No folder is closed to others whose parents, made with it, are not: `make_folder(private=True)` closes each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
#: What makes folders above too, if it is given these; by position, too.
MAKERS = {"mkdir": {"mode", "parents"}, "makedirs": {"name", "mode"}}
POSITIONS = {"mkdir": ("mode", "parents", "exist_ok"), "makedirs": ("name", "mode", "exist_ok")}


def open_parents(source: str) -> Iterator[int]:
    """Lines that give a mode to a folder and make those above it, whose mode Python leaves to the umask."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS:
            maker = node.func.attr
            given = {*POSITIONS[maker][: len(node.args)], *(one.arg for one in node.keywords)}
            if MAKERS[maker] <= given:
                yield node.lineno


def test_a_mode_is_given_to_every_folder_that_is_made() -> None:
    files = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
    lines = {path.relative_to(PROJECT): list(open_parents(path.read_text("utf-8"))) for path in files}
    assert {path: found for path, found in lines.items() if found} == {}, "make_folder(private=True) is the way"
    for wrong in ("p.mkdir(parents=True, mode=0o700)", "p.mkdir(0o700, True)", "os.makedirs(p, 0o700)"):
        assert list(open_parents(wrong)) == [1], wrong
    for right in ("p.mkdir(parents=True, exist_ok=True)", "p.mkdir(mode=0o700)", "p.mkdir(0o700)", "os.makedirs(p)"):
        assert list(open_parents(right)) == [], right
