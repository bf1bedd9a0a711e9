"""The microdata detail file is the histogram, person by person."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.model.schema import Attribute, Schema
from pipeline.release.microdata import write_microdata

SCHEMA = Schema((Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old"))))
N = 30
GEOCODES = np.array([f"44{i:03d}" for i in range(N)])


def _counts(seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = (rng.poisson(0.5, (N, SCHEMA.n_cells)) * rng.integers(1, 9, (N, SCHEMA.n_cells))).astype(np.int64)
    dense[0] = dense[7:9] = dense[-1] = 0
    dense[4, 2] = 50  # one cell over many row groups
    return sp.csr_array(dense)


@pytest.fixture(autouse=True)
def _short_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.release.microdata.rows_per_group", lambda _columns: 13)
    monkeypatch.setattr("pipeline.release.histograms.VALUES_PER_ROW_GROUP", 5)


def _write(folder: Path, name: str, counts: object) -> tuple[Path, int]:
    (folder / "staging").mkdir(exist_ok=True)
    target = folder / f"{name}.parquet"
    return target, write_microdata(target, folder / "staging", "block", GEOCODES, SCHEMA, counts)


def test_persons_stand_in_the_order_of_leaves_and_cells(tmp_path: Path) -> None:
    path, written = _write(tmp_path, "a", _counts())
    frame = pd.read_parquet(path)
    dense = _counts().toarray().reshape(N, 2, 3)
    expected = [
        (geocode, sex, age)
        for g, geocode in enumerate(GEOCODES)
        for s, sex in enumerate(("male", "female"))
        for a, age in enumerate(("young", "middle", "old"))
        for _ in range(dense[g, s, a])
    ]
    assert list(frame.columns) == ["geocode", "sex", "age"]
    assert list(frame.itertuples(index=False, name=None)) == expected
    assert written == len(expected) == _counts().sum()
    assert [str(dtype) for dtype in frame.dtypes] == ["category"] * 3
    rows = [pq.ParquetFile(path).metadata.row_group(g).num_rows for g in range(pq.ParquetFile(path).num_row_groups)]
    assert rows == [13] * (written // 13) + [written % 13]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 5), cuts=st.lists(st.integers(0, N), max_size=5).map(sorted))
def test_the_bytes_do_not_depend_on_the_batches(tmp_path: Path, seed: int, cuts: list[int]) -> None:
    counts = _counts(seed)
    batches = (counts[start:stop] for start, stop in zip([0, *cuts], [*cuts, N], strict=True))
    assert _write(tmp_path, "cut", batches)[0].read_bytes() == _write(tmp_path, "whole", counts)[0].read_bytes()


def test_stored_zeros_are_no_persons(tmp_path: Path) -> None:
    counts = _counts()
    zeros = sp.csr_array(
        (counts.toarray().ravel(), np.tile(np.arange(6, dtype=np.int32), N), np.arange(N + 1) * 6), shape=(N, 6)
    )
    assert _write(tmp_path, "zeros", zeros)[0].read_bytes() == _write(tmp_path, "plain", counts)[0].read_bytes()
