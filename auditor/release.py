"""A finished release as the auditor reads it: manifest, spec, spine, every measurement, and the truth beside it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from auditor.draws import Draw, Due, measured_of
from auditor.files import read_measured, read_whole
from auditor.form import Choice, Form, Universe, read_form
from auditor.keys import keyed_hash
from auditor.reading.cells import Query
from auditor.reading.counts import Counts, counts_digest, sound_histogram
from auditor.reading.files import Files, Places
from auditor.reading.findings import FormError, understood
from auditor.reading.regular import check_folder
from auditor.reading.spec import read_json
from auditor.reading.spine import Level, read_spine, spine_fingerprint
from auditor.reading.values import FloatArray, IntArray, digest, sums, zeros
from auditor.series import known_before


@dataclass(frozen=True, eq=False)
class SelectedAnswers:
    """What a private choice published, geounit by geounit.

    Attributes:
        numbers: of the version that was chosen.
        people: the true population.
        places, residuals: of each answer its place in the stream, and what was added to the true one.
    """

    universe: Universe
    choice: Choice
    numbers: list[int]
    people: IntArray
    places: IntArray
    residuals: IntArray


class Release:
    """A release directory. Files are read when they are asked for.

    Raises:
        FormError: there is no manifest that can be understood, or the spine is none.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.places = root, Places(root)
        self.public, self.restricted = self.places.public, self.places.restricted
        for folder in (self.public, self.restricted):
            check_folder(folder)
        self.manifest: dict[str, Any] = read_json(self.places.manifest)
        if not isinstance(self.manifest.get("spec"), dict):
            raise FormError(f"{self.places.manifest} cannot be read: there is no spec in it")
        self.form: Form = read_form(self.manifest["spec"])
        self.spine: tuple[Level, ...] = read_spine(self.places.spine, self.form.levels)
        self._truth: dict[tuple[str, str], Counts] = {}

    def level(self, name: str) -> Level:
        """The level of this name."""
        return self.spine[self.form.levels.index(name)]

    def truth(self, universe: Universe, level: Level) -> Counts:
        """The true counts of a level; FormError where restricted/ does not hold them."""
        at = (universe.name, level.name)
        if at not in self._truth:
            path = self.places.of(universe.name, "histograms", level.name, secret=True)
            self._truth[at] = sound_histogram(Files(self.restricted, "restricted"), path, level, universe)
        return self._truth[at]

    @cached_property
    def digests(self) -> dict[str, bytes]:
        """Plain hash of the true counts of each universe's leaves."""
        leaves = self.spine[-1]
        return {
            universe.name: counts_digest(self.truth(universe, leaves), len(leaves.codes))
            for universe in self.form.universes
        }

    def fingerprints(self, secret: bytes) -> dict[str, str]:
        """Universe -> keyed fingerprint of its records, to which its noise is bound: by all tables of the same ones."""
        own = {name: keyed_hash(secret, f"input/{name}", digest) for name, digest in self.digests.items()}
        choice = self.form.universes[0].cliques
        drawn_from = [] if choice is None else [choice.stated["records"]]
        cliques, universes = bool(self.manifest["spec"].get("marginals")), self.form.universes
        names = sorted(one.name for one in universes if cliques or not one.name or one.amount or one.clipped)
        if len(names) < 2 and not drawn_from:
            return own
        content = json.dumps([[[name, own[name]] for name in names], drawn_from])
        return {**own, **dict.fromkeys(names, keyed_hash(secret, "input of all tables", content.encode()))}

    def context(self, secret: bytes, universe: Universe) -> tuple[str, str, str]:
        """What the streams of a universe are bound to: its records, the spine, and the privacy-relevant spec."""
        return self.fingerprints(secret)[universe.name], self.spine_fingerprint, universe.fingerprint()

    @property
    def salt(self) -> str:
        """Of what the manifest publishes of key and records; "" where it has none."""
        return str(self.manifest.get("key_salt") or "")

    @cached_property
    def spine_fingerprint(self) -> str:
        """The fingerprint of the public spine."""
        return spine_fingerprint(self.spine)

    @cached_property
    def selected(self) -> tuple[SelectedAnswers, ...]:
        """What each private choice published; FormError where a file has other geounits, versions or answers."""
        return tuple(self._selected(one, choice) for one in self.form.universes for choice in one.choices)

    def _selected(self, universe: Universe, choice: Choice) -> SelectedAnswers:
        level, names = self.level(choice.level), [query.name for query in choice.versions]
        path = self.places.of(universe.name, "selected", choice.name, choice.level)
        with understood(str(path)):
            columns = map(read_whole(path)[0].column, ("geocode", "version", "value"))
            codes, versions, answers = (column.to_pylist() for column in columns)
        if codes != list(level.texts) or not set(versions) <= set(names):
            raise FormError(
                f"{path}: the geounits are not those of {choice.level}, or a version is not one of {choice.name}"
            )
        truth, every = self.truth(universe, level), np.arange(len(codes))
        people = sums(len(codes), truth.geounits, truth.counts)
        exact = [truth.answers(query).dense(every) for query in choice.versions]
        numbers = [names.index(version) for version in versions]
        if any(len(values) != choice.versions[number].size for number, values in zip(numbers, answers, strict=True)):
            raise FormError(f"{path}: a row has not as many answers as its version")
        places, residuals = [zeros(0)], [zeros(0)]
        for row, (number, values) in enumerate(zip(numbers, answers, strict=True)):
            places.append(row * choice.versions[-1].size + np.arange(len(values)))
            residuals.append(np.asarray(values, dtype=np.int64) - exact[number][row])
        return SelectedAnswers(universe, choice, numbers, people, np.concatenate(places), np.concatenate(residuals))

    @cached_property
    def draws(self) -> tuple[Draw, ...]:
        """All that is drawn when universes are measured."""
        draws = (draw for universe in self.form.universes for draw in measured_of(universe, self.spine))
        return tuple(replace(draw, path=draw.path and self.root / draw.path) for draw in draws)

    @property
    def due(self) -> tuple[Due, ...]:
        """Every measurement that the spec calls for."""
        return tuple(draw for draw in self.draws if isinstance(draw, Due))

    @cached_property
    def invariants(self) -> tuple[tuple[Universe, Level, Query, Path], ...]:
        """All that is published exactly, and its files."""
        return tuple(
            (one, self.level(level), query, self.places.answers(one.name, "invariants", level, query.name))
            for one in self.form.universes
            for level, query in one.invariants
        )

    def residuals(self, due: Due) -> tuple[IntArray, IntArray]:
        """What was added to the true answers, where all are drawn: `(rows, size)`, and each row's geounit by number.

        Raises:
            FormError: the rows are not those of the level's measured geounits.
        """
        codes, values = read_measured(due.path)
        rows = np.flatnonzero(due.kind >= 0)
        if codes != [due.geounits.texts[row] for row in rows] or values.shape[1] != due.answers.size:
            raise FormError(f"{due.name}: the file's rows or answers are not those that the spec calls for")
        truth = self.truth(due.of, due.geounits).answers(due.answers).dense(rows)
        if due.of.series.row:
            return self._unmixed(due, values, truth, rows), rows
        return values - truth, rows

    def _unmixed(self, due: Due, values: IntArray, truth: IntArray, rows: IntArray) -> IntArray:
        """What was added where periods are mixed: with the numbers and the truth of those before."""
        *weights, own = due.of.series.row
        rest, counts = values - own * truth, list[FloatArray]()
        for weight, before in zip(weights, self.before, strict=True):
            theirs = next(one for one in before.due if (one.level, one.query) == (due.level, due.query))
            codes, part = read_measured(theirs.path)
            if codes != [due.geounits.texts[row] for row in rows]:
                raise FormError(f"{due.name}: {theirs.path} has other rows; a series has one spine")
            rest = rest - weight * before.truth(theirs.of, theirs.geounits).answers(theirs.answers).dense(rows)
            counts.append(part / np.float64(theirs.of.series.row[-1]))
        return rest + known_before(weights, counts) if counts else rest

    @cached_property
    def before(self) -> tuple[Release, ...]:
        """The releases of the series before this one, first to last, beside it; FormError where one is not there."""
        series = self.form.universes[0].series
        if not series.number:
            return ()
        base = self.root.resolve().name.removesuffix(f"-{series.periods[series.number]}")
        previous = Release(self.root.resolve().parent / f"{base}-{series.periods[series.number - 1]}")
        other = previous.form.universes[0].series
        if not other.periods or previous.followed() != series.predecessor:
            raise FormError(f"{previous.root}: not the release that the one after it in the series follows")
        if (other.name, other.number, other.design) != (series.name, series.number - 1, series.design):
            raise FormError(f"{previous.root}: of another series, or another period of it")
        return (*previous.before, previous)

    def followed(self) -> str:
        """By which the next release of a series names this one, as docs/privacy.md states it."""
        stated, (universe, *_) = self.manifest, self.form.universes
        measured = []
        for due in sorted(self.due, key=lambda due: (due.level, due.query)):
            codes, values = read_measured(due.path)
            hashes = (
                hashlib.sha256("".join(f"{code}\n" for code in codes).encode()),
                hashlib.sha256(values.astype("<i8").tobytes()),
            )
            measured.append([due.level, due.query, "".join(one.hexdigest() for one in hashes)])
        fingerprints = dict(stated.get("input_fingerprints") or {})
        published = [self.salt, stated.get("key_commitment"), sorted(fingerprints.items())]
        content = ["release of a series", stated["spec"].get("name"), universe.fingerprint(), *published, measured]
        return digest(content)
