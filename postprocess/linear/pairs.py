"""Covariances of two geounits' answers in a form that is small for all pairs of a spine: products of factors.

With b~_c = K_c b~_u + r_c (see `areas`), and c, c' the children of the last common geounit u above two geounits a, b,

    Cov(a, b) = - H_a W_u H_b',   H_a = K_a ... V_c,

and of a geounit and one above it Cov(a, u) = K_a ... K_c V~_u.

So each class of geounits needs one factor H_a W_u^(1/2) for each level above it, and one block for each level above it
and its own, both multiplied by the rows of a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postprocess.algebra import Basis, symmetrise
from postprocess.arrays import FloatArray
from postprocess.linear.classes import LevelClasses
from postprocess.linear.expected import LevelCovariances
from postprocess.marginal import Marginal

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
    """The factors of the downward classes of a level; arguments as in `areas.area_variances`."""
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
