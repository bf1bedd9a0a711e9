"""Unbiased estimates come back from their file as they were given, whatever the chunks they were written in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.universe import Table
from pipeline.release.estimates import VARIANCE_SUFFIX, write_estimates

SCHEMA = Schema((Attribute("age", ("child", "adult")), Attribute("sex", ("f", "m", "x"))))


def table(name: str, query: str) -> Table:
    return Table(name, Query.parse(query, SCHEMA), ("block",))


@pytest.mark.parametrize("step", [1, 3, 7])
def test_lists_stand_beside_their_geocodes_and_variances(tmp_path: Path, step: int) -> None:
    tables = [table("by age", "age"), table("detail", "age * sex")]
    geocodes = np.array([f"B{number}" for number in range(7)])
    random = np.random.default_rng(1)
    values = [random.normal(size=(7, size)) for size in (2, 2, 6, 6)]
    values[0][4] = np.nan
    values[1][4] = np.nan

    def chunks() -> Iterator[tuple[slice, list[NDArray[np.float64]]]]:
        for start in range(0, 7, step):
            rows = slice(start, min(start + step, 7))
            yield rows, [column[rows] for column in values]

    target = tmp_path / "block.parquet"
    write_estimates(target, tmp_path, "block", geocodes, tables, chunks())
    read = pq.read_table(target)
    assert read.column_names == [
        "geocode", "by age", f"by age{VARIANCE_SUFFIX}", "detail", f"detail{VARIANCE_SUFFIX}",
    ]  # fmt: skip
    assert read["geocode"].to_pylist() == geocodes.tolist()
    for name, expected in zip(read.column_names[1:], values, strict=True):
        assert np.array_equal(np.array(read[name].to_pylist()), expected, equal_nan=True)
    assert b"by age" in b"".join((read.schema.metadata or {}).values())
    if step == 1:
        whole = tmp_path / "whole.parquet"
        write_estimates(whole, tmp_path, "block", geocodes, tables, [(slice(0, 7), values)])
        assert whole.read_bytes() == target.read_bytes()
