"""What the released counts say of sums of an amount: which sums so many records can have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import scipy.sparse as sp

from features.amounts.link import SumsOfCounts
from pipeline.estimation.constraints import IntervalRule, Knowledge, StandardErrors, released_histogram, sparse_answers
from pipeline.execution.job import Job
from pipeline.model.universe import Table
from pipeline.release.tables import read_table
from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray
from postprocess.downward.simulated_margins import is_large
from postprocess.marginal import detail_of
from postprocess.problem import GroupBounds, Problem


@dataclass(frozen=True, eq=False)
class Clipped:
    """The records that sums are of, `(n, size)`, and the ends of a record's amount, the lower one below 0.

    Attributes:
        counts, lows, highs: released numbers of records, with the ends of their intervals.
        least, most: that a record adds.
    """

    counts: IntArray
    lows: FloatArray
    highs: FloatArray
    least: int
    most: int

    @property
    def origin(self) -> IntArray:
        """The least that the sums can be."""
        return self.least * self.counts

    def widened(
        self, sums: IntArray, ends: tuple[FloatArray, FloatArray], large: tuple[BoolArray, BoolArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals with what a wrong number of records does to a sum.

        A sum that is about the least of so many records was put there by their number, and errs with it: by
        `least` for each record; likewise at the most. Simulated runs have the released number, so that this is not in
        their errors, of which it is independent. Of the two ends of the clip the nearer one counts.

        Args:
            sums: `(n, size)` released.
            ends: of their intervals, from the simulated runs.
            large: which sums are so far above the least, and so far below the most, that these do not bind them.
        """
        nearer = sums - self.origin <= self.most * self.counts - sums
        slope = np.where(nearer, np.where(large[0], 0, self.least), np.where(large[1], 0, self.most))
        fewer, more = np.abs(slope) * (self.counts - self.lows), np.abs(slope) * (self.highs - self.counts)
        below, above = np.where(slope < 0, more, fewer), np.where(slope < 0, fewer, more)
        low = sums - np.ceil(np.hypot(sums - ends[0], below))
        high = sums + np.ceil(np.hypot(ends[1] - sums, above))
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


class BoundedByCounts(Knowledge):
    """Every cell of the sums of n records is from n times the least to n times the most that a record adds.

    Args:
        job: the run.
        link: of the sums with the release's own counts, which are released before.
    """

    def __init__(self, job: Job, link: SumsOfCounts) -> None:
        self._job = job
        self._link = link
        self._counts = cache(partial(released_histogram, job, link.counts))
        self._origins: dict[int, sp.csr_array] = {}

    def stated(self, problem: Problem) -> Problem:
        """See `Knowledge.stated`: every cell."""
        return replace(problem, further=(*problem.further, detail_of(problem.shape)))

    def bounds(self, level: int, rows: slice) -> tuple[GroupBounds, ...]:
        """See `Knowledge.bounds`: low x n to high x n units, n the released number of records."""
        amount, counts = self._link.amount, self._link.cells.answer_csr(self._counts(level)[rows])
        marginal = detail_of(self._link.sums.schema.shape)
        return (GroupBounds(amount.name, marginal, amount.first * counts, amount.last * counts),)

    def origin(self, level: int) -> sp.csr_array | None:
        """See `Knowledge.origin`: of sums that may be below 0."""
        if not self._link.signed:
            return None
        if level not in self._origins:
            counts = sparse_answers(self._link.cells, self._counts(level))
            self._origins = {level: self._link.amount.first * counts}  # levels are worked on one after the other
        return self._origins[level]

    def intervals(self, rule: IntervalRule, standard: StandardErrors, table: Table, level: int) -> IntervalRule:
        """See `Knowledge.intervals`: of sums that may be below 0, with what a wrong number of records does to them."""
        if not self._link.signed:
            return rule
        geounits = self._job.spine.levels[level]
        counted = self._link.records(table, geounits.name)
        assert counted is not None, "refused with the spec"
        path = self._job.readable(self._job.folder(self._link.counts).table(counted.name, geounits.name))
        records, amount = read_table(path, len(geounits)), self._link.amount

        def widened(counts: IntArray, rows: slice) -> Ends:
            own, errors = records.rows(rows), standard(rows)
            assert own.lows is not None
            assert own.highs is not None
            clipped = Clipped(own.counts, own.lows, own.highs, amount.first, amount.last)
            above, below = counts - clipped.origin, clipped.most * clipped.counts - counts
            low, high = rule(above, rows)  # of sums above the least that they can be, as the simulated runs' are
            large = is_large(above, errors), is_large(below, errors)
            return clipped.widened(counts, (low + clipped.origin, high + clipped.origin), large)

        return widened
