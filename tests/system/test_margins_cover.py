"""Over runs of a real state, the intervals hold the truth as often as they say, by its size and by the released one."""

from __future__ import annotations

import importlib
from pathlib import Path

import pandas as pd
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.usefixtures("shared_data")
def test_every_size_is_covered_nine_times_in_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `benchmarks/bench_intervals.py` shows it, over three keys."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    bench = importlib.import_module("bench_intervals")
    classes: pd.DataFrame = bench.coverage("ri_2010", range(1, 4))
    rows = classes[classes["numbers"] >= bench.ENOUGH]
    assert {"tract", "block_group", "block"} <= set(rows["level"])
    assert set(rows["size"]) == {0, 1, 5, 10, 100, 1000}
    wrong = rows[(rows["coverage"] < 0.87) | ((rows["size"] >= 10) & (rows["coverage"] > 0.95))]
    assert wrong.empty, wrong.to_string()
    small = rows[(rows["level"] == "block") & (rows["size"] == 1) & (rows["by"] == "true")]
    assert (small["coverage"] > 0.9).all(), "what margins by released size alone miss"
    assert (small["width"] < 7).all()
    everything = bench.together(classes)
    assert everything["numbers"].groupby("by").sum().nunique() == 1
    assert everything["coverage"].xs("from 10 on", level=1).between(bench.LEAST, bench.MOST).all()
    assert (everything["coverage"].xs("below 10", level=1) > bench.LEAST).all()
