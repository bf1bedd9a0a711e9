"""The history of a series: linear estimates, a model of change, numbers with intervals, and whole numbers.

Of each geounit the state is its T x c numbers, period by period. What is measured of it has the precision G / Var(z)
over periods (x) Q'Q over cells, for each query's matrix Q. Without a model of change that is all: the estimate of each
period is then that of a single release, and its errors have the covariance (tree) (x) G^-1. With one, changes of an
area about its parent's growth have variances (`change_of`), as further measurements of that geounit alone.

Upward, the children's estimates and covariances add up to a measurement of their parent; downward, what the parent
knows beyond its children's sum is shared out by their covariances. This is exact (generalised least squares).

What is known exactly of a level, C x = c in each period, leaves of its numbers x = x0 + N u, N a basis of the null
space of C, and u is what is estimated: a sum of cells that is an invariant has no error, and the others have less.

A number x_t of an area is expected to grow as its parent's does: x_t - r_t x_(t-1) has mean 0, r_t the parent's growth.
Its variance is a n + b n^2, n the size of the area's number; changes of two cells of an area have one correlation k,
since men and women move together. The three numbers of a level are found from the linear estimates without a model:
products of differences less the covariance of their noise (method of moments). What is far beyond is left out of that,
so that a few areas that jump do not make all others look restless.

An area that jumps is drawn back. Intervals therefore rest on the estimate without the model, whose error is that of the
noise alone, and use what the model adds only to be short where it is right: `intervals`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from features.years.design import Design
from geography.spine import Spine
from pipeline.model.query import Query
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.bounds.declare import UNBOUNDED
from postprocess.errors import SolverError
from postprocess.families.family import Family, GroupRange, violation
from postprocess.families.precisions import Dense
from postprocess.families.rounding import GroupLevel, round_family, tie_breaks
from postprocess.families.solve import solve_families
from postprocess.problem import Constraints, GroupBounds
from postprocess.shares.intervals import constant_coverage


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
class ExactAnswers:
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
    exact: Sequence[ExactAnswers | None] | None = None,
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
    def of(exact: ExactAnswers | None, periods: int) -> _Place | None:
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


#: A difference beyond so many standard errors takes no part in the variance of changes.
_FAR: Final = 4.0
_ROUNDS: Final = 20
#: Variance of a change, persons squared, below which it is not taken to be.
_LEAST: Final = 1e-2
#: Variance of an estimate, persons squared, at which its number is known: a whole one is then within 1/100 of it.
_KNOWN: Final = 1e-6
#: Correlation of two cells' changes that is believed.
_MOST_TOGETHER: Final = 0.95
#: Parent's growth that is believed, from one period to the next.
_GROWTH: Final = (0.5, 2.0)


@dataclass(frozen=True)
class ChangeModel:
    """The variance a n + b n^2 of a level's changes beyond the parent's growth, and the correlation of two cells'."""

    linear: float
    quadratic: float
    correlation: float = 0.0

    def variance(self, size: FloatArray) -> FloatArray:
        """Of changes of numbers of a size, in persons squared."""
        return np.maximum(self.linear * size + self.quadratic * size**2, _LEAST)

    def covariance(self, size: FloatArray) -> FloatArray:
        """`(n, c, c)` of the changes of an area's cells of size `(n, c)` in one period."""
        standard = np.sqrt(self.variance(size))
        together = np.eye(size.shape[1]) * (1 - self.correlation) + self.correlation
        return standard[:, :, None] * standard[:, None, :] * together


def change_precisions(
    spine: Spine, plain: Sequence[LevelHistory], levels: Collection[str] | None = None
) -> tuple[list[FloatArray | None], list[ChangeModel | None]]:
    """What the model says of each level, for `history.histories`; and the variances that it found. None at the top.

    Args:
        spine: the geounits.
        plain: linear estimates without a model.
        levels: of which something is said; default: all below the top.
    """
    precisions: list[FloatArray | None] = [None] * spine.n_levels
    changes: list[ChangeModel | None] = [None] * spine.n_levels
    for level in range(1, spine.n_levels):
        if levels is not None and spine.level_names[level] not in levels:
            continue
        growth = _growth(plain[level - 1].mean)[spine.levels[level].parents]
        size = np.maximum(plain[level].mean.mean(axis=1), 1.0)
        change = change_of(plain[level], growth, size)
        precisions[level], changes[level] = _precision(growth, change, size), change
    return precisions, changes


def change_of(plain: LevelHistory, growth: FloatArray, size: FloatArray) -> ChangeModel:
    """The variances of changes beyond the parent's growth `(n, T - 1, c)`, for numbers of size `(n, c)`."""
    differences = plain.mean[:, 1:] - growth * plain.mean[:, :-1]
    noise = _noise(plain.covariance, growth)
    own = np.einsum("nscc->nsc", noise)
    sizes = np.broadcast_to(size[:, None, :], own.shape)
    terms = np.stack([sizes.ravel(), sizes.ravel() ** 2], axis=1)
    change, close = ChangeModel(0.0, 1e-4), np.ones(own.shape, dtype=bool)
    for _ in range(_ROUNDS):
        total = own + change.variance(sizes)
        close = (differences**2 <= _FAR**2 * total) & (own > _KNOWN)
        change = _fitted(terms, (differences**2 - own).ravel(), np.where(close, 1 / total**2, 0.0).ravel())
    total, standard = own + change.variance(sizes), np.sqrt(change.variance(sizes))
    weights = np.where(close, 1 / total, 0.0)
    weighted = weights[:, :, :, None] * weights[:, :, None, :] * (1 - np.eye(own.shape[2]))
    products = differences[:, :, :, None] * differences[:, :, None, :] - noise
    possible = float((weighted * standard[:, :, :, None] * standard[:, :, None, :]).sum())
    together = float((weighted * products).sum()) / possible if possible else 0.0
    return ChangeModel(change.linear, change.quadratic, min(max(together, 0.0), _MOST_TOGETHER))


def _noise(covariance: FloatArray, growth: FloatArray) -> FloatArray:
    """`(n, T - 1, c, c)`: covariances of the errors of one period's differences, of errors `(n, T, c, T, c)`."""
    step = np.arange(growth.shape[1])
    after, before = covariance[:, step + 1, :, step + 1], covariance[:, step, :, step]  # (T - 1, n, c, c)
    across = covariance[:, step + 1, :, step]
    slope = growth.transpose(1, 0, 2)
    left, right = slope[:, :, :, None], slope[:, :, None, :]
    both = after + left * right * before - right * across - left * across.transpose(0, 1, 3, 2)
    return np.asarray(both.transpose(1, 0, 2, 3))


def _fitted(terms: FloatArray, squares: FloatArray, weights: FloatArray) -> ChangeModel:
    """Weighted least squares with neither number below 0."""
    crossed, right = terms.T @ (weights[:, None] * terms), terms.T @ (weights * squares)
    both = np.linalg.lstsq(crossed, right, rcond=None)[0]
    if both.min() >= 0:
        return ChangeModel(float(both[0]), float(both[1]))
    alone = np.maximum(right / np.diag(crossed), 0.0)
    gained = alone * (2 * right - alone * np.diag(crossed))
    return ChangeModel(float(alone[0]), 0.0) if gained[0] > gained[1] else ChangeModel(0.0, float(alone[1]))


def _growth(mean: FloatArray) -> FloatArray:
    """`(n, T - 1, c)`; 1 where the number before is not above 0."""
    before, after = mean[:, :-1], mean[:, 1:]
    ratio = np.divide(after, before, out=np.ones_like(after), where=before > 1.0)
    return np.clip(ratio, *_GROWTH)


def _precision(growth: FloatArray, change: ChangeModel, size: FloatArray) -> FloatArray:
    """`(n, T, c, T, c)`: over periods the sum of d'S^-1 d, d = x_t - growth x_(t-1), S the covariance of cells."""
    n, steps, cells = growth.shape
    inner = np.linalg.inv(change.covariance(size))
    out = np.zeros((n, steps + 1, cells, steps + 1, cells))
    for step in range(steps):
        slope = growth[:, step]
        out[:, step + 1, :, step + 1] += inner
        out[:, step, :, step] += slope[:, :, None] * inner * slope[:, None, :]
        out[:, step + 1, :, step] -= inner * slope[:, None, :]
        out[:, step, :, step + 1] -= slope[:, :, None] * inner
    return out


def intervals(
    plain: tuple[FloatArray, FloatArray], modelled: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The least and the most whole number of 90 % intervals, which hold 90 % for every truth, jump or none.

    Of a number that is known exactly, such as an invariant, both are that number.

    The estimate with the model, u* with variance v*, is that without, u and v, put together with something whose error
    is independent of u's: N(m, f) with 1 / f = 1 / v* - 1 / v and m / f = u* / v* - u / v. So m and f can be used as an
    expectation that is not trusted, see `postprocess.shares.intervals`.

    Args:
        plain: estimates and variances without the model, each of one shape.
        modelled: the same with it.
    """
    (u, v), (u_star, v_star) = plain, modelled
    known = v <= _KNOWN
    v, v_star = np.where(known, 1.0, v), np.where(known, 1.0, v_star)
    gained = np.maximum(1 / v_star - 1 / v, 0.0)
    some = gained > 1e-6 / v
    spread = np.where(some, 1 / np.where(some, gained, 1.0), np.inf)
    centre = np.where(some, (u_star / v_star - u / v) / np.where(some, gained, 1.0), 0.0)
    low, high = constant_coverage(u.ravel(), np.sqrt(v).ravel(), centre.ravel(), spread.ravel())
    low, high = low.reshape(u.shape), high.reshape(u.shape)
    return np.where(known, np.rint(u), low), np.where(known, np.rint(u), high)


Verdict = Literal["fell", "cannot tell", "rose"]
#: In the order of the numbers -1, 0, 1 of `PeriodNumbers.directions`.
VERDICTS: Final[tuple[Verdict, ...]] = ("fell", "cannot tell", "rose")


@dataclass(frozen=True, eq=False)
class PeriodNumbers:
    """One number of each geounit of a level, `(n,)` each.

    Attributes:
        values: of the released whole numbers.
        low, high: the 90 % interval, whole numbers; the value is within it.
    """

    values: IntArray
    low: IntArray
    high: IntArray

    @property
    def directions(self) -> IntArray:
        """-1 where a change is below 0 by its interval, 1 where it is above, 0 where it cannot be told."""
        return np.sign(np.maximum(self.low, 0) + np.minimum(self.high, 0)).astype(np.int64)


def pairs_of(n: int) -> list[tuple[int, int]]:
    """The periods between which changes are published: from each to the next, and from the first to the last."""
    return [*pairwise(range(n)), *([(0, n - 1)] if n > 2 else [])]


def answers_of(query: Query, kept: FloatArray | None = None) -> Iterator[tuple[str, FloatArray]]:
    """Label and cells `(c,)` of each answer of which some cell is kept: `kept` `(c,)` is 1 for those, else 0."""
    for number, label in enumerate(query.answer_labels()):
        cells = (query.cell_answer == number) * (1.0 if kept is None else kept)
        if cells.any():
            yield label, cells


def numbers_of(
    released: IntArray,
    plain: LevelHistory,
    modelled: LevelHistory,
    cells: FloatArray,
    period: int,
    since: int | None = None,
) -> PeriodNumbers:
    """The sum of some cells in a period, or how much it has changed since another one.

    Args:
        released: whole numbers `(n, T, c)`.
        plain, modelled: linear estimates without and with a model of change; the same twice where there is none.
        cells: `(c,)` 1 for the cells that are summed, else 0.
        period, since: from 0.
    """
    weights = np.zeros(released.shape[1])
    weights[period] = 1.0
    if since is not None:
        weights[since] = -1.0
    both = []
    for history in (plain, modelled):
        numbers, covariance = history.sums(cells)
        both.append((numbers @ weights, np.einsum("s,nst,t->n", weights, covariance, weights)))
    low, high = intervals(both[0], both[1])
    values = np.rint(np.einsum("ntc,c,t->n", released, cells, weights)).astype(np.int64)
    low, high = np.minimum(low, values).astype(np.int64), np.maximum(high, values).astype(np.int64)
    return PeriodNumbers(values, np.maximum(low, 0) if since is None else low, high)


def whole_histories(
    spine: Spine,
    linear: Sequence[LevelHistory],
    seed: int,
    exact: Sequence[ExactAnswers | None] | None = None,
    kept: Sequence[Constraints] | None = None,
) -> list[IntArray]:
    """Non-negative whole numbers `(n, T, c)` of each level near the linear ones; in every period children add up.

    Top down: the children of a geounit are as near to the linear ones as their covariances within the period say, given
    its numbers: a sum of cells that was measured well stays where it is, though cells below 0 are raised.

    Args:
        spine: the geounits.
        linear: estimates of each level, of the cells that are possible.
        seed: public, of ties.
        exact: per level what the linear ones keep exactly; None for nothing.
        kept: of each period what the whole ones keep, at every level; None for nothing.

    Raises:
        SolverError: a geounit's numbers leave no whole numbers for its children that keep what is to be kept.
    """
    possible = np.ones(linear[0].mean.shape[2], dtype=bool)
    if kept is not None:
        possible = ~kept[0].structural_zeros
    out: list[IntArray] = []
    for level, history in enumerate(linear):
        n, periods, cells = history.mean.shape
        precision = _inverse_covariances(history, None if exact is None else exact[level])
        bounds = [() if kept is None else kept[period].bounds[level] for period in range(periods)]
        whole = np.zeros((n, periods, cells), dtype=np.int64)
        if level == 0 and not any(bounds):
            whole[:] = np.maximum(np.rint(history.mean), 0)
            out.append(whole)
            continue
        work = []
        for name, parent, rows in _families_of(spine, level):
            for period in range(periods):
                above = None if parent is None else out[-1][parent, period].astype(np.float64)
                own = history.mean[rows, period], precision[rows, period]
                where = f"{name}, period {period + 1} of the series"
                work.append((rows, period, _family(where, *own, above, bounds[period], rows, possible)))
        solutions = solve_families([family for *_, family in work], "auto")
        for (rows, period, family), solution in zip(work, solutions, strict=True):
            keys = [np.array([[level]]), np.arange(rows.start, rows.stop)[:, None], np.arange(cells)[None, :]]
            ties = tie_breaks(seed + period, np.broadcast_arrays(*keys))
            chain = [GroupLevel(one.group, *(end.astype(np.int64) for end in (one.lower, one.upper)))
                     for one in family.ranges]  # fmt: skip
            chain.sort(key=lambda partition: partition.lower.shape[1])
            rounded = round_family(family, solution.x, chain, ties)
            if violation(family, rounded.astype(np.float64)) > 0:
                raise SolverError(f"{family.name}: the rounded solution breaks a constraint")
            whole[rows, period] = rounded
        out.append(whole)
    return out


def _families_of(spine: Spine, level: int) -> Iterator[tuple[str, int | None, slice]]:
    """Name, number and children of each parent; at the top every geounit by itself."""
    if level == 0:
        for row, geocode in enumerate(spine.levels[0].geocodes.tolist()):
            yield f"{spine.levels[0].name} {geocode}", None, slice(row, row + 1)
        return
    above = spine.levels[level - 1]
    offsets = np.searchsorted(spine.levels[level].parents, np.arange(len(above) + 1))
    for parent, (first, stop) in enumerate(pairwise(offsets.tolist())):
        yield f"{above.name} {above.geocodes[parent]}", parent, slice(first, stop)


def _inverse_covariances(history: LevelHistory, exact: ExactAnswers | None) -> FloatArray:
    """`(n, T, c, c)`: inverses of the covariances within each period; on what is known exactly they do not matter."""
    spread = np.einsum("ntctd->ntcd", history.covariance)
    if exact is None:
        return np.asarray(np.linalg.inv(spread))
    basis = exact.basis
    inside = np.linalg.inv(basis.T @ spread @ basis)
    scale = np.einsum("ntkk->nt", inside)[:, :, None, None] / max(1, basis.shape[1])
    return np.asarray(basis @ inside @ basis.T + scale * (np.eye(len(basis)) - basis @ basis.T))


def _family(
    name: str,
    mean: FloatArray,
    precision: FloatArray,
    parent: FloatArray | None,
    bounds: Sequence[GroupBounds],
    rows: slice,
    possible: BoolArray,
) -> Family:
    """The children of a parent, `rows` of their level, in a period; `mean` `(C, c)`, `precision` `(C, c, c)`."""
    scaled = precision / np.einsum("ncc->nc", precision).mean()
    upper = np.broadcast_to(float(UNBOUNDED) if parent is None else parent, mean.shape).copy()
    return Family(
        name=name,
        precision=Dense(scaled),
        linear=np.matmul(scaled, mean[:, :, None])[:, :, 0],
        upper=upper,
        parent=parent,
        ranges=tuple(_ranges(bounds, rows, upper, possible)),
    )


def _ranges(bounds: Sequence[GroupBounds], rows: slice, upper: FloatArray, possible: BoolArray) -> Iterator[GroupRange]:
    """The bounds that say more than that no cell is above its own limit."""
    for bound in bounds:
        present, group = np.unique(bound.marginal.cell_answer[possible], return_inverse=True)
        low, high = (limit[rows][:, present].astype(np.float64) for limit in (bound.lower, bound.upper))
        most = np.zeros_like(high)
        np.add.at(most.T, group, upper.T)
        if (low > 0).any() or (high < most).any():
            yield GroupRange(group, low, np.maximum(np.minimum(high, most), low))
