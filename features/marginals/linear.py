"""The joint best linear estimate of all cliques in all areas: upward and downward over the spine, subset by subset.

In the residual basis (`cliques`) the unknowns of an area are one vector for each set of attributes that is in a
clique, and what is known of it, from any clique of any level, has a covariance of one number times the same projector.
So the two passes of the spine (as in `postprocess.linear`) are passes over numbers:

    own      what the cliques of the area that contain S say, weighted by 1 / variance
    upward   b, v: own and the sum of the children's, combined; the sum has the sum of the variances
    downward z_c = b_c + (v_c / sum of v) (z - sum of b),  w_c = v_c - (v_c / sum of v)^2 (sum of v - w)

A variance is infinite where nothing is known, and 0 where something is exact. This is the least-squares solution of all
measurements together, and its exact variances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.marginals.cliques import AttributeSizes, Clique, Number, cell_variances, factor, residuals, subsets, table
from postprocess.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """The noisy table of one clique in all areas of a level.

    Attributes:
        clique: its attributes.
        values: `(n, cells)`.
        variance: of the noise in each cell, `(n,)`; 0 if the numbers are exact.
    """

    clique: Clique
    values: FloatArray | IntArray
    variance: FloatArray


@dataclass(frozen=True, eq=False)
class KnownResidual:
    """What is known of a residual in all areas of a level: values `(n, cells)` and their v `(n,)`."""

    values: FloatArray
    variance: FloatArray


@dataclass(frozen=True, eq=False)
class ResidualsOfLevel:
    """What is known of each set of attributes at a level.

    Attributes:
        domain: the attributes.
        known: set of attributes -> what is known of its residual.
    """

    domain: AttributeSizes
    known: Mapping[Clique, KnownResidual]

    def table(self, clique: Clique, areas: slice = slice(None)) -> FloatArray:
        """The estimated table `(n, cells)` of some areas, by default all; residuals of which nothing is known are 0."""
        return table({kept: one.values[areas] for kept, one in self.known.items()}, clique, self.domain)

    def variances(self, clique: Clique) -> FloatArray:
        """The variance of the estimate in a cell of the table, `(n,)`; infinite where it is not determined."""
        n = len(self.known[()].variance)
        parts = {s: self.known[s].variance if s in self.known else np.full(n, np.inf) for s in subsets(clique)}
        return cell_variances(parts, clique, self.domain)


def own(measurements: Sequence[NoisyTable], domain: AttributeSizes, kept: Iterable[Clique], n: int) -> ResidualsOfLevel:
    """What the measurements of a level say of the sets of attributes in `kept`, without the rest of the spine."""
    known = {one: KnownResidual(np.zeros((n, domain.size(one))), np.full(n, np.inf)) for one in kept}
    for measurement in measurements:
        for part, values in residuals(measurement.values, measurement.clique, domain).items():
            if part in known:
                said = KnownResidual(values, measurement.variance * factor(part, measurement.clique, domain))
                known[part] = combined(known[part], said)
    return ResidualsOfLevel(domain, known)


def upward(
    levels: Sequence[Sequence[NoisyTable]], parents: Sequence[IntArray], domain: AttributeSizes, sizes: Sequence[int]
) -> list[ResidualsOfLevel]:
    """What all measurements of each area and of the areas below it say together, of each level from the top.

    Args:
        levels: the measurements of each level; a level may have none.
        parents: of each level but the top, the parent of each area.
        domain: the attributes.
        sizes: number of areas of each level.
    """
    measured = {part for level in levels for one in level for part in subsets(one.clique)} | {()}
    kept = sorted(measured, key=lambda part: (len(part), part))
    out = [own(levels[-1], domain, kept, sizes[-1])]
    for depth in reversed(range(len(levels) - 1)):
        here, below = own(levels[depth], domain, kept, sizes[depth]), out[0]
        sums = {part: _together(one, parents[depth], sizes[depth]) for part, one in below.known.items()}
        out.insert(0, ResidualsOfLevel(domain, {part: combined(here.known[part], sums[part]) for part in kept}))
    return out


def downward(levels: Sequence[ResidualsOfLevel], parents: Sequence[IntArray]) -> list[ResidualsOfLevel]:
    """The best linear estimates with the information of the whole spine, from those of `upward`."""
    out = [levels[0]]
    for level, parent in zip(levels[1:], parents, strict=True):
        above = out[-1]
        known = {part: _handed_down(one, above.known[part], parent) for part, one in level.known.items()}
        out.append(ResidualsOfLevel(level.domain, known))
    return out


def combined(first: KnownResidual, second: KnownResidual) -> KnownResidual:
    """Two independent estimates of the same, weighted by 1 / variance; where one is exact it is taken."""
    v, w = first.variance, second.variance
    finite = np.isfinite(v) & np.isfinite(w) & (v + w > 0)
    share = np.where(v < w, 1.0, 0.0)  # of the first
    np.divide(w, v + w, out=share, where=finite)
    variance = np.minimum(v, w)
    np.multiply(share, v, out=variance, where=finite)
    return KnownResidual(share[:, None] * first.values + (1.0 - share)[:, None] * second.values, variance)


def _together(children: KnownResidual, parent: IntArray, n: int) -> KnownResidual:
    """The sum of the children of each parent; its variance is infinite if nothing is known of a child."""
    missing = np.bincount(parent, weights=np.isinf(children.variance), minlength=n) > 0
    missing |= np.bincount(parent, minlength=n) == 0
    finite = np.where(np.isinf(children.variance), 0.0, children.variance)
    variance = np.where(missing, np.inf, np.bincount(parent, weights=finite, minlength=n))
    return KnownResidual(summed(children.values, parent, n), variance)


def summed(values: NDArray[Number], parent: IntArray, n: int) -> NDArray[Number]:
    """The sums `(n, cells)` of the children of each parent; of whole numbers of any type as int64."""
    sums = np.zeros((n, values.shape[1]), dtype=np.result_type(values, np.int64))
    np.add.at(sums, parent, values)
    return sums


def shares(variance: FloatArray, parent: IntArray, n: int) -> FloatArray:
    """Which part of a difference between parent and children each child takes, `(children,)`: v_c / sum of v.

    Where nothing is known of some children these take it, in equal parts; where all are exact it is 0, and equal parts
    do no harm.
    """
    unknown: BoolArray = np.isinf(variance)
    some = np.bincount(parent, weights=unknown, minlength=n)[parent] > 0
    weights = np.where(some, unknown.astype(np.float64), np.where(unknown, 0.0, variance))
    sums = np.bincount(parent, weights=weights, minlength=n)[parent]
    even = 1.0 / np.bincount(parent, minlength=n)[parent]
    return np.where(sums > 0, weights / np.where(sums > 0, sums, 1.0), even)


def _handed_down(children: KnownResidual, above: KnownResidual, parent: IntArray) -> KnownResidual:
    """The children's estimates with what is known of their parent from elsewhere."""
    n = len(above.variance)
    share = shares(children.variance, parent, n)
    gap = (above.values - summed(children.values, parent, n))[parent]
    unknown = np.isinf(children.variance)
    n_unknown = np.bincount(parent, weights=unknown, minlength=n)[parent]
    finite = np.where(unknown, 0.0, children.variance)
    total = np.bincount(parent, weights=finite, minlength=n)[parent]
    up = above.variance[parent]
    told = finite - share**2 * (total - np.where(np.isinf(up), total, up))
    # Where nothing is known of one child alone, it is the parent less its siblings, and they learn nothing from above.
    alone = unknown & (n_unknown == 1)
    variance = np.where(unknown, np.where(alone, up + total, np.inf), np.where(n_unknown > 0, finite, told))
    return KnownResidual(children.values + share[:, None] * gap, np.maximum(variance, 0.0))
