"""Faults planted in what answers questions, one after the other: each is caught by a check that does not share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.asked import PURE, ask, drawn_again, ledger_of, truth, write_workers

import features.questions.confidential as confidential
import pipeline.privacy.noise.select as select
import pipeline.questions.quantiles as quantiles
import pipeline.questions.sensitivity as sensitivity
from features.questions.confidential import noise_of
from pipeline.errors import SpinewiseError
from pipeline.model.schema import AmountAttribute
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip
from pipeline.privacy.noise.sampler import Sampler
from pipeline.questions.manifest import RankStated, read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer
from pipeline.runs.receipts import KnownLedger, compare_receipts

QUANTILE = "median wages by tract, sex, age, shift"
KEYS = ["tract", "sex", "age", "shift"]
QUESTION = "mean wages by tract, sex, age, shift"


@contextmanager
def written(folder: Path, kind: str = "mean") -> Iterator[Path]:
    """The spec of 2,000 workers, while its ledger is there."""
    pure = kind == "pure"
    spec = write_workers(folder / "in", *([PURE] if pure else []), n=2000)
    with ledger_of(spec.parent, framework="pure" if pure else "zcdp"):
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


def quantile_findings(spec: Path, rho: str = "1/4") -> set[str]:
    """What an audit finds of medians: each is as far off by rank as its mechanism makes it, and costs what it should.

    The losses are computed apart from the program, from the wages as text; the expected losses by summation.
    """
    try:
        root = ask(spec, QUANTILE, rho)
    except SpinewiseError:
        return {"refused"}
    found = {"verify"} if verify_answer(RunDirectory(root)) else set()
    part, windows = read_answer(RunDirectory(root)).parts
    assert isinstance(part, RankStated)
    epsilon = float(Fraction(part.scale)) * part.times
    measured = pd.read_csv(root / "public" / "measurements.csv", dtype={"tract": str})
    units = {key: group.to_numpy() for key, group in truth(spec).groupby(KEYS)["units"]}
    excess, variance, added = 0.0, 0.0, []
    for row in measured.itertuples(index=False):
        values = units.get(tuple(row[:4]), np.zeros(0))
        steps = np.arange(601)
        below, upto = (values[:, None] < steps).sum(axis=0), (values[:, None] <= steps).sum(axis=0)
        few = np.minimum(upto - below, part.ties)
        lacking, spare = 2 * below - len(values) + few, len(values) - 2 * upto + few
        lacking[0], spare[-1] = 0, 0
        loss = np.maximum(np.maximum(lacking, spare), 0)
        chance = np.exp(-epsilon * loss / 2)
        chance /= chance.sum()
        mean = float(chance @ loss)
        excess += float(loss[int(row[4])]) - mean
        variance += float(chance @ loss**2) - mean**2
        away = [2**power for power in range(1, 10)]
        edges = [row[4] - one for one in reversed(away)] + [row[4]] + [row[4] + one for one in away]
        counts = np.histogram(values, bins=[-np.inf, *(edge + 0.5 for edge in edges), np.inf])[0]
        added += (np.array(row[5:]) - np.convolve(counts, [8, 4, 3, 2, 2, 1, 1, 1])).tolist()
    if abs(excess) > 4 * np.sqrt(variance):
        found.add("choice")
    # By the definition of zCDP: within a group one loss rises by 2 and another falls by 2, a range of 4 epsilon / 2.
    if (2 * epsilon) ** 2 / 8 > float(Fraction(rho) * Fraction(7, 8)) * 1.0001:
        found.add("cost")
    ratio = float(np.mean(np.square(added))) / float(Fraction(windows.scale))
    if abs(ratio - 1) > 4 * np.sqrt(2 / len(added)):
        found.add("noise of windows")
    # Windows of two groups, or two far windows of one: the weights of a record's window and of the next ones, twice.
    if Fraction(2 * (64 + 16 + 9 + 4 + 4 + 3)) / (2 * Fraction(windows.scale)) > Fraction(rho) / 8:
        found.add("cost of windows")
    return found


def pure_findings(spec: Path) -> set[str]:
    """The same of medians under a pure budget: how far off they are beside report-noisy-max with exponential noise.

    That is the same mechanism in another form (Ding et al. 2021), here drawn 400 times with numpy's generator.
    """
    root = ask(spec, QUANTILE, None, epsilon="1/2")
    found = {"verify"} if verify_answer(RunDirectory(root)) else set()
    part, windows = read_answer(RunDirectory(root)).parts
    assert isinstance(part, RankStated)
    epsilon = float(Fraction(part.scale))
    # A changed record: within a group one loss rises by 2 and another falls by 2; or two groups by 1 up and down each.
    if 2 * epsilon > 0.5 * 15 / 16 + 1e-9:
        found.add("cost")
    if 2 / Fraction(windows.scale) > Fraction(1, 32):
        found.add("cost of windows")
    measured = pd.read_csv(root / "public" / "measurements.csv", dtype={"tract": str})
    units = {key: group.to_numpy() for key, group in truth(spec).groupby(KEYS)["units"]}
    rng, excess, variance = np.random.default_rng(1), 0.0, 0.0
    for row in measured.itertuples(index=False):
        counts = np.bincount(units.get(tuple(row[:4]), np.zeros(0, dtype=int)), minlength=601)
        upto, few = np.cumsum(counts), np.minimum(counts, part.ties)
        lacking, spare = 2 * (upto - counts) - upto[-1] + few, upto[-1] - 2 * upto + few
        lacking[0], spare[-1] = 0, 0
        loss = np.maximum(np.maximum(lacking, spare), 0)
        drawn = loss[(rng.exponential(size=(400, 601)) - epsilon * loss / 2).argmax(axis=1)]
        excess += float(loss[int(row[4])]) - drawn.mean()
        variance += drawn.var() * (1 + 1 / 400)
    return found | ({"choice"} if abs(excess) > 4 * np.sqrt(variance) else set())


#: What is planted of a question of each kind.
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


def _best(_own: Any, _key: Any, losses: Any, _start: int = 0) -> Any:
    return losses.argmin(axis=1)


def _unclipped(self: AmountAttribute, amount: Fraction) -> int:
    """The grid has no value for what is above it: the record is counted elsewhere, or the run stops."""
    return int((amount - self.low) / self.unit + Fraction(1, 2))


def _of_one_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quantiles, "MOVED", ONE_OF_TWO)
    patch.setattr(select, "MOVED", ONE_OF_TWO)


def set_to(module: Any, name: str, value: Any) -> Plant:
    return lambda patch: patch.setattr(module, name, value)


#: Question, what is planted, and what is found, of which one must be: each by itself, whatever else.
FAULTS: dict[str, tuple[str, Plant, set[str]]] = {
    "noise that is missing": ("mean", set_to(confidential, "noise_of", _none), {"noise of sum", "noise of count"}),
    "a clip that is forgotten": ("mean", set_to(AmountAttribute, "number_of", _unclipped), {"refused"}),
    "two numbers charged as one": ("mean", set_to(sensitivity, "MOVED", ONE_OF_TWO), {"verify", "cost of count"}),
    "a reach that is forgotten": ("mean", set_to(sensitivity, "reach", lambda *_: 1), {"verify", "cost of sum"}),
    "half charged": ("mean", _half_charged, {"verify"}),
    "one stream": ("mean", set_to(confidential, "noise_of", _one_stream), {"one stream for both"}),
    "windows with half of their noise": (
        "median",
        set_to(confidential, "noise_of", lambda *arguments: noise_of(*arguments) // 2),
        {"noise of windows"},
    ),
    "windows charged for one of two": (
        "median",
        set_to(sensitivity, "MOVED", ONE_OF_TWO),
        {"verify", "cost of windows"},
    ),
    "a median without noise": ("median", set_to(Exponential, "draw", _best), {"choice"}),
    "the reach of a record that comes or goes, taken for one that changes within its group": (
        "median",
        set_to(quantiles, "rank_reach", lambda *_: (70, 70)),
        {"cost"},
    ),
    "a pure median without noise": ("pure", set_to(PermuteAndFlip, "draw", _best), {"choice"}),
    "a pure median charged for one of two groups": ("pure", _of_one_group, {"cost"}),
}
FINDINGS = {"mean": findings, "median": quantile_findings, "pure": pure_findings}


@pytest.mark.parametrize("kind", FINDINGS)
def test_a_sound_answer_has_none(kind: str, tmp_path: Path) -> None:
    with written(tmp_path, kind) as spec:
        assert FINDINGS[kind](spec) == set()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, plant, found = FAULTS[fault]
    with written(tmp_path, kind) as spec:
        plant(monkeypatch)
        assert FINDINGS[kind](spec) >= found


@pytest.mark.parametrize("text", ["count by tract, sex", "median wages by county"])
def test_noise_that_was_left_out_is_seen_by_a_sound_installation_alone(text: str, tmp_path: Path) -> None:
    """Neither verify nor the ledger can see it, and the installation that has the fault draws the same again."""
    with written(tmp_path) as spec:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Sampler, "draw", lambda *args: np.zeros(args[3], dtype=np.int64))
            run = RunDirectory(ask(spec, text, "1/10"))
            assert verify_answer(run) == []
            manifest = {run.answer_manifest: read_answer(run)}
            with Ledger.open(str(spec.parent / "ledger.sqlite"), state=spec.parent / "state") as ledger:
                known = KnownLedger(ledger.id, tuple(ledger.events()))
            assert compare_receipts(manifest, known).problems == ()
            assert drawn_again(run) == []
        found = drawn_again(run)
    assert [name for name in found if name != "answer.csv"] == ["measurements.csv", "answer.json"]
    assert "answer.csv" in found or "median" in text  # with this noise, too, a median may be the same point of its grid
