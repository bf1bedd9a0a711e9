"""What a file says, row by row, of short and long tables; its bytes do not depend on batches."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ReleaseError
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.release.histograms import read_histogram, write_histogram
from pipeline.release.measurements import MeasurementHeader, MeasurementWriter, read_measurement
from pipeline.release.microdata import write_microdata
from pipeline.release.tables import ReleasedTable, long_terms, read_table, rows_at_once, write_table
from pipeline.storage.files import HEADER_KEY, canonical_json
from pipeline.storage.paths import unchecked

SCHEMA = Schema((Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old"))))
LABELS = [*product(("male", "female"), ("young", "middle", "old"))]
N = 40
#: Contiguous below their parents, and so not sorted as a whole.
CODES = np.array([f"b{i:03d}" for i in range(N // 2)] + [f"a{i:03d}" for i in range(N // 2)])
HEADER = MeasurementHeader("tract", "votingage * race", 3, "discrete_gaussian", Fraction(339, 7), 48.43)
VALUES = np.random.default_rng(3).integers(-(2**40), 2**40, (N, 3))
CUTS = st.lists(st.integers(0, N), max_size=5).map(sorted)


def made_counts() -> sp.csr_array:
    dense = np.random.default_rng(0).poisson(0.7, (N, SCHEMA.n_cells)).astype(np.int64)
    dense[3:6] = 0
    dense[9, 2] = 50  # one cell over many row groups
    return sp.csr_array(dense)


COUNTS = made_counts()


@pytest.fixture(autouse=True)
def _short_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.release.histograms.VALUES_PER_ROW_GROUP", 11)
    monkeypatch.setattr("pipeline.release.form.rows_per_group", lambda numbers, _values: 30 // numbers)


def write(kind: str, path: Path, cuts: list[int]) -> bytes:
    parts = [slice(start, stop) for start, stop in pairwise([0, *cuts, N])]
    if kind == "measurement":
        with MeasurementWriter.open(path, path.parent, HEADER) as writer:
            for part in parts:
                writer.write(CODES[part], VALUES[part])
    else:
        writes = write_histogram if kind == "histogram" else write_microdata
        writes(path, path.parent, "tract", CODES, SCHEMA, (COUNTS[part] for part in parts))
    return path.read_bytes()


@settings(deadline=None, max_examples=25)
@given(kind=st.sampled_from(["measurement", "histogram", "microdata"]), cuts=CUTS)
def test_the_bytes_do_not_depend_on_the_batches(tmp_path: Path, kind: str, cuts: list[int]) -> None:
    assert write(kind, tmp_path / "cut", cuts) == write(kind, tmp_path / "whole", [])
    assert pq.ParquetFile(tmp_path / "whole").num_row_groups > 3


def test_a_histogram_lists_the_nonzero_cells_and_microdata_each_person(tmp_path: Path) -> None:
    write("histogram", tmp_path / "cells", [])
    write("microdata", tmp_path / "persons", [])
    dense = COUNTS.toarray()
    cells = [
        (str(CODES[g]), *LABELS[cell], int(dense[g, cell])) for g in range(N) for cell in range(6) if dense[g, cell]
    ]
    found, persons = pd.read_parquet(tmp_path / "cells"), pd.read_parquet(tmp_path / "persons")
    assert list(found.columns) == ["geocode", "sex", "age", "count"]
    assert list(found.itertuples(index=False, name=None)) == cells
    assert list(found.age.cat.categories) == ["young", "middle", "old"]
    assert list(persons.itertuples(index=False, name=None)) == [cell[:3] for cell in cells for _ in range(cell[3])]
    assert np.array_equal(read_histogram(unchecked(tmp_path / "cells"), CODES, SCHEMA).toarray(), dense)


def test_stored_zeros_and_index_types_do_not_show(tmp_path: Path) -> None:
    dense, indices = COUNTS.toarray(), np.tile(np.arange(6, dtype=np.int64), N)
    zeros = sp.csr_array((dense.ravel(), indices, np.arange(N + 1) * 6), shape=(N, 6))
    assert zeros.nnz > COUNTS.nnz
    for writes in (write_histogram, write_microdata):
        for name, counts in (("zeros", zeros), ("plain", COUNTS)):
            writes(tmp_path / name, tmp_path, "tract", CODES, SCHEMA, counts)
        assert (tmp_path / "zeros").read_bytes() == (tmp_path / "plain").read_bytes()


@pytest.mark.parametrize("change", [{"scale": "1/0"}, {"more": 1}, {"variance": 1.0}, {"size": 2}])
def test_a_measurement_that_is_not_as_its_header_says_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    write("measurement", tmp_path / "a", [])
    metadata = {HEADER_KEY: canonical_json({**HEADER.to_json(), **change})}
    pq.write_table(pq.read_table(tmp_path / "a").replace_schema_metadata(metadata), tmp_path / "a")
    with pytest.raises(ReleaseError, match=r"header|not every row"):
        read_measurement(unchecked(tmp_path / "a"))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "size"), [(25_000, 126), (1_200_000, 1)], ids=["a state", "a country"])
def test_the_largest_row_group_is_written_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, size: int
) -> None:
    """Of blocks of a state 126 numbers and their intervals; from 16 MB of text on Arrow makes chunks of an array."""
    monkeypatch.setattr("pipeline.release.tables._VALUES_PER_ROW_GROUP", 1 << 24)
    counts = np.arange(n * size).reshape(n, size)
    codes, ends = np.arange(10**15, 10**15 + n).astype(str), counts.astype(np.float64)
    written = ReleasedTable("t", "block", "q", codes, tuple(f"c{one}" for one in range(size)), counts, ends, ends)
    write_table(tmp_path / "t.parquet", tmp_path, [written])
    assert pq.read_metadata(tmp_path / "t.parquet").num_row_groups == 1
    read = read_table(unchecked(tmp_path / "t.parquet"), n)
    assert np.array_equal(read.geocodes, codes)
    assert np.array_equal(read.counts, counts)


AGES = tuple(map(str, range(70)))
LONG_SCHEMA = Schema(
    (Attribute("sex", ("f", "m")), Attribute("age", AGES), Attribute("group", tuple("abcdefghijklmnop")))
)
QUERY = Query.parse("detailed", LONG_SCHEMA)


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


def write_long(folder: Path, table: ReleasedTable) -> Path:
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
        path = write_long(tmp_path, table)
        assert (pq.ParquetFile(path).num_row_groups > 1) == (values is not None and margins)
        found = read_table(unchecked(path), geocodes=table.geocodes)
        assert (found.labels, found.terms, found.level) == (table.labels, table.terms, table.level)
        assert np.array_equal(found.geocodes, table.geocodes)
        assert np.array_equal(found.counts, table.counts)
        for own, there in ((found.lows, table.lows), (found.highs, table.highs)):
            assert (own is None and there is None) or np.array_equal(own, there, equal_nan=True)  # type: ignore[arg-type]


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
    path = write_long(tmp_path, made(3, margins=False))
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
