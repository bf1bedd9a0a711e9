"""A consistent history: least squares over areas and periods together, from the unmixed numbers of all periods.

Of each geounit the state is its T x c numbers, period by period. What is measured of it has the precision G / Var(z)
over periods (x) Q'Q over cells, for each query's matrix Q. Without a model of change that is all: the estimate of each
period is then that of a single release, and its errors have the covariance (tree) (x) G^-1. With one, changes of an
area about its parent's growth have variances (`change.py`), as further measurements of that geounit alone.

Upward, the children's estimates and covariances add up to a measurement of their parent; downward, what the parent
knows beyond its children's sum is shared out by their covariances. This is exact (generalised least squares).

What is known exactly of a level, C x = c in each period, leaves of its numbers x = x0 + N u, N a basis of the null
space of C, and u is what is estimated: a sum of cells that is an invariant has no error, and the others have less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from features.years.design import Design
from geography.spine import Spine
from postprocess.arrays import FloatArray, IntArray

__all__ = ["Exact", "LevelHistory", "SeriesQuery", "histories"]


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
class Exact:
    """What is known exactly of the geounits of a level.

    A level has all that the level below it has, added up.

    Attributes:
        matrix: `(m, c)`, which cells each known number sums.
        values: `(T, n, m)`.
    """

    matrix: FloatArray
    values: FloatArray

    @cached_property
    def basis(self) -> FloatArray:
        """N `(c, k)`: orthonormal, of all that the known numbers leave open."""
        _, sizes, rows = np.linalg.svd(self.matrix)
        rank = int((sizes > 1e-9 * sizes.max(initial=0.0)).sum())
        return np.asarray(rows[rank:].T, dtype=np.float64)

    @cached_property
    def offset(self) -> FloatArray:
        """x0 `(n, T, c)`: the numbers nearest to 0 that have these sums."""
        return np.asarray(np.einsum("cm,tnm->ntc", np.linalg.pinv(self.matrix), self.values))


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
    exact: Sequence[Exact | None] | None = None,
) -> list[LevelHistory]:
    """The best linear estimates of all levels, top first.

    Args:
        spine: the geounits.
        design: by which the numbers were mixed.
        measured: per level; at each, the queries together determine every cell, as far as `exact` leaves it open.
        changes: per level what a model of change says, a precision `(n, T, c, T, c)`; None for nothing.
        exact: per level what is known exactly; None for nothing.
    """
    known = [None] * spine.n_levels if exact is None else exact
    said = [None] * spine.n_levels if changes is None else changes
    places = [_Place.of(one, design.periods) for one in known]
    own = [_own(design, *of_level) for of_level in zip(measured, said, places, strict=True)]
    upward = _upward(spine, own, places)
    periods, cells = design.periods, measured[0][0].matrix.shape[1]
    out = []
    mean = covariance = None
    for level, ((estimate, spread), place) in enumerate(zip(upward, places, strict=True)):
        if mean is None or covariance is None:
            mean, covariance = estimate, spread
        else:
            above, parents = places[level - 1], spine.levels[level].parents
            sums, total = _over(parents, estimate, len(mean)), _over(parents, spread, len(mean))
            if place is not None:
                offset = _over(parents, place.offset, len(mean))
                sums = sums @ place.basis.T + offset
            difference = (mean if above is None else mean @ above.basis.T + above.offset) - sums
            inside = covariance if above is None else above.basis @ covariance @ above.basis.T
            if place is not None:
                difference, inside = difference @ place.basis, place.basis.T @ inside @ place.basis
            gain = np.matmul(spread, np.linalg.inv(total)[parents])
            mean = estimate + np.matmul(gain, difference[parents][:, :, None])[:, :, 0]
            covariance = spread - np.matmul(np.matmul(gain, (total - inside)[parents]), gain.transpose(0, 2, 1))
        whole, errors = mean, covariance
        if place is not None:
            whole, errors = mean @ place.basis.T + place.offset, place.basis @ covariance @ place.basis.T
        shape = (len(mean), periods, cells)
        out.append(LevelHistory(whole.reshape(shape), errors.reshape(*shape, periods, cells)))
    return out


@dataclass(frozen=True, eq=False)
class _Place:
    """Where the numbers of a level are, over all periods: `basis` `(D, d)`, `offset` `(n, D)`."""

    basis: FloatArray
    offset: FloatArray

    @staticmethod
    def of(exact: Exact | None, periods: int) -> _Place | None:
        if exact is None:
            return None
        basis = np.asarray(np.kron(np.eye(periods), exact.basis), dtype=np.float64)
        return _Place(basis, exact.offset.reshape(len(exact.offset), -1))


def _own(
    design: Design, queries: Sequence[SeriesQuery], change: FloatArray | None, place: _Place | None
) -> tuple[FloatArray, FloatArray]:
    """Precision `(n or 1, d, d)` and linear term `(n, d)` of a level's geounits by what is known of each alone."""
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
    return (precision, linear) if place is None else _reduced(precision, linear, place)


def _reduced(precision: FloatArray, linear: FloatArray, place: _Place) -> tuple[FloatArray, FloatArray]:
    """Of a precision and a linear term of numbers x those of u, x = offset + basis u."""
    rest = linear - np.matmul(precision, place.offset[:, :, None])[:, :, 0]
    return place.basis.T @ precision @ place.basis, rest @ place.basis


def _upward(
    spine: Spine, own: Sequence[tuple[FloatArray, FloatArray]], places: Sequence[_Place | None]
) -> list[tuple[FloatArray, FloatArray]]:
    """Of each level, top first, estimates `(n, d)` and covariances `(n, d, d)` from the subtree of each geounit."""
    found: list[tuple[FloatArray, FloatArray]] = []
    for level in reversed(range(spine.n_levels)):
        precision, linear = own[level]
        if found:
            parents, n = spine.levels[level + 1].parents, len(spine.levels[level])
            below = np.asarray(np.linalg.inv(_over(parents, found[-1][1], n)), dtype=np.float64)
            sums = _over(parents, found[-1][0], n)
            beneath, place = places[level + 1], places[level]
            if beneath is not None:
                below = beneath.basis @ below @ beneath.basis.T
                sums = sums @ beneath.basis.T + _over(parents, beneath.offset, n)
            told = np.asarray(np.matmul(below, sums[:, :, None])[:, :, 0], dtype=np.float64)
            if place is not None:
                below, told = _reduced(below, told, place)
            linear = linear + told
            precision = precision + below
        covariance = np.linalg.inv(precision)
        mean = np.matmul(covariance, linear[:, :, None])[:, :, 0]
        found.append((mean, np.broadcast_to(covariance, (len(mean), *covariance.shape[1:]))))
    return found[::-1]


def _over(parents: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Sums over the children of each of n parents; children are in the order of their parents, none has no child."""
    starts = np.searchsorted(parents, np.arange(n))
    return np.asarray(np.add.reduceat(values, starts, axis=0), dtype=np.float64)
