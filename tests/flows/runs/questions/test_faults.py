"""Faults planted in what answers questions, one after the other: each is caught by a check that does not share it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.asked import ask, checked, ledger_of, truth, write_workers

import flows.confidential.questions as confidential
import pipeline.questions.sensitivity as sensitivity
from flows.confidential.questions import noise_of
from flows.runs.questions.checking import verify_answer
from pipeline.errors import SpinewiseError
from pipeline.model.schema import AmountAttribute
from pipeline.questions.manifest import read_answer
from pipeline.release.layout import RunDirectory

KEYS = ["tract", "sex", "age", "shift"]
QUESTION = "mean wages by tract, sex, age, shift"


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    spec = write_workers(tmp_path, n=2000)
    with ledger_of(tmp_path):
        yield spec


def findings(spec: Path, rho: str = "1") -> set[str]:
    """What an audit with the records finds of an answer; true numbers and costs are computed apart from the program."""
    try:
        root = ask(spec, QUESTION, rho)
    except SpinewiseError:
        return {"refused"}
    found = {"verify"} if verify_answer(RunDirectory(root)) else set()
    manifest = read_answer(RunDirectory(root))
    measured = pd.read_csv(root / "public" / "measurements.csv", dtype={"tract": str})
    people = truth(spec)
    people["units"] -= 300  # of a grid from 0 to 600 units
    both = measured.merge(
        people.groupby(KEYS)["units"].agg(["count", "sum"]).reset_index(), "left", KEYS, suffixes=("", "~")
    )
    noise = {part.name: (both[part.name] - both[f"{part.name}~"].fillna(0)).to_numpy() for part in manifest.parts}
    for part in manifest.parts:
        ratio = float((noise[part.name] ** 2).mean()) / float(Fraction(part.scale))
        if abs(ratio - 1) > 4 * np.sqrt(2 / len(both)):
            found.add(f"noise of {part.name}")
        # By the definition of zCDP, change-one, of what a wage from 0 to 600 units less 300 can do.
        squared = 600**2 if part.name == "sum" else 2
        if Fraction(squared) / (2 * Fraction(part.scale)) > Fraction(rho) / 2:
            found.add(f"cost of {part.name}")
    if noise["sum"].any() and abs(np.corrcoef(noise["sum"], noise["count"])[0, 1]) > 4 / np.sqrt(len(both)):
        found.add("one stream for both")
    return found


def test_a_sound_answer_has_none(spec: Path) -> None:
    assert findings(spec) == set()


def test_noise_that_is_missing(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: Any) -> Any:
        return np.zeros(arguments[-1], dtype=np.int64)

    monkeypatch.setattr(confidential, "noise_of", none)
    assert findings(spec) >= {"noise of sum", "noise of count"}


def test_noise_of_half_the_deviation(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidential, "noise_of", lambda *arguments: noise_of(*arguments) // 2)
    assert findings(spec) >= {"noise of sum", "noise of count"}


def test_a_clip_that_is_forgotten(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid has no value for what is above it: the record is counted elsewhere, or the run stops."""

    def unclipped(self: AmountAttribute, amount: Fraction) -> int:
        return int((amount - self.low) / self.unit + Fraction(1, 2))

    monkeypatch.setattr(AmountAttribute, "number_of", unclipped)
    assert findings(spec) & {"noise of sum", "noise of count", "refused"}


def test_a_partition_that_is_charged_for_one_of_its_numbers(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed record leaves one group and enters another: two numbers move."""
    monkeypatch.setattr(sensitivity, "MOVED", {"change-one": 1, "add-remove": 1})
    found = findings(spec, "1/2")
    assert found >= {"verify", "cost of count"}


def test_a_sum_whose_reach_is_forgotten(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensitivity, "reach", lambda *_: 1)
    assert findings(spec) >= {"verify", "cost of sum"}


def test_a_charge_for_half_of_what_is_drawn(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charge_of = confidential.charge_of

    def half(*arguments: Any) -> Any:
        charge = charge_of(*arguments)
        return replace(charge, groups=tuple(replace(group, scale=2 * group.scale) for group in charge.groups))

    monkeypatch.setattr(confidential, "charge_of", half)
    assert findings(spec) == {"verify"}


def test_one_stream_for_both_parts(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(work: Any, key: Any, fingerprint: str, one: Any, shape: Any) -> Any:
        return noise_of(work, key, fingerprint, replace(one, part=replace(one.part, name="count")), shape)

    monkeypatch.setattr(confidential, "noise_of", shared)
    assert findings(spec) == {"one stream for both"}


def test_a_question_that_is_charged_after_it_is_drawn_is_seen(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is looked at where it is kept: the ledger has the charge when the first noise is asked for."""
    from releases.asked import spent

    seen: list[Fraction] = []

    def watched(*arguments: Any) -> Any:
        seen.append(spent(spec.parent / "ledger.sqlite"))
        return noise_of(*arguments)

    monkeypatch.setattr(confidential, "noise_of", watched)
    ask(spec, "count by county", "1/4")
    assert seen == [Fraction(1, 4)]
    assert checked(spec, "count by county", "1/4").work.budget == Fraction(1, 4)
