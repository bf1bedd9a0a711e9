"""Who may ask which source a universe has: its own modules, what makes it, and the lists by type."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from project.conftest import PACKAGES
from project.documents import PROJECT

from flows.checks.validation import RECORD_CHECKS
from pipeline.confidential.parts import PARTS
from pipeline.model.source import OwnNoise, Source
from pipeline.survey.survey import Survey

#: Survey's own modules, those that make a source or one of it, and the lists of what is done with its records.
MAY_ASK = {
    "flows/checks/validation.py", "flows/checks/words.py", "pipeline/confidential/parts.py",
    "pipeline/confidential/reports.py", "pipeline/confidential/steps.py", "features/plan/local.py",
    "features/years/source.py",
    "pipeline/publishing/central.py",
    "pipeline/model/source.py", "pipeline/model/universe.py", "pipeline/privacy/accounting/local.py",
    "pipeline/spec/collect/resolve.py", "pipeline/spec/resolve.py",
}  # fmt: skip


def asked(tree: ast.AST) -> Iterator[str]:
    """What of a module asks which source there is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.alias):
            name = node.id if isinstance(node, ast.Name) else node.name
            if name in ("OwnNoise", "OWN_NOISE", "Survey", "survey_of"):
                yield name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "type"):
            if isinstance(node.args[0], ast.Attribute) and node.args[0].attr == "source":
                yield f"{node.func.id} of a source"
        elif isinstance(node, ast.Attribute):
            if node.attr == "collected" or (node.attr == "central" and ast.unparse(node.value).endswith("universe")):
                yield node.attr
            if node.attr == "mechanism" and ast.unparse(node.value).endswith("source"):
                yield "source.mechanism"


def test_nobody_else_asks() -> None:
    found = {
        path.relative_to(PROJECT).as_posix(): sorted(set(asked(ast.parse(path.read_text("utf-8")))))
        for package in PACKAGES
        if package != "auditor"
        for path in sorted((PROJECT / package).rglob("*.py"))
        if "pipeline/survey" not in path.as_posix()
    }
    assert found.keys() >= {name for name in MAY_ASK if (PROJECT / name).parent.is_dir()}
    assert {name: found[name] for name in found if found[name] and name not in MAY_ASK} == {}


def test_the_scan_finds_each_way_of_asking() -> None:
    ways = {
        "if universe.collected is not None: pass": ["collected"],
        "central = universe.central": ["central"],
        "isinstance(universe.source, Source)": ["isinstance of a source"],
        "type(one.source)": ["type of a source"],
        "one.source is OWN_NOISE": ["OWN_NOISE"],
        "from pipeline.survey.survey import Survey": ["Survey"],
        "x = universe.source.mechanism": ["source.mechanism"],
        "universe.source.levels()": [],
    }
    assert {text: list(asked(ast.parse(text))) for text in ways} == ways


def test_every_source_has_what_sees_its_records() -> None:
    concrete = {one for one in Source.__subclasses__() if one.__module__.split(".")[0] in PACKAGES}
    assert concrete == {OwnNoise, Survey}
    assert set(PARTS) == set(RECORD_CHECKS) == concrete
