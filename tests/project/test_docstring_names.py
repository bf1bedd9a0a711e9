"""Docstrings and pages of features name what is there: `module.name`, `Class.attribute`, and names by themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from project.documents import PROJECT

PACKAGES = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
_NAMED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w*)(?:\(\))?`")
_SUFFIXES = {"py", "parquet", "json", "jsonl", "toml", "md", "csv", "html", "txt", "po", "j2", "js", "sqlite", "lock"}
#: Names that the code puts together, and names of others.
_ELSEWHERE = {"release_about", "release_areas", "release_columns", "release_labels"} | {
    *("compute_errors", "input_table_list", "rename_columns")
}


@cache
def _modules() -> dict[str, ast.Module]:
    paths = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]
    return {path.relative_to(PROJECT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


@cache
def _words() -> set[str]:
    """Everything that the code calls by a name: modules, functions, parameters, attributes, words in short texts."""
    words = {word for name in _modules() for word in re.findall(r"\w+", name)}
    for tree in _modules().values():
        for node in ast.walk(tree):
            for field in ("name", "arg", "id", "attr", "asname", "module"):
                words |= set(str(getattr(node, field, "")).split("."))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                words |= set(re.findall(r"\w+", node.value))
    return words


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def dead_names(text: str) -> list[str]:
    """The names in a text of which the code has no part of."""
    found = (name for name in _NAMED.findall(text) if name.split(".")[-1] not in _SUFFIXES | _ELSEWHERE)
    return [name for name in found if not {*name.split(".")} <= _words()]


def test_docstrings_and_pages_of_features_name_what_is_there() -> None:
    texts = {name: "\n".join(_docstrings(tree)) for name, tree in _modules().items()}
    texts |= {str(page): page.read_text("utf-8") for page in (PROJECT / "features").glob("*/README.md")}
    found = {name: dead for name, text in texts.items() if (dead := dead_names(text))}
    assert found == {}
    planted = "As `mechanisms.NOT_THERE`; see `no_such_function` and `measure_level`; `released.parquet`."
    assert dead_names(planted) == ["mechanisms.NOT_THERE", "no_such_function"]
