"""Faults planted in what answers questions, one after the other: each is caught by a check that does not share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.asked import ask, drawn_again, ledger_of, truth, write_workers

import features.questions.confidential as confidential
import pipeline.questions.sensitivity as sensitivity
from features.questions.confidential import noise_of
from pipeline.errors import SpinewiseError
from pipeline.model.schema import AmountAttribute
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.sampler import Sampler
from pipeline.questions.manifest import read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer
from pipeline.runs.receipts import KnownLedger, compare_receipts

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


Plant = Callable[[pytest.MonkeyPatch], None]
ONE_OF_TWO = {"change-one": 1, "add-remove": 1}


def _none(*arguments: Any) -> Any:
    return np.zeros(arguments[-1], dtype=np.int64)


def _half_charged(patch: pytest.MonkeyPatch) -> None:
    charge_of = confidential.charge_of

    def half(*arguments: Any) -> Any:
        charge = charge_of(*arguments)
        return replace(charge, groups=tuple(replace(group, scale=2 * group.scale) for group in charge.groups))

    patch.setattr(confidential, "charge_of", half)


def _one_stream(work: Any, key: Any, fingerprint: str, one: Any, shape: Any) -> Any:
    return noise_of(work, key, fingerprint, replace(one, part=replace(one.part, name="count")), shape)


def _unclipped(self: AmountAttribute, amount: Fraction) -> int:
    """The grid has no value for what is above it: the record is counted elsewhere, or the run stops."""
    return int((amount - self.low) / self.unit + Fraction(1, 2))


def set_to(module: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(module, name, value)


#: What is planted, and what is found at least. Choices are in `releases.answer_mutants`.
FAULTS: dict[str, tuple[Plant, set[str]]] = {
    "noise that is missing": (set_to(confidential, "noise_of", _none), {"noise of sum", "noise of count"}),
    "two numbers charged as one": (set_to(sensitivity, "MOVED", ONE_OF_TWO), {"verify", "cost of count"}),
    "a reach that is forgotten": (set_to(sensitivity, "reach", lambda *_: 1), {"verify", "cost of sum"}),
    "half charged": (_half_charged, {"verify"}),
    "one stream": (set_to(confidential, "noise_of", _one_stream), {"one stream for both"}),
}


def test_a_sound_answer_has_none(spec: Path) -> None:
    assert findings(spec) == set()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, found = FAULTS[fault]
    plant(monkeypatch)
    assert findings(spec, "1/2") >= found


def test_a_clip_that_is_forgotten_is_found_or_stops_the_question(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AmountAttribute, "number_of", _unclipped)
    assert findings(spec) & {"noise of sum", "noise of count", "refused"}


def test_noise_that_was_left_out_is_seen_by_a_sound_installation_alone(spec: Path) -> None:
    """Neither verify nor the ledger can see it, and the installation that has the fault draws the same again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sampler, "draw", lambda *args: np.zeros(args[3], dtype=np.int64))
        run = RunDirectory(ask(spec, "count by tract, sex", "1/10"))
        assert verify_answer(run) == []
        manifest = {run.answer_manifest: read_answer(run)}
        with Ledger.open(str(spec.parent / "ledger.sqlite"), state=spec.parent / "state") as ledger:
            known = KnownLedger(ledger.id, tuple(ledger.events()))
        assert compare_receipts(manifest, known).problems == ()
        assert drawn_again(run) == []
    assert drawn_again(run) == ["measurements.csv", "answer.csv", "answer.json"]
