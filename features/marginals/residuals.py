"""The residual basis: the table of a clique as a sum of residual tables, one for each set of its attributes.

The residual of a set S is the table of S, centred in each of its attributes: it sums to zero over any of them. A table
of the clique C is the sum over its subsets S of their residuals, each spread evenly over the attributes that S has not:

    x_C = sum over S in C of  r_S / (number of cells of C without S)

The residuals of different S are orthogonal, so noise of one variance in all cells of C is independent between them:
in r_S it has the covariance v P_S, P_S the projector on centred tables and v = the cells' variance times the number of
cells that are summed. So what several cliques say of one S is combined by a number each (Xiao, He, Zhang and Kifer
2023, arXiv 2305.08175: ResidualPlanner).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from features.marginals.domain import Clique, Domain, subsets
from postprocess.arrays import FloatArray, IntArray

__all__ = ["cell_variances", "factor", "marginal", "residuals", "table"]

Number = TypeVar("Number", np.float64, np.int64)


def residuals(values: FloatArray | IntArray, clique: Clique, domain: Domain) -> dict[Clique, FloatArray]:
    """The residual table of each subset, `(n, cells of the subset)`, of tables `(n, cells of the clique)`."""
    n = len(values)
    out: dict[Clique, FloatArray] = {(): np.asarray(values, dtype=np.float64).reshape(n, *domain.shape(clique))}
    # From the last attribute to the first, each table becomes its sums over the attribute, and what is centred in it.
    for axis in reversed(range(len(clique))):
        size = domain.sizes[clique[axis]]
        parts: dict[Clique, FloatArray] = {}
        for kept, part in out.items():
            sums = part.sum(axis=1 + axis)
            parts[kept] = sums
            parts[clique[axis], *kept] = part - np.expand_dims(sums / size, 1 + axis)
        out = parts
    return {kept: np.ascontiguousarray(part.reshape(n, -1)) for kept, part in out.items()}


def table(parts: Mapping[Clique, FloatArray], clique: Clique, domain: Domain) -> FloatArray:
    """The tables `(n, cells of the clique)` whose residuals are `parts`; a subset that is not in it has none."""
    n = len(next(iter(parts.values())))
    out = np.zeros((n, *domain.shape(clique)))
    for kept in subsets(clique):
        if kept in parts:
            shape = [domain.sizes[a] if a in kept else 1 for a in clique]
            out += parts[kept].reshape(n, *shape) / factor(kept, clique, domain)
    return out.reshape(n, -1)


def factor(kept: Clique, clique: Clique, domain: Domain) -> int:
    """How many cells of the clique's table are summed into a cell of the table of some of its attributes."""
    return domain.size(clique) // domain.size(kept)


def cell_variances(variances: Mapping[Clique, FloatArray], clique: Clique, domain: Domain) -> FloatArray:
    """The variance of a cell of the clique's table, the same in all of them, `(n,)`, from those v of its residuals.

    The diagonal of P_S is the product of 1 - 1 / size over its attributes.
    """
    out: FloatArray = np.zeros(len(variances[()]))
    for kept in subsets(clique):
        share = np.prod([1.0 - 1.0 / domain.sizes[a] for a in kept])
        if share > 0:
            out = out + variances[kept] * (share / factor(kept, clique, domain) ** 2)
    return out


def marginal(values: NDArray[Number], clique: Clique, kept: Clique, domain: Domain) -> NDArray[Number]:
    """Tables of some of a clique's attributes `(n, cells)`, in the dtype of the clique's `values` `(n, cells)`."""
    axes = tuple(1 + axis for axis, attribute in enumerate(clique) if attribute not in kept)
    sums: NDArray[Number] = values.reshape(len(values), *domain.shape(clique)).sum(axis=axes)
    return sums.reshape(len(values), -1)
