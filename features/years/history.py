"""A consistent history: least squares over areas and periods together, from the unmixed numbers of all periods.

Of each geounit the state is its T x c numbers, period by period. What is measured of it has the precision G / Var(z)
over periods (x) Q'Q over cells, for each query's matrix Q. Without a model of change that is all: the estimate of each
period is then that of a single release, and its errors have the covariance (tree) (x) G^-1. With one, changes of an
area about its parent's growth have variances (`change.py`), as further measurements of that geounit alone.

Upward, the children's estimates and covariances add up to a measurement of their parent; downward, what the parent
knows beyond its children's sum is shared out by their covariances. This is exact (generalised least squares).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from features.years.design import Design
from geography.spine import Spine
from postprocess.arrays import FloatArray, IntArray
from postprocess.families.family import Family
from postprocess.families.rounding import round_family, tie_breaks
from postprocess.families.solve import solve_families

__all__ = ["LevelHistory", "SeriesQuery", "histories", "whole_histories"]


@dataclass(frozen=True, eq=False)
class SeriesQuery:
    """What was measured of one query at one level in all periods.

    Attributes:
        matrix: `(size, c)` of zeros and ones, which cells each answer sums.
        values: `(T, n, size)` unmixed.
        variance: of z, in the units of the mixed numbers.
    """

    matrix: FloatArray
    values: FloatArray
    variance: float


@dataclass(frozen=True, eq=False)
class LevelHistory:
    """Linear estimates of the geounits of a level.

    Attributes:
        mean: `(n, T, c)`.
        covariance: `(n, T, c, T, c)` of the errors.
    """

    mean: FloatArray
    covariance: FloatArray

    def sums(self, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A sum of cells with weights `(c,)`: its numbers `(n, T)` and their covariance `(n, T, T)`."""
        return self.mean @ cells, np.einsum("nsitj,i,j->nst", self.covariance, cells, cells, optimize=True)


def histories(
    spine: Spine,
    design: Design,
    measured: Sequence[Sequence[SeriesQuery]],
    changes: Sequence[FloatArray | None] | None = None,
) -> list[LevelHistory]:
    """The best linear estimates of all levels, top first.

    Args:
        spine: the geounits.
        design: by which the numbers were mixed.
        measured: per level; at each, the queries together determine every cell.
        changes: per level what a model of change says, a precision `(n, T, c, T, c)`; None for nothing.
    """
    own = [_own(design, queries, None if changes is None else changes[level]) for level, queries in enumerate(measured)]
    upward = _upward(spine, own)
    periods, cells = design.periods, measured[0][0].matrix.shape[1]
    out = []
    mean = covariance = None
    for level, (estimate, spread) in enumerate(upward):
        if mean is None or covariance is None:
            mean, covariance = estimate, spread
        else:
            parents = spine.levels[level].parents
            sums, total = _over(parents, estimate, len(mean)), _over(parents, spread, len(mean))
            gain = np.matmul(spread, np.linalg.inv(total)[parents])
            known = (total - covariance)[parents]
            mean = estimate + np.matmul(gain, (mean - sums)[parents][:, :, None])[:, :, 0]
            covariance = spread - np.matmul(np.matmul(gain, known), gain.transpose(0, 2, 1))
        shape = (len(mean), periods, cells)
        out.append(LevelHistory(mean.reshape(shape), covariance.reshape(*shape, periods, cells)))
    return out


def _own(design: Design, queries: Sequence[SeriesQuery], change: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Precision `(n or 1, D, D)` and linear term `(n, D)` of a level's geounits by what is known of each alone."""
    gram = design.gram.astype(np.float64)
    cells = queries[0].matrix.shape[1]
    size = design.periods * cells
    precision, linear = np.zeros((1, size, size)), np.zeros((queries[0].values.shape[1], size))
    for query in queries:
        precision = precision + np.kron(gram, query.matrix.T @ query.matrix) / query.variance
        weighted = np.einsum("st,tna,ac->nsc", gram, query.values, query.matrix, optimize=True)
        linear += weighted.reshape(len(linear), size) / query.variance
    if change is not None:
        precision = precision + change.reshape(len(linear), size, size)
    return precision, linear


def _upward(spine: Spine, own: Sequence[tuple[FloatArray, FloatArray]]) -> list[tuple[FloatArray, FloatArray]]:
    """Of each level, top first, estimates `(n, D)` and covariances `(n, D, D)` from the subtree of each geounit."""
    found: list[tuple[FloatArray, FloatArray]] = []
    for level in reversed(range(spine.n_levels)):
        precision, linear = own[level]
        if found:
            parents, n = spine.levels[level + 1].parents, len(spine.levels[level])
            below = np.linalg.inv(_over(parents, found[-1][1], n))
            linear = linear + np.matmul(below, _over(parents, found[-1][0], n)[:, :, None])[:, :, 0]
            precision = precision + below
        covariance = np.linalg.inv(precision)
        mean = np.matmul(covariance, linear[:, :, None])[:, :, 0]
        found.append((mean, np.broadcast_to(covariance, (len(mean), *covariance.shape[1:]))))
    return found[::-1]


def _over(parents: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Sums over the children of each of n parents; children are in the order of their parents, none has no child."""
    starts = np.searchsorted(parents, np.arange(n))
    return np.asarray(np.add.reduceat(values, starts, axis=0), dtype=np.float64)


# -- whole numbers ----------------------------------------------------------------------------------------------------


def whole_histories(spine: Spine, linear: Sequence[LevelHistory], seed: int) -> list[IntArray]:
    """Non-negative whole numbers `(n, T, c)` of each level near the linear ones; in every period children add up.

    Top down: the children of a geounit are as near to the linear ones as their covariances within the period say, given
    its numbers: a sum of cells that was measured well stays where it is, though cells below 0 are raised.
    """
    out: list[IntArray] = []
    for level, history in enumerate(linear):
        n, periods, cells = history.mean.shape
        precision = np.linalg.inv(np.einsum("ntctd->ntcd", history.covariance))
        whole = np.zeros((n, periods, cells), dtype=np.int64)
        if level == 0:
            whole[:] = np.maximum(np.rint(history.mean), 0)
            out.append(whole)
            continue
        offsets = np.searchsorted(spine.levels[level].parents, np.arange(len(out[-1]) + 1))
        families, places = [], []
        for parent, (first, stop) in enumerate(pairwise(offsets.tolist())):
            for period in range(periods):
                families.append(
                    _family(
                        f"{spine.levels[level - 1].name} {spine.levels[level - 1].geocodes[parent]}",
                        history.mean[first:stop, period],
                        precision[first:stop, period],
                        out[-1][parent, period],
                    )
                )
                places.append((slice(first, stop), period))
        for family, (rows, period), solution in zip(families, places, solve_families(families, "auto"), strict=True):
            keys = [np.array([[level]]), np.arange(rows.start, rows.stop)[:, None], np.arange(cells)[None, :]]
            ties = tie_breaks(seed + period, np.broadcast_arrays(*keys))
            whole[rows, period] = round_family(family, solution.x, (), ties)
        out.append(whole)
    return out


def _family(name: str, mean: FloatArray, precision: FloatArray, parent: IntArray) -> Family:
    scaled = precision / np.einsum("ncc->nc", precision).mean()
    return Family(
        name=name,
        precision=scaled,
        linear=np.matmul(scaled, mean[:, :, None])[:, :, 0],
        upper=np.broadcast_to(parent.astype(np.float64), mean.shape).copy(),
        parent=parent.astype(np.float64),
        held_group=None,
        held=None,
    )
