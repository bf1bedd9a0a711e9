"""Measuring a period of a series: noise drawn by the key on truths that are mixed; and how many spells units have.

It alone of this feature sees the key, the truths and the records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from features.years.carried import CarriedPeriods
from features.years.chain import InSeries, checked_files, predecessors, section_of
from features.years.public_input import PREDECESSORS
from geography.errors import InputError
from pipeline.confidential.measure import measure_level
from pipeline.confidential.parts import TrueRecords
from pipeline.execution.job import Job
from pipeline.model.series import SeriesPeriod
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory, file_name
from pipeline.storage.files import sha256_file, write_json
from postprocess.arrays import IntArray

__all__ = ["SeriesRecords", "carried_of", "spell_counts"]


class SeriesRecords(TrueRecords):
    """True records of one period of a series, see `pipeline.confidential.parts.ConfidentialPart`."""

    def check(self, job: Job, universe: Universe, facilities: Mapping[str, Sequence[NDArray[np.int64]]]) -> list[str]:
        """See `check_universe`; and that the releases before are as they were when they were measured."""
        _check_before(job, universe)
        return super().check(job, universe, facilities)

    def measure(self, job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
        """Publish what is measured at a level: where periods are mixed, with the true counts of those before."""
        measure_level(job, key, fingerprint, universe, level, carried_of(job, universe, level))
        _note_measured(job.run, universe, level)


def carried_of(job: Job, universe: Universe, level: str) -> CarriedPeriods | None:
    """What the numbers of a level have of the periods before; None where each period stands alone."""
    series = universe.series
    if series is None or not series.terms.design:
        return None
    before, geocodes = _before(job, series), job.spine.level(level).geocodes
    truths = tuple(read_histogram(one.run.main.true_histogram(level), geocodes, universe.schema) for one in before)
    return CarriedPeriods(series.terms.design[series.number], before, truths, level, geocodes)


def _before(job: Job, series: SeriesPeriod) -> tuple[InSeries, ...]:
    """The releases before; errors as `chain.predecessors`."""
    folder, section = job.inputs.of(PREDECESSORS), section_of(job.spec)
    if folder is None or section is None:
        raise InputError("series: the folder of the releases before is not known; give --period and --out")
    return predecessors(folder, job.spec.name.removesuffix(f"-{series.period}"), section)


def _check_before(job: Job, universe: Universe) -> None:
    """Refuse, before anything is charged, releases before that are not as they were.

    Raises:
        InputError: one of them, or its true counts, are missing, or not those that the next one follows.
        ReleaseError: a file of one is damaged.
    """
    if universe.series is None or not universe.series.terms.design:
        return
    for one in _before(job, universe.series):
        for level in universe.strategy.levels:
            if level.queries:
                checked_files(one, _measurements(one.run, universe, level.level))
                _check_truth(one.run, universe, level.level)


def _measurements(run: RunDirectory, universe: Universe, level: str) -> tuple[Path, ...]:
    queries = next(stated.queries for stated in universe.strategy.levels if stated.level == level)
    return tuple(run.main.measurement(level, measured.query.name) for measured in queries)


def _noted(run: RunDirectory, universe: Universe, level: str) -> dict[str, object]:
    """Hashes of a level's true counts, and of what is published of them."""
    measured = {path.name: sha256_file(path) for path in _measurements(run, universe, level)}
    return {"true counts": sha256_file(run.main.true_histogram(level)), "measurements": measured}


def _note_measured(run: RunDirectory, universe: Universe, level: str) -> None:
    """Note, in restricted/, which true counts were measured, and as what: others may come into their place."""
    write_json(_note(run, level), _noted(run, universe, level), run.staging, private=True)


def _check_truth(run: RunDirectory, universe: Universe, level: str) -> None:
    """InputError where the true counts of a release are not those that it was measured from."""
    try:
        noted = json.loads(_note(run, level).read_bytes())
        counts, measured = noted["true counts"], noted["measurements"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{_note(run, level)}: missing or damaged; it says which counts were measured") from error
    due = _noted(run, universe, level)
    if measured != due["measurements"]:
        raise InputError(
            f"{_note(run, level)}: says of other measurements which counts they are of: {run.restricted} is of another "
            "run than the release; bring back the one that belongs to it"
        )
    if counts != due["true counts"]:
        raise InputError(
            f"{run.main.true_histogram(level)}: not the counts that this release was measured from; run the release "
            "again with its own records, which brings them back"
        )


def _note(run: RunDirectory, level: str) -> Path:
    return run.restricted / "series" / f"{file_name('level', level)}.json"


def spell_counts(units: Sequence[NDArray[np.generic]], cells: Sequence[IntArray]) -> IntArray:
    """How many units have 0, 1, 2 ... spells in the records of some periods; confidential.

    Args:
        units: of each period the unit of each record `(n,)`, such as a person's number.
        cells: of each period where each record is counted `(n,)`, as leaf number x number of cells + cell.

    Raises:
        InputError: a unit has two records in one period; the message shows its number.
    """
    _, unit = np.unique(np.concatenate(units), return_inverse=True)
    period = np.repeat(np.arange(len(units)), [len(numbers) for numbers in units])
    order = np.lexsort((period, unit))
    unit, period, cell = unit[order], period[order], np.concatenate(cells)[order]
    same = unit[1:] == unit[:-1]
    if twice := np.flatnonzero(same & (period[1:] == period[:-1])).tolist():
        name = np.concatenate(units)[order[twice[0]]]
        raise InputError(
            f"records of period {int(period[twice[0]]) + 1} of a series: found unit {str(name)!r} twice; "
            "a unit has one record in a period"
        )
    goes_on = same & (period[1:] == period[:-1] + 1) & (cell[1:] == cell[:-1])
    starts = np.concatenate([np.ones(min(1, len(unit)), dtype=bool), ~goes_on])
    return np.bincount(np.bincount(unit[starts])).astype(np.int64)
