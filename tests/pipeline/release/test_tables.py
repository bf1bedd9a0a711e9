"""A table has a row for every geounit and a column for every answer, with its margin beside it where there is one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.release.tables import ReleasedTable, read_table, rows_at_once, write_table
from pipeline.storage.readable import unchecked

N = 25
RNG = np.random.default_rng(1)
PLAIN = ReleasedTable(
    name="race",
    level="tract",
    query="votingage * race",
    geocodes=np.array([f"44{i:03d}" for i in range(N)]),
    labels=("adult * white", "adult * black", "minor * white"),
    counts=RNG.poisson(3, (N, 3)) * (np.arange(N) % 4 > 0)[:, None],
)
WITH_MARGINS = replace(
    PLAIN,
    lows=PLAIN.counts - RNG.integers(0, 3, (N, 3)).astype(float),
    highs=PLAIN.counts + RNG.integers(0, 9, (N, 3)).astype(float),
)


@pytest.fixture(autouse=True)
def _short_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.release.tables._VALUES_PER_ROW_GROUP", 50)


def _write(folder: Path, table: ReleasedTable) -> Path:
    (folder / "staging").mkdir(exist_ok=True)
    rows = rows_at_once(table.labels, with_margins=table.lows is not None)
    write_table(folder / "a.parquet", folder / "staging", (table.rows(slice(i, i + rows)) for i in range(0, N, rows)))
    return folder / "a.parquet"


@pytest.mark.parametrize("table", [PLAIN, WITH_MARGINS], ids=["plain", "margins"])
def test_what_is_read_is_what_was_written(tmp_path: Path, table: ReleasedTable) -> None:
    path = _write(tmp_path, table)
    assert pq.ParquetFile(path).num_row_groups > 2
    found = read_table(unchecked(path))
    assert (found.name, found.level, found.query, found.labels) == (table.name, table.level, table.query, table.labels)
    assert np.array_equal(found.geocodes, table.geocodes)
    assert np.array_equal(found.counts, table.counts)
    if table.lows is None or table.highs is None:
        assert found.lows is found.highs is found.margins is None
    else:
        assert found.lows is not None
        assert found.highs is not None
        assert found.margins is not None
        assert np.array_equal(found.lows, table.lows)
        assert np.array_equal(found.highs, table.highs)
        assert np.array_equal(found.margins, np.maximum(table.counts - table.lows, table.highs - table.counts))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("geocode", "b", "c"), "'geocode' cannot be the label of an answer"),
        (("a", "a:moe90", "c"), "'a:moe90' cannot be the label of an answer"),
        (("a", "b", "a"), "'a' cannot be the label of two answers"),
    ],
)
def test_labels_that_cannot_be_columns_are_refused(labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=rf"tables\.race: {message}"):
        replace(PLAIN, labels=labels)


def test_parts_that_would_show_in_the_bytes_are_refused(tmp_path: Path) -> None:
    for cuts in ([0, 3, N], [0, N], []):
        parts = [PLAIN.rows(slice(start, stop)) for start, stop in pairwise(cuts)]
        with pytest.raises(ValueError, match="part"):
            write_table(tmp_path / "a.parquet", tmp_path, parts)
        assert not (tmp_path / "a.parquet").exists()


def test_the_largest_row_group_that_is_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state's blocks with 126 numbers and their intervals are more than twelve million numbers in one group."""
    monkeypatch.setattr("pipeline.release.tables._VALUES_PER_ROW_GROUP", 1 << 24)
    n, labels = 25_000, tuple(f"c{number}" for number in range(126))
    counts = np.arange(n * 126).reshape(n, 126)
    codes = np.array([f"{number:015}" for number in range(n)])
    ends = counts.astype(np.float64)
    written = ReleasedTable("t", "block", "q", codes, labels, counts, ends, ends)
    write_table(tmp_path / "t.parquet", tmp_path, [written])
    assert pq.read_metadata(tmp_path / "t.parquet").num_row_groups == 1
    assert np.array_equal(read_table(unchecked(tmp_path / "t.parquet"), n).counts, counts)


@pytest.mark.slow
def test_a_million_geocodes_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 16 megabytes of text on Arrow makes chunks of an array, which a row group does not take."""
    monkeypatch.setattr("pipeline.release.tables._VALUES_PER_ROW_GROUP", 1 << 24)
    n = 1_200_000
    counts = np.arange(n)[:, None]
    large = replace(PLAIN, geocodes=np.arange(10**15, 10**15 + n).astype(str), labels=("total",), counts=counts)
    write_table(tmp_path / "total.parquet", tmp_path, [large])
    read = read_table(unchecked(tmp_path / "total.parquet"))
    assert np.array_equal(read.geocodes, large.geocodes)
    assert np.array_equal(read.counts, counts)
