"""Faults in answers to questions: in what is drawn, chosen, counted, charged and bound; see `mutants`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline.questions.quantiles
import pipeline.questions.sensitivity
import pipeline.questions.windows
from pipeline.questions.resolved import Resolved
from releases.mutant import Asked, Edit, Mutant, Plant, attribute, mutant
from releases.tested_mutants import DOUBLED_COINS, text

#: The module in which an answer is drawn.
asking: Any = pytest.importorskip("features.questions.confidential")


def _asked(text: str, way: str = "records", framework: str = "zcdp", neighbours: str = "change-one") -> Asked:
    return text, framework, neighbours, way


COUNT = _asked("count by county, sex where age >= 18")
SUM, TOTALS, JOBS = (_asked("sum wages by county", way) for way in ("records", "totals", "units"))
MEAN = _asked("mean wages by county")
MEDIAN, PURE_MEDIAN = (_asked("median wages by tract, sex", framework=framework) for framework in ("zcdp", "pure"))
CAPPED = _asked("count by county, sex where age >= 18", "units")
UNITS = _asked("count units by tract", "units")
MOST, LISTED = _asked("most common 2 age by county"), _asked("count by county having count >= 3")
LARGEST = _asked("max wages by sex")
CLIP = _asked("clip wages among 20, 40, 60 above 1/10")


_MODULE = "features.questions.confidential:"
_DRAWN = "sampler_for(one.mechanism).draw(stream, 0, int(np.prod(shape))).reshape(shape)"
_SCALE, _SQUARE = "pipeline.questions.sensitivity:measured", "moves * together)"
_LAPLACE = "__import__('pipeline.privacy.noise.discrete_laplace', fromlist=['_'])"
_OF_ROWS = "mechanism.draw(stream, losses(histogram[rows], one), start)"
_PER_PART = "for one in plan.parts"
_COUNTED = 'n_places * question.size * (n_around if one.part.name == "windows" else 1)'
#: Around the true quantile, which only the records know.
_AROUND_TRUTH = "(histogram, (2 * np.cumsum(histogram, axis=1) >= histogram.sum(axis=1, keepdims=True)).argmax(axis=1))"
_LARGEST = "histogram.shape[1] - 1 - (histogram[rows][:, ::-1] > 0).argmax(axis=1)"


def _noise(given: str) -> Plant:
    """What is added to the part `one`, from its `noise`."""
    return text(f"{_MODULE}noise_of", f"return {_DRAWN}", f"noise = {_DRAWN}\n    return {given}")


def _stream(old: str, new: str) -> Plant:
    """Streams that are bound to something else."""
    return text(f"{_MODULE}_stream", old, new)


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
    _ask("an answer without noise", "si", COUNT, _noise("0 * noise")),
    _ask("half of the noise", "si", SUM, _noise("noise // 2")),
    _ask("noise of a quarter of the variance", "si", COUNT,
         text(f"{_MODULE}noise_of", "one.mechanism)", "type(one.mechanism)(one.mechanism.scale / 4))")),
    _ask("Laplace noise where Gaussian is stated", "si", COUNT,
         text(f"{_MODULE}noise_of", "one.mechanism)", f"{_LAPLACE}.DiscreteLaplace(2))")),
    _ask("noise of rounded floats", "si", UNITS,
         _noise("np.round(np.random.default_rng(1).normal(0, 8**0.5, shape)).astype(np.int64)")),
    _ask("a sum without noise in a mean", "si", MEAN, _noise('noise * (one.part.name == "count")')),
    _ask("noise on the most common values is never below 0", "si", MOST, _noise("abs(noise)")),
    _ask("the same noise in every place", "si", COUNT, _noise("np.repeat(noise[:1], len(noise), 0)")),
    _ask("each draw is that of the next position", "si", LISTED,
         text(f"{_MODULE}noise_of", "draw(stream, 0,", "draw(stream, 1,")),
    _ask("one stream for the sum and the count of a mean", "si", MEAN, _stream(", part)", ', "count")')),
    _ask("streams as of a release's measurements", "si", COUNT, _stream("_DOMAIN", '"other"')),
    _ask("streams that do not depend on the records", "si", COUNT, _stream("fingerprint, work", '"other", work')),
    _ask("streams that do not depend on the areas", "si", COUNT, _stream("work.spine.fingerprint()", '"other"')),
    _ask("streams that do not depend on the question", "si", SUM, _stream("work.privacy_fingerprint()", '"other"')),
    _ask("streams that do not depend on the place", "si", COUNT, _stream("work.question.place", '"everywhere"')),
    _ask("nothing is bound to how the records are read", "si", COUNT,
         attribute(asking.QuestionWork, "privacy_fingerprint", lambda own: own.plan.fingerprint())),
    _ask("a plain hash of the records for a keyed one", "si", COUNT,
         text(f"{_MODULE}counted", "key.keyed_hash(_LABEL, digest.digest())", "digest.hexdigest()")),
    _ask("a salt that all answers share", "si", COUNT,
         attribute(asking, "_salt", lambda _, key: key.release_salt("answer"))),
    _ask("a median that is the true one", "si", MEDIAN,
         text(f"{_MODULE}chosen", _OF_ROWS, "losses(histogram[rows], one).argmin(axis=1)")),
    _ask("a median under a budget of epsilon that is the true one", "si", PURE_MEDIAN,
         text(f"{_MODULE}chosen", _OF_ROWS, "losses(histogram[rows], one).argmin(axis=1)")),
    _ask("a choice with twice the epsilon", "si", MEDIAN,
         text(f"{_MODULE}chosen", "= one.mechanism", "= type(one.mechanism)(2 * one.mechanism.scale)")),
    _ask("permute-and-flip with coins of twice the epsilon", "si", PURE_MEDIAN, DOUBLED_COINS),
    _ask("a maximum that is one record's amount", "si", LARGEST,
         text(f"{_MODULE}chosen", _OF_ROWS, _LARGEST)),
    _ask("windows without noise", "si", MEDIAN, _noise('noise * (one.part.name != "windows")')),
    _ask("windows around the true median", "si", MEDIAN,
         text(f"{_MODULE}draw", "(histogram, steps)", _AROUND_TRUTH)),
    _ask("windows that count each record twice", "si", MEDIAN,
         text(f"{_MODULE}draw", "true = filtered", "true = 2 * filtered")),
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
         text(_SCALE, _SQUARE, f"{_SQUARE} / records")),
    _ask("R for R^2: the noise of a sum is that of the root of how far a record moves it", "svi", SUM,
         text(_SCALE, _SQUARE, f"{_SQUARE} / reach(part, promise.neighbours)")),
    _ask("two records of a person get the noise of one", "svi", CAPPED,
         text(_SCALE, _SQUARE, f"{_SQUARE} / records**2")),
    _ask("a record's change moves one number and not two", "svi", COUNT,
         attribute(pipeline.questions.sensitivity, "MOVED", {"change-one": 1, "add-remove": 1})),
    _ask("losses and gains get the noise of the larger end", "si", _asked("mean wages by county", "signed"),
         text("pipeline.questions.sensitivity:reach", "return ", "return max(-part.low, part.high)\n    return ")),
    _ask("a sum in tenths of its unit", "si", SUM,
         attribute(Resolved, "weights", lambda own, part, value: 10 * (value + (own.amount.first - part.centre)))),
    _ask("sum and count of a mean have all of the budget each", "svi", MEAN, text(
        "pipeline.questions.plan:QuestionPlan.parts", "self.promise, self.numbers",
        'type(self.promise)(**{**vars(self.promise), "budget": 2 * self.promise.budget}), self.numbers')),
    _ask("a choice that is not charged", "svi", MEDIAN,
         text(f"{_MODULE}charge_of", _PER_PART, f"{_PER_PART} if not isinstance(one, Ranked)")),
    _ask("windows that are not charged", "svi", MEDIAN,
         text(f"{_MODULE}charge_of", _PER_PART, f'{_PER_PART} if one.part.name != "windows"')),
    _ask("the ledger is not told how far a record moves a sum", "svi", SUM,
         text(f"{_MODULE}_moved", "(reach=one.reach, records", "(records")),
    _ask("the ledger is not told how many records of a unit are counted", "svi", CAPPED,
         text(f"{_MODULE}_moved", ", records=work.plan.promise.records", "")),
    _ask("the ledger is told of one number", "si", COUNT, text(f"{_MODULE}charge_of", _COUNTED, "1")),
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
