"""Large families: ADMM finds about which cells of which children are positive, and the exact method begins there.

The exact method (`active_set`) has a matrix over the free cells of each child. Begun with all cells free, as small
families are, these have as many numbers as there are children times the square of the cells. But where the parent's
cells are many, each child has persons in few of them: none in more than it has persons. So first

    x_c = Q_c (linear_c + s (z_c - u_c)) + q_c       the least squares with the held sums, the other cells free
    z   = the nearest to 1.6 x - 0.6 z_old + u       with 0 <= z and sum_c z_c = parent
    u  += 1.6 x - 0.6 z_old - z

(Boyd et al. 2011, sections 3.4.3 and 5.2). The first line takes (precision + s I)^-1, once where all children have the
same precision. Where they do not, a step towards the minimiser does as well, with the resolvent of their mean in place
of each. The second line is, cell by cell, the projection of C numbers on a simplex, by sorting them (Held, Wolfe and
Crowder 1974). Ranges are left to the exact method. Its solution is unique: where it begins does not matter for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from postprocess.arrays import Arrays, BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.active_set import Guess
from postprocess.families.family import Family
from postprocess.families.precisions import Matrices, inverse
from postprocess.families.progress import Standing, Watch

RELAXATION = 1.6
#: The first penalty, as a share of the median of the precision's diagonal.
FIRST_PENALTY = 0.125
#: Iterations at which the residuals are looked at, and the penalty is changed by powers of two, from the second to the
#: third: new matrices for a smaller change take longer than they spare.
LOOK_AT = (20, 40, 80, 160, 320, 640, 1280)
LEAST_CHANGE, LARGEST_CHANGE = 2, 3
#: Iterations after which what is left of the equations is worked out afresh.
AFRESH = 20
#: Persons: residuals from which on the exact method is tried, one after the other until it succeeds.
TRY_BELOW = (0.1, 1e-2, 1e-4)
#: Bytes of a number of the matrices, in single precision, with what is worked out from them.
NUMBER_BYTES = 4.5


def family_bytes(n_cells: float, n_children: float, positive: float) -> float:
    """Bytes of the matrices of a family: three of all its cells, and one of the positive cells of each child."""
    return NUMBER_BYTES * (3 * n_cells**2 + n_children * positive**2)


def guesses(family: Family) -> Iterator[Guess]:
    """Where the exact method can begin, the later ones nearer to the solution.

    Args:
        family: with a parent.
    """
    assert family.parent is not None
    possible = family.upper > 0
    scale = FIRST_PENALTY * family.scale
    z = np.where(possible, family.parent / np.maximum(possible.sum(axis=0), 1), 0.0)
    u = np.zeros_like(z)
    tries, watch, first = list(TRY_BELOW), Watch(family.name), 1
    standing = Standing("simplices", lambda: family.arrays)
    if (kept := standing.found()) is not None:
        first, scale, tries = int(kept["iteration"]), float(kept["scale"]), kept["tries"].tolist()
        z, u = kept["z"], kept["u"]
    quadratic = _Quadratic(family, scale)
    if kept is not None:
        quadratic.go_on(kept)

    def arrays(iteration: int) -> Arrays:
        own = {"iteration": np.array(iteration), "scale": np.array(scale), "tries": np.array(tries), "z": z, "u": u}
        return own | quadratic.arrays()

    for iteration in range(first, LOOK_AT[-1] + 1):
        standing.at(partial(arrays, iteration))
        x = quadratic.minimiser(family.linear + scale * (z - u))
        before = z
        u = u + RELAXATION * x + (1.0 - RELAXATION) * z
        z = _on_simplices(u, family.parent, possible)
        u = u - z
        watch.at(partial(step_of, iteration, x, z))
        if iteration not in LOOK_AT:
            continue
        primal, dual = largest_of(x - z), largest_of(z - before)
        last = iteration == LOOK_AT[-1]
        tried = last or max(primal, dual) < tries[0]
        if tried:
            del quadratic  # it takes memory that the exact method needs
            yield _guess(family, z, -scale * u, possible)
            tries = [size for size in tries if size <= max(primal, dual)]
            if last or not tries:
                return
        change = balance(primal, dual, LARGEST_CHANGE, LEAST_CHANGE)
        if tried or change != 1.0:
            scale, u = scale * change, u / change
            quadratic = _Quadratic(family, scale)


def step_of(iteration: int, x: FloatArray, z: FloatArray) -> str:
    """Where a first-order method is."""
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
    """The least squares with the held sums: one resolvent, in single precision.

    About where the cells are positive is all that is asked for. What the minimiser moves by from one iteration to the
    next is worked out, and not the minimiser, so that large counts do not hide small residuals.

    Children with different precisions share the resolvent of their mean. It leads towards the minimiser, and each goes
    as far that way as is best for it (steepest descent); what is left of the equations is carried to the next call.
    """

    def __init__(self, family: Family, scale: float) -> None:
        self.family, self.scale, self.calls = family, scale, 0
        self.resolvent = _resolvent(_mean_precision(family), scale)
        self.held: tuple[Matrices, Matrices, FloatArray] | None = None
        self.right, self.left, self.x = (np.zeros_like(family.linear) for _ in range(3))
        if family.held is not None:
            groups = family.held.matrix.astype(np.float32)
            empty = np.eye(groups.shape[1]) * (groups.sum(axis=0) == 0)
            by_group = self.resolvent @ groups
            middle = np.linalg.inv((groups.T @ by_group).astype(np.float64) + empty)
            self.held = groups, by_group, middle
            self.x = np.asarray(family.held.lower @ middle @ by_group.T)

    def arrays(self) -> dict[str, FloatArray | IntArray]:
        """Where it is, for another one of the same problem to go on."""
        return {"right": self.right, "left": self.left, "x": self.x, "calls": np.array(self.calls)}

    def go_on(self, kept: Arrays) -> None:
        """Go on from the `arrays` of another one."""
        self.right, self.left, self.x, self.calls = kept["right"], kept["left"], kept["x"], int(kept["calls"])

    def minimiser(self, right: FloatArray) -> FloatArray:
        """The minimiser for right-hand sides `(C, k)`, or nearer to it than before."""
        moved, self.right = right - self.right, right
        if self.family.shared:
            self.x += self._turned(moved)
            return self.x
        if self.calls % AFRESH == 0:
            self.left = right - self._times(self.x)
        else:
            self.left += moved
        self.calls += 1
        if self.held is not None:  # what multipliers of the held sums take off is not left
            groups, by_group, middle = self.held
            self.left -= (self.left @ by_group) @ middle @ groups.T
        step = self._turned(self.left).astype(np.float64)
        of_step = self._times(step)
        gain, bend = (self.left * step).sum(axis=1), (step * of_step).sum(axis=1)
        length = np.divide(gain, bend, out=np.zeros_like(gain), where=bend > 0)[:, None]
        self.x += length * step
        self.left -= length * of_step
        return self.x

    def _times(self, x: FloatArray) -> FloatArray:
        return self.family.times(x) + self.scale * x

    def _turned(self, left: FloatArray) -> Matrices:
        """The resolvent times vectors, without what would change held sums."""
        step: Matrices = left.astype(np.float32) @ self.resolvent
        if self.held is not None:
            groups, by_group, middle = self.held
            step = step - (step @ groups) @ middle @ by_group.T
        return step


def _mean_precision(family: Family) -> FloatArray:
    """The mean `(k, k)` over the children."""
    weights = np.bincount(family.kinds, minlength=len(family.precision)) / family.n_children
    return family.precision.mean(weights)


def _resolvent(precision: FloatArray, scale: float) -> Matrices:
    """(precision + scale I)^-1."""
    shifted = precision.astype(np.float32)
    shifted.flat[:: len(shifted) + 1] += scale
    return inverse(shifted[None])[0]


def balance(primal: float, dual: float, largest: int, least: int = 0) -> float:
    """The power of two by which the penalty is changed so that the residuals fall together; 1 below the `least`."""
    power = np.rint(np.log2(max(primal, 1e-12) / max(dual, 1e-12)) / 2.0)
    return float(np.exp2(np.clip(power, -largest, largest))) if abs(power) >= least else 1.0
