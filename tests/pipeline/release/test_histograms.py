"""Histograms in long form hold every nonzero cell once, in an order and in bytes that have one form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.model.schema import Attribute, Schema
from pipeline.release.histograms import write_histogram

SCHEMA = Schema((Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old"))))
N = 40
# Contiguous below their parents, and so not sorted as a whole.
GEOCODES = np.array([f"b{i:03d}" for i in range(N // 2)] + [f"a{i:03d}" for i in range(N // 2)])


def _counts(seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.poisson(0.7, (N, SCHEMA.n_cells)).astype(np.int64)
    dense[3:6] = 0
    return sp.csr_array(dense)


@pytest.fixture(autouse=True)
def _short_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.release.histograms.rows_per_group", lambda _columns: 7)
    monkeypatch.setattr("pipeline.release.histograms.VALUES_PER_ROW_GROUP", 11)


def _write(folder: Path, name: str, counts: object, private: bool = False) -> Path:
    (folder / "staging").mkdir(exist_ok=True)
    target = folder / f"{name}.parquet"
    write_histogram(target, folder / "staging", "tract", GEOCODES, SCHEMA, counts, private=private)
    return target


def test_the_file_lists_the_nonzero_cells_one_by_one(tmp_path: Path) -> None:
    frame = pd.read_parquet(_write(tmp_path, "a", _counts()))
    dense = _counts().toarray().reshape(N, 2, 3)
    expected = [
        (geocode, sex, age, int(dense[g, s, a]))
        for g, geocode in enumerate(GEOCODES)
        for s, sex in enumerate(("male", "female"))
        for a, age in enumerate(("young", "middle", "old"))
        if dense[g, s, a]
    ]
    assert list(frame.columns) == ["geocode", "sex", "age", "count"]
    assert list(frame.itertuples(index=False, name=None)) == expected
    assert list(frame.age.cat.categories) == ["young", "middle", "old"]


@settings(deadline=None, max_examples=25)
@given(cuts=st.lists(st.integers(0, N), max_size=5).map(sorted))
def test_the_bytes_do_not_depend_on_the_batches(tmp_path: Path, cuts: list[int]) -> None:
    counts = _counts()
    batches = (counts[start:stop] for start, stop in zip([0, *cuts], [*cuts, N], strict=True))
    assert _write(tmp_path, "cut", batches).read_bytes() == _write(tmp_path, "whole", counts).read_bytes()


def test_stored_zeros_and_index_types_do_not_show(tmp_path: Path) -> None:
    counts = _counts()
    zeros = sp.csr_array(
        (np.zeros(N * 6, dtype=np.int64), np.tile(np.arange(6, dtype=np.int64), N), np.arange(N + 1) * 6), shape=(N, 6)
    )
    zeros.data[:] = counts.toarray().ravel()
    assert zeros.nnz > counts.nnz
    assert _write(tmp_path, "zeros", zeros).read_bytes() == _write(tmp_path, "plain", counts).read_bytes()


@pytest.mark.parametrize("change", ["negative", "short", "long", "cells", "float", "unsorted"])
def test_counts_that_are_no_histogram_are_refused_and_leave_no_file(tmp_path: Path, change: str) -> None:
    counts = _counts()
    if change == "negative":
        counts.data[3] = -1
    elif change == "short":
        counts = counts[:-1]
    elif change == "long":
        counts = sp.vstack([counts, counts], format="csr")
    elif change == "cells":
        counts = counts[:, :5]
    elif change == "float":
        counts = counts.astype(np.float64)
    else:
        counts.indices[:2] = counts.indices[:2][::-1].copy()
        counts = sp.csr_array((counts.data, counts.indices, counts.indptr), shape=counts.shape)
    with pytest.raises(ValueError, match="counts must"):
        _write(tmp_path, "a", counts)
    assert not (tmp_path / "a.parquet").exists()
