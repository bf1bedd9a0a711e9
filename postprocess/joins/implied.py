"""What the measurements of persons say about the households: their members, counted among the persons.

Sizes tell how many persons live in households, with the variance 1 + 4 + ... + 49 = 140 of one measurement; the persons
are counted with the variance of about one. Both are the same number. So the best linear estimate of the persons in a
subtree, from their own measurements, is a further measurement of the households there: of the sum of expected members
over kinds of household, with a known variance. It enters the least squares of every family (`downward.assembly`); the
released households are then, for the persons of the same geounits, bounds that hardly move them.

Where other persons are counted in the same answers, the households' members are at most as many. Then the measurement
counts only where the households would have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray, successive
from postprocess.joins.composition import Composition, answer_of
from postprocess.linear.information import BLIND
from postprocess.linear.upward import CHUNK_CELLS, LevelEstimate, estimates_of
from postprocess.marginal import Marginal, refines

if TYPE_CHECKING:
    from postprocess.downward.passes import Pass
    from postprocess.problem import Problem


@dataclass(frozen=True, eq=False)
class Counted:
    """Sums of persons that households imply: which answers are summed, and the members of a household of each kind.

    Attributes:
        persons: the query on persons.
        rows: `(r, persons.size)` zeros and ones: the answers that each sum consists of.
        households: the query on households; its answers are the kinds.
        members: `(r, households.size)` expected members of one household.
        at_most: other persons are in the same answers, so that the members are at most the sums.
    """

    persons: Marginal
    rows: FloatArray
    households: Marginal
    members: FloatArray
    at_most: bool

    @classmethod
    def of(cls, composition: Composition) -> Counted | None:
        """Of the joins' answers for which members are to be expected; None where there is none."""
        rows, members = [], []
        others = any(m.others for m in composition.memberships)
        for m in composition.memberships:
            persons = answer_of(composition.persons, m.persons)
            kinds = answer_of(composition.households, m.households)
            for a in np.flatnonzero(m.inside & ~np.isnan(m.expected).any(axis=1)):
                rows.append((persons == a).astype(np.float64))
                members.append(m.expected[a][kinds])
        if not rows:
            return None
        independent = _independent(np.array(rows))
        rows, members = [rows[i] for i in independent], [members[i] for i in independent]
        return cls(composition.persons, np.array(rows), composition.households, np.array(members), others)

    def estimated(self, problem: Problem, basis: Basis, level: int, estimate: LevelEstimate) -> Implied:
        """The sums from the persons' upward pass of a level.

        Args:
            problem: of the persons, with the values of its measurements.
            basis: of that problem, which can state `persons`.
            level: of it.
            estimate: of the level.
        """
        n = len(estimate.classes)
        values = np.zeros((n, len(self.rows)))
        keep = basis.kept(self.persons)
        step = max(1, CHUNK_CELLS // problem.n_cells)
        for first in range(0, n, step):
            rows = np.arange(first, min(first + step, n))
            summed, _ = estimates_of(problem, basis, level, estimate, rows, keep)
            values[rows] = basis.answers_in_order(self.persons, summed) @ self.rows.T
        covariance = self.rows @ basis.answer_covariances(estimate.info.covariance, self.persons) @ self.rows.T
        variances = np.diagonal(covariance, axis1=1, axis2=2).copy()
        if estimate.info.any_unmeasured:
            blind = self.rows @ basis.answer_covariances(estimate.info.unmeasured, self.persons) @ self.rows.T
            variances[np.diagonal(blind, axis1=1, axis2=2) > BLIND] = np.inf
        return Implied(self, values, variances[estimate.classes])


def _independent(rows: FloatArray) -> list[int]:
    """The rows that are no sums of rows before them."""
    kept: list[int] = []
    for i in range(len(rows)):
        if np.linalg.matrix_rank(rows[[*kept, i]]) > len(kept):
            kept.append(i)
    return kept


@dataclass(frozen=True, eq=False)
class Implied:
    """The persons that households of a level are to have, from the measurements of persons.

    Attributes:
        counted: what the sums are.
        values: `(n, r)` persons.
        variances: `(n, r)`; infinite where nothing is measured. Sums are taken as independent of each other.
    """

    counted: Counted
    values: FloatArray
    variances: FloatArray

    def of_rows(self, rows: slice | IntArray) -> Implied:
        """Those of some geounits."""
        return replace(self, values=self.values[rows], variances=self.variances[rows])

    @classmethod
    def joined(cls, parts: Sequence[Implied]) -> Implied:
        """Those of successive geounits together."""
        values, variances = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "variances")
        )
        return cls(parts[0].counted, values, variances)

    def measured_anew(self, released: sp.csr_array, rows: IntArray, place: tuple[int, int]) -> Implied:
        """What a simulated run measures of released households, with noise of the same variance.

        Where the persons may be more than the members, they are as many more as the measurements say.

        Args:
            released: histograms of the geounits, `(n, n_cells)`.
            rows: their numbers in the level; the noise of a geounit depends on its own alone.
            place: the level's number, and 128 bits that follow from the public seed and the run.
        """
        cells = self.counted.members[:, self.counted.households.cell_answer]
        members = np.asarray(released @ cells.T, dtype=np.float64)
        if self.counted.at_most:
            members = np.maximum(members, self.values)
        spread = np.where(np.isfinite(self.variances), np.sqrt(self.variances), 0.0)
        return replace(self, values=members + spread * _normal(rows, members.shape[1], *place))

    @cached_property
    def kinds(self) -> tuple[FloatArray, IntArray]:
        """The different variances `(n_kinds, r)`, and which each geounit has, `(n,)`."""
        different, kind = np.unique(self.variances, axis=0, return_inverse=True)
        return different, kind.ravel().astype(np.int64)

    def members_in(self, current: Pass, cells: IntArray) -> FloatArray | None:
        """Expected members `(r, k)` in some cells of a pass; None where it says nothing that is not fixed by then."""
        query = self.counted.households
        if not refines(current.cells, query) or (current.held is not None and refines(current.held, query)):
            return None
        return self.counted.members[:, current.group_of(query)[cells]]

    def exceeded(self, members: FloatArray, rows: slice, x: FloatArray) -> BoolArray:
        """Which sums `(C, r)` the members of households `x` `(C, k)` are more than."""
        return np.asarray(x @ members.T > self.values[rows])

    def terms(
        self,
        members: FloatArray,
        rows: slice,
        kind: IntArray,
        precision: FloatArray,
        linear: FloatArray,
        use: BoolArray,
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """A family's kinds, precision and linear term with these measurements.

        Args:
            members: `(r, k)` from `members_in`.
            rows: of the family's children.
            kind: `(C,)` which precision a child has.
            precision: `(K, k, k)` without the measurements.
            linear: `(C, k)` without them.
            use: `(C, r)` which of them are used.
        """
        variances, of_child = self.kinds
        weights = np.where(use, 1.0 / self.variances[rows], 0.0)
        linear = linear + (weights * self.values[rows]) @ members
        pattern = use @ (1 << np.arange(use.shape[1]))
        keys = np.column_stack([kind, of_child[rows], pattern])
        distinct, new_kind = np.unique(keys, axis=0, return_inverse=True)
        used = (distinct[:, 2:] >> np.arange(use.shape[1]) & 1).astype(bool)
        inverse = np.where(used, 1.0 / variances[distinct[:, 1]], 0.0)
        added = np.einsum("nr,ri,rj->nij", inverse, members, members)
        return new_kind.ravel().astype(np.int64), precision[distinct[:, 0]] + added, linear


def _normal(rows: IntArray, size: int, level: int, key: int) -> FloatArray:
    """Standard normal numbers `(n, size)`, those of each row by its number."""
    out = np.empty((len(rows), size))
    blocks = -(-size // 4)  # the generator gives four numbers at a time
    for first, last in successive(rows):
        generator = np.random.Philox(key=key)
        generator.advance((level << 64) + int(rows[first]) * blocks)
        raw = generator.random_raw((last - first) * 4 * blocks).reshape(last - first, -1)[:, :size]
        out[first:last] = ndtri(((raw >> np.uint64(11)).astype(np.float64) + 0.5) / (1 << 53))
    return out
