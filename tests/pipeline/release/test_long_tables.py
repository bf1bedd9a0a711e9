"""A table with many answers has a row for each number that is not one of its area's alike zeros, and loses none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ReleaseError
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.release.tables import (
    ReleasedTable,
    long_terms,
    read_table,
    rows_at_once,
    write_table,
)
from pipeline.storage.readable import unchecked

N = 40
AGES = tuple(map(str, range(70)))
SCHEMA = Schema((Attribute("sex", ("f", "m")), Attribute("age", AGES), Attribute("group", tuple("abcdefghijklmnop"))))
QUERY = Query.parse("detailed", SCHEMA)


def made(seed: int, *, margins: bool) -> ReleasedTable:
    """Mostly zeros: empty geounits, a full one, zeros with intervals of several kinds, and unknown ones."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.02, (N, QUERY.size))
    counts[::5], counts[3] = 0, 1 + rng.integers(0, 9, QUERY.size)
    lows: np.ndarray | None = None
    highs: np.ndarray | None = None
    if margins:
        lows = np.maximum(counts - rng.integers(0, 3, counts.shape), 0).astype(float)
        highs = counts + np.where(rng.random(counts.shape) < 0.1, 4.0, 2.0)
        lows[7], highs[7] = np.nan, np.nan
        lows[8, :50], highs[8, :50] = np.nan, np.nan
    codes = np.array([f"44{number:03d}" for number in range(N)])
    labels, terms = QUERY.answer_labels(), long_terms("all", QUERY)
    return ReleasedTable("all", "tract", "detailed", codes, labels, counts, lows, highs, terms)


def write(folder: Path, table: ReleasedTable) -> Path:
    step = rows_at_once(table.labels, with_margins=table.lows is not None, terms=table.terms)
    path = folder / "all.parquet"
    write_table(path, folder, (table.rows(slice(first, first + step)) for first in range(0, N, step)))
    return path


@pytest.mark.parametrize("margins", [False, True])
@pytest.mark.parametrize("values", [None, 5 * QUERY.size])
def test_what_is_read_is_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, margins: bool, values: int | None
) -> None:
    if values is not None:  # several parts and row groups
        monkeypatch.setattr("pipeline.release.tables.LONG_VALUES", values)
    for seed in range(3):
        table = made(seed, margins=margins)
        path = write(tmp_path, table)
        assert (pq.ParquetFile(path).num_row_groups > 1) == (values is not None and margins)
        found = read_table(unchecked(path), geocodes=table.geocodes)
        assert (found.labels, found.terms, found.level) == (table.labels, table.terms, table.level)
        assert np.array_equal(found.geocodes, table.geocodes)
        assert np.array_equal(found.counts, table.counts)
        for own, there in ((found.lows, table.lows), (found.highs, table.highs)):
            assert (own is None and there is None) or np.array_equal(own, there, equal_nan=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("margins", [False, True])
def test_the_rows_of_an_area_are_of_all_its_numbers(tmp_path: Path, margins: bool) -> None:
    table = made(1, margins=margins)
    frame = pd.read_parquet(write(tmp_path, table))
    assert (frame.groupby("geocode", observed=True)["answers"].sum() == QUERY.size).all()
    assert frame["geocode"].nunique() == N
    of_zeros = frame["sex"].isna()
    assert (frame.loc[of_zeros, "count"] == 0).all()
    assert (frame.loc[~of_zeros, "answers"] == 1).all()
    listed = frame[~of_zeros].assign(
        label=lambda rows: rows["sex"].astype(str) + " * " + rows["age"].astype(str) + " * " + rows["group"].astype(str)
    )
    for geocode, rows in listed.groupby("geocode", observed=True):
        number = table.geocodes.tolist().index(geocode)
        columns = [table.labels.index(label) for label in rows["label"]]
        assert columns == sorted(columns)
        assert np.array_equal(table.counts[number, columns], rows["count"])
        if table.lows is None:
            assert (rows["count"] != 0).all()
            continue
        assert table.highs is not None
        assert np.array_equal(table.highs[number, columns], rows["high90"], equal_nan=True)
        # What has no row is a zero with the interval that is stated for all of them, and no other is as frequent.
        others = np.setdiff1d(np.arange(QUERY.size), columns)
        assert (table.counts[number, others] == 0).all()
        zeros = frame[of_zeros & (frame["geocode"] == geocode)]
        assert np.array_equal(np.unique(table.highs[number, others]), zeros["high90"], equal_nan=True)
        kinds = pd.Series(table.lows[number] * 100 + table.highs[number])[table.counts[number] == 0]
        assert len(others) == kinds.value_counts(dropna=False).max() if len(kinds) else not len(others)


DAMAGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "a number without a row": lambda frame: frame.drop(index=frame.index[frame["sex"].notna()][5]),
    "a number twice": lambda frame: pd.concat([frame.iloc[:3], frame.iloc[2:]]),
    "two rows in the wrong order": lambda frame: frame.iloc[[0, 2, 1, *range(3, len(frame))]],
    "too few zeros": lambda frame: frame.assign(answers=frame["answers"] - (frame["sex"].isna() & (frame.index < 90))),
    "zeros that are none": lambda frame: frame.assign(count=frame["count"] + frame["sex"].isna()),
    "a row of two answers": lambda frame: frame.assign(answers=frame["answers"] + (frame.index == 2)),
    "a term without a label": lambda frame: frame.assign(age=frame["age"].where(frame.index != 2)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_that_are_not_of_all_answers_are_refused(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path, made(3, margins=False))
    schema = pq.read_schema(path)
    frame = DAMAGES[damage](pd.read_parquet(path))
    for name in ("geocode", "sex", "age", "group"):
        frame[name] = frame[name].astype(object)
    columns = [pa.array(frame[field.name], from_pandas=True).cast(_value_type(field)) for field in schema]
    encoded = [
        column.dictionary_encode() if pa.types.is_dictionary(field.type) else column
        for column, field in zip(columns, schema, strict=True)
    ]
    pq.write_table(pa.table(encoded, schema=schema), path)
    with pytest.raises(ReleaseError, match="are not of all 2,240 answers of the query, each once and in their order"):
        read_table(unchecked(path))


def _value_type(field: pa.Field) -> pa.DataType:
    return field.type.value_type if pa.types.is_dictionary(field.type) else field.type
