"""A table with one row a number: the numbers of the wide one, each beside what it is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import spinewise as sw
from pipeline.errors import InputError, ReleaseError
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.reading.release import reader_of, tidy_heads, tidy_table
from pipeline.release.reliability import CLASSES
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


def test_reliability_is_by_the_margin(town: Path) -> None:
    """Not exact, a margin of at most a tenth is good, of at most half is to be used with care."""
    release = sw.open_release(town)
    tables = reader_of(release).universe.tables
    tidy = pd.concat([release.table(one.name, level, tidy=True) for one in tables for level in one.levels])
    margin = pd.concat([tidy["value"] - tidy["low"], tidy["high"] - tidy["value"]], axis=1).max(axis=1)
    least = margin.clip(lower=1)
    expected = pd.Series("unreliable", index=margin.index).mask(2 * least <= tidy["value"], "care")
    expected = expected.mask((10 * least <= tidy["value"]) | (margin == 0), "good")
    assert tidy["reliability"].tolist() == expected.tolist()


def test_areas_have_their_names(named_town: Path) -> None:
    """Beside the geocodes, where the level has names; a term that is called so becomes "attribute name"."""
    release = sw.open_release(named_town)
    for table in reader_of(release).universe.tables:
        for level in table.levels:
            tidy = release.table(table.name, level, tidy=True)
            if level == "block":
                assert "name" not in tidy
                continue
            assert list(tidy.columns[:2]) == ["geocode", "name"]
            assert tidy["name"].tolist() == release.names(level).loc[tidy["geocode"]].tolist()
            assert set(tidy["name"]).isdisjoint(tidy["geocode"])
    assert tidy_heads(("name", "sex"), ("geocode", "name", "value")) == ["attribute name", "sex"]


def test_without_a_level_the_levels_are_named(town: Path) -> None:
    release = sw.open_release(town)
    table = reader_of(release).universe.tables[0]
    with pytest.raises(InputError, match=f"name one of its levels, {', '.join(table.levels)}"):
        release.table(table.name)
