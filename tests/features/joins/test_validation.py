"""`validate` says where the records break a join, which does not stop a run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from releases.homes import write_homes

from flows.checks.validation import validate


def test_records_that_keep_the_joins_have_no_remark(tmp_path: Path) -> None:
    spec = write_homes(tmp_path)
    result = validate(None, spec)
    assert result.passed
    assert [remark for remark in result.remarks if not remark.startswith(f"{spec}: ")] == []


def test_records_that_break_a_join_have_a_remark(tmp_path: Path) -> None:
    spec = write_homes(tmp_path)
    homes = pd.read_csv(tmp_path / "homes.csv", dtype=str).sort_values("block")
    large = [homes.iloc[[row] * 30].assign(size="4+") for row in (0, -1)]
    homes = pd.concat([homes, *large])
    homes.to_csv(tmp_path / "homes.csv", index=False)
    result = validate(None, spec)
    assert result.passed
    (size,) = (remark for remark in result.remarks if "homes size" in remark)
    blocks = sorted(homes["block"])
    assert size.startswith("join 'homes size': the records break it in 2 geounits ")
    assert f"of level 'block', first in {blocks[0]}: " in size
