"""Joins whose limits no query can state are refused; records that break a join have a remark, which stops no run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.homes import write_homes
from releases.small import request_of

from flows.checks.validation import validate
from pipeline.errors import InputError


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


#: A householder told apart by two attributes, beside sizes and children, limits sets of groups that are no product.
CHANGES = (
    ('residence = ["household", "quarters"]', 'residence = ["household", "quarters"]\nsex = ["f", "m"]'),
    ('head = ["adult", "old"], children', 'head = ["adult", "old"], head_sex = ["f", "m"], children'),
    ('householder = { age = "head" }', 'householder = { age = "head", sex = "head_sex" }'),
)


def test_limits_that_no_query_can_state_are_refused(tmp_path: Path) -> None:
    spec = write_homes(tmp_path / "spec", *CHANGES)
    with pytest.raises(InputError, match=r"joins: the households limit a set of groups .* that no query can state"):
        request_of(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert any("that no query can state" in finding.text for finding in validate(None, spec).findings)
