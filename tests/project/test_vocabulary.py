"""One vocabulary: what several floors share is defined once, and nothing mirrors it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest
from project.conftest import PACKAGES
from project.documents import PROJECT


def test_no_module_gives_a_name_twice() -> None:
    """Else what stands between has the other value than its author read: a forecast had the constants of another."""
    twice = []
    for package in (*PACKAGES, "tests", "benchmarks"):
        for path in sorted((PROJECT / package).rglob("*.py")):
            names = list(_given(ast.parse(path.read_text("utf-8"))))
            twice += [f"{path.relative_to(PROJECT)}: {name}" for name in set(names) if names.count(name) > 1]
    assert twice == []


def _given(module: ast.Module) -> Iterator[str]:
    """The names that a module gives, each as often as it does."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            nodes = (one for target in targets for one in ast.walk(target))
            yield from (one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


@pytest.mark.parametrize("module", ["postprocess.statistics", "pipeline.model.query", "pipeline.model.link"])
def test_it_needs_numpy_only(module: str) -> None:
    """So that whoever speaks of queries does not start slower, and the measuring process holds no more."""
    heavy = ("scipy", "cvxpy", "ortools", "pyarrow", "pandas", "pydantic")
    program = f"import sys, {module}; print(*(name for name in {heavy} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
