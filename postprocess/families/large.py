"""Large families: ADMM finds about which cells of which children are positive, and the exact method begins there.

The exact method (`active_set`) has a matrix over the free cells of each child. Begun with all cells free, as small
families are, these have as many numbers as there are children times the square of the cells. But where the parent's
cells are many, each child has persons in few of them: none in more than it has persons. So first

    x_c = Q_c (linear_c + s (z_c - u_c)) + q_c       the least squares with the held sums, the other cells free
    z   = the nearest to 1.6 x - 0.6 z_old + u       with 0 <= z and sum_c z_c = parent
    u  += 1.6 x - 0.6 z_old - z

(Boyd et al. 2011, sections 3.4.3 and 5.2), with (precision + s I)^-1 for each different precision, and not for each
child. The second line is, cell by cell, the projection of C numbers on a simplex, by sorting them (Held, Wolfe and
Crowder 1974). Ranges are left to the exact method. Its solution is unique: where it begins does not matter for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.families.active_set import Guess
from postprocess.families.cholesky import Matrices
from postprocess.families.family import Family, one_hot
from postprocess.families.inverses import inverse
from postprocess.families.watching import Watch

RELAXATION = 1.6
#: The first penalty, as a share of the median of the precision's diagonal.
FIRST_PENALTY = 0.125
#: Iterations at which the residuals are looked at, and the penalty is changed by powers of two, from the second to the
#: third: new matrices for a smaller change take longer than they spare.
LOOK_AT = (20, 40, 80, 160, 320, 640, 1280)
LEAST_CHANGE, LARGEST_CHANGE = 2, 3
#: Persons: residuals from which on the exact method is tried, one after the other until it succeeds.
TRY_BELOW = (0.1, 1e-2, 1e-4)


def guesses(family: Family) -> Iterator[Guess]:
    """Where the exact method can begin, the later ones nearer to the solution.

    Args:
        family: with a parent.
    """
    assert family.parent is not None
    possible = family.upper > 0
    scale = FIRST_PENALTY * float(np.median(np.diagonal(family.precision, axis1=1, axis2=2)))
    quadratic = _Quadratic(family, scale)
    z = np.where(possible, family.parent / np.maximum(possible.sum(axis=0), 1), 0.0)
    u = np.zeros_like(z)
    tries, watch = list(TRY_BELOW), Watch(family.name)
    for iteration in range(1, LOOK_AT[-1] + 1):
        x = quadratic.minimiser(family.linear + scale * (z - u))
        before = z
        u = u + RELAXATION * x + (1.0 - RELAXATION) * z
        z = _on_simplices(u, family.parent, possible)
        u = u - z
        watch.at(partial(_where, iteration, x, z))
        if iteration not in LOOK_AT:
            continue
        primal, dual = float(np.abs(x - z).max()), float(np.abs(z - before).max())
        last = iteration == LOOK_AT[-1]
        tried = last or max(primal, dual) < tries[0]
        if tried:
            quadratic.resolvents.clear()  # they take as much memory as the precisions, and the exact method needs it
            yield _guess(family, z, -scale * u, possible)
            tries = [size for size in tries if size <= max(primal, dual)]
            if last or not tries:
                return
        change = _balance(primal, dual)
        if tried or change != 1.0:
            scale, u = scale * change, u / change
            quadratic = _Quadratic(family, scale)


def _where(iteration: int, x: FloatArray, z: FloatArray) -> str:
    return f"step {iteration:,}, {np.abs(x - z).max():.1g} persons off"


def _guess(family: Family, z: FloatArray, gradient: FloatArray, possible: BoolArray) -> Guess:
    """A state of the exact method: the empty cells are at their bound, with what is left of the gradient there.

    The multiplier of a parent's sum is the least gradient in its cells: that of the cells that are free.
    """
    none = Guess.none_active(family)
    nu = np.where(possible, gradient, np.inf).min(axis=0)
    x = np.minimum(z, family.upper)
    pull = np.where(possible & (x <= 0), -(gradient - np.where(np.isfinite(nu), nu, 0.0)), 0.0)
    return Guess(x, pull, none.range_sums, none.range_pull)


def _on_simplices(values: FloatArray, parent: FloatArray, possible: BoolArray) -> FloatArray:
    """The nearest `(C, k)` that are 0 where they have to be, nowhere negative, and add up to the parent's cells."""
    ranked = -np.sort(np.where(possible, -values, np.inf), axis=0)
    count = np.arange(1, len(values) + 1)[:, None]
    sums = np.cumsum(np.where(np.isfinite(ranked), ranked, 0.0), axis=0)
    shifts = (sums - parent) / count
    positive = np.count_nonzero(np.isfinite(ranked) & (ranked > shifts), axis=0)
    shift = np.take_along_axis(shifts, np.maximum(positive - 1, 0)[None, :], axis=0)
    return np.where(possible, np.maximum(values - shift, 0.0), 0.0)


class _Quadratic:
    """The least squares with the held sums: one resolvent for each different precision, in single precision.

    About where the cells are positive is all that is asked for. What the minimiser moves by from one iteration to the
    next is worked out, and not the minimiser, so that large counts do not hide small residuals.
    """

    def __init__(self, family: Family, scale: float) -> None:
        self.family = family
        self.members: list[IntArray] = [np.flatnonzero(family.kinds == kind) for kind in range(len(family.precision))]
        self.resolvents = [_resolvent(precision, scale) for precision in family.precision]
        self.held: list[tuple[Matrices, FloatArray]] = []
        self.right, self.x = np.zeros_like(family.linear), np.zeros_like(family.linear)
        if family.held is not None and family.held_group is not None:
            self.groups = one_hot(family.held_group, family.held.shape[1]).astype(np.float32)
            empty = np.eye(self.groups.shape[1]) * (self.groups.sum(axis=0) == 0)
            for resolvent in self.resolvents:
                by_group = resolvent @ self.groups
                middle = np.linalg.inv((self.groups.T @ by_group).astype(np.float64) + empty)
                self.held.append((by_group, middle))
            for members, held in zip(self.members, self.held, strict=True):
                self.x[members] = family.held[members] @ held[1] @ held[0].T

    def minimiser(self, right: FloatArray) -> FloatArray:
        """The minimiser for right-hand sides `(C, k)`."""
        moved, self.right = (right - self.right).astype(np.float32), right
        for kind, (members, resolvent) in enumerate(zip(self.members, self.resolvents, strict=True)):
            step: Matrices = moved[members] @ resolvent
            if self.held:
                by_group, middle = self.held[kind]
                step = step - (step @ self.groups) @ middle @ by_group.T
            self.x[members] += step
        return self.x


def _resolvent(precision: FloatArray, scale: float) -> Matrices:
    """(precision + scale I)^-1."""
    shifted = precision.astype(np.float32)
    shifted.flat[:: len(shifted) + 1] += scale
    return inverse(shifted[None])[0]


def _balance(primal: float, dual: float) -> float:
    """The power of two by which the penalty is changed so that the residuals fall together."""
    power = np.rint(np.log2(max(primal, 1e-12) / max(dual, 1e-12)) / 2.0)
    return float(np.exp2(np.clip(power, -LARGEST_CHANGE, LARGEST_CHANGE))) if abs(power) >= LEAST_CHANGE else 1.0
