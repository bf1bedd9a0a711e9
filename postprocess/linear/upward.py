"""Upward pass: the best linear unbiased estimate of every geounit from all measurements of its subtree.

For a geounit p with children c, in the notation of docs/mathematics.md (an index + is a sum over the children):

    precision  H_p = A'D^-1 A + J_p,   linear term  eta_p = A'D^-1 y + J_p b_+,   J_p = (V_+)^-1,
    covariance V_p = H_p^-1,           estimate     b_p = V_p eta_p,

with inverses taken off the known and the unmeasured directions (see `information`). It is linear in the number of
geounits, and leaves that are alike (same strategy, same zeros) share one matrix: only the sums of their answers over
each parent are formed. Source: Honaker's and Hay's two-pass estimator for trees (Hay et al. 2010, section 4) with
matrices in place of variances, as in BlueDown (arXiv 2603.10099).

Answers of a query from the upward pass: each geounit's from its own subtree, with their variances.

Which parents have the same matrices: those that are measured alike, with the same zeros and alike children.

Their precisions and covariances are worked out once. With single years of age such a matrix has 91 x 91 numbers, and
seven thousand parents have some ten different ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.algebra import Basis, chunks, summed
from postprocess.arrays import BoolArray, FloatArray, IntArray, members, owners, runs
from postprocess.linear.information import (
    BLIND,
    Information,
    common_known,
    information,
    invariant_terms,
    invariants_of,
    inverse_off,
    is_full,
    with_invariants,
    with_unmeasured,
    zero_masks,
    zero_projector,
)
from postprocess.marginal import Marginal
from postprocess.problem import GroupBounds, MeasuredAnswers, Problem


@dataclass(frozen=True, eq=False)
class ChildGroups:
    """The parents of a level in classes, with the children of one parent of each class.

    Attributes:
        classes: `(n,)` of each parent; numbered as they first occur.
        first: `(n_classes,)` the first parent of each class.
        children: `(n_classes, n_classes of the children)` how many children of which class it has.
    """

    classes: IntArray
    first: IntArray
    children: sp.csr_array

    @classmethod
    def of(cls, offsets: IntArray, below: IntArray, features: NDArray[np.generic], *, counted: bool) -> ChildGroups:
        """Groups of parents.

        Args:
            offsets: `(n + 1,)` the children of each parent.
            below: class of each child.
            features: `(n, m)` small whole numbers in which parents of one class do not differ.
            counted: alike children are counted; else sums are over the children one by one, in their order, so that
                they come out the same to the last bit however the classes are numbered.
        """
        keys = np.ascontiguousarray(features, dtype=np.int8)
        if counted:
            below = below[np.lexsort((below, owners(offsets)))]
        known: dict[tuple[bytes, bytes], int] = {}
        classes = np.empty(len(keys), dtype=np.int64)
        first: list[int] = []
        for i, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            key = keys[i].tobytes(), below[start:end].tobytes()
            number = known.setdefault(key, len(known))
            if number == len(first):
                first.append(i)
            classes[i] = number
        firsts = np.array(first, dtype=np.int64)
        of_first, starts = members(offsets, firsts)
        shape = (len(firsts), int(below.max(initial=-1)) + 1)
        children = sp.csr_array((np.ones(len(of_first)), below[of_first], starts), shape=shape)
        if counted:
            children.sum_duplicates()
        return cls(classes, firsts, children)


def summed_over(children: sp.csr_array, blocks: FloatArray) -> FloatArray:
    """Blocks `(n, ...)` of the children's classes, summed over the children of a parent of each class."""
    n_classes, n_below = children.shape
    return (children @ blocks[:n_below].reshape(n_below, -1)).reshape(n_classes, *blocks.shape[1:])


#: Cells of dense estimates held at once while a level is worked through.
CHUNK_CELLS = 8_000_000
#: Numbers of a mean run of rows from which on runs are summed one by one.
LOOP_NUMBERS = 4096


@dataclass(frozen=True, eq=False)
class LevelEstimate:
    """What the upward pass knows of one level.

    Attributes:
        classes: `(n,)` the class of each geounit: those that have the same matrices share one.
        info: precision, covariance, known and unmeasured directions, per class.
        fixed: histograms `(n, n_cells)` on the known directions; None where only zeros are known, and at the leaves.
        children: the information from the children; None at the leaves and in the topdown estimator.
    """

    classes: IntArray
    info: Information
    fixed: FloatArray | None = None
    children: ChildrenSum | None = None


@dataclass(frozen=True, eq=False)
class ChildrenSum:
    """The children summed: mean b_+ `(n, n_cells)` and J b_+ of their estimates; J `(n_classes, n_blocks, a, a)`."""

    mean: FloatArray
    precision: FloatArray
    term: FloatArray


def basis_of(problem: Problem) -> Basis:
    """The basis that all measurements, passes, bounds and zeros of a problem can be stated in."""
    zeros = problem.constraints.structural_zeros.reshape(problem.shape)
    keep_whole = {j for j in range(len(problem.shape)) if not np.array_equal(zeros, np.roll(zeros, 1, axis=j))}
    marginals = [measured.marginal for level in problem.measured for measured in level]
    marginals.extend((*problem.passes, *problem.further))
    marginals.extend(answers.marginal for level in problem.positive for answers in level)
    marginals.extend(shared.query for level in problem.shares for shared in level)
    for level in problem.constraints.bounds:
        for bound in level:
            if (bound.upper == 0).any():
                keep_whole |= {j for j, size in enumerate(bound.marginal.sizes) if size > 1}
            marginals.append(bound.marginal)
    return Basis.of(problem.shape, marginals, sorted(keep_whole))


def own_terms(
    basis: Basis,
    measured: Sequence[MeasuredAnswers],
    rows: slice | IntArray,
    keep: BoolArray,
    kinds: NDArray[np.signedinteger] | None,
) -> FloatArray:
    """A'D^-1 y of a level's own measurements for some geounits, summed to `keep`: `(n, a, n_1 or 1, ...)`.

    `kinds` of all geounits, as in `Problem`.
    """
    n = len(measured[0].values[rows])
    out = np.zeros((n, basis.n_asymmetric, *basis.kept_shape(keep)))
    for query in measured:
        variance = query.by_row(None if kinds is None else kinds[rows])
        if not isinstance(variance, float):
            variance = variance.reshape(n, *(1,) * (out.ndim - 1))
        out += basis.projected(query.marginal, query.values[rows], keep) / variance
    return out


def level_terms(problem: Problem, basis: Basis, level: int, estimate: LevelEstimate) -> FloatArray:
    """The linear terms of all measurements of a level's geounits, their own and those below: `(n, n_cells)`."""
    out = np.zeros((len(estimate.classes), problem.n_cells))
    if measured := problem.measured[level]:
        out += basis.unfold(own_terms(basis, measured, slice(None), everything(basis), problem.kinds_of(level)))
    if estimate.children is not None:
        out += estimate.children.term
    return out


def own_precisions(basis: Basis, measured: Sequence[MeasuredAnswers]) -> FloatArray:
    """A'D^-1 A of a level's own measurements, for each kind of geounit: `(n_kinds, n_blocks, a, a)`."""
    n_kinds = 1 + (len(measured[0].others) if measured else 0)
    return np.stack(
        [
            basis.precision([(query.marginal, (query.variance, *query.others)[kind]) for query in measured])
            for kind in range(n_kinds)
        ]
    )


def silent_of(problem: Problem) -> list[BoolArray]:
    """Per level, `(n,)` True where nothing was measured of a geounit nor below it, since one above stands for it."""
    spine = problem.spine
    bypassing = any(problem.kinds_of(level) is not None for level in range(spine.n_levels))
    levels: list[BoolArray] = []
    for level in range(spine.n_levels - 1, -1, -1):
        kinds = problem.kinds_of(level)
        silent = np.zeros(len(spine.levels[level].geocodes), dtype=bool) if kinds is None else kinds < 0
        if bypassing and level and not problem.measured[level]:
            # At a level that nobody is measured at, an only child may be part of a chain that one above stands for.
            silent = (np.diff(spine.child_offsets(level - 1)) == 1)[spine.levels[level].parents]
        if levels:
            offsets = spine.child_offsets(level)
            silent = silent & (np.diff(offsets) == 1) & levels[-1][offsets[:-1]]
        levels.append(silent)
    return levels[::-1]


def _grouped_sum(values: np.ndarray, order: IntArray, starts: IntArray) -> np.ndarray:
    """Sums of rows `values[order]` over the runs that begin at `starts`, in 64 bits, with as few copies as can be.

    Rows of which each is a run of its own stay in their type.
    """
    if len(starts) == len(order):
        return values if len(order) == len(values) and np.array_equal(order, np.arange(len(values))) else values[order]
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    out = np.zeros((len(starts), values.shape[1]), dtype=kind)
    offsets = np.append(starts, len(order))
    if kind is np.int64 and len(order) * values.shape[1] >= LOOP_NUMBERS * len(starts):
        # Row by row in the rows' own type: a tenth of the time, to the same whole numbers.
        for sums, first, last in zip(out, starts.tolist(), offsets[1:].tolist(), strict=True):
            np.add.reduce(values[order[first:last]], axis=0, dtype=np.int64, out=sums)
        return out
    for first, last in runs(offsets, max(1, CHUNK_CELLS // max(1, values.shape[1]))):
        rows = order[offsets[first] : offsets[last]]
        out[first:last] = np.add.reduceat(values[rows].astype(kind), starts[first:last] - starts[first], axis=0)
    return out


def everything(basis: Basis) -> BoolArray:
    """Keep every symmetric attribute."""
    return np.ones(len(basis.symmetric), dtype=bool)


def alike_by_themselves(problem: Problem, basis: Basis, level: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Classes by a level's own measurements: of each geounit `(n,)`, and of each class its kind and what is known."""
    masks, kinds = zero_masks(problem, basis, level), problem.kinds_of(level)
    # What is not measured counts as kind 0: it is a copy of its parent, and nothing is computed from it.
    kind = np.zeros(len(masks), dtype=np.int8) if kinds is None else np.maximum(kinds, 0)
    rows, classes = np.unique(np.column_stack([kind, masks]), axis=0, return_inverse=True)
    known = zero_projector(basis, rows[:, 1:].astype(bool))
    if invariants := invariants_of(problem.constraints.bounds[level]):
        known, _ = with_invariants(basis, known, invariants)
    return classes.ravel().astype(np.int64), rows[:, 0].astype(np.int64), known


def kinds_above(problem: Problem, level: int, silent: Sequence[BoolArray]) -> tuple[IntArray, BoolArray]:
    """Of a level with children: kinds `(n,)`, -1 where only children are measured, and whether these say something.

    They say nothing where a geounit stands for all below it; `silent` as from `silent_of`.
    """
    kinds = problem.kinds_of(level)
    if kinds is None:
        n = len(problem.spine.levels[level])
        return np.zeros(n, dtype=np.int8), np.ones(n, dtype=bool)
    stands = silent[level + 1][problem.spine.child_offsets(level)[:-1]] & ~silent[level]
    between = (kinds < 0) & ~silent[level] & (problem.estimator == "full")
    return np.where(between, -1, np.maximum(kinds, 0)), ~stands


def known_to_children(
    groups: ChildGroups, known: FloatArray, unmeasured: FloatArray, *, plain: bool
) -> tuple[FloatArray, FloatArray]:
    """What every child knows, and the same with what of any child nothing is known of; from the children's classes."""
    inherited = common_known(summed_over(groups.children, np.eye(known.shape[-1]) - known), plain=plain)
    if not unmeasured.any():
        return inherited, inherited
    return inherited, with_unmeasured(inherited, summed_over(groups.children, unmeasured))


@dataclass(frozen=True, eq=False)
class Alike:
    """The geounits of a level in classes, each of which has the same matrices, whatever the measurements come out as.

    Attributes:
        classes: `(n,)` the class of each geounit.
        kind: `(n_classes,)` how precisely each class is measured, as in `Problem`; -1 where it is not measured itself.
        info: of each class.
        plain: whether nothing but zeros is known in the subtrees.
        children: `(n_classes, n_classes of the level below)` children of each class in one geounit; None at the leaves.
        informative: `(n_classes,)` whether the children add information; not where the geounit stands for all below it.
        excluded: `(n_classes, n_blocks, a, a)` projectors on the directions that the children's sum does not determine.
        precision: J, the same shape; None where it is not used.
        beyond, inverse: the same shape: what the children know beyond the zeros, and `with_invariants`; None if plain.
    """

    classes: IntArray
    kind: IntArray
    info: Information
    plain: bool
    children: sp.csr_array | None = None
    informative: BoolArray | None = None
    excluded: FloatArray | None = None
    precision: FloatArray | None = None
    beyond: FloatArray | None = None
    inverse: FloatArray | None = None


def of_kinds(own: FloatArray, kind: IntArray) -> FloatArray:
    """The precision of each kind of `(n,)` from those of all, or from the one that all have; 0 for -1."""
    return np.where((kind < 0)[:, None, None, None], 0.0, own[np.clip(kind, 0, len(own) - 1)])


def alike_alone(problem: Problem, basis: Basis, level: int) -> Alike:
    """The classes of a level by its own measurements alone."""
    classes, kind, known = alike_by_themselves(problem, basis, level)
    own = own_precisions(basis, problem.measured[level])
    info = information(of_kinds(own, kind), known, is_full(own))
    return Alike(classes, kind, info, not invariants_of(problem.constraints.bounds[level]))


def alike_above(
    problem: Problem,
    basis: Basis,
    level: int,
    below: tuple[IntArray, Information, bool],
    silent: Sequence[BoolArray],
    *,
    counted: bool,
) -> Alike:
    """The classes of a level, from its own measurements and its children.

    Args:
        below: of the children: classes, information, and whether they are plain.
        silent: as from `silent_of`.
        counted: as of `ChildGroups.of`.
    """
    of_child, info, plain = below
    masks, (kind, informative) = zero_masks(problem, basis, level), kinds_above(problem, level, silent)
    features = np.column_stack([masks, kind, informative])
    groups = ChildGroups.of(problem.spine.child_offsets(level), of_child, features, counted=counted)
    kind, informative = kind[groups.first].astype(np.int64), informative[groups.first]
    inherited, excluded = known_to_children(groups, info.known, info.unmeasured, plain=plain)
    own = own_precisions(basis, problem.measured[level])
    precision, complete, children = of_kinds(own, kind), is_full(own), None
    known = zero_projector(basis, masks[groups.first])
    beyond = inverse = None
    if problem.estimator == "full":
        children = inverse_off(summed_over(groups.children, info.covariance), excluded)
        children[~informative] = 0.0
        precision = precision + children
        blind = bool(info.blind.any())
        complete = (complete or (not blind and bool(informative.all()))) and not (blind and bool((kind < 0).any()))
    invariants = invariants_of(problem.constraints.bounds[level])
    if invariants or not plain:
        beyond = inherited - known @ inherited if children is not None else None
        known, inverse = with_invariants(basis, known, invariants, beyond)
    return Alike(
        classes=groups.classes,
        kind=kind,
        info=information(precision, known, complete),
        plain=plain and not invariants,
        children=groups.children,
        informative=informative,
        excluded=excluded,
        precision=children,
        beyond=beyond,
        inverse=inverse,
    )


def _sum_over_children(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate
) -> tuple[FloatArray, FloatArray | None]:
    """Estimates and fixed parts of a level's geounits, summed over each parent, both `(n_parents, n_cells)`.

    Alike leaves of one parent are summed before anything else is done with them.
    """
    parents = problem.spine.levels[level].parents
    n_parents = len(problem.spine.levels[level - 1].geocodes)
    if estimate.children is None:
        order = np.lexsort((estimate.classes, parents))
        key = parents[order] * np.int64(len(estimate.info.known)) + estimate.classes[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
    else:
        order = starts = np.arange(len(parents))
    group_class, group_parent = estimate.classes[order][starts], parents[order][starts]
    sums = LevelSums.of(problem, level, estimate, order, starts)
    mean = np.zeros((n_parents, problem.n_cells))
    fixed_sum = np.zeros_like(mean) if sums.any_fixed else None
    for rows in chunks(len(starts), problem.n_cells, CHUNK_CELLS):
        masks = zero_masks(problem, basis, level)[order[starts[rows]]] if sums.invariants else None
        best, fixed = sums.estimates(basis, estimate, group_class[rows], rows, masks, everything(basis))
        np.add.at(mean, group_parent[rows], basis.unfold(best))
        if fixed_sum is not None and fixed is not None:
            np.add.at(fixed_sum, group_parent[rows], basis.unfold(fixed))
    return mean, fixed_sum


@dataclass(frozen=True, eq=False)
class LevelSums:
    """Answers, children's terms and fixed parts of a level, summed over groups of alike geounits."""

    measured: tuple[MeasuredAnswers, ...]
    invariants: tuple[GroupBounds, ...]
    invariant_answers: tuple[IntArray, ...]
    children_term: FloatArray | None
    fixed: FloatArray | None
    n_cells: int
    kinds: NDArray[np.signedinteger] | None

    @classmethod
    def of(cls, problem: Problem, level: int, estimate: LevelEstimate, order: IntArray, starts: IntArray) -> LevelSums:
        """Sums over the runs of `order` that begin at `starts`."""
        kinds = problem.kinds_of(level)
        measured = tuple(
            replace(query, values=_grouped_sum(query.values, order, starts)) for query in problem.measured[level]
        )
        leaf_invariants = () if estimate.children else tuple(invariants_of(problem.constraints.bounds[level]))
        return cls(
            measured=measured,
            invariants=leaf_invariants,
            invariant_answers=tuple(_grouped_sum(bound.lower, order, starts) for bound in leaf_invariants),
            children_term=None if estimate.children is None else _grouped_sum(estimate.children.term, order, starts),
            fixed=None if estimate.fixed is None else _grouped_sum(estimate.fixed, order, starts),
            n_cells=problem.n_cells,
            kinds=None if kinds is None else kinds[order[starts]],
        )

    @property
    def any_fixed(self) -> bool:
        """Whether some numbers are known without noise."""
        return bool(self.invariants) or self.fixed is not None

    def estimates(
        self,
        basis: Basis,
        estimate: LevelEstimate,
        classes: IntArray,
        rows: slice,
        masks: BoolArray | None,
        keep: BoolArray,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Best linear estimates and fixed parts of the groups in `rows`, summed to `keep`: `(n, a, n_1 or 1, ...)`."""
        small, blocks = basis.summed_to(keep)
        shape = (len(classes), basis.n_asymmetric, *basis.kept_shape(keep))

        def apply(matrices: FloatArray, vectors: FloatArray, of: IntArray | None = classes) -> FloatArray:
            kept = vectors.reshape(len(vectors), *small.shape)
            return small.apply(matrices[:, blocks], kept, of).reshape(shape)

        term = np.zeros(shape)
        if self.measured:
            term += own_terms(basis, self.measured, rows, keep, self.kinds)
        if self.children_term is not None:
            term += summed(basis.fold(self.children_term[rows]), keep)
        fixed = None
        if self.fixed is not None:
            fixed = summed(basis.fold(self.fixed[rows]), keep)
        elif self.invariants:
            assert masks is not None
            _, inverse = with_invariants(basis, zero_projector(basis, masks), self.invariants)
            answers = [answers[rows] for answers in self.invariant_answers]
            fixed = apply(inverse, invariant_terms(basis, self.invariants, answers, keep), None)
        if fixed is None:
            return apply(estimate.info.covariance, term), None
        term -= apply(estimate.info.precision, fixed)
        return fixed + apply(estimate.info.covariance, term), fixed


def _parents(
    problem: Problem, basis: Basis, level: int, below: LevelEstimate, silent: Sequence[BoolArray], *, means: bool
) -> LevelEstimate:
    """The level above `below`, from its own measurements and its children; `silent` as from `silent_of`."""
    if means:
        mean, fixed_sum = _sum_over_children(problem, basis, level + 1, below)
    else:
        mean = np.zeros((len(problem.spine.levels[level]), problem.n_cells))
        invariants_below = below.children is None and invariants_of(problem.constraints.bounds[level + 1])
        fixed_sum = mean if invariants_below or below.fixed is not None else None
    known_of = below.classes, below.info, fixed_sum is None
    alike = alike_above(problem, basis, level, known_of, silent, counted=below.children is None)
    assert alike.precision is not None
    assert alike.informative is not None
    classes, fixed = alike.classes, None
    # Where a geounit stands for all below it, its children add no information.
    mean[~alike.informative[classes]] = 0.0
    if alike.inverse is not None and alike.beyond is not None:
        right = np.zeros((len(classes), basis.n_asymmetric, *basis.symmetric_shape))
        if invariants := invariants_of(problem.constraints.bounds[level]):
            right += invariant_terms(basis, invariants, [bound.lower for bound in invariants], everything(basis))
        if fixed_sum is not None:
            right += basis.apply(alike.beyond, basis.fold(fixed_sum), classes)
        fixed = basis.unfold(basis.apply(alike.inverse, right, classes))
    term = basis.unfold(basis.apply(alike.precision, basis.fold(mean), classes)) if means else mean
    return LevelEstimate(classes, alike.info, fixed, ChildrenSum(mean, alike.precision, term))


def upward_pass(
    problem: Problem,
    basis: Basis,
    at_leaves: LevelEstimate | None = None,
    silent: Sequence[BoolArray] | None = None,
    *,
    means: bool = True,
) -> list[LevelEstimate]:
    """What is known of every level, top to bottom, by the problem's estimator.

    Args:
        at_leaves: what is known of the leaf level, where that is the cut of a larger spine; by default what its own
            measurements say.
        silent: as `silent_of` gives for that larger spine; by default for the problem's own.
        means: estimate answers, too. Else only the matrices are right, for which no values are needed.

    Raises:
        numpy.linalg.LinAlgError: never for a problem that was checked; a defect.
    """
    n_levels = problem.spine.n_levels

    def alone(level: int) -> LevelEstimate:
        alike = alike_alone(problem, basis, level)
        return LevelEstimate(alike.classes, alike.info)

    estimates = [alone(n_levels - 1) if at_leaves is None else at_leaves]
    if silent is None:
        silent = silent_of(problem)
    for level in range(n_levels - 2, -1, -1):
        if problem.estimator == "full":
            estimates.append(_parents(problem, basis, level, estimates[-1], silent, means=means))
        else:
            estimates.append(alone(level))
    return estimates[::-1]


def estimates_of(
    problem: Problem,
    basis: Basis,
    level: int,
    estimate: LevelEstimate,
    rows: IntArray,
    keep: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray | None]:
    """Best linear estimates of some geounits, and their fixed parts, summed to `keep`: `(n, a, n_1 or 1, ...)`."""
    sums = LevelSums.of(problem, level, estimate, rows, np.arange(len(rows)))
    masks = zero_masks(problem, basis, level)[rows] if sums.invariants else None
    kept = everything(basis) if keep is None else keep
    return sums.estimates(basis, estimate, estimate.classes[rows], slice(None), masks, kept)


def estimated_answers(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, query: Marginal, rows: IntArray
) -> FloatArray:
    """Best linear estimates of a query's answers in some geounits, `(n, size)`."""
    values, keep = np.empty((len(rows), query.size)), basis.kept(query)
    for part in chunks(len(rows), problem.n_cells):
        values[part] = basis.answers_in_order(query, estimates_of(problem, basis, level, estimate, rows[part], keep)[0])
    return values


def answers_of_subtrees(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, query: Marginal, rows: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Estimates `(n, size)` of a query's answers and their variances, infinite where nothing is measured.

    Those of siblings are independent of each other.

    Args:
        problem: with the values of its measurements.
        basis: of the problem, which can state the query.
        level: of the problem.
        estimate: of the level, from the upward pass.
        query: whose answers.
        rows: of the level; by default all.
    """
    rows = np.arange(len(estimate.classes)) if rows is None else rows
    values = estimated_answers(problem, basis, level, estimate, query, rows)
    variances = np.maximum(basis.answer_variances(estimate.info.covariance, query), 0.0)
    if estimate.info.blind.any():
        variances[basis.answer_variances(estimate.info.unmeasured, query) > BLIND] = np.inf
    return values, variances[estimate.classes[rows]]
