"""Proportional fitting: tables of children that add up to their parent's, with sums of their own as far as they agree.

Of all tables that are not negative and have these sums, the one of maximum entropy from where it begins is found by
scaling to one set of sums after the other (iterative proportional fitting: Deming and Stephan 1940; Ireland and
Kullback 1968). Where the sums do not cross it is the parent's table in proportion to the child's share of each sum, in
one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import BoolArray, FloatArray, IntArray, members, owners, runs
from postprocess.marginal import Marginal

#: Rounds of fitting, at most; estimates that contradict each other, since they were negative, never fit.
MOST_ROUNDS = 100
#: Persons: a family is fitted when a round changes no number of it by more.
FITTED = 1e-6
#: Numbers of children's tables that are fitted at a time.
CHUNK_NUMBERS = 4_000_000


@dataclass(frozen=True, eq=False)
class FittedSums:
    """Sums of one query that the tables are fitted to.

    Attributes:
        marginal: the query.
        values: `(n, size)` of each child, not negative.
        given: `(n,)` False where the query is not determined.
    """

    marginal: Marginal
    values: FloatArray
    given: BoolArray


def scaled(x: FloatArray, place: IntArray, wanted: FloatArray | IntArray) -> FloatArray:
    """Numbers `(n,)` in proportion, so that those of each place add up to what is `wanted` there, if they are not 0."""
    found = np.bincount(place, x, len(wanted))
    return np.asarray(x * np.divide(wanted, found, out=np.zeros(len(found)), where=found > 0)[place])


def not_negative(values: FloatArray) -> FloatArray:
    """Sums without negative ones, scaled to the total that they had with them (or to 0)."""
    total = np.maximum(values.sum(axis=1), 0.0)
    positive = np.maximum(values, 0.0)
    return positive * (total / np.maximum(positive.sum(axis=1), np.finfo(float).tiny))[:, None]


def fitted(
    parents: sp.csr_array, offsets: IntArray, sums: Sequence[FittedSums], possible: BoolArray, group: IntArray
) -> FloatArray:
    """Tables `(n, n_cells)` of children that add up to their parents' exactly, fitted to sums of their own.

    Args:
        parents: whole-number histograms `(n_parents, n_cells)`.
        offsets: `(n_parents + 1,)` first child of each parent, and their number.
        sums: of each child.
        possible: `(n, a)` False where a child's cells are 0.
        group: `(n_cells,)` the column of `possible` of each cell.
    """
    out = np.zeros((len(possible), len(group)))
    numbers = np.diff(offsets) * np.diff(parents.indptr)
    for first, last in runs(np.concatenate([[0], np.cumsum(numbers)]), CHUNK_NUMBERS):
        tables = _Tables.of(parents[first:last], offsets[first : last + 1], possible, group)
        x = tables.start
        for turn in range(MOST_ROUNDS):
            after = tables.round(x, sums)
            moving = np.zeros(last - first, dtype=bool)
            moving[tables.family[np.abs(after - x) > FITTED]] = bool(sums) and turn < MOST_ROUNDS - 1
            keep = moving[tables.family]
            out[tables.child[~keep], tables.cell[~keep]] = after[~keep]
            tables, x = tables.part(keep), after[keep]
            if not len(x):
                break
    return out


@dataclass(frozen=True, eq=False)
class _Tables:
    """The tables of some families, number by number.

    `child`, `cell` and `family` of each number; `slot`: which number of the parents it is a part of; `total`: that
    number; `start`: an even share of it.
    """

    child: IntArray
    cell: IntArray
    family: IntArray
    slot: IntArray
    total: FloatArray
    start: FloatArray

    @classmethod
    def of(cls, parents: sp.csr_array, offsets: IntArray, possible: BoolArray, group: IntArray) -> _Tables:
        of_child = owners(offsets)
        slot, starts = members(parents.indptr.astype(np.int64), of_child)
        child = owners(starts)
        family, child = of_child[child], child + offsets[0]
        cell = parents.indices[slot].astype(np.int64)
        total = parents.data[slot].astype(np.float64)
        open_ = possible[child, group[cell]].astype(np.float64)
        among = np.bincount(slot, open_)[slot]
        even = np.where(among > 0, total * open_ / np.maximum(among, 1.0), 0.0)
        return cls(child, cell, family, slot, total, even)

    def part(self, keep: BoolArray) -> _Tables:
        """The numbers of some families."""
        return _Tables(*(getattr(self, field.name)[keep] for field in fields(self)))

    def round(self, x: FloatArray, sums: Sequence[FittedSums]) -> FloatArray:
        """The tables after they are fitted to each of the sums once, and to the parents last."""
        first = int(self.child[0]) if len(self.child) else 0
        for query in sums:
            key = (self.child - first) * query.marginal.size + query.marginal.cell_answer[self.cell]
            found = np.bincount(key, x)[key]
            wanted = query.values[self.child, query.marginal.cell_answer[self.cell]]
            fit = query.given[self.child] & (found > 0)
            x = np.where(fit, x * (wanted / np.where(fit, found, 1.0)), x)
        found = np.bincount(self.slot, x)[self.slot]
        # What no child is left for is divided evenly again.
        x = np.where(found > 0, x, self.start)
        found = np.where(found > 0, found, self.total)
        return np.where(found > 0, x * (self.total / np.maximum(found, np.finfo(float).tiny)), 0.0)
