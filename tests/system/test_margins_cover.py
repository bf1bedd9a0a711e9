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
    rows: pd.DataFrame = importlib.import_module("bench_intervals").coverage("ri_2010", range(1, 4))
    assert {"tract", "block_group", "block"} <= set(rows["level"])
    assert set(rows["size"]) == {0, 1, 5, 10, 100, 1000}
    wrong = rows[(rows["coverage"] < 0.87) | ((rows["size"] >= 10) & (rows["coverage"] > 0.95))]
    assert wrong.empty, wrong.to_string()
    small = rows[(rows["level"] == "block") & (rows["size"] == 1) & (rows["by"] == "true")]
    assert (small["coverage"] > 0.9).all(), "what margins by released size alone miss"
    assert (small["width"] < 7).all()
