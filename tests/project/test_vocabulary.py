"""One vocabulary: what several floors share is defined once, and nothing mirrors it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from project.conftest import PACKAGES
from project.documents import PROJECT

#: What a definition is known by, and the one module of the product that has it.
ONCE = {
    "the normal quantile": ("statistics", re.compile(r"1\.64485")),
    "the variance of an exact number": ("statistics", re.compile(r"EXACT\w* *(: *Final *)?= *1e-9")),
    "the interval of a number": ("statistics", re.compile(r"^def half_widths\b", re.M)),
    "Fieller's interval": ("statistics", re.compile(r"def ratio_interval\b|Fieller \(1954")),
    "the interval of a difference": ("statistics", re.compile(r"def difference_interval\b")),
    "the interval of an average": ("statistics", re.compile(r"^def average_sizes\b", re.M)),
    "the interval of a median": ("statistics", re.compile(r"def median_interval\b|Woodruff \(1952")),
    "limits of ranks": ("statistics", re.compile(r"def rank_limits\b|Wieczorek \(2020")),
    "a quantile": ("statistics", re.compile(r"^ *def _?quantile(_of|_class)?\(.*(percent|share|of_ten)", re.M)),
    "whether a query refines another": ("marginal", re.compile(r"def _?refines\w*\b")),
    "which cell falls in which answer": ("marginal", re.compile(r"def cell_answer\b")),
    "the answer that an answer lies in": ("marginal", re.compile(r"def answers?_(in|of)\(.*coarse")),
    "answers of sparse histograms": ("marginal", re.compile(r"def answer_csr\b|def answers_of\(.*csr_array")),
    "the members of a household": (
        "features/joins/mathematics/membership.py",
        re.compile(r"^NO_MOST\b|^    expected: .*\n\Z", re.M),
    ),
}


@pytest.fixture(scope="module")
def product() -> dict[str, str]:
    """The text of each module of the product, but the second program's, which has its own copies by design."""
    return {
        str(path.relative_to(PROJECT)): path.read_text("utf-8")
        for package in PACKAGES
        if package != "auditor"
        for path in (PROJECT / package).rglob("*.py")
    }


@pytest.mark.parametrize("what", ONCE)
def test_each_rule_is_defined_once(product: dict[str, str], what: str) -> None:
    module, pattern = ONCE[what]
    where = module if "/" in module else f"postprocess/{module}.py"
    found = [name for name, text in product.items() if pattern.search(text)]
    assert found == ([where] if (PROJECT / where).parent.exists() else [])


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


def test_privacy_mirrors_nothing(product: dict[str, str]) -> None:
    """It has protocols of its own for what has several forms there, and none of classes that the model has."""
    pattern = re.compile(r"^class (\w+)\(.*Protocol\):", re.M)
    found = {
        name for path, text in product.items() if path.startswith("pipeline/privacy/") for name in pattern.findall(text)
    }
    assert found == {"Cost"}


def test_there_is_one_class_of_a_query(product: dict[str, str]) -> None:
    """With names it is a subclass of that of the mathematics, so that it is handed to it as it is."""
    pattern = re.compile(r"^class (Query|Marginal)(\w*)(?:\((\w+)\))?:", re.M)
    found = {match for text in product.values() for match in pattern.findall(text)}
    assert {one for one in found if one[1] in ("", "Like")} == {
        ("Marginal", "", ""),
        ("Query", "", "Marginal"),
    }


@pytest.mark.parametrize("module", ["postprocess.statistics", "pipeline.model.query", "pipeline.model.link"])
def test_it_needs_numpy_only(module: str) -> None:
    """So that whoever speaks of queries does not start slower, and the measuring process holds no more."""
    heavy = ("scipy", "cvxpy", "ortools", "pyarrow", "pandas", "pydantic")
    program = f"import sys, {module}; print(*(name for name in {heavy} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
