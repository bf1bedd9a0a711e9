"""Joins whose limits no query can state are refused before anything is read or spent."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.homes import write_homes
from releases.small import request_of

from features.joins.keys import stated_joins
from flows.checks.validation import validate
from pipeline.errors import InputError

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


def test_joins_that_can_be_kept_are_accepted(tmp_path: Path) -> None:
    assert stated_joins(request_of(write_homes(tmp_path / "spec"), tmp_path / "out").spec).joins
