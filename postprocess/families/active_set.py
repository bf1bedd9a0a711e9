"""The exact solutions of families, from a guess of which inequalities are active: the primal-dual active set method.

With the active inequalities taken as equalities the optimality conditions are linear (`equalities`). Inequalities with
a multiplier of the wrong sign are released, violated ones become active, until nothing changes (Hintermueller, Ito,
Kunisch 2003: a semismooth Newton method). The result then satisfies the optimality conditions of the family to rounding
error: it is the solution, not an approximation to a tolerance.

Where the active inequalities contradict each other the dual problem has no bound in one direction; the one whose
multiplier is the first to vanish along it is released (as in the dual method of Goldfarb and Idnani 1983). A family
that cycles changes only one inequality at a time from then on, the first (Murty's rule).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import lapack

from postprocess.arrays import BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.equalities import Active, Stationary, stationary
from postprocess.families.family import Family, clipped, violations
from postprocess.families.progress import Watch
from postprocess.families.stack import ALONE, LARGE_ALONE, Shape, Stack

#: Rounds after which a family is given up; most need five to ten.
MOST_ROUNDS = 300
#: Unknowns up to which a family may change one inequality at a time: at first, and where nothing else has helped.
FEW, MANY = 600, 3000
#: Rounds in a row that may end with no fewer inequalities broken than the best before.
PATIENCE = 8
#: How often matrices in single precision are tried for a family that they do not do for.
TRIES = 2
#: Sizes that count as zero: of violations (persons), and of multipliers relative to the largest linear term.
FEASIBLE, SIGN = 1e-7, 1e-10
#: Persons by which a constraint may be missed.
MET = 1e-5
#: Numbers in the matrices of the families that are worked on together.
STACK_NUMBERS = 2_000_000


@dataclass(frozen=True, eq=False)
class Guess:
    """The state of a method: the unknowns clipped to their bounds, and the multipliers of the bounds.

    Attributes:
        x: `(C, k)`; cells at a bound are guessed active.
        pull: `(C, k)` minus the multipliers of the cells' bounds.
        range_sums: `(C, g)` the sums in `Family.ranges`, side by side; those at a limit are guessed active.
        range_pull: `(C, g)` minus their multipliers.
    """

    x: FloatArray
    pull: FloatArray
    range_sums: FloatArray
    range_pull: FloatArray

    @classmethod
    def at_first(cls, family: Family) -> Guess:
        """The guess that no inequality is active; of a large family alone, those that are violated without any.

        These are what the first round would find, for a fifth of its work. Still larger families are stated on their
        positive cells alone, and none is violated.
        """
        guess = cls.none_active(family)
        if family.parent is not None or not ALONE <= family.n_cells <= LARGE_ALONE:
            return guess
        _, best, failed = lapack.dposv(family.matrices[0], family.linear[0])
        return guess if failed else replace(guess, x=np.where(best < -FEASIBLE, 0.0, guess.x))

    @classmethod
    def none_active(cls, family: Family) -> Guess:
        """The guess that no inequality is active except those of impossible cells."""
        _, lower, upper = family.side_by_side()
        sums = 0.5 * (lower + upper)
        inside = np.where(family.upper > 0, 0.5 * family.upper, 0.0)
        return cls(inside, np.zeros_like(inside), sums, np.zeros_like(sums))


@dataclass(frozen=True, eq=False)
class ExactSolution:
    """A solution `x` `(C, k)` with the residuals of its optimality conditions.

    Attributes:
        primal: persons by which a constraint is missed.
        dual: largest gradient of the Lagrangian in a free cell, relative to the largest linear term.
        multipliers: `(C, g)` of the held sums and of the sums in `Family.ranges`, side by side.
    """

    x: FloatArray
    rounds: int
    primal: float
    dual: float
    multipliers: FloatArray


def solve_exactly(
    families: Sequence[Family], guesses: Sequence[Guess] | None = None, few: int = FEW
) -> list[ExactSolution | Guess]:
    """The solutions, in order; for a family that was not solved, the best guess on the way.

    Args:
        families: to be solved.
        guesses: where to begin; by default no inequality is active.
        few: unknowns up to which a family that cycles goes on, one inequality at a time.
    """
    if guesses is None:
        guesses = [Guess.at_first(family) for family in families]
    results: dict[int, ExactSolution | Guess] = {}
    for shape, members in _stacks(families):
        stack = Stack.of([families[i] for i in members], shape)
        method = _Method(stack, [guesses[i] for i in members], few)
        results |= zip(members, method.run(), strict=True)
    return [results[i] for i in range(len(families))]


@dataclass(frozen=True, eq=False)
class JointSolutions:
    """Solutions of areas without a parent, each a problem by itself.

    Attributes:
        x: `(C, k)`.
        solved: `(C,)` in which of them it is one.
        rounds: of all that are solved.
        primal, dual: as in `ExactSolution`, the largest of those that are solved.
    """

    x: FloatArray
    solved: BoolArray
    rounds: int
    primal: float
    dual: float


def solve_together(family: Family) -> JointSolutions:
    """The solutions of areas without a parent, from the guess that no inequality is active.

    An area ends when nothing changes in it, and is left unsolved after `PATIENCE` rounds, whatever the others do.
    """
    out = JointSolutions(np.zeros_like(family.linear), np.zeros(family.n_children, dtype=bool), 0, 0.0, 0.0)
    scale = np.maximum(1.0, np.abs(family.linear).max(axis=1, initial=0.0))
    left, active = np.arange(family.n_children), None
    for number in range(1, PATIENCE + 1):
        own = family.of_children(left)
        stack = Stack.of([own], Shape.of(own))
        first, nu, multipliers = _begin(stack, [Guess.none_active(own)])
        active = first if active is None else active
        try:
            now = stationary(stack, active, nu, multipliers, MET)
        except np.linalg.LinAlgError:
            break
        changed, broken = _exchanged(stack, active, now, SIGN * scale[left])
        x = now.x[:, : family.n_cells]
        inside = np.clip(x, 0.0, own.upper)
        missed = np.maximum(np.abs(inside - x).max(axis=1, initial=0.0), violations(own, inside))
        ended = broken == 0
        good = ended & (missed <= MET)
        gradient = np.abs(np.where(active.free, now.gradient, 0.0)).max(axis=1, initial=0.0) / scale[left]
        out.x[left[good]], out.solved[left[good]] = inside[good], True
        out = replace(
            out,
            rounds=out.rounds + number * int(good.sum()),
            primal=max(out.primal, float(missed[good].max(initial=0.0))),
            dual=max(out.dual, float(gradient[good].max(initial=0.0))),
        )
        left, active = left[~ended], changed.of_children(~ended)
        if not len(left):
            break
    return out


def _stacks(families: Sequence[Family]) -> Iterator[tuple[Shape, list[int]]]:
    """The families of one shape, as many at once as allowed."""
    by_shape: dict[Shape, list[int]] = defaultdict(list)
    for i, family in enumerate(families):
        by_shape[Shape.of(family)].append(i)
    for shape, members in by_shape.items():
        numbers = np.cumsum([families[i].n_children * shape.cells**2 for i in members]) // STACK_NUMBERS
        for part in np.split(np.array(members), np.flatnonzero(np.diff(numbers)) + 1):
            yield shape, part.tolist()


class _Method:
    """The rounds of one stack; families leave it as they are solved or given up."""

    def __init__(self, stack: Stack, guesses: Sequence[Guess], few: int) -> None:
        self.stack, self.few = stack, few
        self.tries = TRIES if stack.single else 0
        self.active, self.nu, self.multipliers = _begin(stack, guesses)
        self.place = np.arange(len(guesses))
        self.results: list[ExactSolution | Guess] = list(guesses)
        self.seen: list[set[bytes]] = [set() for _ in guesses]
        self.fewest = np.full(len(guesses), np.inf)
        self.patience = np.full(len(guesses), PATIENCE)
        self.best: list[_Best | None] = [None for _ in guesses]
        self.careful = np.zeros(len(guesses), dtype=bool)
        self.scale = np.array([max(1.0, largest_of(family.linear)) for family in stack.families])

    def run(self) -> list[ExactSolution | Guess]:
        """The results, by family."""
        watch = Watch(self.stack.families[0].name if self.stack.families else "")
        for round_number in range(1, MOST_ROUNDS + 1):
            self._drop(self._stuck())
            if not len(self.place):
                break
            try:
                now = stationary(self.stack, self.active, self.nu, self.multipliers, MET, single=self.tries > 0)
            except np.linalg.LinAlgError:
                break
            self.tries -= not now.single
            self._drop(self._round(round_number, now))
            watch.at(partial(self._where, round_number))
            if not len(self.place):
                break
        for place, best in enumerate(self.best):
            if best is not None and isinstance(self.results[place], Guess):
                self.results[place] = best.guess()
        return self.results

    def _where(self, number: int) -> str:
        broken = self.fewest[np.isfinite(self.fewest)]
        return f"round {number:,}, limits that are off: {int(broken.sum()):,}"

    def _round(self, number: int, now: Stationary) -> BoolArray:
        """Change the active inequalities; returns which families have ended."""
        stack = self.stack
        scale = self.scale[self.place]
        changed, of_children = _exchanged(stack, self.active, now, SIGN * scale[stack.family])
        broken = np.add.reduceat(of_children, stack.first)
        ended = np.zeros(len(stack.families), dtype=bool)
        for i, (family, rows) in enumerate(zip(stack.families, stack.children, strict=True)):
            place = self.place[i]
            if broken[i] and broken[i] < self.fewest[place]:
                self.fewest[place], self.patience[place] = broken[i], PATIENCE
                self.best[place] = _Best(family, stack, i, self.active, now)
            else:
                self.patience[place] -= 1
            if now.missed[i] >= MET and (self.careful[place] or not broken[i]):
                _put_back(changed, self.active, rows)
                _release(stack, self.active, now, i, changed)
            elif broken[i] and self.careful[place]:
                _only_first(changed, self.active, rows)
            elif not broken[i]:
                ended[i] = True
                x = now.x[rows, : family.n_cells]
                inside, primal = clipped(family, x)
                if primal <= MET:
                    gradient = np.where(self.active.free[rows], now.gradient[rows], 0.0)
                    dual = largest_of(gradient) / scale[i]
                    sums = now.multipliers[rows, : sum(limits.size for limits in family.sums)]
                    self.results[place] = ExactSolution(inside, number, primal, dual, sums)
        self.active = changed
        return ended

    def _stuck(self) -> BoolArray:
        """Families that are given up: what is active was active before, or nothing gets better."""
        out = np.zeros(len(self.place), dtype=bool)
        for i, (family, rows) in enumerate(zip(self.stack.families, self.stack.children, strict=True)):
            place = self.place[i]
            key = np.packbits(self.active.free[rows]).tobytes() + self.active.rows[rows].tobytes()
            stuck = key in self.seen[place] or (self.patience[place] < 0 and not self.careful[place])
            if stuck and not self.careful[place] and family.linear.size <= self.few:
                self.careful[place], stuck = True, False
                self.seen[place].clear()
            self.seen[place].add(key)
            out[i] = stuck
        return out

    def _drop(self, ended: BoolArray) -> None:
        if not ended.any():
            return
        rows = ~ended[self.stack.family]
        self.stack, self.nu, self.place = self.stack.keep(~ended), self.nu[~ended], self.place[~ended]
        self.multipliers = self.multipliers[rows]
        self.active = self.active.of_children(rows)


@dataclass(frozen=True, eq=False)
class _Best:
    """The round of a family that broke the fewest inequalities."""

    family: Family
    stack: Stack
    number: int
    active: Active
    now: Stationary

    def guess(self) -> Guess:
        """The state of the round, for another method."""
        family, rows = self.family, self.stack.children[self.number]
        matrix, held = self.stack.matrix[self.number], self.stack.held[self.number]
        ranges = slice(int(held.sum()), int(held.sum()) + sum(limits.size for limits in family.ranges))
        x = self.now.x[rows]
        sums = x @ matrix[ranges].T
        pull = np.where(self.active.free[rows], 0.0, -self.now.gradient[rows])
        lower, upper = self.stack.row_lower[rows, ranges], self.stack.row_upper[rows, ranges]
        return Guess(
            x=np.clip(x[:, : family.n_cells], 0.0, family.upper),
            pull=pull[:, : family.n_cells],
            range_sums=np.clip(sums, lower, upper),
            range_pull=-self.now.multipliers[rows, ranges],
        )


def _begin(stack: Stack, guesses: Sequence[Guess]) -> tuple[Active, FloatArray, FloatArray]:
    """The guessed active inequalities, and the guess's multipliers of the parents' sums `(F, k)` and sums `(N, g)`.

    Where all cells of a sum are fixed its multiplier is not determined by the equations; it then stays here.
    """
    n, k, g = len(stack.family), stack.shape.cells, stack.shape.rows
    x, pull, sums, range_pull = np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, g)), np.zeros((n, g))
    for family, rows, held, guess in zip(stack.families, stack.children, stack.held, guesses, strict=True):
        x[rows, : family.n_cells], pull[rows, : family.n_cells] = guess.x, guess.pull
        ranges = slice(int(held.sum()), int(held.sum()) + guess.range_sums.shape[1])
        sums[rows, ranges], range_pull[rows, ranges] = guess.range_sums, guess.range_pull
    state = np.where(sums <= stack.row_lower, -1, np.where(sums >= stack.row_upper, 1, 0)).astype(np.int8)
    active = Active(
        free=(x > 0) & (x < stack.upper),
        fixed=np.where(x >= stack.upper, stack.upper, 0.0),
        rows=np.where(stack.held[stack.family], np.int8(-1), state),
    )
    steady = stack.times(x) - stack.linear + pull + stack.on_cells(range_pull)
    nu = np.zeros_like(stack.parent)
    if stack.shape.has_parent:
        nu = stack.over_children(steady) / np.bincount(stack.family)[:, None]
    sizes = np.maximum(stack.matrix.sum(axis=2), 1.0)[stack.family]
    of_held = stack.row_sums(steady - nu[stack.family]) / sizes
    return active, nu, np.where(stack.held[stack.family], of_held, -range_pull)


def _exchanged(stack: Stack, active: Active, now: Stationary, sign: FloatArray) -> tuple[Active, IntArray]:
    """Violated inequalities become active, those with a multiplier of the wrong sign do not stay so.

    Args:
        sign: `(N,)` multipliers up to which the sign does not matter.

    Returns:
        The inequalities that are active next; how many change in each child `(N,)`.
    """
    x, free, upper = now.x, active.free, stack.upper
    tolerance = sign[:, None]
    below, above = free & (x < -FEASIBLE), free & (x > upper + FEASIBLE)
    wrong = np.where(active.fixed > 0, now.gradient > tolerance, now.gradient < -tolerance)
    release = ~free & (upper > 0) & wrong
    sums = stack.row_sums(x)
    row_below = (active.rows == 0) & (sums < stack.row_lower - FEASIBLE)
    row_above = (active.rows == 0) & (sums > stack.row_upper + FEASIBLE)
    row_wrong = ((active.rows < 0) & (now.multipliers < -tolerance)) | (
        (active.rows > 0) & (now.multipliers > tolerance)
    )
    row_release = row_wrong & _may_be_released(stack)
    broken = (below | above | release).sum(axis=1) + (row_below | row_above | row_release).sum(axis=1)
    free = (free & ~below & ~above) | release
    if row_below.any():
        # A sum that has to rise needs a free cell to rise with.
        stuck = row_below & (stack.row_sums(free.astype(np.float64)) == 0)
        free |= below & (stack.on_cells(stuck.astype(np.float64)) > 0)
    changed = Active(
        free=free,
        fixed=np.where(below, 0.0, np.where(above, upper, active.fixed)),
        rows=np.where(row_release, 0, np.where(row_below, -1, np.where(row_above, 1, active.rows))).astype(np.int8),
    )
    return changed, broken.astype(np.int64)


def _put_back(changed: Active, active: Active, rows: slice) -> None:
    """Undo all changes of a family's children."""
    for after, before in ((changed.free, active.free), (changed.fixed, active.fixed), (changed.rows, active.rows)):
        after[rows] = before[rows]


def _only_first(changed: Active, active: Active, rows: slice) -> None:
    """Keep of a family's changes the first, cells before sums."""
    cells = np.flatnonzero(changed.free[rows] != active.free[rows])
    sums = np.flatnonzero(changed.rows[rows] != active.rows[rows])
    free, fixed, state = changed.free[rows].copy(), changed.fixed[rows].copy(), changed.rows[rows].copy()
    _put_back(changed, active, rows)
    if len(cells):
        changed.free[rows].flat[cells[0]] = free.flat[cells[0]]
        changed.fixed[rows].flat[cells[0]] = fixed.flat[cells[0]]
    else:
        changed.rows[rows].flat[sums[0]] = state.flat[sums[0]]


def _may_be_released(stack: Stack) -> BoolArray:
    return (stack.row_lower < stack.row_upper) & ~stack.held[stack.family]


def _release(stack: Stack, active: Active, now: Stationary, number: int, changed: Active) -> None:
    """Release, in `changed`, what obstructs a family's equalities: the first multiplier to vanish on the ray.

    A cell that is fixed in all children releases one of its own.
    """
    assert now.slope is not None
    assert now.row_slope is not None
    rows = stack.children[number]
    slope, row_slope = now.slope[rows], now.row_slope[rows]
    free, state = active.free[rows], active.rows[rows]
    tiny = 1e-9 * max(np.abs(slope).max(initial=0.0), np.abs(row_slope).max(initial=0.0))
    cells = ~free & (stack.upper[rows] > 0) & np.where(active.fixed[rows] > 0, slope > tiny, slope < -tiny)
    ranges = np.where(state > 0, row_slope > tiny, row_slope < -tiny) & (state != 0)
    ranges &= _may_be_released(stack)[rows]
    when, row_when = np.full(cells.shape, np.inf), np.full(ranges.shape, np.inf)
    when[cells] = np.abs(now.gradient[rows][cells] / slope[cells])
    row_when[ranges] = np.abs(now.multipliers[rows][ranges] / row_slope[ranges])
    earliest = min(when.min(initial=np.inf), row_when.min(initial=np.inf))
    stuck = ~free.any(axis=0) & cells.any(axis=0)
    until = np.where(stuck, when.min(axis=0), earliest)
    changed.free[rows] |= cells & (when <= until)
    changed.rows[rows] = np.where(ranges & (row_when <= earliest), 0, changed.rows[rows])
