"""Proportional completion: what no query determines of children, from their parent's table and their own estimates.

Where a level and those below it measure fewer queries than the levels above, some directions of a child's histogram
are unmeasured. The parent's histogram p says more about them than an even split: of all tables x_c >= 0 of the children
with sum_c x_c = p and the child's own estimates as the sums that are determined, the completion is the one of maximum
entropy, found by iterative proportional fitting (Deming and Stephan 1940; Ireland and Kullback 1968). Where the
determined queries do not cross it is p in proportion to the child's share of each sum, in one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray, members, owners, runs
from postprocess.linear.information import FREE
from postprocess.linear.invariants import zero_masks
from postprocess.linear.upward import LevelEstimate, estimated_answers
from postprocess.marginal import Marginal, refines
from postprocess.problem import Problem

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


def completed(problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, parents: sp.csr_array) -> FloatArray:
    """The completion `(n, n_cells)` of the children of all parents of a level.

    Args:
        problem: whose `completed` are the queries that may be determined; with none, every child gets the same share.
        basis: of the problem.
        level: of the children.
        estimate: of that level, from the upward pass.
        parents: whole-number histograms of the level above.
    """
    offsets = problem.spine.child_offsets(level - 1)
    possible = ~zero_masks(problem, basis, level)
    sums = list(_determined_sums(problem, basis, level, estimate))
    return fitted(parents, offsets, sums, possible, basis.cell_blocks[0])


def determined(basis: Basis, unmeasured: FloatArray, queries: Sequence[Marginal]) -> BoolArray:
    """Which queries are determined, and not by a finer one that is: `(n_classes, n_queries)`.

    Args:
        basis: in which the queries are stated.
        unmeasured: of each class, as in `Information`.
        queries: all different.
    """
    known = np.stack([basis.answer_variances(unmeasured, query).max(axis=1) < FREE for query in queries], axis=1)
    # Of two that have the same groups the first one stays.
    coarser = np.array(
        [
            [refines(fine, query) and (j < i or not refines(query, fine)) for j, fine in enumerate(queries)]
            for i, query in enumerate(queries)
        ]
    )
    return known & ~(known[:, None, :] & coarser[None, :, :]).any(axis=2)


def _determined_sums(problem: Problem, basis: Basis, level: int, estimate: LevelEstimate) -> Iterator[FittedSums]:
    """What the estimates of a level say of the queries that they determine."""
    queries = list({query.key: query for query in problem.completed}.values())
    if not queries:
        return
    needed = np.asarray(estimate.info.unmeasured.any(axis=(1, 2, 3)))
    use = determined(basis, estimate.info.unmeasured, queries) & needed[:, None]
    for number in np.flatnonzero(use.any(axis=0)):
        query, given = queries[number], use[estimate.classes, number]
        values = np.zeros((len(given), query.size))
        rows = np.flatnonzero(given)
        values[rows] = estimated_answers(problem, basis, level, estimate, query, rows)
        yield FittedSums(query, _not_negative(values), given)


def _not_negative(values: FloatArray) -> FloatArray:
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
        x, since, rounds = tables.start, tables, 0
        keep = np.ones(len(x), dtype=bool)
        while True:
            after = since.round(x, sums)
            rounds += 1
            moving = np.zeros(since.n_families, dtype=bool)
            moving[since.family[np.abs(after - x) > FITTED]] = True
            keep = moving[since.family]
            if rounds == MOST_ROUNDS or not sums:
                keep[:] = False
            out[since.child[~keep], since.cell[~keep]] = after[~keep]
            if not keep.any():
                break
            since, x = since.part(keep), after[keep]
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
    n_families: int
    n_slots: int

    @classmethod
    def of(cls, parents: sp.csr_array, offsets: IntArray, possible: BoolArray, group: IntArray) -> _Tables:
        of_child = owners(offsets)
        slot, starts = members(parents.indptr.astype(np.int64), of_child)
        child = owners(starts)
        family, child = of_child[child], child + offsets[0]
        cell = parents.indices[slot].astype(np.int64)
        total = parents.data[slot].astype(np.float64)
        open_ = possible[child, group[cell]].astype(np.float64)
        among = np.bincount(slot, open_, minlength=len(parents.data))[slot]
        even = np.where(among > 0, total * open_ / np.maximum(among, 1.0), 0.0)
        return cls(child, cell, family, slot, total, even, len(offsets) - 1, len(parents.data))

    def part(self, keep: BoolArray) -> _Tables:
        """The numbers of some families."""
        return _Tables(
            self.child[keep],
            self.cell[keep],
            self.family[keep],
            self.slot[keep],
            self.total[keep],
            self.start[keep],
            self.n_families,
            self.n_slots,
        )

    def round(self, x: FloatArray, sums: Sequence[FittedSums]) -> FloatArray:
        """The tables after they are fitted to each of the sums once, and to the parents last."""
        first = int(self.child[0]) if len(self.child) else 0
        for query in sums:
            key = (self.child - first) * query.marginal.size + query.marginal.cell_answer[self.cell]
            found = np.bincount(key, x)[key]
            wanted = query.values[self.child, query.marginal.cell_answer[self.cell]]
            fit = query.given[self.child] & (found > 0)
            x = np.where(fit, x * (wanted / np.where(fit, found, 1.0)), x)
        found = np.bincount(self.slot, x, minlength=self.n_slots)[self.slot]
        # What no child is left for is divided evenly again.
        x = np.where(found > 0, x, self.start)
        found = np.where(found > 0, found, self.total)
        return np.where(found > 0, x * (self.total / np.maximum(found, np.finfo(float).tiny)), 0.0)
