"""Answers that the children of a geounit are expected to share as public numbers do: a further term of each family.

    (t_c - m_c)^2 / f_c,        f_c = tau^2 (m_c + a m_c^2),        m_c = s_c t_p,

with t_p the parent's released answer, t_c the child's and s_c the child's share of the public number. It moves persons
among siblings and never changes their sum. Given that the sum is the parent's, the children's variances under this term
alone are f_c (1 - f_c / f_+): for a = 0 those of a multinomial times tau^2.

Where the term would add less than a tenth to the precision of what is measured it is left out (`Spread.used`).

A variance of its own for each child would be a matrix of its own for each child; so f_c is rounded to the next fourth
root of two, and children of the same class share one. The centre m_c is not rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import BoolArray, FloatArray, IntArray, over_siblings
from postprocess.marginal import Marginal
from postprocess.members import normal_by_row, with_terms
from postprocess.shares.spread import Spread

#: Classes of variances in each factor of two.
STEPS = 4
#: The class of children without a term.
_NONE = np.iinfo(np.int32).min


@dataclass(frozen=True, eq=False)
class Shared:
    """What public numbers say about some answers of a query at one level.

    Attributes:
        name: what the spec calls it.
        query: whose answers are shared.
        answers: `(r,)` which of them.
        numbers: `(n, r)` public number of each geounit for each answer.
        shares: `(n, r)` of the parent's; NaN where that is 0, which says nothing.
        spreads: of each answer; empty until they are estimated.
        centres: `(n, r)` shares around which answers are expected; by default `shares`. A simulated run has others.
    """

    name: str
    query: Marginal
    answers: IntArray
    numbers: FloatArray
    shares: FloatArray
    spreads: tuple[Spread, ...] = ()
    centres: FloatArray | None = None

    @classmethod
    def of(cls, name: str, query: Marginal, answers: IntArray, numbers: FloatArray, parents: IntArray) -> Shared:
        """From the public numbers `(n, r)` of a level's geounits and their parents `(n,)`."""
        of = over_siblings(parents, numbers)
        shares = np.where(of > 0, numbers / np.where(of > 0, of, 1.0), np.nan)
        return cls(name, query, answers, numbers, shares)

    def of_rows(self, rows: slice | IntArray) -> Shared:
        """The part of some geounits, whole families."""
        centres = None if self.centres is None else self.centres[rows]
        return replace(self, numbers=self.numbers[rows], shares=self.shares[rows], centres=centres)

    def expected(self, rows: slice | IntArray, totals: FloatArray) -> tuple[FloatArray, IntArray]:
        """Centres `(C, r)` in persons and classes of variances `(C, r)` of children whose parents have `totals`.

        Args:
            rows: of the children.
            totals: `(r,)` or `(C, r)` the parents' answers.
        """
        shares = self.shares[rows]
        around = shares if self.centres is None else self.centres[rows]
        known = np.isfinite(shares)
        size = np.where(known, shares, 0.0) * totals
        numbers = self.numbers[rows]
        variances = np.stack(
            [one.used(one.variances(size[:, i], numbers[:, i])) for i, one in enumerate(self.spreads)], axis=1
        )
        known = known & np.isfinite(variances)
        steps = np.rint(STEPS * np.log2(np.where(known, variances, 1.0)))
        classes = np.where(known, steps, _NONE).astype(np.int64)
        return np.where(known, around, 0.0) * totals, classes

    def terms(
        self,
        answer_of: IntArray,
        totals: FloatArray,
        rows: slice,
        family: tuple[IntArray, FloatArray, FloatArray],
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """A family's kinds `(C,)`, precision `(K, k, k)` and linear term `(C, k)` with these terms.

        Args:
            answer_of: `(k,)` the answer that each cell is in.
            totals: `(k,)` the parent's counts.
            rows: of the family's children.
            family: the same without them.
        """
        inside = (answer_of[None, :] == self.answers[:, None]).astype(np.float64)
        centres, classes = self.expected(rows, inside @ totals)
        return with_terms(family, inside, centres, np.where(inside.any(axis=1), classes, _NONE), _weights)

    def around(self, released: sp.csr_array, parents: IntArray, rows: IntArray, place: tuple[int, int]) -> Shared:
        """The same around other shares, which the released answers are as far from as truths are from the public ones.

        A released number is drawn towards its public share, and would be too near to it as the truth of a simulated
        run. So the shares are drawn anew: what is released less a distance from the model, by geounit. Where a public
        number is 0 it stays so.

        Args:
            released: histograms `(n, n_cells)` of the geounits, whole families.
            parents: `(n,)` their parents, numbered from 0.
            rows: `(n,)` their numbers in the level; what is drawn for one depends on these alone.
            place: the level's number, and 128 bits that follow from the public seed and the run.
        """
        cells = np.equal(self.query.cell_answer[:, None], self.answers[None, :]).astype(np.float64)
        counts = np.asarray(released @ cells, dtype=np.float64)
        totals = over_siblings(parents, counts)
        known = np.where(np.isfinite(self.shares), self.shares, 0.0)
        size = known * totals
        variances = [spread.variances(size[:, i], self.numbers[:, i]) for i, spread in enumerate(self.spreads)]
        f = np.stack(variances, axis=1) * (known > 0)
        drawn = np.sqrt(f) * normal_by_row(rows, len(self.answers), *place)
        sums = over_siblings(parents, f)
        distance = drawn - f / np.where(sums > 0, sums, 1.0) * over_siblings(parents, drawn)
        centre = np.where(known > 0, np.maximum(counts - distance, 0.0), 0.0)
        whole = over_siblings(parents, centre)
        centres = np.where(whole > 0, centre / np.where(whole > 0, whole, 1.0), self.shares)
        return replace(self, centres=np.where(np.isfinite(self.shares), centres, np.nan))


def blind_centres(shared: Sequence[tuple[Shared, BoolArray]], centre: FloatArray, parents: IntArray) -> FloatArray:
    """What unmeasured directions are drawn to, `(n, n_cells)`, with each family's answers shared as public numbers are.

    Args:
        shared: of the level, each with the answers `(n, r)` of which nothing is measured; the others are left alone.
        centre: `(n, n_cells)` without them; its cells keep their proportions within an answer.
        parents: `(n,)` each geounit's parent.
    """
    for one, blind in shared:
        shares = one.shares if one.centres is None else one.centres
        informed = over_siblings(parents, (~blind).astype(np.float64)) > 0
        for column, answer in enumerate(one.answers):
            cells = np.flatnonzero(one.query.cell_answer == answer)
            share = np.where(informed[:, column], np.nan, shares[:, column])[:, None]
            whole = over_siblings(parents, centre[:, cells])
            mine = centre[:, cells].sum(axis=1, keepdims=True)
            total = whole.sum(axis=1, keepdims=True)
            scaled = centre[:, cells] * np.where(mine > 0, share * total / np.where(mine > 0, mine, 1.0), 0.0)
            moved = np.where(mine > 0, scaled, share * whole)
            centre[:, cells] = np.where(np.isfinite(share), moved, centre[:, cells])
    return centre


def _weights(classes: IntArray) -> FloatArray:
    """The inverse variances of classes, of any shape; 0 where there is no term."""
    none = classes == _NONE
    return np.where(none, 0.0, np.exp2(-np.where(none, 0, classes) / STEPS))
