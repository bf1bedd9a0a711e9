"""Downward linear pass: the best linear unbiased estimate of every geounit from all measurements, with its variance.

    b~_c = b_c + K_c (b~_p - b_+),   V~_c = V_c - K_c V_c + K_c V~_p K_c',   K_c = V_c J_p,

for a child c of p, with b, V, J of the upward pass (the second half of the two-pass estimator, Hay et al. 2010,
section 4.2). The estimates are real numbers, may be negative, and keep the invariants; they are no release, but for
anything linear they are what the measurements say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from postprocess.algebra import Basis, chunks, symmetrise
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.information import (
    BLIND,
    fixed_answers,
    inverse_off,
    known_with_family,
    learns_from_family,
    off_known,
)
from postprocess.linear.upward import (
    CHUNK_CELLS,
    ChildGroups,
    LevelEstimate,
    estimates_of,
    known_to_children,
    summed_over,
)
from postprocess.marginal import Marginal, MarginalKey
from postprocess.problem import Problem

#: Matrices of a class that are held besides while its covariance is worked out, of as many classes as their number
#: allows.
_TOGETHER = 8


@dataclass(frozen=True, eq=False)
class LevelVariances:
    """Covariances after both passes: alike children of one parent share one.

    Attributes:
        classes: `(n,)` class of each geounit.
        covariance: blocks `(n_classes, n_blocks, a, a)`.
        unmeasured: projectors on directions that nothing was measured of, the same shape; or one that all share.
        known: projectors on directions that zeros and invariants fix, the same shape; or one that all classes share.
    """

    classes: IntArray
    covariance: FloatArray
    unmeasured: FloatArray
    known: FloatArray

    def of_answers(self, basis: Basis, marginal: Marginal) -> FloatArray:
        """Variances `(n, size)` of a query's answers; NaN where the measurements do not determine them.

        What zeros and invariants fix has the variance 0, whatever rounding leaves of it.
        """
        return self.of_classes(basis, marginal)[self.classes]

    def of_classes(self, basis: Basis, marginal: Marginal) -> FloatArray:
        """Variances of each class's answers, `(n_classes, size)`."""
        variances = np.maximum(basis.answer_variances(self.covariance, marginal), 0.0)
        if self.unmeasured.any():
            blind = basis.answer_variances(self.unmeasured, marginal)
            variances = np.where(blind > BLIND, np.nan, variances)
        return np.where(fixed_answers(basis, self.known, marginal), 0.0, variances)

    def of_rows(self, rows: slice) -> LevelVariances:
        """The variances of some geounits."""
        used, local = np.unique(self.classes[rows], return_inverse=True)
        own = [blocks[used] if len(blocks) > 1 else blocks for blocks in (self.covariance, self.unmeasured, self.known)]
        return LevelVariances(local, *own)

    def of_queries(self, basis: Basis, queries: Sequence[Asked]) -> AnswerVariances:
        """The variances of some queries' answers alone, without the matrices."""
        by_query = {
            query.key: self.of_classes(basis, query) if isinstance(query, Marginal) else query.of_classes(self, basis)
            for query in queries
        }
        return AnswerVariances(self.classes, by_query)


@dataclass(frozen=True, eq=False)
class SumCovariances:
    """The covariances of a query's answers with weighted sums of cells; they are asked for like variances.

    Attributes:
        query: whose answers.
        weights: `(r, n_cells)` of the sums.
    """

    query: Marginal
    weights: FloatArray

    @property
    def key(self) -> MarginalKey:
        """What distinguishes them from other queries."""
        return (*self.query.key, self.weights.tobytes())

    @property
    def size(self) -> int:
        """Number of covariances: for each answer, one with each sum."""
        return self.query.size * len(self.weights)

    def of_classes(self, variances: LevelVariances, basis: Basis) -> FloatArray:
        """Those of each class, `(n_classes, size)`."""
        covariance = variances.covariance
        out = np.empty((len(covariance), self.query.size, len(self.weights)))
        for number, folded in enumerate(basis.fold(self.weights)):
            for some in chunks(len(covariance), self.weights.shape[1]):
                blocks = covariance[some]
                products = basis.apply(blocks, np.broadcast_to(folded, (len(blocks), *folded.shape)))
                out[some, :, number] = self.query.answer(basis.unfold(products))
        return out.reshape(len(out), -1)


#: What is asked for of a level's covariances.
Asked = Marginal | SumCovariances


@dataclass(frozen=True, eq=False)
class AnswerVariances:
    """Variances of some queries' answers at a level: what is left of `LevelVariances` when its matrices are let go.

    Attributes:
        classes: `(n,)` class of each geounit.
        by_query: variances `(n_classes, size)` by the query's `key`.
    """

    classes: IntArray
    by_query: dict[MarginalKey, FloatArray]

    def standard_errors(self, marginal: Marginal) -> FloatArray:
        """Standard errors of each class, `(n_classes, size)`; NaN where the measurements do not determine them."""
        return np.sqrt(self.by_query[marginal.key])

    def of_rows(self, rows: slice | IntArray) -> AnswerVariances:
        """The variances of some geounits."""
        used, local = np.unique(self.classes[rows], return_inverse=True)
        return AnswerVariances(local, {key: values[used] for key, values in self.by_query.items()})

    def with_rows(self, rows: slice) -> AnswerVariances:
        """The same, with all classes kept."""
        return AnswerVariances(self.classes[rows], self.by_query)

    @classmethod
    def joined(cls, parts: Sequence[AnswerVariances]) -> AnswerVariances:
        """The variances of successive geounits together."""
        if len(parts) == 1:
            return parts[0]
        sizes = [len(next(iter(part.by_query.values()))) for part in parts]
        offsets = np.cumsum([0, *sizes[:-1]])
        return cls(
            np.concatenate([part.classes + offset for part, offset in zip(parts, offsets, strict=True)]),
            {key: np.concatenate([part.by_query[key] for part in parts]) for key in parts[0].by_query},
        )

    def largest(self) -> AnswerVariances:
        """Of each answer the largest variance, as one class without geounits; NaN where no class has one."""
        by_query = {key: np.fmax.reduce(values, axis=0, initial=np.nan)[None] for key, values in self.by_query.items()}
        return AnswerVariances(self.classes[:0], by_query)


def _children_precision(problem: Problem, level: int, estimates: list[LevelEstimate]) -> tuple[FloatArray, IntArray]:
    """J of the classes of a level that has children `(n_classes, n_blocks, a, a)`; class of each geounit `(n,)`."""
    children = estimates[level].children
    if children is not None:
        return children.precision, estimates[level].classes
    below, n = estimates[level + 1], len(problem.spine.levels[level])
    groups = ChildGroups.of(problem.spine.child_offsets(level), below.classes, np.zeros((n, 0)), counted=True)
    _, excluded = known_to_children(groups, below.info.known, below.info.unmeasured, plain=False)
    return inverse_off(summed_over(groups.children, below.info.covariance), excluded), groups.classes


def _at_top(estimate: LevelEstimate) -> LevelVariances:
    """Covariances of the estimates of the top level, which has nothing above it."""
    info = estimate.info
    return LevelVariances(estimate.classes, info.covariance, info.unmeasured, info.known)


def variances_of(
    problem: Problem, estimates: list[LevelEstimate], above: LevelVariances | None = None
) -> Iterator[LevelVariances]:
    """Covariances of the estimates of every level after both passes, top to bottom, one level at a time.

    In the topdown estimator, where a geounit's estimate uses its own measurements and its parent's estimate, the
    same recursion holds with the own V in place of the subtree's.

    Args:
        problem: with its estimates.
        estimates: of the upward pass.
        above: the covariances of the top level of a part of a larger spine, of which the levels below it are given.
    """
    if above is None:
        above = _at_top(estimates[0])
        yield above
    for level in range(1, problem.spine.n_levels):
        below = _Below.of(problem, estimates, level, above.classes)
        above = replace(below.variances(above, slice(0, below.kinds.shape[1]), 0), classes=below.classes)
        yield above


def answer_variances_of(
    problem: Problem,
    basis: Basis,
    estimates: list[LevelEstimate],
    queries: Sequence[Sequence[Asked]],
    above: LevelVariances | None = None,
) -> list[AnswerVariances]:
    """Of every level the variances of its queries' answers after both passes, as `variances_of` has them.

    Some classes of a level at a time, and of each level below those that follow from them: of the classes of a level,
    which may be as many as its geounits, no more than a few have their matrices at once.

    Args:
        problem, estimates, above: as of `variances_of`.
        basis: of the problem.
        queries: per level that is given.
    """
    if above is None:
        top = _at_top(estimates[0])
        return [top.of_queries(basis, queries[0]), *answer_variances_of(problem, basis, estimates, queries[1:], top)]
    levels: list[_Below] = []
    for level in range(1, problem.spine.n_levels):
        levels.append(_Below.of(problem, estimates, level, levels[-1].classes if levels else above.classes))
    asked = queries[: len(levels)]
    found: list[list[dict[MarginalKey, FloatArray]]] = [[] for _ in levels]
    _find_below(levels, basis, asked, found, above, 0)
    return [
        AnswerVariances(
            level.classes, {query.key: np.concatenate([part[query.key] for part in parts]) for query in own}
        )
        for level, parts, own in zip(levels, found, asked, strict=False)
    ]


def _find_below(
    levels: Sequence[_Below],
    basis: Basis,
    queries: Sequence[Sequence[Asked]],
    found: Sequence[list[dict[MarginalKey, FloatArray]]],
    above: LevelVariances,
    first: int,
) -> None:
    """Add to what was `found` of each level the answers' variances of the classes that are below some classes.

    Args:
        levels: below these classes.
        basis, queries: as of `answer_variances_of`, of these levels.
        found: of each of them, what was found so far.
        above: the covariances of the classes.
        first: the number of the first of them among all of their level.
    """
    if not any(queries):
        return
    start, stop = np.searchsorted(levels[0].kinds[0], (first, first + len(above.covariance))).tolist()
    for part in chunks(stop - start, above.covariance[0].size):
        rows = slice(start + part.start, start + part.stop)
        own = levels[0].variances(above, rows, first)
        found[0].append(own.of_queries(basis, queries[0]).by_query)
        _find_below(levels[1:], basis, queries[1:], found[1:], own, rows.start)


@dataclass(frozen=True, eq=False)
class _Below:
    """What the covariances of a level are made of, but for those of the level above.

    Attributes:
        problem, level, estimate: of the level, from the upward pass.
        classes: `(n,)` class of each geounit.
        kinds: `(4, n_classes)`, in this order: the parent's class, the parent's class by its children, whether an only
            child, own class in the upward pass.
        precision: J of the parents' classes by their children.
        parent_classes: `(n_parents,)` these.
    """

    problem: Problem
    level: int
    estimate: LevelEstimate
    classes: IntArray
    kinds: IntArray
    precision: FloatArray
    parent_classes: IntArray

    @classmethod
    def of(cls, problem: Problem, estimates: list[LevelEstimate], level: int, above: IntArray) -> _Below:
        """Of a level, where the geounits of the level above have the classes `above`."""
        parents = problem.spine.levels[level].parents
        precision, parent_classes = _children_precision(problem, level - 1, estimates)
        alone = np.diff(problem.spine.child_offsets(level - 1)) == 1
        keys = np.stack([above[parents], parent_classes[parents], alone[parents], estimates[level].classes])
        kinds, classes = np.unique(keys, axis=1, return_inverse=True)
        classes = classes.ravel().astype(np.int64)
        return cls(problem, level, estimates[level], classes, kinds, precision, parent_classes)

    def variances(self, above: LevelVariances, rows: slice, first: int) -> LevelVariances:
        """Those of some classes, numbered from 0.

        Args:
            above: covariances of classes of the level above, among them the parents'.
            rows: of the classes.
            first: the number of the first class in `above`.
        """
        kinds = self.kinds[:, rows] - np.array([[first], [0], [0], [0]])
        upper, of, single, own = kinds
        covariance, info = np.empty((len(own), *self.precision.shape[1:])), self.estimate.info
        for part in chunks(len(own), _TOGETHER * covariance[:1].size):
            covariance[part] = _final(
                info.covariance[own[part]], self.precision[of[part]], above.covariance[upper[part]], single[part] == 1
            )
        unmeasured = above.unmeasured[:1]
        if above.unmeasured.any() or info.blind.any():
            alone = (single == 1)[:, None, None, None]
            unmeasured = np.where(alone, _shared(above.unmeasured, upper), info.unmeasured[own])
        known = self._known(above, kinds)
        return LevelVariances(np.arange(len(own)), covariance, off_known(unmeasured, known), known)

    def _known(self, above: LevelVariances, kinds: IntArray) -> FloatArray:
        """`LevelVariances.known` of each of some `kinds`, or one that all share; as of `variances`."""
        known = self.estimate.info.known
        upper, of, _, own = kinds[:, :1] if len(above.known) == 1 and (known == known[:1]).all() else kinds
        if not learns_from_family(known[own], _shared(above.known, upper)).any():
            return known[own]
        upper, of, _, own = kinds
        classes, unknown = self._unknown_of_families
        out = np.empty((len(own), *known.shape[1:]))
        for rows in chunks(len(own), known[0].size):
            family = unknown[classes[of[rows]]]
            out[rows] = known_with_family(known[own[rows]], _shared(above.known, upper[rows]), family)
        return out

    @cached_property
    def _unknown_of_families(self) -> tuple[IntArray, FloatArray]:
        """A class of each parent's class by its children, and of each such class the sum of what its children lack."""
        known, n_parents = self.estimate.info.known, len(self.parent_classes)
        offsets = self.problem.spine.child_offsets(self.level - 1)
        groups = ChildGroups.of(offsets, self.estimate.classes, np.zeros((n_parents, 0)), counted=True)
        _, first = np.unique(self.parent_classes, return_index=True)
        return groups.classes[first], summed_over(groups.children, np.eye(known.shape[-1]) - known)


def _shared(blocks: FloatArray, classes: IntArray) -> FloatArray:
    """Blocks of some classes; where there is one only, all classes share it."""
    return blocks[classes if len(blocks) > 1 else 0 * classes]


def _final(covariance: FloatArray, precision: FloatArray, upper: FloatArray, single: BoolArray) -> FloatArray:
    """V~ of children with covariances V, whose parents have J and V~ `upper`; all `(n, n_blocks, a, a)`."""
    gain = covariance @ precision
    total = covariance - gain @ covariance + gain @ upper @ np.swapaxes(gain, -1, -2)
    return np.where(single[:, None, None, None], upper, symmetrise(total))


def unbiased_estimates(
    problem: Problem, basis: Basis, estimates: list[LevelEstimate], level: int, above: FloatArray | None
) -> Iterator[tuple[slice, FloatArray]]:
    """Estimates of a level, chunk by chunk: the rows, and `(n, n_cells)`.

    Args:
        problem: with estimator "full".
        basis: of the problem.
        estimates: of the upward pass.
        level: which level.
        above: estimates `(n, n_cells)` of the level above, from this function; None at the top.
    """
    estimate = estimates[level]
    correction = None
    if above is not None:
        children = estimates[level - 1].children
        assert children is not None
        moved = basis.fold(above - children.mean)
        correction = basis.unfold(basis.apply(children.precision, moved, estimates[level - 1].classes))
        single = np.diff(problem.spine.child_offsets(level - 1)) == 1
    for part in chunks(len(estimate.classes), problem.n_cells, CHUNK_CELLS):
        rows = np.arange(part.start, part.stop)
        best = basis.unfold(estimates_of(problem, basis, level, estimate, rows)[0])
        if correction is not None and above is not None:
            parents = problem.spine.levels[level].parents[rows]
            moved = basis.apply(estimate.info.covariance, basis.fold(correction[parents]), estimate.classes[rows])
            best = best + basis.unfold(moved)
            best = np.where(single[parents][:, None], above[parents], best)
        yield part, best


def whole_estimates(
    problem: Problem, basis: Basis, estimates: list[LevelEstimate], above: FloatArray | None = None
) -> Iterator[FloatArray]:
    """The same of whole levels, `(n, n_cells)` each, top to bottom; of those below the top where `above` is of that."""
    for level in range(0 if above is None else 1, problem.spine.n_levels):
        found = np.empty((len(problem.spine.levels[level]), problem.n_cells))
        for rows, best in unbiased_estimates(problem, basis, estimates, level, above):
            found[rows] = best
        yield found
        above = found
