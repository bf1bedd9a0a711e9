"""Downward linear pass: the best linear unbiased estimate of every geounit from all measurements, with its variance.

    b~_c = b_c + K (b~_u - m_u),   V~_c = V_c - K V_c + K V~_u K',   K = V_c J_u,

for a child c of u, with b, V, m, J of the upward pass (the second half of the two-pass estimator, Hay et al. 2010,
section 4.2). The estimates are real numbers, may be negative, and keep the invariants; they are no release, but for
anything linear they are what the measurements say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray, IntArray
from postprocess.linear.information import inverse_off, range_projector
from postprocess.linear.known import common_known
from postprocess.linear.upward import CHUNK_CELLS, LevelEstimate, estimates_of, sum_of_blocks
from postprocess.marginal import Marginal
from postprocess.problem import Problem


@dataclass(frozen=True, eq=False)
class LevelVariances:
    """Covariances after both passes: alike children of one parent share one.

    Attributes:
        classes: `(n,)` class of each geounit.
        covariance: blocks `(n_classes, n_blocks, a, a)`.
        unmeasured: projectors on directions that nothing was measured of, the same shape.
    """

    classes: IntArray
    covariance: FloatArray
    unmeasured: FloatArray

    def of_answers(self, basis: Basis, marginal: Marginal) -> FloatArray:
        """Variances `(n, size)` of a query's answers; NaN where the measurements do not determine them."""
        variances = basis.answer_variances(self.covariance, marginal)
        if self.unmeasured.any():
            blind = basis.answer_variances(self.unmeasured, marginal)
            variances = np.where(blind > 1e-9, np.nan, variances)
        out: FloatArray = np.maximum(variances, 0.0)[self.classes]
        return out


def _children_precision(problem: Problem, level: int, estimates: list[LevelEstimate]) -> FloatArray:
    """J of the geounits of a level that has children, `(n, n_blocks, a, a)`."""
    children = estimates[level].children
    if children is not None:
        return children.precision
    below = estimates[level + 1]
    summed = partial(sum_of_blocks, problem.spine.child_offsets(level), below.classes)
    # What every child knows, and what of any child nothing is known of.
    excluded = common_known(summed(np.eye(below.info.known.shape[-1]) - below.info.known), plain=False)
    if below.info.any_unmeasured:
        excluded = range_projector(summed(below.info.unmeasured) + excluded)
    return inverse_off(summed(below.info.covariance), excluded)


def variances_of(problem: Problem, estimates: list[LevelEstimate]) -> list[LevelVariances]:
    """Covariances of the estimates of every level after both passes, top to bottom.

    In the topdown estimator, where a geounit's estimate uses its own measurements and its parent's estimate, the
    same recursion holds with the own V in place of the subtree's.
    """
    top = estimates[0]
    out = [LevelVariances(top.classes, top.info.covariance, top.info.unmeasured)]
    for level in range(1, problem.spine.n_levels):
        estimate = estimates[level]
        parents = problem.spine.levels[level].parents
        pairs, classes = np.unique(np.stack([parents, estimate.classes]), axis=1, return_inverse=True)
        parent, own = pairs
        precision = _children_precision(problem, level - 1, estimates)[parent]
        above = out[-1]
        covariance = estimate.info.covariance[own]
        gain = covariance @ precision
        upper = above.covariance[above.classes[parent]]
        single = np.diff(problem.spine.child_offsets(level - 1))[parent] == 1
        total = covariance - gain @ covariance + gain @ upper @ np.swapaxes(gain, -1, -2)
        total = np.where(single[:, None, None, None], upper, 0.5 * (total + np.swapaxes(total, -1, -2)))
        unmeasured = estimate.info.unmeasured[own]
        unmeasured = np.where(single[:, None, None, None], above.unmeasured[above.classes[parent]], unmeasured)
        out.append(LevelVariances(classes.ravel().astype(np.int64), total, unmeasured))
    return out


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
        correction = basis.unfold(basis.apply(children.precision, moved))
        single = np.diff(problem.spine.child_offsets(level - 1)) == 1
    step = max(1, CHUNK_CELLS // problem.n_cells)
    for first in range(0, len(estimate.classes), step):
        rows = np.arange(first, min(first + step, len(estimate.classes)))
        best = basis.unfold(estimates_of(problem, basis, level, estimate, rows)[0])
        if correction is not None and above is not None:
            parents = problem.spine.levels[level].parents[rows]
            covariance = estimate.info.covariance[estimate.classes[rows]]
            best = best + basis.unfold(basis.apply(covariance, basis.fold(correction[parents])))
            best = np.where(single[parents][:, None], above[parents], best)
        yield slice(first, int(rows[-1]) + 1), best
