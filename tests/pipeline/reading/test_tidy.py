"""A table with one row a number: the numbers of the wide one, each beside what it is about."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import spinewise as sw
from pipeline.errors import InputError
from pipeline.release.reliability import CLASSES


def test_each_number_is_that_of_the_wide_table(town: Path) -> None:
    release = sw.open_release(town)
    seen = set()
    for table in release.universe.tables:
        for level in table.levels:
            wide, tidy = release.table(table.name, level), release.table(table.name, level, tidy=True)
            labels = table.query.answer_labels()
            assert tidy["value"].dtype == "int64"
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


def test_reliability_is_by_the_margin(town: Path) -> None:
    """Not exact, a margin of at most a tenth is good, of at most half is to be used with care."""
    release = sw.open_release(town)
    tables = [release.table(one.name, level, tidy=True) for one in release.universe.tables for level in one.levels]
    tidy = pd.concat(tables)
    margin = pd.concat([tidy["value"] - tidy["low"], tidy["high"] - tidy["value"]], axis=1).max(axis=1)
    least = margin.clip(lower=1)
    expected = pd.Series("unreliable", index=margin.index).mask(2 * least <= tidy["value"], "care")
    expected = expected.mask((10 * least <= tidy["value"]) | (margin == 0), "good")
    assert tidy["reliability"].tolist() == expected.tolist()


def test_without_a_level_the_levels_are_named(town: Path) -> None:
    release = sw.open_release(town)
    table = release.universe.tables[0]
    with pytest.raises(InputError, match=f"name one of its levels, {', '.join(table.levels)}"):
        release.table(table.name)
