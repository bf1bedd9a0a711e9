"""Over ten runs of a real state, the margins of error hold the truth as often as they say, level by level."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

PROJECT = Path(__file__).resolve().parents[2]
#: Numbers from which the share is judged as it is; below, by how likely it is if each number is covered at 90 %.
MANY = 400


def coverage(keys: int) -> dict[str, dict[str, float]]:
    """As `make bench` shows it."""
    path = PROJECT / "benchmarks" / "bench_release.py"
    specification = importlib.util.spec_from_file_location("bench_release", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["bench_release"] = module
    specification.loader.exec_module(module)
    found: dict[str, dict[str, float]] = module.bench_coverage("ri_2010", keys)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("shared_data")
def test_every_level_and_table_is_covered_nine_times_in_ten() -> None:
    found = coverage(10)
    assert {where.split(":")[0] for where in found} == {"state", "county", "tract", "block_group", "block"}
    for where, row in found.items():
        numbers, share = int(row["numbers"]), row["coverage"]
        if numbers >= MANY:
            assert 0.88 <= share <= 0.97, (where, row)
        else:
            # Two numbers that add up to an exact one are wrong together: half as many count.
            assert binom.cdf(round(share * numbers / 2), numbers // 2, 0.90) > 1e-3, (where, row)
