"""Whole numbers nearer to the least-squares solution than a rounding that looks at each cell alone.

The rounding of `rounding` goes cell by cell, so weighted sums of cells, such as the members of households of all sizes,
end up several persons away from the solution's. Here pairs of children swap: one has a unit less in one cell and more
in another, the other child the reverse. Sums over children and over groups stay what they are, each cell stays at the
floor or the ceiling of the solution, and the objective goes down with every swap, until none lowers it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.families.family import Family
from postprocess.families.rounding import COST_UNIT, GroupLevel, snap

#: Parts of a unit of the objective in which swaps are compared, to the nearest, so that the last bits do not matter: a
#: swap that gains nothing but the last bits could be undone and done again without end.
_PARTS = float(1 << 20)
#: Swaps for each cell of a family, at most.
_MOST_SWAPS = 4


def swapped(family: Family, x: FloatArray, rounded: IntArray, chain: Sequence[GroupLevel]) -> IntArray:
    """Whole numbers `(C, k)` with the same sums and a lower objective, or the same.

    Args:
        family: what was solved.
        x: its solution, `(C, k)`.
        rounded: whole numbers that keep the constraints, `(C, k)`.
        chain: groups whose sums in each child stay the same.
    """
    floors, fractions = snap(x)
    solution = floors + fractions / COST_UNIT
    movable = fractions > 0
    out = rounded.copy()
    n_children, n_cells = out.shape
    together = _in_one_group(chain, n_cells)
    if n_children < 2 or n_cells < 2 or not together.any():
        return out
    matrices = family.matrices[family.kinds]
    diagonal = np.diagonal(matrices, axis1=1, axis2=2)
    bend = 0.5 * (diagonal[:, :, None] + diagonal[:, None, :]) - matrices
    gradient = np.matmul(matrices, (out - solution)[:, :, None])[:, :, 0]
    allowed = np.zeros_like(bend, dtype=bool)
    for child in range(n_children):
        _allow(allowed, child, out, floors, movable, together)
    for _ in range(_MOST_SWAPS * out.size):
        # What it costs a child to have one less in the first cell and one more in the second.
        cost = np.where(allowed, gradient[:, None, :] - gradient[:, :, None] + bend, np.inf)
        best = cost.min(axis=0)
        pairs = best + best.T
        steps = _in_parts(pairs)
        at = int(np.argmin(steps))
        if steps.flat[at] >= 0:
            break
        less, more = divmod(at, n_cells)
        first, second = int(np.argmin(cost[:, less, more])), int(np.argmin(cost[:, more, less]))
        for child, sign in ((first, 1), (second, -1)):
            out[child, less] -= sign
            out[child, more] += sign
            gradient[child] += sign * (matrices[child, :, more] - matrices[child, :, less])
            _allow(allowed, child, out, floors, movable, together)
    return out


def _in_parts(gains: FloatArray) -> FloatArray:
    """What swaps change the objective by, in whole parts; 0 where there is no swap."""
    return np.asarray(np.where(np.isfinite(gains), np.rint(gains * _PARTS), 0.0))


def _in_one_group(chain: Sequence[GroupLevel], n_cells: int) -> BoolArray:
    """`(k, k)` pairs of different cells that are in one group of every partition."""
    together = ~np.eye(n_cells, dtype=bool)
    for partition in chain:
        together &= partition.group[:, None] == partition.group[None, :]
    return together


def _allow(
    allowed: BoolArray, child: int, out: IntArray, floors: IntArray, movable: BoolArray, together: BoolArray
) -> None:
    """Note which cells of a child can have one less and which one more."""
    less = movable[child] & (out[child] > floors[child])
    more = movable[child] & (out[child] == floors[child])
    allowed[child] = less[:, None] & more[None, :] & together
