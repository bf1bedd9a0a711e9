"""Docstrings and pages of features name what is there: `module.name`, `Class.attribute`, and names by themselves."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from project.documents import PROJECT

PACKAGES = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
_DOTTED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(\))?`")
_BARE = re.compile(r"`([A-Za-z]\w*_\w*)(?:\(\))?`")
_SUFFIXES = {"py", "parquet", "json", "jsonl", "toml", "md", "csv", "html", "txt", "po", "j2", "js", "sqlite", "lock"}
#: Names that the code puts together, and names of others.
_ELSEWHERE = {"release_about", "release_areas", "release_columns", "release_labels"} | {
    "compute_errors",
    "input_table_list",
    "rename_columns",
}


@cache
def _modules() -> dict[Path, ast.Module]:
    paths = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
    return {path.relative_to(PROJECT): ast.parse(path.read_text("utf-8")) for path in paths}


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


@cache
def _defined() -> dict[str, set[str]]:
    """Last part of the name of each module, package and class -> what can stand behind it."""
    names: dict[str, set[str]] = defaultdict(set)
    for path, tree in _modules().items():
        parts = path.with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        for package, member in pairwise(parts):
            names[package].add(member)
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names[parts[-1]].add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names[parts[-1]] |= {alias.asname or alias.name for alias in node.names}
            else:
                names[parts[-1]] |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                names[parts[-1]] |= {str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant)}
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef):
                names[each.name] |= {*_attributes(each), *(("*",) if each.bases else ())}
    return dict(names)


@cache
def _words() -> set[str]:
    """Everything that the code calls by a name: modules, functions, parameters, attributes, keys in texts."""
    words: set[str] = set()
    for path, tree in _modules().items():
        words |= {*path.with_suffix("").parts}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                words.add(node.name)
            elif isinstance(node, ast.arg | ast.keyword):
                words.add(node.arg or "")
            elif isinstance(node, ast.Name | ast.Attribute | ast.alias):
                words.add(_name(node))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                words |= set(re.findall(r"\w+", node.value))
    return words


def _name(node: ast.Name | ast.Attribute | ast.alias) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else node.name


def _docstrings(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Each docstring with the parameters, and attributes of classes, that it may name first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False) or ""
            if "`" in text:
                named = ast.walk(node) if not isinstance(node, ast.Module) else ()
                yield (
                    text,
                    {one.arg for one in named if isinstance(one, ast.arg)}
                    | (set(_attributes(node)) if isinstance(node, ast.ClassDef) else set()),
                )


def dead_names(text: str, own: set[str]) -> list[str]:
    """The names in a docstring that nothing has.

    Args:
        text: the docstring.
        own: parameters and attributes of what it describes.
    """
    defined, dead = _defined(), []
    for reference in _DOTTED.findall(text):
        parts = reference.split(".")
        if parts[-1] in _SUFFIXES or parts[0] in own:
            continue
        pairs = pairwise(parts)
        if any(first in defined and "*" not in defined[first] and name not in defined[first] for first, name in pairs):
            dead.append(reference)
    return dead + [name for name in _BARE.findall(text) if name not in _words() | _ELSEWHERE | own]


def test_docstrings_name_what_is_there() -> None:
    found = {
        f"{path}: {name}"
        for path, tree in _modules().items()
        for text, own in _docstrings(tree)
        for name in dead_names(text, own)
    }
    assert found == set()


@pytest.mark.parametrize("page", sorted((PROJECT / "features").glob("*/README.md")), ids=lambda page: page.parent.name)
def test_pages_of_features_name_what_is_there(page: Path) -> None:
    assert dead_names(page.read_text("utf-8"), set()) == []


def test_a_dead_name_is_found() -> None:
    found = dead_names("As `mechanisms.MOVED` and `Universe.no_such_attribute`; see `no_such_function`.", set())
    assert found == ["mechanisms.MOVED", "Universe.no_such_attribute", "no_such_function"]
    assert dead_names("As `budget.MOVED`, `Universe.privacy_fingerprint` and `measure_level`.", set()) == []
    assert dead_names("The table `released.parquet` of `given.people`.", {"given"}) == []
