"""The variance of a sum over any leaves: areas that are not on the spine.

Given its parent's estimate, a child's is b~_c = K_c b~_u + r_c with K_c = V_c J_u, and the residuals of different
families are independent of each other and of everything above. So a sum over children sum_c G_c b~_c passes
G_u = sum_c G_c K_c to the parent, and adds to the variance what its family leaves,

    sum_c G_c V_c G_c'  -  (sum_c G_c V_c) J_u (sum_c G_c V_c)'.

Geounits whose leaves all belong to the area enter whole, with G = I, so that only the edge of the area is gone through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from geography.spine import Spine
from postprocess.algebra import Basis, symmetrise
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.classes import LevelClasses
from postprocess.linear.expected import LevelCovariances
from postprocess.linear.information import BLIND, fixed_answers
from postprocess.marginal import Marginal


def area_variances(
    spine: Spine,
    basis: Basis,
    classes: Sequence[LevelClasses],
    covariances: Sequence[LevelCovariances],
    leaves: BoolArray,
    marginal: Marginal,
) -> FloatArray:
    """Variances `(size,)` of a query's answers for some leaves together; NaN where they are not determined.

    Args:
        classes, covariances: of the whole spine, see `expected.covariances`.
        leaves: `(n_leaves,)` which are in the area.
    """
    variance, blind = area_blocks(spine, classes, covariances, leaves.astype(np.float64))
    out = np.maximum(basis.answer_variances(variance[None], marginal)[0], 0.0)
    out = np.where(basis.answer_variances(blind[None], marginal)[0] > BLIND, np.nan, out)
    return np.where(fixed_in_area(spine, basis, classes, leaves, marginal), 0.0, out)


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
        from_children = children[classes[level - 1].upward[parents]]
        single = here.single[here.downward[nodes]][:, None, None, None]
        turned = np.where(single, 0.0, passed @ covariances[level].upward[here.upward[nodes]])
        variance += (turned @ np.swapaxes(passed, -1, -2)).sum(axis=0)
        summed = np.zeros((len(parents), *shape))
        np.add.at(summed, place, turned)
        variance -= (summed @ from_children @ np.swapaxes(summed, -1, -2)).sum(axis=0)
        upward = summed @ from_children
        np.add.at(upward, place, np.where(single, passed, 0.0))
        nodes, passed = parents, upward
    return symmetrise(variance), blind


def fixed_in_area(
    spine: Spine, basis: Basis, classes: Sequence[LevelClasses], leaves: BoolArray, marginal: Marginal
) -> BoolArray:
    """`(size,)`: which answers zeros and invariants fix for some leaves together; arguments as in `area_variances`."""
    fixed = np.ones(marginal.size, dtype=bool)
    for level, weights in zip(classes, entering(spine, leaves.astype(np.float64)), strict=True):
        if entered := np.unique(level.downward[weights != 0]).tolist():
            fixed &= fixed_answers(basis, level.fixed[entered], marginal).all(axis=0)
    return fixed


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
