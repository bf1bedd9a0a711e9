"""Covariances of the linear estimates before anything is measured: of answers, of sums over areas, of two geounits.

Which geounits are alike: those whose estimates have the same covariance whatever the measurements come out as.

Covariances depend on what is measured with which variance, on what is known, and on the tree, never on an answer.
Geounits with the same zeros and alike children share a class, so a state with 25,000 blocks has a few hundred
matrices. The upward class of a geounit is that of its subtree; the downward class adds where its parent stands.

The recursions of `upward` and `unbiased` for the covariances alone, over classes of alike geounits:

    J = (V_+)^-1,   H = A'D^-1 A + J (topdown: A'D^-1 A),   V = H^-1
    V~ = V - V W V   for a child,   W = J - J V~_parent J   of its parent;   V~ = V at the top

The gradient is the adjoint of these lines, taken backwards. Non-negativity and rounding are left out: where counts are
small the release is closer to the truth than its linear estimate.

The variance of a sum over any leaves: areas that are not on the spine.

Given its parent's estimate, a child's is b~_c = K_c b~_p + e_c with K_c = V_c J_p, and the residuals e of different
families are independent of each other and of everything above. So a sum over children sum_c G_c b~_c passes
G_p = sum_c G_c K_c to the parent, and adds to the variance what its family leaves,

    sum_c G_c V_c G_c'  -  (sum_c G_c V_c) J_p (sum_c G_c V_c)'.

Geounits whose leaves all belong to the area enter whole, with G = I, so that only the edge of the area is gone through.

Variances and covariances of weighted sums of cells: differences, shares, and what a median is tested by.

A weight on cells is a product over the attributes here, w(cell) = product of w_j(value of attribute j), as an answer is
(with weights 0 and 1). In the basis, P_B is a product over the symmetric attributes too, so that

    w'Vw* = sum over B of  (w_0'V_B w*_0)  product over j in B of (w_j'w*_j - (1'w_j)(1'w*_j) / n_j)
                                           product over j not in B of (1'w_j)(1'w*_j) / n_j

for two such weights, with w_0 on the asymmetric cells.

Covariances of two geounits' answers in a form that is small for all pairs of a spine: products of factors.

With b~_c = K_c b~_p + e_c (see above), and c, d the children of the last common geounit p above two geounits k, l,

    Cov(k, l) = - L_k W_p L_l',   L_k = K_k ... V_c,

and of a geounit and one above it Cov(k, p) = K_k ... K_c V~_p.

So each class of geounits needs one factor L_k W_p^(1/2) for each level above it, and one block for each level above it
and its own, both multiplied by the rows of a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from geography.spine import Spine
from postprocess.algebra import LARGE, Basis, diagonals, symmetrise
from postprocess.arrays import BoolArray, FloatArray, IntArray, Weights
from postprocess.linear.downward import LevelVariances
from postprocess.linear.information import (
    BLIND,
    FREE,
    Information,
    inverse_off,
    known_with_family,
    off_known,
)
from postprocess.linear.upward import Alike, alike_above, alike_alone, of_kinds, silent_of, summed_over
from postprocess.marginal import Marginal
from postprocess.problem import Problem
from postprocess.statistics import EXACT_VARIANCE, MEAN_ABSOLUTE, Moments


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelClasses(Alike):
    """The classes of one level: `classes` are the upward ones, by the subtree.

    Attributes:
        downward: `(n,)` downward class of each geounit.
        parent: `(n_downward,)` the parent's downward class; -1 at the top.
        own: `(n_downward,)` the upward class.
        single: `(n_downward,)` whether it is its parent's only child, and so equal to it.
        blind: `(n_downward, n_blocks, a, a)` projectors on what stays unmeasured after both passes.
        fixed: the same for what zeros and invariants fix, those of parent and siblings included.
    """

    downward: IntArray
    parent: IntArray
    own: IntArray
    single: BoolArray
    blind: FloatArray
    fixed: FloatArray

    @property
    def sizes(self) -> IntArray:
        """`(n_downward,)` number of geounits in each class."""
        return np.bincount(self.downward, minlength=len(self.own)).astype(np.int64)


def geounit_classes(problem: Problem, basis: Basis) -> tuple[LevelClasses, ...]:
    """The classes of every level, top to bottom.

    Args:
        problem: its answers are not looked at, only what is measured, known, and where.
        basis: of the problem.
    """
    silent = silent_of(problem)
    upward = [alike_alone(problem, basis, problem.spine.n_levels - 1)]
    for level in range(problem.spine.n_levels - 2, -1, -1):
        below = upward[-1].classes, upward[-1].info, upward[-1].plain
        upward.append(alike_above(problem, basis, level, below, silent, counted=True))
    out: list[LevelClasses] = []
    none = np.zeros(0)
    for level, up in enumerate(reversed(upward)):
        info = up.info
        if level == 0:
            own, downward = np.unique(up.classes, return_inverse=True)
            parent = np.full(len(own), -1, dtype=np.int64)
            single = np.zeros(len(own), dtype=bool)
            blind, fixed = info.unmeasured[own], info.known[own]
        else:
            above = out[-1]
            of_parent = above.downward[problem.spine.levels[level].parents]
            pairs, downward = np.unique(np.stack([of_parent, up.classes]), axis=1, return_inverse=True)
            parent, own = pairs
            assert above.children is not None
            single = np.asarray(above.children.sum(axis=1)).ravel()[above.own[parent]] == 1
            unknown = summed_over(above.children, np.eye(info.known.shape[-1]) - info.known)[above.own[parent]]
            fixed = known_with_family(info.known[own], above.fixed[parent], unknown)
            blind = np.where(single[:, None, None, None], above.blind[parent], info.unmeasured[own])
            blind = off_known(blind, fixed)
        # What follows from variances is worked out by `covariances`, for as many of them as are tried.
        bare = replace(up, info=Information(none, info.known, info.unmeasured, none), precision=None, inverse=None)
        downward = downward.ravel().astype(np.int64)
        out.append(
            LevelClasses(
                **vars(bare), downward=downward, parent=parent, own=own, single=single, blind=blind, fixed=fixed
            )
        )
    return tuple(out)


@dataclass(frozen=True, eq=False)
class LevelCovariances:
    """Covariances of one level, blocks `(n, n_blocks, a, a)`.

    Attributes:
        upward: V of each upward class.
        children: J of each upward class; None at the leaves.
        final: V~ of each downward class.
        pull: W of each downward class; None at the leaves.
    """

    upward: FloatArray
    children: FloatArray | None
    final: FloatArray
    pull: FloatArray | None


def covariances(
    classes: Sequence[LevelClasses], own: Sequence[FloatArray], estimator: str
) -> tuple[LevelCovariances, ...]:
    """The covariances of every level, top to bottom.

    Args:
        classes: of `geounit_classes`.
        own: the precision of each level's measurements for each kind of geounit, `(n_kinds, n_blocks, a, a)`.
        estimator: "full" or "topdown".
    """
    upward: list[tuple[FloatArray, FloatArray | None]] = []
    for level in reversed(range(len(classes))):
        here = classes[level]
        precision = of_kinds(own[level], here.kind)
        children = None
        if here.children is not None:
            assert here.excluded is not None
            children = inverse_off(summed_over(here.children, upward[-1][0]), here.excluded)
            if estimator == "full":
                assert here.informative is not None
                precision = precision + np.where(here.informative[:, None, None, None], children, 0.0)
        upward.append((inverse_off(precision, here.info.known + here.info.unmeasured), children))
    out: list[LevelCovariances] = []
    for level, (covariance, children) in enumerate(reversed(upward)):
        here = classes[level]
        final = covariance[here.own]
        if level:
            pull = out[-1].pull
            assert pull is not None
            final = final - final @ pull[here.parent] @ final
            final = np.where(here.single[:, None, None, None], out[-1].final[here.parent], final)
            final = symmetrise(final)
        pull = None
        if children is not None:
            from_children = children[here.own]
            pull = from_children - from_children @ final @ from_children
        out.append(LevelCovariances(covariance, children, final, pull))
    return tuple(out)


def gradient(
    classes: Sequence[LevelClasses],
    covariances: Sequence[LevelCovariances],
    by_final: Sequence[FloatArray],
    estimator: str,
) -> tuple[FloatArray, ...]:
    """The derivative of a function of the final covariances with respect to each level's own precision.

    All geounits of a level are measured alike.

    Args:
        covariances: by `covariances`.
        by_final: the function's derivative by V~ of each level, symmetric blocks `(n_downward, n_blocks, a, a)`.

    Returns:
        Per level, blocks `(n_blocks, a, a)`.
    """
    by_final = [derivative.copy() for derivative in by_final]
    by_upward = [np.zeros_like(level.upward) for level in covariances]
    by_children = [np.zeros_like(level.upward) for level in covariances]
    for level in reversed(range(len(classes))):
        here = classes[level]
        if level == 0:
            np.add.at(by_upward[0], here.own, by_final[0])
            continue
        above = covariances[level - 1]
        assert above.pull is not None
        assert above.children is not None
        single = here.single[:, None, None, None]
        np.add.at(by_final[level - 1], here.parent, np.where(single, by_final[level], 0.0))
        wanted = np.where(single, 0.0, by_final[level])
        covariance, pull = covariances[level].upward[here.own], above.pull[here.parent]
        turned = wanted @ covariance @ pull
        np.add.at(by_upward[level], here.own, wanted - turned - np.swapaxes(turned, -1, -2))
        by_pull = np.zeros_like(above.pull)
        np.add.at(by_pull, here.parent, -covariance @ wanted @ covariance)
        from_children = above.children[classes[level - 1].own]
        turned = by_pull @ from_children @ above.final
        np.add.at(by_children[level - 1], classes[level - 1].own, by_pull - turned - np.swapaxes(turned, -1, -2))
        by_final[level - 1] -= from_children @ by_pull @ from_children
    out = []
    for level, here in enumerate(classes):
        by_precision = -covariances[level].upward @ by_upward[level] @ covariances[level].upward
        if here.children is not None:
            inverse = covariances[level].children
            assert inverse is not None
            if estimator == "full":
                by_children[level] += by_precision
            by_sum = -inverse @ by_children[level] @ inverse
            by_upward[level + 1] += summed_over(here.children.T.tocsr(), by_sum)
        out.append(by_precision.sum(axis=0))
    return tuple(out)


@dataclass(frozen=True, eq=False)
class ExpectedErrors:
    """Expected errors of one query at one level.

    Attributes:
        variances: `(n_downward, size)` of each answer; NaN where the measurements do not determine it.
        sizes: `(n_downward,)` geounits in each class.
    """

    variances: FloatArray
    sizes: IntArray

    @property
    def per_geounit(self) -> float:
        """The sum over a geounit's answers of the expected absolute errors, mean over the geounits, in persons."""
        return float(self.sizes @ self._absolute.sum(axis=1) / self.sizes.sum())

    @property
    def per_number(self) -> float:
        """The expected absolute error of an answer, mean over answers and geounits, in persons."""
        return self.per_geounit / self.variances.shape[1]

    @property
    def rmse(self) -> float:
        """The root of an answer's variance, mean over answers and geounits, in persons."""
        return float(np.sqrt(self.sizes @ (self._standard**2).mean(axis=1) / self.sizes.sum()))

    @property
    def standard(self) -> float:
        """The standard error of an answer, mean over answers and geounits, in persons."""
        return self.per_number / MEAN_ABSOLUTE

    @property
    def _absolute(self) -> FloatArray:
        return MEAN_ABSOLUTE * self._standard

    @cached_property
    def _standard(self) -> FloatArray:
        return np.sqrt(np.where(self.variances <= EXACT_VARIANCE, 0.0, self.variances))


def expected_errors(
    basis: Basis, classes: LevelClasses, covariances: LevelCovariances, marginal: Marginal
) -> ExpectedErrors:
    """The expected errors of a query at the level of `classes`; normal errors are assumed."""
    return ExpectedErrors(of_level(classes, covariances).of_classes(basis, marginal), classes.sizes)


def error_by_final(
    basis: Basis, classes: LevelClasses, covariances: LevelCovariances, marginal: Marginal
) -> FloatArray:
    """The derivative of `ExpectedErrors.per_geounit` by the final covariances, `(n_downward, n_blocks, a, a)`."""
    recode, factors = basis.answer_factors(marginal)
    diagonal = diagonals(recode, covariances.final)
    variances = np.einsum("nbg,bf->ngf", diagonal, factors)
    known = variances <= EXACT_VARIANCE
    by_variance = np.where(known, 0.0, 0.5 * MEAN_ABSOLUTE / np.sqrt(np.where(known, 1.0, variances)))
    by_variance *= (classes.sizes / classes.sizes.sum())[:, None, None]
    weights = np.einsum("ngf,bf->nbg", by_variance, factors)
    return (recode.T * weights[:, :, None, :]) @ recode


def area_blocks(
    spine: Spine, classes: Sequence[LevelClasses], covariances: Sequence[LevelCovariances], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Covariance of a weighted sum over leaves, and what of it is not measured; blocks `(n_blocks, a, a)`.

    Args:
        weights: `(n_leaves,)`: 1 for an area, 1 and -1 for the difference of two.
    """
    enter = entering(spine, weights)
    shape = covariances[0].final.shape[1:]
    variance, blind = np.zeros(shape), np.zeros(shape)
    nodes: IntArray = np.zeros(0, dtype=np.int64)
    passed: FloatArray = np.zeros((0, *shape))
    for level in range(spine.n_levels - 1, -1, -1):
        here = classes[level]
        new = np.flatnonzero(enter[level])
        weight = enter[level][new, None, None, None]
        blind += (weight**2 * here.blind[here.downward[new]]).sum(axis=0)
        nodes = np.concatenate([nodes, new])
        passed = np.concatenate([passed, weight * np.broadcast_to(np.eye(shape[-1]), (len(new), *shape))])
        if level == 0:
            final = covariances[0].final[here.downward[nodes]]
            variance += (passed @ final @ np.swapaxes(passed, -1, -2)).sum(axis=0)
            break
        parents, place = np.unique(spine.levels[level].parents[nodes], return_inverse=True)
        children = covariances[level - 1].children
        assert children is not None
        from_children = children[classes[level - 1].classes[parents]]
        single = here.single[here.downward[nodes]][:, None, None, None]
        turned = np.where(single, 0.0, passed @ covariances[level].upward[here.classes[nodes]])
        variance += (turned @ np.swapaxes(passed, -1, -2)).sum(axis=0)
        summed = np.zeros((len(parents), *shape))
        np.add.at(summed, place, turned)
        variance -= (summed @ from_children @ np.swapaxes(summed, -1, -2)).sum(axis=0)
        upward = summed @ from_children
        np.add.at(upward, place, np.where(single, passed, 0.0))
        nodes, passed = parents, upward
    return symmetrise(variance), blind


def unknown_in_area(spine: Spine, classes: Sequence[LevelClasses], weights: FloatArray) -> FloatArray:
    """What zeros and invariants do not fix of a weighted sum over leaves, `(n_blocks, a, a)`; as of `area_blocks`."""
    free: FloatArray = np.zeros(classes[0].fixed.shape[1:])
    for level, entered in zip(classes, entering(spine, weights), strict=True):
        squares = np.bincount(level.downward, entered**2, minlength=len(level.fixed))
        used = np.flatnonzero(squares)
        free += np.tensordot(squares[used], np.eye(free.shape[-1]) - level.fixed[used], axes=1)
    return free


def entering(spine: Spine, weights: FloatArray) -> list[FloatArray]:
    """Per level `(n,)`, the weight of the geounits whose leaves have all the same and whose parents are not such."""
    out: list[FloatArray] = []
    above: BoolArray | None = None
    for level in range(spine.n_levels):
        starts = spine.leaf_offsets(level)[:-1]
        low, high = np.minimum.reduceat(weights, starts), np.maximum.reduceat(weights, starts)
        complete = low == high
        inherited = False if above is None else above[spine.levels[level].parents]
        out.append(np.where(complete & ~np.asarray(inherited), low, 0.0))
        above = complete
    return out


def product_form(basis: Basis, blocks: FloatArray, left: Weights, right: Weights) -> FloatArray:
    """The products left' M right, `(n, k)`, of each sum with its own partner, for blocks `(n, n_blocks, a, a)`."""
    asymmetric_left, asymmetric_right = _asymmetric(basis, left), _asymmetric(basis, right)
    place: IntArray | slice = slice(None)
    if basis.n_asymmetric >= LARGE:
        # Many answers differ in symmetric attributes alone; small blocks keep their sums to the last bit.
        both = np.hstack([asymmetric_left, asymmetric_right])
        _, first, place = np.unique(both, axis=0, return_index=True, return_inverse=True)
        asymmetric_left, asymmetric_right, place = asymmetric_left[first], asymmetric_right[first], place.ravel()
    out = np.zeros((len(blocks), len(left[0])))
    for b, subset in enumerate(basis.subsets):
        factor = np.ones(len(left[0]))
        for j, n, inside in zip(basis.symmetric, basis.symmetric_shape, subset, strict=True):
            constant = left[j].sum(axis=1) * right[j].sum(axis=1) / n
            factor *= (left[j] * right[j]).sum(axis=1) - constant if inside else constant
        sums = np.einsum("ki,nij,kj->nk", asymmetric_left, blocks[:, b], asymmetric_right, optimize=True)
        out += factor * sums[:, place]
    return out


def _asymmetric(basis: Basis, weights: Weights) -> FloatArray:
    """The weights on the asymmetric cells, `(k, a)`."""
    out: FloatArray = np.ones((len(weights[0]), 1))
    for j in basis.asymmetric:
        out = (out[:, :, None] * weights[j][:, None, :]).reshape(len(out), -1)
    return out


def moments(basis: Basis, found: LevelVariances, left: Weights, right: Weights) -> Moments:
    """Variances of two weighted sums of the same geounits, and their covariance, each `(n, k)`.

    0 where zeros and invariants fix the sum, NaN where the measurements do not determine it.
    """
    of_left, of_right = _variances(basis, found, left), _variances(basis, found, right)
    both = np.where(np.isnan(of_left) | np.isnan(of_right), np.nan, product_form(basis, found.covariance, left, right))
    # What is exact varies with nothing.
    return Moments(of_left, of_right, np.where((of_left == 0) | (of_right == 0), 0.0, both))


def _variances(basis: Basis, found: LevelVariances, weights: Weights) -> FloatArray:
    out = np.maximum(product_form(basis, found.covariance, weights, weights), 0.0)
    blind = product_form(basis, found.unmeasured, weights, weights)
    free = product_form(basis, np.eye(found.known.shape[-1]) - found.known, weights, weights)
    # Rounding is told from what is free or unmeasured by the size of the weights.
    size = np.prod([np.abs(one).max(axis=1) for one in weights], axis=0) ** 2
    return np.where(free < FREE * size, 0.0, np.where(blind > BLIND * size, np.nan, out))


def of_level(classes: LevelClasses, covariances: LevelCovariances) -> LevelVariances:
    """Those of the downward classes of a level."""
    return LevelVariances(classes.downward, covariances.final, classes.blind, classes.fixed)


def of_leaves(
    spine: Spine,
    classes: Sequence[LevelClasses],
    covariances: Sequence[LevelCovariances],
    weights: FloatArray,
) -> LevelVariances:
    """Those of a weighted sum over leaves, `weights` `(n_leaves,)`: 1 for an area, 1 and -1 for a difference of two."""
    variance, blind = area_blocks(spine, classes, covariances, weights)
    known = np.eye(variance.shape[-1]) - unknown_in_area(spine, classes, weights)
    return LevelVariances(np.zeros(1, dtype=np.int64), variance[None], blind[None], known[None])


#: Eigenvalues that are 0, beside the largest.
_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class PairFactors:
    """What the covariances of a query's answers in geounits of one level, and with those of any other, are made of.

    The rows are those of the query on the asymmetric attributes, and last, where there are several, their sum.

    Attributes:
        nested: `(n_downward, level + 1, n_blocks, rows)`: each row's covariance with the same row of the geounit above,
            by the level of that.
        crossed: `(n_downward, level + 1, rows)`: each row's with the last row, in the block of sums over all symmetric
            attributes; the mean of both directions.
        shared: `(n_downward, level, n_blocks, rows, a)`: the factors. Where the last common geounit is of level d,
            minus the product of two geounits' rows at d is their covariance.
    """

    nested: FloatArray
    crossed: FloatArray
    shared: FloatArray


def rows_of(basis: Basis, marginal: Marginal) -> FloatArray:
    """The rows `(rows, a)` of a query on the asymmetric attributes, and their sum where there are several."""
    recode = basis.recode(marginal)
    return recode if len(recode) == 1 else np.vstack([recode, recode.sum(axis=0)])


def pair_factors(
    basis: Basis,
    classes: Sequence[LevelClasses],
    covariances: Sequence[LevelCovariances],
    level: int,
    marginal: Marginal,
) -> PairFactors:
    """The factors of the downward classes of a level; arguments as in `of_leaves`."""
    rows = rows_of(basis, marginal)
    here = np.arange(len(classes[level].own))
    left: FloatArray = np.broadcast_to(rows, (len(here), basis.n_blocks, *rows.shape))
    nested, crossed, shared = [], [], []
    for above in range(level, -1, -1):
        at = left @ covariances[above].final[here]
        nested.append(np.einsum("nbri,ri->nbr", at, rows))
        crossed.append(0.5 * (at[:, 0] @ rows[-1] + at[:, 0, -1] @ rows.T))
        if above == 0:
            break
        own, single = classes[above].own[here], classes[above].single[here][:, None, None, None]
        here = classes[above].parent[here]
        pull, children = covariances[above - 1].pull, covariances[above - 1].children
        assert pull is not None
        assert children is not None
        turned = left @ covariances[above].upward[own]
        shared.append(np.where(single, 0.0, turned @ _root(pull)[here]))
        left = np.where(single, left, turned @ children[classes[above - 1].own[here]])
    empty = np.zeros((len(nested[0]), 0, basis.n_blocks, *rows.shape))
    return PairFactors(
        np.stack(nested[::-1], axis=1),
        np.stack(crossed[::-1], axis=1),
        np.stack(shared[::-1], axis=1) if shared else empty,
    )


def _root(blocks: FloatArray) -> FloatArray:
    """The symmetric square roots of symmetric blocks without negative eigenvalues, but for rounding."""
    values, vectors = np.linalg.eigh(symmetrise(blocks))
    # Of a rounding error the root would be much larger than the error.
    kept = np.where(values > _ROUNDING * values.max(axis=-1, keepdims=True, initial=0.0), values, 0.0)
    scaled = vectors * np.sqrt(kept)[..., None, :]
    return scaled @ np.swapaxes(vectors, -1, -2)
