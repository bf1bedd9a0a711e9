"""A fixed part of the bad inputs of `oracles.bad_inputs`; that module makes them by the ten thousand."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.bad_inputs import KINDS, judge_all


@pytest.mark.slow
def test_hundreds(tmp_path: Path) -> None:
    """Of every kind: no traceback, no hang, no silent acceptance, no status that does not fit."""
    tally = judge_all(1_000_000, 400, tmp_path)
    assert not tally.faults, tally.faults
    assert {kind for kind, _ in tally.ends} == set(KINDS)
    for kind in ("spec", "records", "areas", "question"):
        assert tally.ends[kind, "refused"] > 20
        assert tally.ends[kind, "accepted"] > 3
