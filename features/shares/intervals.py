"""The intervals of numbers that public shares move: from the measurements, for places unlike their neighbours too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.estimation.knowledge import IntervalRule
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.marginal import Marginal
from postprocess.shares.estimates import Estimates
from postprocess.shares.expectation import Expected, expectations
from postprocess.shares.intervals import constant_coverage
from postprocess.shares.shared import Shared
from postprocess.statistics import EXACT_VARIANCE

#: Decimals of persons that are kept, so that neither batches nor parts show.
_DECIMALS = 4


@dataclass(frozen=True, eq=False)
class SharedIntervals:
    """Those of the numbers of one table at one level that are shared as public numbers are.

    Attributes:
        cells: `(k,)` which answers of the table.
        estimates: `(n, k)` what the measurements say, unbiased.
        standard: `(n, k)` standard errors; not finite where nothing is measured.
        expected: `(n, k)` what the public numbers say, and variances around it.
    """

    cells: IntArray
    estimates: FloatArray
    standard: FloatArray
    expected: Expected

    @classmethod
    def of(
        cls, shares: Sequence[Shared], unbiased: Mapping[str, Estimates], table: Marginal, parents: IntArray
    ) -> SharedIntervals | None:
        """None where no answer of the table is shared at the level.

        Args:
            shares: of the level, with their spreads.
            unbiased: share -> the unbiased estimates of its answers.
            table: the query of the table.
            parents: `(n,)` of the level's geounits.
        """
        own = [one for one in shares if one.query.key == table.key]
        if not own:
            return None
        cells = np.unique(np.concatenate([one.answers for one in own]))
        estimates, variances = (np.empty((len(parents), len(cells))) for _ in range(2))
        for one in own:
            place = np.searchsorted(cells, one.answers)
            estimates[:, place], variances[:, place] = unbiased[one.name].values, unbiased[one.name].variances
        expected = expectations([(one, unbiased[one.name]) for one in own], cells, parents)
        standard: FloatArray = np.sqrt(variances)
        return cls(cells, estimates.round(_DECIMALS), standard.round(_DECIMALS), expected)

    def put_into(self, ends: tuple[FloatArray, FloatArray], released: IntArray, rows: slice) -> None:
        """Replace the ends `(n, size)` of the table's intervals of some rows, so far as they are shared and measured.

        An interval holds its released number and at least one person to each side of it. Numbers that are exact, and
        those that no measurement determines, stay as they are.
        """
        low, high = ends
        for place, cell in enumerate(self.cells):
            standard, count = self.standard[rows, place], released[:, cell]
            measured = np.isfinite(standard) & (standard**2 > EXACT_VARIANCE)
            found = np.flatnonzero(measured & np.isfinite(low[:, cell]) & (low[:, cell] < high[:, cell]))
            least, most = constant_coverage(
                self.estimates[rows, place][found],
                standard[found],
                self.expected.centres[rows, place][found],
                self.expected.variances[rows, place][found],
            )
            low[found, cell] = np.maximum(np.minimum(least, count[found] - 1), 0)
            high[found, cell] = np.maximum(most, count[found] + 1)


@dataclass(frozen=True, eq=False)
class WithShares:
    """The intervals of a table of which some numbers are shared; see `IntervalRule`.

    Attributes:
        rule: of the other numbers.
        shared: of those.
    """

    rule: IntervalRule
    shared: SharedIntervals

    def ends(self, counts: IntArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """See `IntervalRule.ends`."""
        ends = self.rule.ends(counts, rows)
        self.shared.put_into(ends, counts, rows)
        return ends

    def large(self, counts: IntArray, rows: slice) -> BoolArray:
        """See `IntervalRule.large`."""
        return self.rule.large(counts, rows)
