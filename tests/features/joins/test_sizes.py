"""The file of average household sizes: never a number that is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from features.joins.files import HouseholdSizes, read_household_sizes, write_household_sizes
from pipeline.errors import ReleaseError
from pipeline.storage.readable import unchecked
from postprocess.statistics import Counted, average_sizes

N = 4_000


@pytest.mark.parametrize("with_margins", [True, False])
def test_a_file_says_nothing_where_there_is_nothing_to_say(tmp_path: Path, with_margins: bool) -> None:
    rng = np.random.default_rng(16)
    counts = np.concatenate([np.arange(40), rng.integers(0, 5_000, N - 40)])
    persons, households = (
        Counted(number, np.maximum(number - 9, 0).astype(float), (number + 20).astype(float))
        for number in ((counts * rng.uniform(1, 9, N)).astype(np.int64), counts)
    )
    if not with_margins:
        persons = Counted(persons.counts)
    codes = np.array([f"{i:05d}" for i in range(N)])
    averages = average_sizes(persons, households, 1, 12)
    sizes = HouseholdSizes("homes", "zone", codes, persons.counts, households.counts, averages)
    path = tmp_path / "public" / "zone.parquet"
    write_household_sizes(path, tmp_path, sizes)
    frame = pd.read_parquet(path, dtype_backend="numpy_nullable")
    assert frame["average"].isna().tolist() == (households.counts == 0).tolist()
    assert len(frame.columns) == 4 + 3 * with_margins
    for name in frame.columns[3:]:
        column = pq.read_table(path).column(name)
        assert np.isfinite(column.drop_null().to_numpy()).all()
    read = read_household_sizes(unchecked(path), N)
    for own, written in zip(read.columns(), sizes.columns(), strict=True):
        assert own[0] == written[0]
        assert np.array_equal(own[1], written[1], equal_nan=own[1].dtype.kind == "f")
    frame.to_parquet(path)
    with pytest.raises(ReleaseError):
        read_household_sizes(unchecked(path), N)
