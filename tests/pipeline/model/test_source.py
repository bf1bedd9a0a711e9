"""Who may ask which source a universe has: its own modules, what makes it, and the lists by type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from project.conftest import PACKAGES
from project.documents import PROJECT

from pipeline.confidential.parts import installed_parts
from pipeline.model.source import OwnNoise, Source

#: What makes a source, the lists of what is done with its records, and accounting.
MAY_ASK = {
    "pipeline/confidential/parts.py", "pipeline/confidential/steps.py", "features/plan/kinds.py",
    "features/years/series.py",
    "flows/checks/validation.py", "pipeline/model/source.py", "pipeline/model/universe.py",
    "pipeline/privacy/accounting/local.py", "pipeline/spec/resolve.py",
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
        if "features/local" not in path.as_posix()
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
        "from features.local.survey import Survey": ["Survey"],
        "x = universe.source.mechanism": ["source.mechanism"],
        "universe.source.levels()": [],
    }
    assert {text: list(asked(ast.parse(text))) for text in ways} == ways


def made_from(source: type[Any]) -> Iterator[type[Any]]:
    """Its subclasses, and theirs."""
    for one in source.__subclasses__():
        yield one
        yield from made_from(one)


def test_every_source_has_what_sees_its_records() -> None:
    parts = installed_parts()
    concrete = {one for one in made_from(Source) if one.__module__.split(".")[0] in PACKAGES}
    assert OwnNoise in concrete
    assert set(parts) == concrete
    assert all(parts[one].measure for one in parts)
