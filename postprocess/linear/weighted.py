"""Variances and covariances of weighted sums of cells: differences, shares, and what a median is tested by.

A weight on cells is a product over the attributes here, w(cell) = product of w_j(value of attribute j), as an answer is
(with weights 0 and 1). In the basis, P_B is a product over the symmetric attributes too, so that

    w'Vv = sum over B of  (w_a'V_B v_a)  product over j in B of (w_j'v_j - s_j t_j / n_j)
                                         product over j not in B of s_j t_j / n_j

with s_j, t_j the sums of w_j, v_j over the n_j values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geography.spine import Spine
from postprocess.algebra import LARGE, Basis
from postprocess.arrays import FloatArray, IntArray, Weights
from postprocess.linear.areas import area_blocks, entering
from postprocess.linear.classes import LevelClasses
from postprocess.linear.expected import LevelCovariances
from postprocess.linear.information import BLIND, FREE
from postprocess.statistics import Moments


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


def moments(basis: Basis, found: SumBlocks, left: Weights, right: Weights) -> Moments:
    """Variances of two weighted sums of the same geounits, and their covariance, each `(n, k)`.

    0 where zeros and invariants fix the sum, NaN where the measurements do not determine it.
    """
    of_left, of_right = _variances(basis, found, left), _variances(basis, found, right)
    both = np.where(np.isnan(of_left) | np.isnan(of_right), np.nan, product_form(basis, found.covariance, left, right))
    # What is exact varies with nothing.
    return Moments(of_left, of_right, np.where((of_left == 0) | (of_right == 0), 0.0, both))


def _variances(basis: Basis, found: SumBlocks, weights: Weights) -> FloatArray:
    out = np.maximum(product_form(basis, found.covariance, weights, weights), 0.0)
    blind = product_form(basis, found.blind, weights, weights)
    free = product_form(basis, found.free, weights, weights)
    # Rounding is told from what is free or unmeasured by the size of the weights.
    size = np.prod([np.abs(one).max(axis=1) for one in weights], axis=0) ** 2
    return np.where(free < FREE * size, 0.0, np.where(blind > BLIND * size, np.nan, out))


@dataclass(frozen=True, eq=False)
class SumBlocks:
    """Blocks `(n, n_blocks, a, a)` of some geounits or areas.

    Attributes:
        covariance: after both passes.
        blind: what stays unmeasured.
        free: what zeros and invariants do not fix.
    """

    covariance: FloatArray
    blind: FloatArray
    free: FloatArray


def of_level(classes: LevelClasses, covariances: LevelCovariances) -> SumBlocks:
    """Those of the downward classes of a level."""
    return SumBlocks(covariances.final, classes.blind, np.eye(classes.fixed.shape[-1]) - classes.fixed)


def of_leaves(
    spine: Spine,
    classes: Sequence[LevelClasses],
    covariances: Sequence[LevelCovariances],
    weights: FloatArray,
) -> SumBlocks:
    """Those of a weighted sum over leaves, `weights` `(n_leaves,)`: 1 for an area, 1 and -1 for a difference of two."""
    variance, blind = area_blocks(spine, classes, covariances, weights)
    free = np.zeros_like(variance)
    for level, entered in zip(classes, entering(spine, weights), strict=True):
        rows = np.flatnonzero(entered)
        unknown = np.eye(free.shape[-1]) - level.fixed[level.downward[rows]]
        free += (entered[rows, None, None, None] ** 2 * unknown).sum(axis=0)
    return SumBlocks(variance[None], blind[None], free[None])
