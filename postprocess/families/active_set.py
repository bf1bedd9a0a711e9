"""The exact solutions of families, from a guess of which inequalities are active: the primal-dual active set method.

With the active inequalities taken as equalities the optimality conditions are linear. Inequalities with
a multiplier of the wrong sign are released, violated ones become active, until nothing changes (Hintermueller, Ito,
Kunisch 2003: a semismooth Newton method). The result then satisfies the optimality conditions of the family to rounding
error: it is the solution, not an approximation to a tolerance.

Where the active inequalities contradict each other the dual problem has no bound in one direction; the one whose
multiplier is the first to vanish along it is released (as in the dual method of Goldfarb and Idnani 1983). A family
that cycles changes only one inequality at a time from then on, the first (Murty's rule).

Families with some inequalities taken as equalities: the linear equations of their stationary points.

Each child's free cells are eliminated first, then the multipliers of its sums. The multipliers nu of the parent's sums,
which couple the children, then solve one system with as many unknowns as cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from postprocess.algebra import symmetrise
from postprocess.arrays import BoolArray, FloatArray, IntArray, largest_of
from postprocess.families.family import Family, Shape, Stack, clipped, violations
from postprocess.families.precisions import free_cells, products
from postprocess.families.progress import Watch

#: Relative size of pivots that count as zero.
PIVOT = 1e-11


@dataclass(frozen=True, eq=False)
class Active:
    """Which inequalities are taken as equalities.

    Attributes:
        free: `(N, k)` cells between their limits.
        fixed: `(N, k)` the limit that the others are at.
        rows: `(N, g)` -1 where a sum is at its lower limit, 1 at its upper, 0 between them.
    """

    free: BoolArray
    fixed: FloatArray
    rows: FloatArray

    def of_children(self, rows: BoolArray) -> Active:
        """Those of some children `(N,)`."""
        return Active(self.free[rows], self.fixed[rows], self.rows[rows])


@dataclass(frozen=True, eq=False)
class Stationary:
    """The stationary points.

    Attributes:
        x: `(N, k)`.
        gradient: `(N, k)` of the Lagrangian: 0 in free cells, the multipliers of the limits in the others.
        multipliers: `(N, g)` of the sums.
        missed: `(F,)` persons by which an equality is missed.
        slope: `(N, k)`, where the equalities contradict each other, how fast the gradient changes along the direction
            in which the dual problem has no bound; None where they do not.
        row_slope: `(N, g)` the same of the multipliers.
    """

    x: FloatArray
    gradient: FloatArray
    multipliers: FloatArray
    missed: FloatArray
    slope: FloatArray | None
    row_slope: FloatArray | None


def stationary(stack: Stack, active: Active, nu: FloatArray, multipliers: FloatArray, met: float) -> Stationary:
    """The stationary points, corrected where they miss the equalities, since counts of millions lose digits.

    Args:
        stack: the families.
        active: the inequalities that are taken as equalities.
        nu: `(F, k)`; multipliers of the parent's sums that are not determined by the equations keep these values.
        multipliers: `(N, g)`, the same.
        met: persons by which an equality may be missed.
    """
    equalities = _Equalities(stack, active)
    x = np.where(active.free, 0.0, active.fixed)
    multipliers = multipliers * equalities.row_mask
    target = _targets(stack, active)
    missing, parent = _left(stack, x, target, equalities.row_mask)
    for _ in range(2):
        linear = stack.linear + nu[stack.family] + stack.on_cells(multipliers)
        if x.any():
            linear -= stack.times(x)
        step = equalities.solve(linear, missing, parent)
        x, nu, multipliers = x + step[0], nu + step[1], multipliers + step[2]
        missing, parent = _left(stack, x, target, equalities.row_mask)
        missed = _missed(stack, missing, parent)
        if (missed < 0.01 * met).all():
            break
    gradient = stack.times(x) - stack.linear - nu[stack.family] - stack.on_cells(multipliers)
    slope = row_slope = None
    if (missed >= met).any():
        slope, row_slope = equalities.ray(parent, missing)
    return Stationary(x, gradient, multipliers, missed, slope, row_slope)


def _targets(stack: Stack, active: Active) -> FloatArray:
    """What the active sums are to be, `(N, g)`."""
    return np.where(active.rows > 0, stack.row_upper, np.where(active.rows < 0, stack.row_lower, 0.0))


def _missed(stack: Stack, sums: FloatArray, parent: FloatArray) -> FloatArray:
    """Persons by which an equality of each family is missed, `(F,)`."""
    of_sums = np.maximum.reduceat(np.abs(sums).max(axis=1, initial=0.0), stack.first)
    return np.maximum(of_sums, np.abs(parent).max(axis=1, initial=0.0))


def _left(stack: Stack, x: FloatArray, target: FloatArray, row_mask: FloatArray) -> tuple[FloatArray, FloatArray]:
    """By how much the active sums `(N, g)` and the parent's `(F, k)` are missed."""
    parent = stack.parent - stack.over_children(x) if stack.shape.has_parent else np.zeros_like(stack.parent)
    return (target - stack.row_sums(x)) * row_mask, parent


class _Equalities:
    """A factorisation of the equations, which solves them for any right-hand sides."""

    def __init__(self, stack: Stack, active: Active) -> None:
        self.stack = stack
        self.row_mask = (active.rows != 0).astype(np.float64)
        self.free = free_cells(stack.precision, stack.kind, active.free)
        self.by_row: list[FloatArray] = []
        self.weights: list[FloatArray] = []
        if stack.shape.rows:
            middle = np.zeros((len(stack.family), stack.shape.rows, stack.shape.rows))
            for cells in self.free:
                sums = cells.of_sums(stack.matrix, stack.family, self.row_mask)
                self.by_row.append(sums @ cells.inverse)
                middle[cells.members] = self.by_row[-1] @ np.swapaxes(sums, 1, 2)
            self.middle_inverse = _pseudo_inverse_on(middle, active.rows != 0)
            for cells, by_row in zip(self.free, self.by_row, strict=True):
                self.weights.append(self.middle_inverse[cells.members] @ by_row)
        if stack.shape.has_parent:
            self.total = self._total()

    def _total(self) -> FloatArray:
        """How the children's cells together follow the multipliers of the parent's sums: `(F, k, k)`."""
        stack = self.stack
        total = np.zeros((len(stack.families), stack.shape.cells, stack.shape.cells))
        for number, cells in enumerate(self.free):
            follow = cells.inverse
            if stack.shape.rows:
                follow = follow - np.swapaxes(self.by_row[number], 1, 2) @ self.weights[number]
            cells.add_to(total, stack.family, follow)
        return symmetrise(total)

    def _cells(self, right: FloatArray) -> FloatArray:
        """The inverses times `(N, k)`, 0 in cells that are not free."""
        out = np.zeros_like(right)
        for cells in self.free:
            out[cells.at] = cells.times(cells.inverse, right)
        return out

    def _sums(self, right: FloatArray) -> FloatArray:
        """The active sums `(N, g)` over the inverses times `(N, k)`."""
        out = np.zeros_like(self.row_mask)
        for cells, by_row in zip(self.free, self.by_row, strict=True):
            out[cells.members] = cells.times(by_row, right)
        return out

    def _moved(self, missed: FloatArray) -> FloatArray:
        """How the cells `(N, k)` make up for what is missed of the sums `(N, g)`."""
        out = np.zeros((len(missed), self.stack.shape.cells))
        for cells, weights in zip(self.free, self.weights, strict=True):
            out[cells.at] = np.matmul(missed[cells.members][:, None, :], weights)[:, 0]
        return out

    def solve(
        self, linear: FloatArray, sums: FloatArray, parent: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The free cells `(N, k)` (0 in the others), nu `(F, k)` and the sums' multipliers `(N, g)`.

        Args:
            linear: `(N, k)` of the free cells, the fixed ones' part taken off; what others hold does not matter.
            sums: `(N, g)` what the active sums over the free cells have to be.
            parent: `(F, k)` sums of the free cells over the children.
        """
        stack = self.stack
        has_rows = stack.shape.rows > 0
        x = self._cells(linear)
        nu = np.zeros_like(parent)
        missed = sums
        if has_rows:
            missed = sums - self._sums(linear)
            x += self._moved(missed)
        if stack.shape.has_parent:
            nu = _pseudo_solve(self.total, (parent - stack.over_children(x))[:, :, None])[:, :, 0]
            on_children = nu[stack.family]
            x += self._cells(on_children)
            if has_rows:
                by_nu = self._sums(on_children)
                x -= self._moved(by_nu)
                missed = missed - by_nu
        return x, nu, products(self.middle_inverse, missed) * self.row_mask if has_rows else missed

    def ray(self, parent: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How gradient and multipliers change as nu and the sums' multipliers follow what is missed."""
        on_children = parent[self.stack.family]
        step = sums
        if self.stack.shape.rows:
            step = sums - products(self.middle_inverse, self._sums(on_children)) * self.row_mask
        return -(on_children + self.stack.on_cells(step)), step


def _pseudo_solve(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Least-norm solutions of stacked symmetric positive semidefinite systems."""
    values, vectors = np.linalg.eigh(matrices)
    cut = PIVOT * np.maximum(values[..., -1:], np.finfo(float).tiny)
    inverse = np.where(values > cut, 1.0 / np.where(values > cut, values, 1.0), 0.0)
    return vectors @ (inverse[..., None] * (np.swapaxes(vectors, -1, -2) @ right))


def _pseudo_inverse_on(matrices: FloatArray, used: BoolArray) -> FloatArray:
    """Pseudo-inverses `(N, g, g)` of stacked semidefinite matrices, zero in all rows and columns but those `used`."""
    count = used.sum(axis=1)
    sizes = np.unique(np.minimum(used.shape[1], [*range(1, 9), *range(10, 17, 2), *range(20, used.shape[1] + 4, 4)]))
    size = np.where(count > 0, sizes[np.searchsorted(sizes, count)], 0)
    out = np.zeros_like(matrices)
    for n in np.unique(size[size > 0]):
        (members,) = np.nonzero(size == n)
        rows = np.argsort(~used[members], axis=1, kind="stable")[:, :n]
        at = members[:, None, None], rows[:, :, None], rows[:, None, :]
        part = matrices[at]
        out[at] = _pseudo_solve(part, np.broadcast_to(np.eye(n), part.shape))
    return out


#: Rounds after which a family is given up; most need five to ten.
MOST_ROUNDS = 300
#: Unknowns up to which a family may change one inequality at a time.
FEW = 600
#: Rounds in a row that may end with no fewer inequalities broken than the best before.
PATIENCE = 8
#: Sizes that count as zero: of violations (persons), and of multipliers relative to the largest linear term.
FEASIBLE, SIGN = 1e-7, 1e-10
#: Persons by which a constraint may be missed.
MET = 1e-5
#: Numbers in the matrices of the families that are worked on together.
STACK_NUMBERS = 2_000_000


@dataclass(frozen=True, eq=False)
class Guess:
    """Where to begin.

    Attributes:
        x: `(C, k)` clipped to the bounds; cells at a bound are guessed active.
        range_sums: `(C, g)` the sums in `Family.ranges`, side by side; those at a limit are guessed active.
    """

    x: FloatArray
    range_sums: FloatArray

    @classmethod
    def none_active(cls, family: Family) -> Guess:
        """The guess that no inequality is active except those of impossible cells."""
        _, lower, upper = family.side_by_side()
        sums = 0.5 * (lower + upper)
        return cls(0.5 * np.minimum(family.upper, 1.0), sums)


@dataclass(frozen=True, eq=False)
class ExactSolution:
    """A solution `x` `(C, k)` with the residuals of its optimality conditions.

    Attributes:
        primal: persons by which a constraint is missed.
        dual: largest gradient of the Lagrangian in a free cell, relative to the largest linear term.
    """

    x: FloatArray
    rounds: int
    primal: float
    dual: float


def solve_exactly(families: Sequence[Family], guesses: Sequence[Guess] | None = None) -> list[ExactSolution | None]:
    """The solutions, in order; None of a family that was not solved.

    Args:
        families: to be solved.
        guesses: where to begin; by default no inequality is active.
    """
    if guesses is None:
        guesses = [Guess.none_active(family) for family in families]
    results: dict[int, ExactSolution | None] = {}
    for shape, members in _stacks(families):
        stack = Stack.of([families[i] for i in members], shape)
        method = _Method(stack, [guesses[i] for i in members])
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

    def __init__(self, stack: Stack, guesses: Sequence[Guess]) -> None:
        self.stack = stack
        self.active, self.nu, self.multipliers = _begin(stack, guesses)
        self.place = np.arange(len(guesses))
        self.results: list[ExactSolution | None] = [None for _ in guesses]
        self.seen: list[set[bytes]] = [set() for _ in guesses]
        self.fewest = np.full(len(guesses), np.inf)
        self.patience = np.full(len(guesses), PATIENCE)
        self.careful = np.zeros(len(guesses), dtype=bool)
        self.scale = np.array([max(1.0, largest_of(family.linear)) for family in stack.families])

    def run(self) -> list[ExactSolution | None]:
        """The results, by family."""
        watch = Watch(self.stack.families[0].name if self.stack.families else "")
        for round_number in range(1, MOST_ROUNDS + 1):
            self._drop(self._stuck())
            if not len(self.place):
                break
            try:
                now = stationary(self.stack, self.active, self.nu, self.multipliers, MET)
            except np.linalg.LinAlgError:
                break
            self._drop(self._round(round_number, now))
            watch.at(partial(self._where, round_number))
            if not len(self.place):
                break
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
                    self.results[place] = ExactSolution(inside, number, primal, dual)
        self.active = changed
        return ended

    def _stuck(self) -> BoolArray:
        """Families that are given up: what is active was active before, or nothing gets better."""
        out = np.zeros(len(self.place), dtype=bool)
        for i, (family, rows) in enumerate(zip(self.stack.families, self.stack.children, strict=True)):
            place = self.place[i]
            key = np.packbits(self.active.free[rows]).tobytes() + self.active.rows[rows].tobytes()
            stuck = key in self.seen[place] or (self.patience[place] < 0 and not self.careful[place])
            if stuck and not self.careful[place] and family.linear.size <= FEW:
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


def _begin(stack: Stack, guesses: Sequence[Guess]) -> tuple[Active, FloatArray, FloatArray]:
    """The guessed active inequalities, and the guess's multipliers of the parents' sums `(F, k)` and sums `(N, g)`.

    Where all cells of a sum are fixed its multiplier is not determined by the equations; it then stays here.
    """
    n, k, g = len(stack.family), stack.shape.cells, stack.shape.rows
    x, sums = np.zeros((n, k)), np.zeros((n, g))
    for family, rows, held, guess in zip(stack.families, stack.children, stack.held, guesses, strict=True):
        x[rows, : family.n_cells] = guess.x
        ranges = slice(int(held.sum()), int(held.sum()) + guess.range_sums.shape[1])
        sums[rows, ranges] = guess.range_sums
    state = np.where(sums <= stack.row_lower, -1, np.where(sums >= stack.row_upper, 1, 0)).astype(np.int8)
    active = Active(
        free=(x > 0) & (x < stack.upper),
        fixed=np.where(x >= stack.upper, stack.upper, 0.0),
        rows=np.where(stack.held[stack.family], np.int8(-1), state),
    )
    steady = stack.times(x) - stack.linear
    nu = np.zeros_like(stack.parent)
    if stack.shape.has_parent:
        nu = stack.over_children(steady) / np.bincount(stack.family)[:, None]
    sizes = np.maximum(stack.matrix.sum(axis=2), 1.0)[stack.family]
    of_held = stack.row_sums(steady - nu[stack.family]) / sizes
    return active, nu, np.where(stack.held[stack.family], of_held, 0.0)


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
