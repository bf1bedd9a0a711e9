"""Measuring a period of a series: noise drawn by the key on truths that are mixed; and how many spells units have.

With L the design and x the truths, w_t = sum over s <= t of L_ts x_s + z_t is what costs the budget. What the releases
before say of the sum over s < t is known to everybody, so it is taken away, rounded: v_t = w_t - rint(sum of L_ts y_s)
is published, y_s = v_s / L_ss the counts of period s. So v_t / L_tt is the count of period t with noise, in a release
that stands alone; and w_t follows from v_1 to v_t.

It alone of this feature sees the key, the truths and the records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.years.chain import PREDECESSORS, InSeries, base_of, predecessors, section_of
from features.years.design import known
from geography.errors import InputError
from geography.spine import Spine, counted
from pipeline.confidential.measure import Carried, measure_level
from pipeline.confidential.parts import ConfidentialPart
from pipeline.errors import ReleaseError
from pipeline.execution.job import Job
from pipeline.model.query import Query
from pipeline.model.series import SeriesPeriod
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.records.tabulate import read_units
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.measurements import open_measurement
from pipeline.storage.files import sha256_file, write_json
from postprocess.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class CarriedPeriods:
    """What `measure.Carried` has of the periods before, at one level.

    Attributes:
        row: by how much each period so far is multiplied, the last is the release's own.
        before: the releases of the others, first to last.
        truths: confidential histograms `(n, n_cells)` of the level, of each of these.
        level: its name.
        geocodes: of its geounits.
    """

    row: tuple[int, ...]
    before: tuple[InSeries, ...]
    truths: tuple[sp.csr_array, ...]
    level: str
    geocodes: NDArray[np.str_]

    def answers(self, query: Query, start: int, stop: int) -> IntArray:
        """See `Carried.answers`: true answers of the periods before, multiplied, less what is known of their sum."""
        total: IntArray = np.zeros((stop - start, query.size), dtype=np.int64)
        counts = []
        for weight, one, truth in zip(self.row, self.before, self.truths, strict=False):
            total += weight * query.answer_csr(truth[start:stop])
            counts.append(self._counts(one, query, start, stop))
        return total - known(self.row[: len(counts)], counts) if counts else total

    def _counts(self, one: InSeries, query: Query, start: int, stop: int) -> FloatArray:
        """The counts of a release before with their noise."""
        path = one.unchanged(one.run.main.measurement(self.level, query.name))
        with open_measurement(path, len(self.geocodes)) as file:
            part = file.read(start, stop)
        if not np.array_equal(part.geocodes, self.geocodes[start:stop]) or not part.header.row:
            raise ReleaseError(f"{path}: not of the geounits of level {self.level!r}; a series has one spine")
        return part.values / np.float64(part.header.row[-1])


class SeriesRecords(ConfidentialPart):
    """True records of one period of a series, see `pipeline.confidential.parts.ConfidentialPart`."""

    def check(self, job: Job, universe: Universe, facilities: Mapping[str, Sequence[IntArray]]) -> list[str]:
        """See `check_universe`; and that the releases before are as they were when they were measured."""
        _check_before(job, universe)
        return super().check(job, universe, facilities)

    def measure(self, job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
        """Publish what is measured at a level: where periods are mixed, with the true counts of those before."""
        measure_level(job, key, fingerprint, universe, level, carried_of(job, universe, level))
        _note_measured(job.run, universe, level)

    def over_periods(self, periods: Sequence[Universe], spine: Spine) -> tuple[str, ...]:
        """How many units have how many spells, see `ConfidentialPart.over_periods`."""
        last = periods[-1]
        series, source = last.series, last.require_input()
        assert series is not None, "a release of a series"
        if source.unit is None:
            raise InputError(
                "series: who has how many spells is known by a column of the persons' numbers alone; state it as unit "
                "in [privacy], with at_most = 1: a person has one record in a period"
            )
        if len(periods) > len(series.periods):
            raise InputError(
                f"series {series.name!r}: found records of {len(periods)} periods; it has {series.horizon}"
            )
        numbers: dict[str, int] = {}
        units, cells = [], []
        for universe in periods:
            read = read_units(universe.require_input(), universe.schema, spine)
            of_name = np.array([numbers.setdefault(name, len(numbers)) for name in read.names], dtype=np.int64)
            units.append(of_name[read.units])
            cells.append(read.cells)
        if series.terms.counted == "record":  # one a period, each of which counts
            units = [np.unique(one) for one in units]
            cells = [np.full(len(one), period, dtype=np.int64) for period, one in enumerate(units)]
        return (_sentence(series, source.unit, *spell_counts(units, cells), len(periods)),)


def carried_of(job: Job, universe: Universe, level: str) -> Carried | None:
    """What the numbers of a level have of the periods before; None where each period stands alone."""
    series = universe.series
    if series is None or not series.terms.design:
        return None
    before, geocodes = _before(job), job.spine.level(level).geocodes
    truths = tuple(read_histogram(one.run.main.true_histogram(level), geocodes, universe.schema) for one in before)
    row = series.terms.design[series.number]
    return Carried(row[-1], CarriedPeriods(row, before, truths, level, geocodes).answers)


def _before(job: Job) -> tuple[InSeries, ...]:
    """The releases before; errors as `chain.predecessors`."""
    folder, section = job.inputs.of(PREDECESSORS), section_of(job.spec)
    if folder is None or section is None:
        raise InputError("series: the folder of the releases before is not known; give --period and --out")
    return predecessors(folder, base_of(job.spec.name, section), section)


def _check_before(job: Job, universe: Universe) -> None:
    """Refuse, before anything is charged, releases before that are not as they were.

    Raises:
        InputError: one of them, or its true counts, are missing, or not those that the next one follows.
        ReleaseError: a file of one is damaged.
    """
    if universe.series is None or not universe.series.terms.design:
        return
    for one in _before(job):
        for level in dict.fromkeys(draw.level for draw in universe.draws()):
            for path in _measurements(one.run, universe, level):
                one.unchanged(path)
            _check_truth(one.run, universe, level)


def _measurements(run: RunDirectory, universe: Universe, level: str) -> tuple[Path, ...]:
    return tuple(run.main.measurement(level, draw.query.name) for draw in universe.draws() if draw.level == level)


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


def spell_counts(units: Sequence[IntArray], cells: Sequence[IntArray]) -> tuple[IntArray, int]:
    """How many units have 0, 1, 2 ... spells in the records of some periods, and how many are left out; confidential.

    A unit with several records in one period is left out: in which answer it is counted, the key alone says.

    Args:
        units: of each period the number of each record's unit `(n,)`, the same in every period.
        cells: of each period where each record is counted `(n,)`, as leaf number x number of cells + cell.
    """
    unit, cell = np.concatenate(units), np.concatenate(cells)
    period = np.repeat(np.arange(len(units)), [len(numbers) for numbers in units])
    order = np.lexsort((period, unit))
    unit, period, cell = unit[order], period[order], cell[order]
    same = unit[1:] == unit[:-1]
    twice = np.unique(unit[1:][same & (period[1:] == period[:-1])])
    goes_on = same & (period[1:] == period[:-1] + 1) & (cell[1:] == cell[:-1])
    starts = np.concatenate([np.ones(min(1, len(unit)), dtype=bool), ~goes_on])
    spells = np.bincount(unit[starts], minlength=int(unit.max(initial=-1)) + 1)
    spells = np.delete(spells, twice)
    return np.bincount(spells[spells > 0], minlength=1).astype(np.int64), len(twice)


def _sentence(series: SeriesPeriod, unit: str, counts: IntArray, several: int, periods: int) -> str:
    """What the records say of spells or records, in words; `counts` and `several` are of `spell_counts`."""
    of = ", ".join(f"{k}: {n:,}" for k, n in enumerate(counts.tolist()) if n)
    what = f"{series.terms.counted}s"
    sentence = (
        f"series {series.name!r}: in the records of {periods} periods units by {unit!r} have so many {what}: {of}"
    )
    if len(series.terms.losses) > 1:
        more = int(counts[series.terms.spells + 1 :].sum())
        share = more / max(1, int(counts.sum()))
        sentence += (
            f"; {more:,} of {int(counts.sum()):,} ({share:.2%}) have more than {series.terms.spells}, and lose more "
            f"than the budget, as the statement of each release says by the number of {what}"
        )
    else:
        sentence += "; with independent noise all lose the same"
    if several:
        sentence += f"; {counted(several, 'unit')} with several records in one period are not among them"
    return sentence
