"""Measuring a period of a series: noise drawn by the key on truths that are mixed; and how many spells units have.

It alone of this feature sees the key, the truths and the records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.years.carried import CarriedPeriods
from features.years.chain import predecessors, section_of
from features.years.public_input import PREDECESSORS
from geography.errors import InputError
from pipeline.confidential.measure import measure_level
from pipeline.confidential.parts import TrueRecords
from pipeline.execution.job import Job
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.release.histograms import read_histogram
from postprocess.arrays import IntArray

__all__ = ["SeriesRecords", "carried_of", "spell_counts"]


class SeriesRecords(TrueRecords):
    """True records of one period of a series, see `pipeline.confidential.parts.ConfidentialPart`."""

    def measure(self, job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
        """Publish what is measured at a level: where periods are mixed, with the true counts of those before."""
        measure_level(job, key, fingerprint, universe, level, carried_of(job, universe, level))


def carried_of(job: Job, universe: Universe, level: str) -> CarriedPeriods | None:
    """What the numbers of a level have of the periods before; None where each period stands alone.

    Raises:
        InputError: a release before, or its true counts, are missing, or not those that the spec names.
        ReleaseError: a file of one is damaged.
    """
    series = universe.series
    if series is None or not series.terms.design:
        return None
    folder, section = job.inputs.of(PREDECESSORS), section_of(job.spec)
    if folder is None or section is None:
        raise InputError("series: the folder of the releases before is not known; give --period and --out")
    before = predecessors(folder, job.spec.name.removesuffix(f"-{series.period}"), section)
    geocodes = job.spine.level(level).geocodes
    truths = tuple(read_histogram(one.run.main.true_histogram(level), geocodes, universe.schema) for one in before)
    carried = CarriedPeriods(series.terms.design[series.number], before, truths, level, geocodes)
    carried.check([m.query for one in universe.strategy.levels if one.level == level for m in one.queries])
    return carried


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
