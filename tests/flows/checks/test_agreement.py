"""What a run refuses before it spends anything `validate` refuses in the same words, and nothing else of a spec.

The specs are those that the tests of this project have: every change of the town's spec that stands in one of them,
with its test key and without, and the malformed specs of tests/pipeline/spec.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from releases.small import SPEC, request_of, write_town

from flows.checks import validation
from flows.checks.validation import validate
from pipeline.errors import InputError
from pipeline.runs.open_public import open_listed

TESTS = Path(__file__).parents[2]
KEY = ('key = "insecure-test:1"', "")
#: Some of the changes; all are tried by the slow suite.
FEW = 12

Changes = tuple[tuple[str, str], ...]


def pair_of(node: ast.expr) -> tuple[str, str] | None:
    """A text of the town's spec and what stands in its place."""
    if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
        return None
    old, new = (one.value if isinstance(one, ast.Constant) else None for one in node.elts)
    if not isinstance(old, str) or not isinstance(new, str) or SPEC.count(old) != 1:
        return None
    return old, new


def changes_in(path: Path) -> Iterator[Changes]:
    """The changes of a test: pairs one by one, and those that stand together."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Tuple | ast.List):
            parts = node.elts
        elif isinstance(node, ast.Call):
            parts = node.args
        if isinstance(node, ast.Tuple) and (alone := pair_of(node)) is not None:
            yield (alone,)
        together = tuple(pair for part in parts if (pair := pair_of(part)) is not None)
        if len(together) > 1:
            yield together


@cache
def all_changes() -> tuple[Changes, ...]:
    """Of all tests, each once."""
    return tuple(dict.fromkeys(one for path in sorted(TESTS.rglob("test_*.py")) for one in changes_in(path)))


def refused(spec: Path) -> str:
    """What a run says before it reads records; "" where it goes on to them."""
    try:
        checked = request_of(spec, spec.parent / "out")
        open_listed(checked.spec, checked.universes)
    except InputError as error:
        return str(error)
    return ""


def agreed(spec: Path) -> str:
    """What run and validation say alike of a spec; "" where both have nothing to say."""
    said, found = refused(spec), "\n".join(one.text for one in validate(None, spec).findings)
    assert said in found, f"a run says {said!r}, and validate {found!r}"
    assert bool(said) == bool(found), f"validate refuses, and a run does not: {found!r}"
    return said


@pytest.fixture
def without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with records is for other tests."""
    monkeypatch.setattr(validation, "_check_records", lambda *_: None)


@pytest.mark.usefixtures("without_records")
@pytest.mark.parametrize("most", [FEW, pytest.param(0, marks=pytest.mark.slow)])
def test_a_run_and_validate_refuse_the_same_specs(most: int, tmp_path: Path) -> None:
    changes = all_changes()
    assert len(changes) > 100
    tried = changes[:: max(1, len(changes) // most)] if most else changes
    spec, refusals = write_town(tmp_path), 0
    for one in tried:
        for also in ((), (KEY,)):
            text = SPEC
            for old, new in (*one, *also):
                text = text.replace(old, new)
            spec.write_text(text, "utf-8")
            refusals += bool(agreed(spec))
    assert refusals > len(tried) // 8


@pytest.mark.usefixtures("without_records")
def test_they_refuse_the_same_malformed_specs(tmp_path: Path) -> None:
    content = tomllib.loads((TESTS / "pipeline" / "spec" / "malformed_specs.toml").read_text("utf-8"))
    spec = tmp_path / "spec.toml"
    for case in content["case"]:
        spec.write_text(content["base"].replace(case["replace"], case["by"]), "utf-8")
        assert agreed(spec)


@pytest.mark.usefixtures("without_records")
@pytest.mark.parametrize(
    "end",
    [
        '[provenance.inputs]\ngeography = { source = "records" }\n',
        '[provenance.inputs]\ngeography = { source = "records" }\n[provenance]\naccept = ["blocks"]\n',
        '[provenance.inputs]\nbounds = { source = "records" }\n',
    ],
)
def test_they_refuse_the_same_inputs_from_records(end: str, tmp_path: Path) -> None:
    spec = write_town(tmp_path)
    spec.write_text(SPEC + end, "utf-8")
    assert agreed(spec)


@pytest.mark.usefixtures("without_records")
def test_a_run_that_no_ledger_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_town(tmp_path, KEY)
    assert not agreed(spec)
    monkeypatch.setenv("SPINEWISE_REQUIRE_LEDGER", "true")
    assert "privacy.dataset: missing" in agreed(spec)
