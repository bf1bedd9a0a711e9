"""A fixed part of the bad inputs of `oracles.bad_inputs`; that module makes them by the ten thousand."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from oracles import bad_inputs
from oracles.bad_inputs import KINDS, Tally, World, WrongEndError, judge_all
from oracles.watched import Hangs


@pytest.mark.slow
def test_hundreds(tmp_path: Path) -> None:
    """Of every kind: no traceback, no hang, no silent acceptance, no status that does not fit."""
    tally = judge_all(1_000_000, 400, tmp_path)
    assert not tally.faults, tally.faults
    assert {kind for kind, _ in tally.ends} == set(KINDS)
    for kind in ("spec", "records", "areas", "question"):
        assert tally.ends[kind, "refused"] > 20
        assert tally.ends[kind, "accepted"] > 3


@pytest.mark.parametrize(
    ("end", "what"),
    [
        (WrongEndError("silent acceptance", "x"), "silent acceptance"),
        (ValueError("x"), "traceback"),
        (Hangs("x"), "hang"),
    ],
)
def test_each_fault_is_told(end: BaseException, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its kind and number."""

    def fails(_rng: random.Random, _world: World) -> str:
        raise end

    kinds: dict[str, tuple[Callable[[random.Random, World], str], int]] = {"spec": (fails, 1)}
    monkeypatch.setattr(bad_inputs, "KINDS", kinds)
    tally = Tally()
    bad_inputs.judge("spec", 7, None, tally)  # type: ignore[arg-type]
    (fault,) = tally.faults
    assert (fault.kind, fault.number, fault.what) == ("spec", 7, what)
