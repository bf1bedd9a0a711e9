"""A county of the 2010 Census, protected by the example's own script: how accurate estimates are, what intervals hold.

The script shares no code with the program. The bars are those of the whole state, where `benchmarks/bench_published.py`
finds ratios of .59-.84 and intervals that hold .86-1 of the numbers.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.execution.steps import Silent
from pipeline.runs.from_measurements import received_release

SCRIPT = Path(__file__).resolve().parents[3] / "examples" / "protect_tables.py"
COUNTY = "44001"
#: Largest ratio of mean absolute errors, of each table and level; of one county these vary more than of the state.
BARS = {"cell-keys": 0.85, "random-rounding-3": 0.85, "rounding-5": 0.9}
#: Of numbers of a size: from these on.
SIZES = (1, 3, 10)


@pytest.mark.slow
@pytest.mark.parametrize("method", BARS)
def test_estimates_are_nearer_and_intervals_hold(method: str, shared_data: Path, tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    blocks = pd.read_parquet(shared_data / "ri_2010_blocks.parquet")
    blocks[blocks["block"].astype(str).str.startswith(COUNTY)].to_parquet(tmp_path / "blocks.parquet")
    script["main"](tmp_path / "blocks.parquet", method, tmp_path / "protected")
    root = received_release(tmp_path / "protected" / "published.toml", tmp_path, 1, Silent())
    truth: Any = np.load(tmp_path / "protected" / "truth.npz")
    for level in ("block_group", "block"):
        received = pd.read_csv(tmp_path / "protected" / f"{level}.csv")
        for table, (labels, _) in script["TABLES"].items():
            released = pd.read_parquet(root / "public" / "tables" / table / f"{level}.parquet")
            true, estimated = truth[f"{level} {table}"], released[labels].to_numpy()
            errors = np.abs(received[[f"{table}.{label}" for label in labels]].to_numpy() - true).mean()
            assert np.abs(estimated - true).mean() <= BARS[method] * errors, (level, table)
            low, high = (released[[f"{label}:{end}90" for label in labels]].to_numpy() for end in ("low", "high"))
            sizes = np.searchsorted(SIZES, estimated, side="right")
            for size in range(len(SIZES) + 1):
                inside = ((low <= true) & (true <= high))[sizes == size]
                if inside.size >= 300:
                    share = inside.mean()
                    assert share + 2 * np.sqrt(share * (1 - share) / inside.size) >= 0.87, (level, table, size, share)
