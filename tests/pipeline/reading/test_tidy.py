"""Numbers one a row beside what they are about, how far each can be used, and areas found by their names."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spinewise as sw
from geography.build import spine_from_table
from pipeline.errors import ReleaseError
from pipeline.model.area_names import LevelNames
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.reading.reader import AreaIndex
from pipeline.reading.release import reader_of, tidy_table
from pipeline.release.reliability import CLASSES, classes_of, tenths
from pipeline.release.tables import ReleasedTable


def test_each_number_is_that_of_the_wide_table(town: Path) -> None:
    release, seen = sw.open_release(town), set()
    reader = reader_of(release)
    for table in reader.universe.tables:
        for level in table.levels:
            wide, tidy = release.table(table.name, level), release.table(table.name, level, tidy=True)
            labels = table.query.answer_labels()
            assert len(tidy) == len(wide) * len(labels)
            for column, suffix in (("value", ""), ("low", ":low90"), ("high", ":high90")):
                assert tidy[column].tolist() == wide[[label + suffix for label in labels]].to_numpy().ravel().tolist()
            assert tidy["geocode"].tolist() == [code for code in wide.index for _ in labels]
            if table.query.terms:
                said = tidy[list(table.query.terms)].agg(" * ".join, axis=1)
                assert said.tolist() == list(labels) * len(wide)
            seen |= set(tidy["reliability"])
    assert seen <= {one.key for one in CLASSES}
    assert len(seen) > 1


def test_ends_of_intervals_are_whole_numbers_and_missing_where_unknown() -> None:
    """Not floats: 233 and not 233.0; none is made up."""
    nan = np.nan
    lows, highs = np.array([[1.0, nan], [0.0, 2.0**53]]), np.array([[3.0, nan], [0.0, 2.0**53]])
    schema = Schema((Attribute("sex", ("f", "m")),))
    table = ReleasedTable(
        "t", "block", "sex", np.array(["A", "B"]), ("f", "m"), np.array([[2, 4], [0, 2**53]]), lows, highs
    )
    tidy = tidy_table(table, Query.parse("sex", schema))
    assert [str(tidy[column].dtype) for column in ("value", "low", "high")] == ["int64", "Int64", "Int64"]
    assert tidy["low"].tolist() == [1, pd.NA, 0, 2**53]
    assert tidy["high"].tolist() == [3, pd.NA, 0, 2**53]
    assert tidy["reliability"].tolist() == ["care", "unreliable", "good", "good"]
    with pytest.raises(ReleaseError, match="no whole number"):
        tidy_table(replace(table, lows=lows + 0.5), Query.parse("sex", schema))


@pytest.mark.parametrize(
    ("count", "margin", "expected"),
    [
        (100, 10.0, "good"), (100, 10.05, "care"), (100, 50.0, "care"), (100, 50.01, "unreliable"),
        (0, 0.0, "unreliable"), (0, 1.0, "unreliable"), (5, 0.0, "care"), (10, 0.0, "good"),
        (7, math.nan, "unreliable"), (3, 0.3, "care"), (30, 3.0000000000000004, "good"),
    ],
)  # fmt: skip
def test_a_number_is_of_the_first_class_that_it_fits(count: int, margin: float, expected: str) -> None:
    found = classes_of(np.array([[count]]), tenths(np.array([[margin]])))
    assert CLASSES[int(found[0, 0])].key == expected


def test_a_zero_is_good_where_it_is_exact_alone() -> None:
    counts, margins = np.array([[0, 0]]), np.array([[0.0, 0.0]])
    found = classes_of(counts, tenths(margins, np.array([[True, False]])))
    assert [CLASSES[int(one)].key for one in found[0]] == ["good", "unreliable"]


def names(*texts: str, **others: list[str]) -> LevelNames:
    return LevelNames({"": pa.array(texts), **{language: pa.array(of) for language, of in others.items()}})


def index() -> AreaIndex:
    """Two counties; the second is one tract, padded; county and tract have codes in common."""
    table = pa.table({"county": ["1", "1", "2"], "tract": ["1", "3", ""], "block": ["7", "8", ""]})
    spine = spine_from_table(table, ["county", "tract", "block"])
    county = names("Alder County", "R\u00edo, \u200fold", es=["Condado de Alisos", "R\u00edo"])
    return AreaIndex("r", spine, {"county": county, "tract": names("Mill", "Alder  county", "R\u00edo, old")})


def test_case_blanks_composition_and_direction_do_not_count() -> None:
    areas = index()
    for text in ("condado DE  alisos", "Condado de Alisos"):
        assert [str(area) for area in areas.named(text)] == ["county 1"]
    # The county and the tract that it is padded to have the same leaves: one area.
    assert [str(area) for area in areas.named("Ri\u0301o, old")] == ["county 2"]
    assert areas.span("county", 1) == (2, 3)
    # The county and the first tract have one code.
    assert areas.one("county:1") == areas.named("Alder County")[0]
