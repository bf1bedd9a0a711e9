"""Members of households as they are counted among the persons: a further measurement of the households.

Whoever states it says how it comes about; how it is used is in `downward.assembly`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import BoolArray, FloatArray, IntArray, over_siblings, successive
from postprocess.marginal import Marginal

#: Relative standard deviation of the excess of open-ended sizes between the children of a parent.
BETWEEN = 0.25
#: Members, or a weight in their place, that are none.
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class MemberSums:
    """Sums of persons that households imply: which answers are summed, and the members of a household of each kind.

    A sum can be compared with the members in two ways: with those to be expected; and with the least members, of which
    there are at most as many. The latter is used where the households would have more, in place of the former.

    Attributes:
        persons: the query on persons.
        sums: `(n_sums, persons.size)` zeros and ones: the answers that each sum consists of.
        households: the query on households; its answers are the kinds.
        of_sum: `(r,)` the sum that is compared.
        at_most: `(r,)` whether the members are at most the sum.
        least: `(r, households.size)` members that one household has at least.
        excess: `(r, households.size)` members to expect beyond these; 0 where there are none, and with `at_most`.
        others: whether other persons are in the same answers.
    """

    persons: Marginal
    sums: FloatArray
    households: Marginal
    of_sum: IntArray
    at_most: BoolArray
    least: FloatArray
    excess: FloatArray
    others: bool

    @cached_property
    def expected(self) -> FloatArray:
        """Members to expect of one household of each cell `(e, n_cells)`, of the sums of which some are."""
        return (self.least + self.excess)[~self.at_most][:, self.households.cell_answer]

    def members(self, counts: sp.csr_array) -> tuple[FloatArray, FloatArray]:
        """The least members of households `(n, n_cells)`, and those to expect beyond these, each `(n, r)`."""
        of_cell = self.households.cell_answer
        least, excess = (np.asarray(counts @ each[:, of_cell].T, float) for each in (self.least, self.excess))
        return least, excess


@dataclass(frozen=True, eq=False)
class Implied:
    """The persons that households of a level are to have, from the measurements of persons.

    Attributes:
        counted: what the sums are.
        values: `(n, r)` persons in the sum of each comparison.
        variances: `(n, r)`; infinite where nothing is measured. Sums are taken as independent of each other.
        factors: `(n, r)` what the expected excess of members is multiplied by; alike in all children of a parent.
    """

    counted: MemberSums
    values: FloatArray
    variances: FloatArray
    factors: FloatArray

    def of_rows(self, rows: slice | IntArray) -> Implied:
        """The measurements of some geounits."""
        return replace(self, values=self.values[rows], variances=self.variances[rows], factors=self.factors[rows])

    def at_top(self) -> Implied:
        """At the top of the spine: how many more members open-ended sizes have is not known there."""
        unknown = (self.counted.excess > 0).any(axis=1)
        return replace(self, variances=np.where(unknown, np.inf, self.variances))

    def below(self, parents: sp.csr_array, above: Implied, parent_of: IntArray, noise: FloatArray) -> Implied:
        """With what the released households of the level above say about open-ended sizes.

        The excess of members of the parent's households is its persons without the least members; children have it in
        proportion to their persons, give or take: each household's own (geometric), `BETWEEN` from child to child, and
        what is uncertain of the parent's, for which a priori the expected excess is as uncertain as it is large.

        Args:
            parents: released histograms of households of the level above, `(n_parents, n_cells)`.
            above: of that level.
            parent_of: `(n,)` each geounit's parent.
            noise: `(r,)` variance of the least members of the parents' households, beyond that of the persons there.
        """
        if not (self.counted.excess > 0).any():
            return self
        least, excess = self.counted.members(parents)
        factor, weight = above._learned(least, excess, noise)
        uncertain = 1.0 / (1.0 + weight) + BETWEEN**2
        persons = np.maximum(self.values, 0.0)
        share = persons / np.maximum(over_siblings(parent_of, persons), 1.0)
        open_ended = share * (excess * np.maximum(factor, 0.5))[parent_of]
        largest = self.counted.excess.max(axis=1)
        variances = self.variances + open_ended * (1.0 + largest) + uncertain[parent_of] * open_ended**2
        # To the next half power of two, so that many children share a matrix.
        halves = np.exp2(np.round(2.0 * np.log2(variances)) / 2.0)
        return replace(self, variances=halves, factors=factor[parent_of])

    def _learned(
        self, least: FloatArray, excess: FloatArray, noise: FloatArray | float
    ) -> tuple[FloatArray, FloatArray]:
        """What the expected excess of released households is multiplied by, and the weight of what was measured of it.

        Args:
            least: `(n, r)` least members of the released households.
            excess: `(n, r)` members to expect beyond.
            noise: as in `below`.
        """
        weight = excess**2 / (self.variances + noise)
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.where(excess > 0, (self.values - least) / excess, 1.0)
        return np.clip((1.0 + weight * seen) / (1.0 + weight), 0.0, None), weight

    def excess_at_top(self, released: sp.csr_array) -> FloatArray:
        """Members `(n, r)` beyond the least that households at the top of the spine have in a simulated run."""
        least, excess = self.counted.members(released)
        return excess * self._learned(least, excess, 0.0)[0]

    def excess_below(
        self, released: sp.csr_array, parent_of: IntArray, above: FloatArray, rows: IntArray, place: tuple[int, int]
    ) -> FloatArray:
        """Members `(n, r)` beyond the least in a simulated run: drawn, and those of children add up to their parent's.

        They vary as `below` allows for: each household's own (geometric), and `BETWEEN` from child to child. The
        parent's are shared out in proportion to gamma variables with these means and variances. For households of one
        kind that do not differ from child to child this is the distribution of the children's given their sum.

        Args:
            released: histograms of all children of some parents, `(n, n_cells)`.
            parent_of: `(n,)` rows in `above`.
            above: `(n_parents, r)` the parents' excess.
            rows: as in `measured_anew`.
            place: as there, of numbers that nothing else is drawn from.
        """
        from scipy.special import gammaincinv  # slow to import, and rarely needed

        _, excess = self.counted.members(released)
        if not excess.any():
            return excess
        mean = _shared_out(excess, parent_of, above)
        scale = 1.0 + self.counted.excess.max(axis=1) + BETWEEN**2 * mean
        drawn = scale * gammaincinv(np.maximum(mean, _NOTHING) / scale, uniform_by_row(rows, mean.shape[1], *place))
        # Not nothing in all children, where few members are shared out.
        return _shared_out(np.maximum(drawn, _NOTHING) * (mean > 0), parent_of, above)

    def measured_anew(
        self, released: sp.csr_array, excess: FloatArray, rows: IntArray, place: tuple[int, int]
    ) -> Implied:
        """What a simulated run measures of released households, with noise of the same variance.

        Where the persons may be more than the members, they are as many more as the measurements say.

        Args:
            released: histograms of the geounits, `(n, n_cells)`.
            excess: `(n, r)` members beyond the least.
            rows: their numbers in the level; the noise of a geounit depends on its own alone.
            place: the level's number, and 128 bits that follow from the public seed and the run.
        """
        counted = self.counted
        members = counted.members(released)[0] + excess
        if counted.others:
            members = np.maximum(members, self.values)
        first = np.array([int(np.argmax(counted.of_sum == each)) for each in range(len(counted.sums))])
        spread = np.where(np.isfinite(self.variances), np.sqrt(self.variances), 0.0)
        sums = members[:, first] + spread[:, first] * normal_by_row(rows, len(first), *place)
        return replace(self, values=sums[:, counted.of_sum])

    def variances_given(
        self, rows: IntArray, variances: FloatArray, covariances: FloatArray, of_kinds: FloatArray
    ) -> FloatArray:
        """Variances `(n, size)` of a query's answers on households, once the persons are a measurement of them.

        As of one more measurement in least squares; what the level above and siblings learn from theirs is left out.
        Of a geounit with many open-ended households the persons tell little, of one without them much.

        Args:
            rows: `(n,)` geounits.
            variances: `(n, size)` without the persons.
            covariances: `(n, size, e)` of the answers with the members to expect, of the `e` sums of which some are.
            of_kinds: `(n, kinds, e)` the same of the kinds of household.
        """
        expected = ~self.counted.at_most
        weights = np.sqrt(1.0 / self.variances[rows][:, expected])
        of_members = np.einsum("ek,nkf->nef", (self.counted.least + self.counted.excess)[expected], of_kinds)
        matrices = weights[:, :, None] * of_members * weights[:, None, :] + np.eye(weights.shape[1])
        scaled = covariances * weights[:, None, :]
        gain = np.linalg.solve(matrices, scaled.transpose(0, 2, 1))
        return variances - np.einsum("nse,nes->ns", scaled, gain)

    @cached_property
    def kinds(self) -> tuple[FloatArray, IntArray]:
        """The different variances `(n_kinds, r)`, and which each geounit has, `(n,)`."""
        different, kind = np.unique(self.variances, axis=0, return_inverse=True)
        return different, kind.ravel().astype(np.int64)

    def members_of_kinds(self, row: int) -> FloatArray:
        """Expected members `(r, n_kinds)` of one household of each kind, in a geounit's family."""
        return self.counted.least + self.factors[row][:, None] * self.counted.excess

    def used_at_first(self, rows: slice) -> BoolArray:
        """Which comparisons are used until some are exceeded, `(C, r)`."""
        return np.isfinite(self.variances[rows]) & ~self.counted.at_most

    def used_then(self, members: FloatArray, rows: slice, x: FloatArray, used: BoolArray) -> BoolArray:
        """Which comparisons `(C, r)` are used with the households `x` `(C, k)`: once exceeded, a limit stays."""
        limited = np.isfinite(self.variances[rows]) & self.counted.at_most & (x @ members.T > self.values[rows])
        limited |= used & self.counted.at_most
        out = used | limited
        for number in np.flatnonzero(~self.counted.at_most):
            same = self.counted.at_most & (self.counted.of_sum == self.counted.of_sum[number])
            out[:, number] &= ~limited[:, same].any(axis=1)
        return out

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
            members: `(r, k)` as in `values`.
            rows: of the family's children.
            kind: `(C,)` which precision a child has.
            precision: `(K, k, k)` without the measurements.
            linear: `(C, k)` without them.
            use: `(C, r)` which of them are used.
        """
        variances, of_child = self.kinds
        bits = np.arange(use.shape[1])

        def weights(classes: IntArray) -> FloatArray:
            used = (classes[:, 1:] >> bits & 1).astype(bool)
            return np.where(used, 1.0 / variances[classes[:, 0]], 0.0)

        classes = np.column_stack([of_child[rows], use @ (1 << bits)])
        return with_terms((kind, precision, linear), members, self.values[rows], classes, weights)


def with_terms(
    family: tuple[IntArray, FloatArray, FloatArray],
    sums: FloatArray,
    centres: FloatArray,
    classes: IntArray,
    weights: Callable[[IntArray], FloatArray],
) -> tuple[IntArray, FloatArray, FloatArray]:
    """A family with further measurements of sums of its cells, each with a centre and a variance.

    Children of one kind that have the same classes share a precision.

    Args:
        family: its kinds `(C,)`, precisions `(K, k, k)` and linear terms `(C, k)`, all of which are returned.
        sums: `(r, k)` what of each cell is in a sum.
        centres: `(C, r)`.
        classes: `(C, m)` of variances.
        weights: gives the inverse variances `(n, r)` of classes `(n, m)`; 0 where there is no term.
    """
    kind, precision, linear = family
    distinct, new_kind = np.unique(np.column_stack([kind, classes]), axis=0, return_inverse=True)
    added = np.einsum("nr,ri,rj->nij", weights(distinct[:, 1:]), sums, sums)
    linear = linear + (weights(classes) * centres) @ sums
    return new_kind.ravel().astype(np.int64), precision[distinct[:, 0]] + added, linear


def _shared_out(weights: FloatArray, parent_of: IntArray, above: FloatArray) -> FloatArray:
    """The parents' numbers `(n_parents, r)` in proportion to their children's weights `(n, r)`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weights > 0, weights * (above[parent_of] / over_siblings(parent_of, weights)), 0.0)


def normal_by_row(rows: IntArray, size: int, level: int, key: int) -> FloatArray:
    """Standard normal numbers `(n, size)`, those of each row by its number."""
    from scipy.special import ndtri  # slow to import, and rarely needed

    return ndtri(uniform_by_row(rows, size, level, key))


def uniform_by_row(rows: IntArray, size: int, level: int, key: int) -> FloatArray:
    """Numbers `(n, size)` between 0 and 1, those of each row by its number."""
    out = np.empty((len(rows), size))
    blocks = -(-size // 4)  # the generator gives four numbers at a time
    for first, last in successive(rows):
        generator = np.random.Philox(key=key)
        generator.advance((level << 64) + int(rows[first]) * blocks)
        raw = generator.random_raw((last - first) * 4 * blocks).reshape(last - first, -1)[:, :size]
        out[first:last] = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) / (1 << 53)
    return out
