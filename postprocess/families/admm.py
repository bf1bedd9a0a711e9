"""One family by the alternating direction method of multipliers (ADMM), where the active set method alone got stuck.

The quadratic with its equalities is solved in closed form, and the inequalities are a clip (Boyd et al. 2011, section
5.2, with over-relaxation 3.4.3):

    x_c = Q_c (linear_c + s (y_c - u_c) + s G (w_c - v_c) + nu) + q_c       nu makes the children sum to the parent
    y = clip(1.7 x - 0.7 y + u, 0, upper),   u += 1.7 x - 0.7 y_old - y,    and w, v alike for sums over groups G

with K_c = (precision_c + s (I + GG'))^-1 and Q_c, q_c its projection on the held sums; s is at first the median of the
precision's diagonal, then balanced so that both residuals fall together (3.4.1). Its part is to find out which
inequalities are active: `active_set` finishes with the exact solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray
from postprocess.families.active_set import Exact, Guess, solve_exactly
from postprocess.families.family import Family, one_hot

RELAXATION = 1.7
#: Iterations after which the exact solution is tried; after the last one the family is given up.
TRY_AT = (20, 40, 80, 160, 320, 640, 1280, 2560)
#: Iterations at which the penalty s may be changed, by powers of two up to this one.
ADAPT_AT = (30, 90, 270, 810)
LARGEST_CHANGE = 5


def solve_by_admm(family: Family, begin: Guess) -> tuple[Exact, int] | None:
    """The exact solution and the iterations it took to find its active inequalities; None if they were not found.

    Args:
        family: to be solved.
        begin: the state that another method reached.
    """
    groups = _Groups.of(family)
    scale = family.scale
    quadratic = _Quadratic(family, groups.matrix, scale)
    y, u = begin.x, begin.pull / scale
    w, v = begin.range_sums, begin.range_pull / scale
    for iteration in range(1, TRY_AT[-1] + 1):
        x = quadratic.minimiser(family.linear + scale * (y - u + (w - v) @ groups.matrix.T))
        y_old, w_old = y, w
        u = u + RELAXATION * x + (1.0 - RELAXATION) * y
        y = np.clip(u, 0.0, family.upper)
        u = u - y
        v = v + RELAXATION * (x @ groups.matrix) + (1.0 - RELAXATION) * w
        w = np.clip(v, groups.lower, groups.upper)
        v = v - w
        if iteration in TRY_AT:
            (result,) = solve_exactly([family], [Guess(y, scale * u, w, scale * v)])
            if isinstance(result, Exact):
                return result, iteration
        if iteration in ADAPT_AT:
            primal = max(np.abs(x - y).max(), np.abs(x @ groups.matrix - w).max(initial=0.0))
            dual = max(np.abs(y - y_old).max(), np.abs(w - w_old).max(initial=0.0))
            change = _balance(float(primal), float(dual))
            if change != 1.0:
                scale, u, v = scale * change, u / change, v / change
                quadratic = _Quadratic(family, groups.matrix, scale)
    return None


@dataclass(frozen=True, eq=False)
class _Groups:
    """All ranges of a family side by side: `(k, g)`, `(C, g)`, `(C, g)`."""

    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, family: Family) -> _Groups:
        if not family.ranges:
            nothing = np.zeros((family.n_children, 0))
            return cls(np.zeros((family.n_cells, 0)), nothing, nothing)
        return cls(
            np.hstack([one_hot(sums.group, sums.lower.shape[1]) for sums in family.ranges]),
            np.hstack([sums.lower for sums in family.ranges]),
            np.hstack([sums.upper for sums in family.ranges]),
        )


class _Quadratic:
    """The quadratic with its equalities: Q_c and q_c of every child, and the map from what is missing to nu."""

    def __init__(self, family: Family, groups: FloatArray, scale: float) -> None:
        k = family.n_cells
        inverse = np.linalg.inv(family.matrices + scale * (np.eye(k) + groups @ groups.T))[family.kinds]
        self.offset = np.zeros_like(family.linear)
        if family.held is not None and family.held_group is not None:
            held = one_hot(family.held_group, family.held.shape[1])
            by_group = inverse @ held
            middle = held.T @ by_group
            # A held group without cells (impossible ones only) has an empty row: any pivot will do.
            middle += np.eye(held.shape[1]) * (held.sum(axis=0) == 0)
            scaled = np.swapaxes(np.linalg.solve(middle, np.swapaxes(by_group, 1, 2)), 1, 2)
            inverse = inverse - scaled @ np.swapaxes(by_group, 1, 2)
            self.offset = np.matmul(scaled, family.held[:, :, None])[:, :, 0]
        self.projected = inverse
        self.missing = None
        if family.parent is not None:
            self.missing = family.parent - self.offset.sum(axis=0)
            self.total_inverse = np.linalg.pinv(inverse.sum(axis=0), rcond=1e-12, hermitian=True)

    def minimiser(self, right: FloatArray) -> FloatArray:
        """The minimiser for right-hand sides `(C, k)`."""
        x = np.matmul(self.projected, right[:, :, None])[:, :, 0]
        if self.missing is not None:
            nu = self.total_inverse @ (self.missing - x.sum(axis=0))
            x += self.projected @ nu
        return x + self.offset


def _balance(primal: float, dual: float) -> float:
    """The power of two by which the penalty is changed so that the residuals fall together."""
    ratio = np.log2(max(primal, 1e-12) / max(dual, 1e-12)) / 2.0
    return float(np.exp2(np.clip(np.rint(ratio), -LARGEST_CHANGE, LARGEST_CHANGE)))
