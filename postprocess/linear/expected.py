"""Covariances of the linear estimates before anything is measured, and how they change with the budget.

The recursions of `upward` and `unbiased` for the covariances alone, over classes of alike geounits:

    C = sum over children of V,   J = C^-1,   H = H_own + J (topdown: H_own),   V = H^-1
    V~ = V - V W V   for a child,   W = J - J V~_parent J   of its parent;   V~ = V at the top

The gradient is the adjoint of these lines, taken backwards. Non-negativity and rounding are left out: where counts are
small the release is closer to the truth than its linear estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from postprocess.algebra import Basis, diagonals, symmetrise
from postprocess.arrays import FloatArray, IntArray
from postprocess.linear.child_groups import summed_over
from postprocess.linear.classes import LevelClasses
from postprocess.linear.downward import LevelVariances
from postprocess.linear.information import inverse_off
from postprocess.marginal import Marginal
from postprocess.statistics import EXACT_VARIANCE, MEAN_ABSOLUTE


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
        precision: FloatArray = np.where(
            (here.kind < 0)[:, None, None, None], 0.0, own[level][np.maximum(here.kind, 0)]
        )
        children = None
        if here.children is not None:
            assert here.excluded is not None
            children = inverse_off(summed_over(here.children, upward[-1][0]), here.excluded)
            if estimator == "full":
                precision = precision + np.where(here.children_informative[:, None, None, None], children, 0.0)
        upward.append((inverse_off(precision, here.known + here.unmeasured), children))
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
    return ExpectedErrors(answer_variances(basis, classes, covariances, marginal), classes.sizes)


def answer_variances(
    basis: Basis, classes: LevelClasses, covariances: LevelCovariances, marginal: Marginal
) -> FloatArray:
    """Variances `(n_downward, size)` of a query's answers; NaN where the measurements do not determine them."""
    variances = LevelVariances(classes.downward, covariances.final, classes.blind, classes.fixed)
    return variances.of_classes(basis, marginal)


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
