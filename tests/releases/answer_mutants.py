"""Faults in answers to questions: in what is drawn, chosen, counted, charged and bound; see `mutants`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline.questions.manifest
import pipeline.questions.quantiles
import pipeline.questions.sensitivity
import pipeline.questions.windows
import pipeline.runs.questions.costs
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.questions.derived import Terms
from pipeline.questions.quantiles import Ranked
from pipeline.questions.resolved import Resolved
from releases.mutant import Asked, Edit, Mutant, Patch, Plant, attribute, mutant

#: The module in which an answer is drawn.
asking: Any = pytest.importorskip("features.questions.confidential")


def _asked(text: str, way: str = "records", framework: str = "zcdp", neighbours: str = "change-one") -> Asked:
    return text, framework, neighbours, way


COUNT = _asked("count by county, sex where age >= 18")
SUM, SIGNED, TOTALS, JOBS = (_asked("sum wages by county", way) for way in ("records", "signed", "totals", "units"))
MEAN = _asked("mean wages by county")
MEDIAN, PURE_MEDIAN = (_asked("median wages by tract, sex", framework=framework) for framework in ("zcdp", "pure"))
CAPPED = _asked("count by county, sex where age >= 18", "units")
UNITS = _asked("count units by tract", "units")
MOST, LISTED = _asked("most common 2 age by county"), _asked("count by county having count >= 3")
LARGEST = _asked("max wages by sex")
CLIP = _asked("clip wages among 20, 40, 60 above 1/10")


def _noise(change: Callable[[Any, Any], Any]) -> Plant:
    """What is added to a part, given its noise and the part."""
    sound = asking.noise_of

    def plant(patch: Patch) -> None:
        def noise(work: Any, key: Any, fingerprint: str, one: Any, shape: Any) -> Any:
            return change(sound(work, key, fingerprint, one, shape), one)

        patch.setattr(asking, "noise_of", noise)

    return plant


def _other_noise(change: Callable[[NoiseSpec], NoiseSpec]) -> Plant:
    """A mechanism that is not the one stated."""
    return attribute(asking, "sampler_for", lambda spec: sampler_for(change(spec)))


def _shifted(patch: Patch) -> None:
    """Every draw is that of the next position."""

    class Shifted:
        def __init__(self, spec: NoiseSpec) -> None:
            self.sampler = sampler_for(spec)

        def draw(self, key: bytes, start: int, count: int) -> Any:
            return self.sampler.draw(key, start + 1, count)

    patch.setattr(asking, "sampler_for", Shifted)


def _chosen(change: Callable[[Any, Any], Any]) -> Plant:
    """What is chosen, by the histogram and the choice."""
    return attribute(asking, "chosen", lambda _work, _key, _fingerprint, one, histogram: change(one, histogram))


def _surer(patch: Patch) -> None:
    """Choices are drawn with twice the epsilon that they are charged for."""
    sound = asking.chosen
    patch.setattr(
        asking, "chosen", lambda work, key, fingerprint, one, histogram:
        sound(work, key, fingerprint, replace(one, scale=2 * one.scale), histogram),
    )  # fmt: skip


def _doubled_coins(patch: Patch) -> None:
    sound = PermuteAndFlip.draw
    patch.setattr(PermuteAndFlip, "draw", lambda own, key, found, start=0: sound(own, key, 2 * found, start))


def _windows_of_truth(patch: Patch) -> None:
    """Windows around the true quantile, which only the records know."""
    sound = asking.counts_in_windows

    def around(histogram: Any, _: Any) -> Any:
        upto = np.cumsum(histogram, axis=1)
        return sound(histogram, (upto * 2 >= upto[:, -1:]).argmax(axis=1))

    patch.setattr(asking, "counts_in_windows", around)


def _plain_windows(patch: Patch) -> None:
    """Counts of windows of which each is told in each of the numbers that it may be in."""
    sound = asking.filtered
    patch.setattr(asking, "filtered", lambda counts, framework: 2 * sound(counts, framework))


def _scale(change: Callable[[Fraction, Any, int], Fraction]) -> Plant:
    """The noise of a part, by its right scale, the part and the records of a person: what is stated follows it."""
    sound = pipeline.questions.sensitivity.scale_for

    def plant(patch: Patch) -> None:
        def scale_for(part: Any, framework: Any, neighbours: Any, cost: Fraction, people: Any) -> Any:
            name, scale = sound(part, framework, neighbours, cost, people)
            return name, change(scale, pipeline.questions.sensitivity.reach(part, neighbours), people[0])

        for module in (pipeline.questions.sensitivity, pipeline.questions.manifest):
            patch.setattr(module, "scale_for", scale_for)

    return plant


def _whole_budgets(patch: Patch) -> None:
    """A sum and a count of a mean have the noise of all of the budget each."""
    sound = Terms.parts

    def parts(own: Any, question: Any, n_places: int) -> Any:
        return sound(replace(own, budget=2 * own.budget), question, n_places)

    patch.setattr(Terms, "parts", parts)


def _larger_end(patch: Patch) -> None:
    """A loss that turns into a gain within its number moves a sum by more than either end."""

    def larger(part: Any, _: Any) -> int:
        return int(max(-part.low, part.high))

    for module in (pipeline.questions.sensitivity, pipeline.runs.questions.costs):
        patch.setattr(module, "reach", larger)


def _free(kind: type | str) -> Plant:
    """A charge without what is chosen, or without a part of a name."""
    sound = asking.QuestionWork.parts

    def charge(patch: Patch) -> None:
        right = asking.charge_of

        def cheaper(work: Any, key: Any, fingerprint: str) -> Any:
            whole = right(work, key, fingerprint)
            kept = [
                group
                for group, one in zip(whole.groups, sound(work), strict=True)
                if not (isinstance(one, kind) if isinstance(kind, type) else one.part.name == kind)
            ]
            return replace(whole, groups=tuple(kept))

        patch.setattr(asking, "charge_of", cheaper)

    return charge


def _charged(change: Callable[[Any], Any]) -> Plant:
    """A charge whose groups are others."""
    right = asking.charge_of

    def charge(work: Any, key: Any, fingerprint: str) -> Any:
        whole = right(work, key, fingerprint)
        return replace(whole, groups=tuple(map(change, whole.groups)))

    return attribute(asking, "charge_of", charge)


def _stream(change: Callable[[Any, Any, str, str], bytes]) -> Plant:
    return attribute(asking, "_stream", change)


def _context(work: Any, fingerprint: str) -> tuple[str, ...]:
    return ("spinewise question 2", fingerprint, work.spine.fingerprint(), work.privacy_fingerprint())


def _bound(*members: int, part: str | None = None, place: str | None = None) -> Plant:
    """Streams that are not bound to some members of their context, or not to part or place."""

    def stream(work: Any, key: Any, fingerprint: str, name: str) -> bytes:
        context = tuple("other" if n in members else one for n, one in enumerate(_context(work, fingerprint)))
        found: bytes = key.stream_key(context, place or work.question.place, part or name)
        return found

    return _stream(stream)


def _without_reading(patch: Patch) -> None:
    """Everything is bound to the question, but not to how the records are read."""
    patch.setattr(asking.QuestionWork, "privacy_fingerprint", lambda own: own.fingerprint())


def _plain_hash(patch: Patch) -> None:
    """The fingerprint of what was counted is one that everybody can compute."""
    sound = MasterKey.keyed_hash

    def plain(own: Any, label: str, data: bytes) -> str:
        return hashlib.sha256(data).hexdigest() if label == "input of a question" else sound(own, label, data)

    patch.setattr(MasterKey, "keyed_hash", plain)


def _restated(root: Path, change: Callable[[dict[str, Any]], object] | None = None) -> None:
    """Change answer.json, and give it the hashes that it then needs."""
    path = root / "public" / "answer.json"
    content = json.loads(path.read_bytes())
    if change is not None:
        change(content)
    for name in content["files"]:
        content["files"][name] = hashlib.sha256((root / "public" / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _in_table(name: str, change: Callable[[list[str]], list[str]]) -> Edit:
    """Change the rows of a table, below its header."""

    def edit(root: Path) -> None:
        path = root / "public" / name
        header, *rows = path.read_text("utf-8").splitlines()
        path.write_text("\n".join([header, *change(rows)]) + "\n", "utf-8")
        _restated(root)

    return edit


def _older(root: Path) -> None:
    """The numbers are an hour older than their charge."""
    path = root / "public" / "measurements.csv"
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))


def _without_units(root: Path) -> None:
    (root / "restricted" / "units.parquet").unlink()


def _last(rows: list[str], change: Callable[[str], str]) -> list[str]:
    keys, number = rows[-1].rsplit(",", 1)
    return [*rows[:-1], f"{keys},{change(number)}"]


def _ask(name: str, caught: str, on: Asked, plant: Plant | None = None, edit: Edit | None = None) -> Mutant:
    return replace(mutant(f"`ask`: {name}", caught, on="answer", plant=plant, edit=edit), question=on)


ANSWERS: tuple[Mutant, ...] = (
    _ask("an answer without noise", "si", COUNT, _noise(lambda noise, _: 0 * noise)),
    _ask("half of the noise", "si", SUM, _noise(lambda noise, _: noise // 2)),
    _ask("noise of a quarter of the variance", "si", COUNT,
         _other_noise(lambda spec: replace(spec, scale=spec.scale / 4))),
    _ask("Laplace noise where Gaussian is stated", "si", COUNT,
         _other_noise(lambda _: NoiseSpec("discrete_laplace", Fraction(2)))),
    _ask("noise of rounded floats", "si", UNITS,
         _noise(lambda noise, _: np.round(np.random.default_rng(1).normal(0, 8**0.5, noise.shape)).astype(np.int64))),
    _ask("a sum without noise in a mean", "si", MEAN, _noise(lambda noise, one: noise * (one.part.name == "count"))),
    _ask("noise on the most common values is never below 0", "si", MOST, _noise(lambda noise, _: abs(noise))),
    _ask("the same noise in every place", "si", COUNT, _noise(lambda noise, _: np.repeat(noise[:1], len(noise), 0))),
    _ask("each draw is that of the next position", "si", LISTED, _shifted),
    _ask("one stream for the sum and the count of a mean", "si", MEAN, _bound(part="count")),
    _ask("streams as of a release's measurements", "si", COUNT, _bound(0)),
    _ask("streams that do not depend on the records", "si", COUNT, _bound(1)),
    _ask("streams that do not depend on the areas", "si", COUNT, _bound(2)),
    _ask("streams that do not depend on the question", "si", SUM, _bound(3)),
    _ask("streams that do not depend on the place", "si", COUNT, _bound(place="everywhere")),
    _ask("nothing is bound to how the records are read", "si", COUNT, _without_reading),
    _ask("a plain hash of the records for a keyed one", "si", COUNT, _plain_hash),
    _ask("a salt that all answers share", "si", COUNT,
         attribute(asking, "_salt", lambda _, key: key.release_salt("answer"))),
    _ask("a median that is the true one", "si", MEDIAN,
         _chosen(lambda one, histogram: asking.losses(histogram, one).argmin(axis=1))),
    _ask("a median under a budget of epsilon that is the true one", "si", PURE_MEDIAN,
         _chosen(lambda one, histogram: asking.losses(histogram, one).argmin(axis=1))),
    _ask("a choice with twice the epsilon", "si", MEDIAN, _surer),
    _ask("permute-and-flip with coins of twice the epsilon", "si", PURE_MEDIAN, _doubled_coins),
    _ask("a maximum that is one record's amount", "si", LARGEST,
         _chosen(lambda _, histogram: histogram.shape[1] - 1 - (histogram[:, ::-1] > 0).argmax(axis=1))),
    _ask("windows without noise", "si", MEDIAN, _noise(lambda noise, one: noise * (one.part.name != "windows"))),
    _ask("windows around the true median", "si", MEDIAN, _windows_of_truth),
    _ask("windows that count each record twice", "si", MEDIAN, _plain_windows),
    _ask("windows with half of their sensitivity", "si", MEDIAN,
         attribute(pipeline.questions.windows, "_REACH", {"zcdp": 5, "pure": 1})),
    _ask("losses of a median that are said to move by half", "si", MEDIAN,
         attribute(pipeline.questions.quantiles, "rank_reach", lambda *_: (1, 1))),
    _ask("every record of a unit is counted", "si", CAPPED,
         attribute(asking, "kept_records", lambda units, *_: np.ones(len(units), dtype=bool))),
    _ask("a unit is counted in every number that it has a record in", "si", UNITS,
         attribute(asking, "kept_numbers", lambda units, numbers, *_:
                   np.unique(np.stack([units, numbers]), axis=1, return_index=True)[1])),
    _ask("a unit is counted for each of its records", "si", UNITS,
         attribute(asking, "kept_numbers", lambda units, *_: np.arange(len(units)))),
    _ask("a unit's amounts are not taken down to the ends of its total", "si", TOTALS,
         attribute(asking, "taken_to_ends", lambda _units, amounts, _: (amounts, 0))),
    _ask("a unit is said to be in one number", "svi", UNITS,
         attribute(Resolved, "numbers_of_unit", lambda *_: 1)),
    _ask("k for k^2: the noise of two records' change in a sum is that of its root", "svi", JOBS,
         _scale(lambda scale, _, k: scale / k)),
    _ask("R for R^2: the noise of a sum is that of the root of how far a record moves it", "svi", SUM,
         _scale(lambda scale, reach, _: scale / reach)),
    _ask("two records of a person get the noise of one", "svi", CAPPED, _scale(lambda scale, _, k: scale / k**2)),
    _ask("a record's change moves one number and not two", "svi", COUNT,
         attribute(pipeline.questions.sensitivity, "MOVED", {"change-one": 1, "add-remove": 1})),
    _ask("losses and gains get the noise of the larger end", "si", _asked("mean wages by county", "signed"),
         _larger_end),
    _ask("a sum in tenths of its unit", "si", SUM,
         attribute(Resolved, "weights", lambda own, part, value: 10 * (value + (own.amount.first - part.centre)))),
    _ask("sum and count of a mean have all of the budget each", "svi", MEAN, _whole_budgets),
    _ask("a choice that is not charged", "svi", MEDIAN, _free(Ranked)),
    _ask("windows that are not charged", "svi", MEDIAN, _free("windows")),
    _ask("the ledger is not told how far a record moves a sum", "svi", SUM,
         attribute(asking, "by_up_to", lambda _: "")),
    _ask("the ledger is not told how many records of a unit are counted", "svi", CAPPED,
         attribute(asking, "per_person", lambda _: "")),
    _ask("the ledger is told of one number", "si", COUNT, _charged(lambda group: replace(group, count=1))),
    _ask("a true number in answer.csv", "sv", COUNT,
         edit=_in_table("answer.csv", lambda rows: [*rows[:-1], "B,m,1,0,2"])),
    _ask("a true number before a noisy one, as zeros", "s", COUNT,
         
         edit=_in_table("measurements.csv", lambda rows: _last(rows, lambda n: f"{int(n):+08}"))),
    _ask("a further field with a true number", "sv", COUNT,
         edit=lambda root: _restated(root, lambda content: content.update(true=7))),
    _ask("a group below the least count is listed", "sv", LISTED,
         edit=_in_table("answer.csv", lambda rows: [*rows, "C,1,0,2"])),
    _ask("a clip that is outside of its interval", "sv", CLIP, edit=_in_table("answer.csv", lambda _: ["20,40,60"])),
    _ask("numbers that are older than their charge", "s", COUNT, edit=_older),
    _ask("which records of units are counted is not kept", "s", CAPPED, edit=_without_units),
)  # fmt: skip
