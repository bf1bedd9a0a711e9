"""A measurement is read back as it was written, in bytes that do not depend on how it was computed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline.storage.files
from pipeline.errors import ReleaseError
from pipeline.release.measurements import MeasurementHeader, MeasurementWriter, open_measurement, read_measurement
from pipeline.storage.readable import unchecked

HEADER = MeasurementHeader("tract", "votingage * race", 3, "discrete_gaussian", Fraction(339, 7), 48.43)
N = 1000
GEOCODES = np.array([f"44{i:09d}" for i in range(N)])
VALUES = np.random.default_rng(3).integers(-(2**40), 2**40, (N, 3))


@pytest.fixture(autouse=True)
def _short_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several row groups from few rows: 100 rows of 3 values each."""
    monkeypatch.setattr("pipeline.release.measurements.rows_per_group", lambda size: 300 // size)


def _write(folder: Path, name: str, cuts: list[int], header: MeasurementHeader = HEADER) -> Path:
    target = folder / f"{name}.parquet"
    (folder / "staging").mkdir(exist_ok=True)
    with MeasurementWriter.open(target, folder / "staging", header) as writer:
        for geocodes, values in zip(np.split(GEOCODES, cuts), np.split(VALUES, cuts), strict=True):
            writer.write(geocodes, values)
    return target


@settings(deadline=None, max_examples=25)
@given(cuts=st.lists(st.integers(0, N), max_size=6).map(sorted))
def test_the_bytes_do_not_depend_on_the_batches(tmp_path: Path, cuts: list[int]) -> None:
    whole = tmp_path / "whole.parquet"
    if not whole.exists():
        _write(tmp_path, "whole", [])
        assert pq.ParquetFile(whole).num_row_groups == 10
    assert _write(tmp_path, "cut", cuts).read_bytes() == whole.read_bytes()


@settings(deadline=None, max_examples=40)
@given(bounds=st.tuples(st.integers(0, N), st.integers(0, N)).map(sorted))
def test_a_range_is_that_part_of_the_whole(tmp_path: Path, bounds: list[int]) -> None:
    path = tmp_path / "whole.parquet"
    if not path.exists():
        _write(tmp_path, "whole", [])
    start, stop = bounds
    with open_measurement(unchecked(path)) as file:
        part = file.read(start, stop)
        assert len(file) == N
    assert np.array_equal(part.values, VALUES[start:stop])
    assert np.array_equal(part.geocodes, GEOCODES[start:stop])


def test_an_error_while_measuring_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()

    def stopped() -> None:
        with MeasurementWriter.open(tmp_path / "a", tmp_path / "staging", HEADER) as writer:
            writer.write(GEOCODES, VALUES)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stopped()
    assert [path.name for path in tmp_path.rglob("*")] == ["staging"]


@pytest.mark.parametrize(
    ("mechanism", "scale", "variance", "size"),
    [
        ("exact", Fraction(1), 0.0, 1),
        ("exact", Fraction(0), 1.0, 1),
        ("discrete_gaussian", Fraction(0), 1.0, 1),
        ("discrete_laplace", Fraction(1), 0.0, 1),
        ("discrete_laplace", Fraction(1), float("inf"), 1),
        ("laplace", Fraction(1), 1.0, 1),
        ("exact", Fraction(0), 0.0, 0),
    ],
)
def test_a_header_that_contradicts_itself_cannot_be_made(
    mechanism: str, scale: Fraction, variance: float, size: int
) -> None:
    with pytest.raises(ValueError, match="must be"):
        MeasurementHeader("tract", "total", size, mechanism, scale, variance)  # type: ignore[arg-type]


def _rewrite(path: Path, table: pa.Table, header: dict[str, object]) -> None:
    metadata = {pipeline.storage.files.HEADER_KEY: pipeline.storage.files.canonical_json(header)}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_files_that_are_not_as_their_header_says_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path, "a", [])
    good = pq.read_table(path)
    header: dict[str, object] = HEADER.to_json()
    short = [[1, 2, 3], [1, 2], *([[1, 2, 3, 4]] + [[1, 2, 3]] * (N - 3))]
    for table, changed, message in [
        (good, {**header, "kind": "table"}, "is not a measurement"),
        (good, {**header, "scale": "1/0"}, "its header does not describe a measurement"),
        (good, {**header, "more": 1}, "its header does not describe a measurement"),
        (good, {**header, "variance": 1.0}, "not every row has the 3 values and the variance 1.0"),
        (good, {**header, "size": 2}, "not every row has the 2 values"),
        (good.set_column(1, good.schema.field(1), pa.array(short, good.schema.field(1).type)), header, "not every row"),
        (good.drop_columns("variance"), header, "has the columns"),
    ]:
        _rewrite(path, table, changed)
        with pytest.raises(ReleaseError, match=message):
            read_measurement(unchecked(path))
    path.write_bytes(b"")
    with pytest.raises(ReleaseError, match=r"a\.parquet cannot be read as a Parquet file"):
        read_measurement(unchecked(path))
