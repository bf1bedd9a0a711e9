"""Joint draws of what the truth may be, given the measurements: backward sampling, the counterpart of the upward pass.

With b, V, J of the upward pass, the truth given all measurements is normal (with a flat prior, and noise taken as
normal), and can be drawn from the top down. At the top x ~ N(b, V). In a family, given the parent's x_p,

    x_c ~ N(b_c + K_c (x_p - b_+),  V_c - V_c J_p V_c),  Cov(x_c, x_d) = - V_c J_p V_d    for children c, d.

No matrix of a whole family is needed: with independent xi_c ~ N(0, V_c),

    x_c = b_c + xi_c + K_c (x_p - b_+ - xi_+)

has that mean and that covariance, since J_p V_+ J_p = J_p (Matheron's rule: Journel and Huijbregts 1978, chapter VII;
Doucet 2010), and the children add up to x_p. So a draw is the linear pass of `downward` with b + xi in place of b.

Only the attributes that a published number of the level or below keeps are drawn; the others are summed out, as
`Basis.summed_to` allows. What nothing was measured of is not drawn: nothing is made up there, the mean is.

Drawn answers in steps of 1/256 person, such that children add up to their parent exactly and what is known stays so.

Rounding each number by itself would break the sums. Within a family the answers are rounded cumulatively instead: child
k gets round(x_1 + ... + x_k) - round(x_1 + ... + x_k-1), so that the children's sum is that of the parent, which was
rounded before, and no child is off by more than a step and a little. What the parent was rounded by is spread over the
children that are not known. All of it is done in whole numbers, so that a known answer stays a whole number of persons.

The step is a power of two: sums of such numbers are exact in floating point. It is coarse enough for the last digits
of a computation, which differ between processors, not to show, and adds about 0.001 person to a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from geography.spine import Spine
from postprocess.algebra import Basis, chunks, summed
from postprocess.arrays import BoolArray, FloatArray, IntArray, owners, runs
from postprocess.linear.information import factors_off
from postprocess.linear.upward import LevelEstimate, estimates_of
from postprocess.marginal import Marginal, MarginalKey
from postprocess.problem import Problem

#: Steps in a person, and in a step when families are rounded; both powers of two.
STEPS = 256
_FINE = 1 << 12
#: Stands for an answer that is not determined where answers in steps are kept.
UNKNOWN = int(np.iinfo(np.int64).min)


def at_top(answers: FloatArray, known: BoolArray) -> IntArray:
    """Answers `(n, size)` of the top level in steps; `known` ones are whole persons."""
    return _to_steps(_fine(answers, known))


def within_families(
    answers: FloatArray,
    known: BoolArray,
    unknown: BoolArray,
    above: IntArray,
    above_unknown: BoolArray,
    offsets: IntArray,
) -> IntArray:
    """Answers of a level in steps, adding up to those of the level above.

    Args:
        answers: `(n, size)`, persons.
        known: `(n, size)`: fixed by zeros and invariants; they become whole persons.
        unknown: `(n, size)`: not determined by the measurements. A family with such an answer is rounded one by one.
        above: `(n_parents, size)` of the parents, in steps.
        above_unknown: the same as `unknown`, of the parents.
        offsets: `(n_parents + 1,)` the children of each parent.
    """
    fine = _fine(answers, known)
    starts = offsets[:-1]
    own = owners(offsets)
    free = ~known
    n_free = np.add.reduceat(free.astype(np.int64), starts, axis=0)
    separate = above_unknown | np.logical_or.reduceat(unknown, starts, axis=0) | (n_free == 0)
    left = np.where(separate, 0, above * _FINE - np.add.reduceat(fine, starts, axis=0))
    share, rest = np.divmod(left, np.maximum(n_free, 1))
    place = np.cumsum(free, axis=0)
    before = np.where(starts[:, None] > 0, place[np.maximum(starts - 1, 0)], 0)
    # The first children that are not known take one more each, until the rest is used up.
    takes = (place - before[own]) <= rest[own]
    fine += np.where(free, share[own] + takes, 0)
    running = np.cumsum(fine, axis=0)
    begun = np.where(starts[:, None] > 0, running[np.maximum(starts - 1, 0)], 0)
    rounded = _to_steps(running - begun[own])
    out = np.diff(rounded, axis=0, prepend=0)
    out[starts] = rounded[starts]
    return np.where(separate[own], _to_steps(fine), out)


def persons(steps: IntArray) -> FloatArray:
    """Steps as persons, exactly; NaN for `UNKNOWN`."""
    return np.where(steps == UNKNOWN, np.nan, steps / STEPS)


def _fine(answers: FloatArray, known: BoolArray) -> IntArray:
    whole = np.rint(np.where(known, answers, 0.0)).astype(np.int64) * (STEPS * _FINE)
    return np.where(known, whole, np.rint(np.where(known, 0.0, answers) * (STEPS * _FINE)).astype(np.int64))


def _to_steps(fine: IntArray) -> IntArray:
    return (fine + _FINE // 2) // _FINE


#: (level, first geounit, shape (n, numbers of each)) -> independent standard normal numbers of that shape.
DrawNormals = Callable[[int, int, tuple[int, int]], FloatArray]
#: Numbers of histograms that are worked on at once.
CELLS = 1 << 20
#: Bytes of a draw per number drawn above the lowest level, and per published number.
DRAWN_BYTES, PUBLISHED_BYTES = 24.0, 40.0


@dataclass(frozen=True, eq=False)
class DrawnLevel:
    """What the draws of one level are made from; histograms are `(n, *basis.shape)`, summed to what is kept.

    The lowest level, by far the largest, holds the answers of its queries in place of histograms.

    Attributes:
        keep: which symmetric attributes of the problem's basis are kept, `(s,)`.
        basis: what is left of the problem's basis; its first attribute stands for all asymmetric ones.
        classes: `(n,)` the class of each geounit.
        best: b, estimates from the upward pass; None at the lowest level.
        best_answers: at the lowest level, the answers `(n, size)` of b to each query, by its key.
        covariance: V of each class, `(n_classes, n_blocks, a, a)`.
        factor: C of each class, the same shape; C times standard normal numbers has the covariance of the histograms.
        of_children: b_+, the children's sum; None at the lowest level drawn.
        precision: J of each class, in this level's blocks; None as above.
    """

    keep: BoolArray
    basis: Basis
    classes: IntArray
    best: FloatArray | None
    best_answers: dict[MarginalKey, FloatArray]
    covariance: FloatArray
    factor: FloatArray
    of_children: FloatArray | None
    precision: FloatArray | None

    @property
    def numbers(self) -> int:
        """Numbers drawn for each geounit."""
        return math.prod(self.basis.shape)


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """What was drawn of some successive geounits of a level.

    Attributes:
        level: of the geounits.
        rows: which they are.
        histograms: `(n, *basis.shape)`.
        without_best: `(n,)` where b is still to be added; None for nowhere.
    """

    level: DrawnLevel
    rows: slice
    histograms: FloatArray
    without_best: BoolArray | None = None

    def answers(self, basis: Basis, query: Marginal) -> FloatArray:
        """Answers `(n, size)` of a query; `basis` is that of the problem."""
        shape = (basis.n_asymmetric, *basis.kept_shape(self.level.keep))
        out = basis.answers_in_order(query, self.histograms.reshape(-1, *shape))
        if self.without_best is not None:
            out[self.without_best] += self.level.best_answers[query.key][self.rows][self.without_best]
        return out


def drawn_levels(
    problem: Problem,
    basis: Basis,
    estimates: Sequence[LevelEstimate],
    queries: Sequence[Sequence[Marginal]],
    further: Sequence[Marginal] = (),
) -> tuple[DrawnLevel, ...]:
    """The levels down to the lowest that numbers are published of, top first.

    Args:
        problem: with estimator "full".
        basis: of the problem.
        estimates: of the upward pass.
        queries: per level, those whose answers are published.
        further: those of levels below the problem's, where its spine is the upper part of a larger one.
    """
    last = len(queries) - 1 if further else max(number for number, asked in enumerate(queries) if asked)
    out = []
    for level in range(last + 1):
        keep = kept_by(basis, [*further, *(query for below in queries[level:] for query in below)])
        lowest = queries[level] if level == last and not further else ()
        out.append(_drawn_level(problem, basis, level, estimates[level], keep, lowest))
    return tuple(out)


def kept_by(basis: Basis, queries: Sequence[Marginal]) -> BoolArray:
    """Which symmetric attributes some query does not sum out, `(s,)`."""
    keep = np.zeros(len(basis.symmetric), dtype=bool)
    for query in queries:
        keep |= np.array([query.sizes[j] > 1 for j in basis.symmetric], dtype=bool)
    return keep


def draw_bytes(basis: Basis, geounits: Sequence[int], queries: Sequence[Sequence[Marginal]]) -> float:
    """Bytes that a process holds for one draw, at most.

    Args:
        basis: of the measurements.
        geounits: of each level, top first.
        queries: whose answers are published at each of them.
    """
    drawn, published = [0], 0
    for level, n in enumerate(geounits):
        if below := [query for of_level in queries[level:] for query in of_level]:
            kept = [size for size, keep in zip(basis.symmetric_shape, kept_by(basis, below), strict=True) if keep]
            drawn.append(n * basis.n_asymmetric * math.prod(kept))
            published += n * sum(query.size for query in queries[level])
    return DRAWN_BYTES * sum(drawn[:-1]) + PUBLISHED_BYTES * published


def _drawn_level(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, keep: BoolArray, queries: Sequence[Marginal]
) -> DrawnLevel:
    """One level; `queries` at the lowest alone."""
    small, blocks = basis.summed_to(keep)
    n, info = len(estimate.classes), estimate.info
    best = None if queries else np.empty((n, *small.shape))
    best_answers = {query.key: np.empty((n, query.size)) for query in queries}
    of_children = precision = None
    children = estimate.children
    if not queries:
        assert children is not None
        precision, of_children = children.precision[:, blocks], np.empty((n, *small.shape))
    for some in chunks(n, problem.n_cells, CELLS):
        rows = np.arange(some.start, some.stop)
        shape = (len(rows), *small.shape)
        found = estimates_of(problem, basis, level, estimate, rows, keep)[0]
        for query in queries:
            best_answers[query.key][rows] = basis.answers_in_order(query, found)
        if best is not None and of_children is not None and children is not None:
            best[rows] = found.reshape(shape)
            of_children[rows] = summed(basis.fold(children.mean[rows]), keep).reshape(shape)
    outside = problem.n_cells / math.prod(small.shape)
    return DrawnLevel(
        keep=keep,
        basis=small,
        classes=estimate.classes,
        best=best,
        best_answers=best_answers,
        covariance=info.covariance[:, blocks],
        factor=math.sqrt(outside)
        * factors_off(info.covariance[:, blocks], info.known[:, blocks] + info.unmeasured[:, blocks]),
        of_children=of_children,
        precision=precision,
    )


def draw(
    spine: Spine, levels: Sequence[DrawnLevel], normals: DrawNormals, top: FloatArray | None = None
) -> Iterator[Iterator[DrawnRows]]:
    """One joint draw, level by level from the top; of the lowest level some geounits at a time.

    Args:
        spine: of the problem.
        levels: of `drawn_levels`.
        normals: standard normal numbers, in the order of geounits and of a histogram's numbers.
        top: what was drawn of the top level, where the spine is a part of a larger one; the levels begin below it then.
    """
    above = top
    for number, level in enumerate(levels):
        if number == 0:
            if top is not None:
                continue
            parts = _top(level, normals)
        else:
            assert above is not None
            parts = _children(spine.child_offsets(number - 1), number, levels[number - 1], level, above, normals)
        if level.best is not None:
            above = np.concatenate([part.histograms for part in parts])
            yield iter([DrawnRows(level, slice(0, len(above)), above)])
        else:
            yield parts


def _noise(level: DrawnLevel, number: int, rows: slice, normals: DrawNormals) -> FloatArray:
    """xi of some geounits."""
    n = rows.stop - rows.start
    standard = normals(number, rows.start, (n, level.numbers)).reshape(n, *level.basis.shape)
    return level.basis.apply(level.factor, standard, level.classes[rows])


def _top(level: DrawnLevel, normals: DrawNormals) -> Iterator[DrawnRows]:
    for rows in chunks(len(level.classes), level.numbers, CELLS):
        noise = _noise(level, 0, rows, normals)
        if level.best is None:
            yield DrawnRows(level, rows, noise, np.ones(len(noise), dtype=bool))
        else:
            yield DrawnRows(level, rows, level.best[rows] + noise)


def _children(
    offsets: IntArray, number: int, upper: DrawnLevel, level: DrawnLevel, above: FloatArray, normals: DrawNormals
) -> Iterator[DrawnRows]:
    """The level `number`, given what was drawn of the level above, a few families at a time."""
    assert upper.of_children is not None
    assert upper.precision is not None
    keep = level.keep[upper.keep]
    _, blocks = upper.basis.summed_to(keep)
    precision = upper.precision[:, blocks]
    for first, last in runs(offsets, max(1, CELLS // level.numbers)):
        parents, rows = slice(first, last), slice(int(offsets[first]), int(offsets[last]))
        n = last - first
        out = _noise(level, number, rows, normals)
        starts = offsets[first:last] - rows.start
        parent = summed(above[parents], keep).reshape(n, *level.basis.shape)
        mean = summed(upper.of_children[parents], keep).reshape(n, *level.basis.shape)
        missing = parent - mean - np.add.reduceat(out, starts, axis=0)
        term = level.basis.apply(precision, missing, upper.classes[parents])
        own = owners(offsets[first : last + 1])
        out += level.basis.apply(level.covariance, term[own], level.classes[rows])
        single = (np.diff(offsets[first : last + 1]) == 1)[own]
        if level.best is not None:
            out += level.best[rows]
        out[single] = parent[own[single]]
        yield DrawnRows(level, rows, out, None if level.best is not None else ~single)
