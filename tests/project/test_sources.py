"""What holds of the text of every module: docstrings name what is there, no name is given twice, folders are closed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest
from project.conftest import PACKAGES
from project.documents import PROJECT
from project.trees import modules

_NAMED = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z]\w*_\w*)(?:\(\))?`")
_SUFFIXES = {"py", "parquet", "json", "jsonl", "toml", "md", "csv", "html", "txt", "po", "j2", "js", "sqlite", "lock"}
#: Names that the code puts together, and names of others.
_ELSEWHERE = {"release_about", "release_areas", "release_columns", "release_labels"} | {
    *("compute_errors", "input_table_list", "rename_columns")
}
#: What makes folders above too, if it is given these; by position, too.
MAKERS = {"mkdir": {"mode", "parents"}, "makedirs": {"name", "mode"}}
POSITIONS = {"mkdir": ("mode", "parents", "exist_ok"), "makedirs": ("name", "mode", "exist_ok")}


@cache
def words() -> set[str]:
    """Everything that the code calls by a name: modules, functions, parameters, attributes, words in short texts."""
    found = {word for name in modules(*PACKAGES) for word in re.findall(r"\w+", name)}
    for tree in modules(*PACKAGES).values():
        for node in ast.walk(tree):
            for field in ("name", "arg", "id", "attr", "asname", "module"):
                found |= set(str(getattr(node, field, "")).split("."))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                found |= set(re.findall(r"\w+", node.value))
    return found


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def dead_names(text: str) -> list[str]:
    """The names in a text of which the code lacks a part."""
    found = (name for name in _NAMED.findall(text) if name.split(".")[-1] not in _SUFFIXES | _ELSEWHERE)
    return [name for name in found if not {*name.split(".")} <= words()]


def test_docstrings_and_pages_of_features_name_what_is_there() -> None:
    texts = {name: "\n".join(docstrings(tree)) for name, tree in modules(*PACKAGES).items()}
    texts |= {str(page): page.read_text("utf-8") for page in (PROJECT / "features").glob("*/README.md")}
    assert {name: dead for name, text in texts.items() if (dead := dead_names(text))} == {}
    planted = "As `mechanisms.NOT_THERE`; see `no_such_function` and `measure_level`; `released.parquet`."
    assert dead_names(planted) == ["mechanisms.NOT_THERE", "no_such_function"]


def test_no_module_gives_a_name_twice() -> None:
    """Else what stands between has the other value than its author read: a forecast had the constants of another."""
    given = {name: list(_given(tree)) for name, tree in modules(*PACKAGES, "tests", "benchmarks").items()}
    assert [f"{name}: {one}" for name, names in given.items() for one in {*names} if names.count(one) > 1] == []


def _given(module: ast.Module) -> Iterator[str]:
    """The names that a module gives, each as often as it does."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            nodes = (one for target in targets for one in ast.walk(target))
            yield from (one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


def open_parents(module: ast.Module) -> Iterator[int]:
    """Lines that give a mode to a folder and make those above it, whose mode Python leaves to the umask."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS:
            maker = node.func.attr
            given = {*POSITIONS[maker][: len(node.args)], *(one.arg for one in node.keywords)}
            if MAKERS[maker] <= given:
                yield node.lineno


def test_no_folder_is_closed_whose_parents_made_with_it_are_not() -> None:
    lines = {name: list(open_parents(tree)) for name, tree in modules(*PACKAGES).items()}
    assert {name: found for name, found in lines.items() if found} == {}, "make_folder(private=True) is the way"
    for wrong in ("p.mkdir(parents=True, mode=0o700)", "p.mkdir(0o700, True)", "os.makedirs(p, 0o700)"):
        assert list(open_parents(ast.parse(wrong))) == [1], wrong
    for right in ("p.mkdir(parents=True, exist_ok=True)", "p.mkdir(mode=0o700)", "p.mkdir(0o700)", "os.makedirs(p)"):
        assert list(open_parents(ast.parse(right))) == [], right


@pytest.mark.parametrize("module", ["postprocess.statistics", "pipeline.model.query", "pipeline.model.link"])
def test_it_needs_numpy_only(module: str) -> None:
    """So that whoever speaks of queries does not start slower, and the measuring process holds no more."""
    heavy = ("scipy", "cvxpy", "ortools", "pyarrow", "pandas", "pydantic")
    program = f"import sys, {module}; print(*(name for name in {heavy} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
