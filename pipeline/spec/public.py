"""A spec as public data: all that the release's post-processing and privacy statement depend on, and nothing else.

The dictionary holds no input, no key and no folders. Presets, default tables and default budgets are written out, so it
stands on its own. It is JSON in which no order of an object's keys matters: tables whose order does are lists of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pipeline.model.memory_table import MemoryTable
from pipeline.model.strategy import MeasuredQuery
from pipeline.model.universe import Table, Universe
from pipeline.privacy.budget import BUDGET_NAMES
from pipeline.spec.edit_rules import combinations_of
from pipeline.spec.problems import Problems
from pipeline.spec.sections import UniverseSections
from pipeline.spec.slots import stated_in

_RESOLVED = (*("privacy", "schema_section", "strategy", "tables", "input", "passes", "companions", "postprocess"),)


def encode(value: object, *, without: tuple[str, ...] = ()) -> Any:
    """`value` as JSON-able data: a section is an object without empty fields, a table of the user's a list of pairs."""
    if isinstance(value, BaseModel):
        stated = stated_in(value, without)
        return {key: encode(content) for key, content in stated.items() if content is not None}
    if isinstance(value, Mapping):
        return [[key, encode(item)] for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Path | MemoryTable):
        return value.name
    return str(value) if isinstance(value, Fraction) else value


def encode_universe(sections: UniverseSections, universe: Universe) -> dict[str, Any]:
    """The part of the dictionary that a release and its companions have in common, as resolved."""
    strategy: dict[str, Any] = {
        "levels": [
            [
                level.level,
                {
                    "share": str(level.share),
                    **({"queries": [_encode_query(m) for m in level.queries]} if level.queries else {}),
                },
            ]
            for level in universe.strategy.levels
        ]
    }
    if universe.preset:
        strategy["derived_from"] = universe.preset
    recodes = [
        [recode.name, {"attribute": recode.attribute, "groups": encode(dict(recode.groups))}]
        for recode in universe.schema.recodes
    ]
    labels = sections.schema_section.labels
    zeros = combinations_of(sections.structural_zeros, universe.schema.terms, Problems(""))
    return {
        **encode(sections, without=_RESOLVED),
        "structural_zeros": [encode(combination) for _, combination in zeros],
        "schema": {
            "attributes": [[a.name, list(a.values)] for a in universe.schema.attributes],
            "recodes": recodes,
            **({} if labels is None else {"labels": encode(labels)}),
        },
        "strategy": strategy,
        "tables": [[table.name, _encode_table(table, sections)] for table in universe.tables],
    }


def _encode_query(measured: MeasuredQuery) -> list[Any]:
    """A query of a level with its share, and where it is drawn if that is not everywhere."""
    share = str(measured.share)
    return [measured.query.name, {"share": share, "where": "parent positive"} if measured.where_positive else share]


def _encode_table(table: Table, sections: UniverseSections) -> dict[str, Any]:
    """A published table as it is resolved; what is not so is left out, as in releases of earlier versions."""
    content = {"query": table.query.name, "levels": list(table.levels)} | ({"median": True} if table.median else {})
    stated = (sections.tables or {}).get(table.name)
    for part in () if stated is None else stated.parts:
        content |= encode(part)
    return content


def encode_budget(universe: Universe) -> dict[str, str]:
    """The universe's budget without that of added answers, under its framework's key for it; reports have none."""
    if universe.framework == "local":
        return {}
    return {BUDGET_NAMES[universe.framework]: str(universe.own_budget)}
