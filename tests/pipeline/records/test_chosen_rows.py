"""Rows that the spec chooses are counted, and only these are examined."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from geography.build import spine_from_prefixes
from pipeline.errors import RecordsError
from pipeline.model.schema import Attribute, Schema
from pipeline.records.tabulate import tabulate
from pipeline.spec.input_section import InputSpec

SPINE = spine_from_prefixes(("11", "12"), {"city": 1, "block": 2})
HEADS = Schema((Attribute("age", ("young", "old")),))
#: Block, relation to the householder, age; a child's age is no householder's.
PERSONS = [
    ("11", 0, "young"),
    ("11", 2, "child"),
    ("11", 0, "old"),
    ("12", 0, "old"),
    ("12", 1, "old"),
    ("12", 2, "child"),
]


@pytest.fixture(params=["persons.parquet", "persons.csv"])
def persons(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    if path.suffix == ".csv":
        path.write_text("block,relate,age\n" + "".join(f"{b},{r},{a}\n" for b, r, a in PERSONS), encoding="utf-8")
    else:
        blocks, relations, ages = zip(*PERSONS, strict=True)
        pq.write_table(pa.table({"block": blocks, "relate": relations, "age": ages}), path)
    return path


def source(path: Path, **more: object) -> InputSpec:
    return InputSpec.model_validate({"file": path, "form": "microdata", "geocode": "block", **more})


def test_householders_alone_are_counted(persons: Path) -> None:
    counts = tabulate(source(persons, rows={"relate": "0"}).source(), HEADS, SPINE)
    assert counts.toarray().tolist() == [[1, 1], [0, 1]]
    both = tabulate(source(persons, rows={"relate": ["0", "1"], "age": "old"}).source(), HEADS, SPINE)
    assert both.toarray().tolist() == [[0, 1], [0, 2]]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({}, "'child'"),
        ({"relate": ["0", "2"]}, r"in 2 rows .rows 2, 6.*'child'"),
        ({"relation": "0"}, "no column 'relation'"),
    ],
)
def test_mistakes_in_chosen_rows_are_told_with_their_own_number(
    persons: Path, rows: dict[str, object], told: str
) -> None:
    with pytest.raises(RecordsError, match=told):
        tabulate(source(persons, rows=rows).source(), HEADS, SPINE)


def test_rows_of_counts_are_chosen_too(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("block,kind,age,count\n11,home,old,3\n11,hotel,old,4\n12,home,young,5\n", encoding="utf-8")
    section = source(path, form="long", count="count", rows={"kind": "home"})
    assert tabulate(section.source(), HEADS, SPINE).toarray().tolist() == [[0, 3], [5, 0]]


def test_not_of_the_wide_form(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="not for the form"):
        source(tmp_path / "a.csv", form="wide", cells=[{"counts": "n"}], rows={"a": "b"})
