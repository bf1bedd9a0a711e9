"""The exact solution of a family, from a guess of which inequalities are active: the primal-dual active set method.

With the active inequalities taken as equalities the optimality conditions are linear. Each child's free cells are
eliminated first; what couples the children, the multipliers nu of the parent's sums, solves one system of the number of
cells. Inequalities with a multiplier of the wrong sign are released, violated ones become active, until nothing changes
(Hintermueller, Ito, Kunisch 2003: a semismooth Newton method). The result then satisfies the optimality conditions of
the family to rounding error: it is the solution, not an approximation to a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.family import Family, one_hot, violation
from postprocess.problem import BoolArray, FloatArray

#: Rounds after which a guess is given up; most need five to ten.
MOST_ROUNDS = 60
#: Rounds in a row that may end with no fewer inequalities broken than the best before.
PATIENCE = 8
#: Relative sizes that count as zero: of violations (persons), multipliers, and pivots.
FEASIBLE, SIGN, PIVOT = 1e-7, 1e-7, 1e-11
#: Persons by which an equality may be missed.
MET = 1e-5
#: Numbers of free cells are rounded up to multiples of this where matrices are inverted together; numbers in one call.
STEP, TOGETHER = 4, 1_000_000


@dataclass(frozen=True, eq=False)
class Guess:
    """Where a method stands: the unknowns clipped to their bounds, and the multipliers of the bounds.

    Attributes:
        x: `(C, k)`; cells at a bound are guessed active.
        pull: `(C, k)` minus the multipliers of the cells' bounds.
        range_sums: `(C, g)` the sums in `family.ranges`, side by side; those at a limit are guessed active.
        range_pull: `(C, g)` minus their multipliers.
    """

    x: FloatArray
    pull: FloatArray
    range_sums: FloatArray
    range_pull: FloatArray

    @classmethod
    def none_active(cls, family: Family) -> Guess:
        """No inequality is active, but for impossible cells."""
        middle = [0.5 * (one.lower + one.upper) for one in family.ranges]
        sums = np.hstack(middle) if middle else np.zeros((family.n_children, 0))
        inside = np.where(family.upper > 0, 0.5 * family.upper, 0.0)
        return cls(inside, np.zeros_like(inside), sums, np.zeros_like(sums))


@dataclass(frozen=True, eq=False)
class Exact:
    """A solution `x` `(C, k)` with the residuals of its optimality conditions.

    Attributes:
        primal: persons by which a constraint is missed.
        dual: largest gradient of the Lagrangian in a free cell, relative to the largest linear term.
    """

    x: FloatArray
    rounds: int
    primal: float
    dual: float


@dataclass(frozen=True, eq=False)
class _Rows:
    """Sums over groups of cells, `matrix` `(g, k)`: held ones are always active, ranges where they bind.

    `cells` are the upper bounds of single cells. Limits that other constraints imply are infinite: as equalities they
    would contradict each other, and their multipliers would not be unique.
    """

    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray
    always: int
    cells: FloatArray


def _rows(family: Family) -> _Rows:
    matrices, lower, upper, always = [], [], [], 0
    if family.held is not None and family.held_group is not None:
        always = family.held.shape[1]
        matrices.append(one_hot(family.held_group, always).T)
        lower.append(family.held)
        upper.append(family.held)
    for one in family.ranges:
        matrix = one_hot(one.group, one.lower.shape[1])
        matrices.append(matrix.T)
        fixed = one.lower >= one.upper
        lower.append(np.where(fixed | (one.lower > 0), one.lower, -np.inf))
        upper.append(np.where(fixed | (one.upper < family.upper @ matrix), one.upper, np.inf))
    cells = _not_implied(family)
    if not matrices:
        empty = np.zeros((family.n_children, 0))
        return _Rows(np.zeros((0, family.n_cells)), empty, empty, 0, cells)
    return _Rows(np.vstack(matrices), np.hstack(lower), np.hstack(upper), always, cells)


def _not_implied(family: Family) -> FloatArray:
    """Upper bounds `(C, k)`, infinite where non-negative cells with the parent's or the held sums are below them."""
    implied = np.zeros(family.upper.shape, dtype=bool)
    if family.parent is not None:
        implied |= family.upper >= family.parent
    if family.held is not None and family.held_group is not None:
        implied |= family.upper >= family.held[:, family.held_group]
    return np.where(implied & (family.upper > 0), np.inf, family.upper)


def _pseudo_solve(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Least-norm solutions of stacked symmetric positive semidefinite systems."""
    values, vectors = np.linalg.eigh(matrices)
    cut = PIVOT * np.maximum(values[..., -1:], np.finfo(float).tiny)
    inverse = np.where(values > cut, 1.0 / np.where(values > cut, values, 1.0), 0.0)
    return vectors @ (inverse[..., None] * (np.swapaxes(vectors, -1, -2) @ right))


def _anchor(family: Family, rows: _Rows, guess: Guess) -> tuple[FloatArray, FloatArray]:
    """The guess's multipliers of the parent's sums `(k,)` and of the rows `(C, g)`.

    Where all cells of a sum are fixed its multiplier is not determined by the equations; it then stays here.
    """
    ranges = rows.matrix[rows.always :]
    stationary = family.times(guess.x) - family.linear
    stationary = stationary + guess.pull + guess.range_pull @ ranges
    nu = stationary.mean(axis=0) if family.parent is not None else np.zeros(family.n_cells)
    held = rows.matrix[: rows.always]
    sizes = np.maximum(held.sum(axis=1), 1.0)
    return nu, np.hstack([((stationary - nu) @ held.T) / sizes, -guess.range_pull])


@dataclass(frozen=True, eq=False)
class _Active:
    """Which inequalities are taken as equalities.

    Attributes:
        free: `(C, k)` cells between their bounds.
        fixed: `(C, k)` the bound that the others are at.
        rows: `(C, g)` -1 where a sum is at its lower limit, 1 at its upper, 0 between them.
    """

    free: BoolArray
    fixed: FloatArray
    rows: FloatArray

    @classmethod
    def of(cls, rows: _Rows, guess: Guess) -> _Active:
        upper = rows.cells
        state = np.where(guess.range_sums <= rows.lower[:, rows.always :], -1, 0)
        state = np.where((state == 0) & (guess.range_sums >= rows.upper[:, rows.always :]), 1, state)
        held = np.full((len(upper), rows.always), -1)
        return cls(
            free=(guess.x > 0) & (guess.x < upper),
            fixed=np.where(guess.x >= upper, upper, 0.0),
            rows=np.hstack([held, state]),
        )

    @property
    def key(self) -> bytes:
        return np.packbits(self.free).tobytes() + self.rows.astype(np.int8).tobytes()


@dataclass(frozen=True, eq=False)
class _Stationary:
    """The stationary point of a family with the active inequalities as equalities.

    Attributes:
        x: `(C, k)`.
        gradient: `(C, k)` of the Lagrangian: 0 in free cells, the multipliers of the bounds in the others.
        multipliers: `(C, g)` of the rows.
        ray: where the equalities contradict each other, how fast gradient and multipliers change along the direction
            in which the dual problem has no bound.
    """

    x: FloatArray
    gradient: FloatArray
    multipliers: FloatArray
    ray: tuple[FloatArray, FloatArray] | None

    def guess(self, family: Family, rows: _Rows, active: _Active) -> Guess:
        """Where it stands, for another method."""
        sums = self.x @ rows.matrix[rows.always :].T
        return Guess(
            x=np.clip(self.x, 0.0, family.upper),
            pull=np.where(active.free, 0.0, -self.gradient),
            range_sums=np.clip(sums, rows.lower[:, rows.always :], rows.upper[:, rows.always :]),
            range_pull=-self.multipliers[:, rows.always :],
        )


def solve_exactly(family: Family, guess: Guess, most_rounds: int = MOST_ROUNDS) -> Exact | Guess:
    """The solution, if its active inequalities are near those of the guess; otherwise the best guess on the way."""
    rows = _rows(family)
    active = _Active.of(rows, guess)
    anchor = _anchor(family, rows, guess)
    scale = max(1.0, float(np.abs(family.linear).max()))
    seen: set[bytes] = set()
    best, fewest, patience = guess, np.inf, PATIENCE
    for round_number in range(1, most_rounds + 1):
        if active.key in seen or patience < 0:
            break
        seen.add(active.key)
        try:
            found = _stationary(family, rows, active, anchor)
        except np.linalg.LinAlgError:
            break
        changed, broken = _exchanged(rows, active, found, SIGN * scale)
        if not broken and found.ray is not None:
            active = _released(rows, active, found)
            continue
        if not broken:
            clipped = np.clip(found.x, 0.0, family.upper)
            primal = max(float(np.abs(clipped - found.x).max(initial=0.0)), violation(family, clipped))
            if primal > MET:
                break
            dual = float(np.abs(np.where(active.free, found.gradient, 0.0)).max(initial=0.0)) / scale
            return Exact(clipped, round_number, primal, dual)
        if broken < fewest:
            best, fewest, patience = found.guess(family, rows, active), broken, PATIENCE
        else:
            patience -= 1
        active = changed
    return best


def _exchanged(rows: _Rows, active: _Active, found: _Stationary, sign: float) -> tuple[_Active, int]:
    """Violated inequalities become active, those with a multiplier of the wrong sign do not stay so; how many."""
    x, upper, free = found.x, rows.cells, active.free
    below, above = free & (x < -FEASIBLE), free & (x > upper + FEASIBLE)
    at_upper = active.fixed > 0
    release = ~free & (upper > 0) & np.where(at_upper, found.gradient > sign, found.gradient < -sign)
    sums = x @ rows.matrix.T
    row_below = (active.rows == 0) & (sums < rows.lower - FEASIBLE)
    row_above = (active.rows == 0) & (sums > rows.upper + FEASIBLE)
    row_release = ((active.rows == -1) & (found.multipliers < -sign)) | (
        (active.rows == 1) & (found.multipliers > sign)
    )
    row_release &= rows.lower < rows.upper
    row_release[:, : rows.always] = False
    broken = sum(int(np.count_nonzero(one)) for one in (below, above, release, row_below, row_above, row_release))
    free = (free & ~below & ~above) | release
    if row_below.any():
        # A sum that has to rise needs a free cell to rise with.
        stuck = row_below & (free @ rows.matrix.T == 0)
        free |= below & (stuck @ rows.matrix > 0)
    changed = _Active(
        free=free,
        fixed=np.where(below, 0.0, np.where(above, upper, active.fixed)),
        rows=np.where(row_release, 0, np.where(row_below, -1, np.where(row_above, 1, active.rows))),
    )
    return changed, broken


def _released(rows: _Rows, active: _Active, found: _Stationary) -> _Active:
    """The inequalities that are in the way of the equalities: the first whose multiplier vanishes along the ray."""
    assert found.ray is not None
    slope, row_slope = found.ray
    tiny = 1e-9 * max(np.abs(slope).max(initial=0.0), np.abs(row_slope).max(initial=0.0))
    at_upper = active.fixed > 0
    fixed = ~active.free & (rows.cells > 0)
    cells = fixed & np.where(at_upper, slope > tiny, slope < -tiny)
    ranges = np.where(active.rows > 0, row_slope > tiny, row_slope < -tiny) & (active.rows != 0)
    ranges &= rows.lower < rows.upper
    ranges[:, : rows.always] = False
    when = np.full(cells.shape, np.inf)
    when[cells] = np.abs(found.gradient[cells] / slope[cells])
    row_when = np.full(ranges.shape, np.inf)
    row_when[ranges] = np.abs(found.multipliers[ranges] / row_slope[ranges])
    first = np.full(cells.shape[1], min(when.min(initial=np.inf), row_when.min(initial=np.inf)))
    stuck = ~active.free.any(axis=0) & cells.any(axis=0)
    first[stuck] = when.min(axis=0)[stuck]
    return _Active(
        free=active.free | (cells & (when <= first)),
        fixed=active.fixed,
        rows=np.where(ranges & (row_when <= first.min()), 0, active.rows),
    )


def _inverse_on(family: Family, free: BoolArray) -> FloatArray:
    """Inverses of the precisions restricted to each child's free cells `(C, k)`, zero elsewhere: `(C, k, k)`.

    Children with the same precision and the same free cells share one; those with about as many are inverted together.
    """
    key = np.column_stack([family.kinds.astype(np.uint32).view(np.uint8).reshape(-1, 4), np.packbits(free, axis=1)])
    _, first, same = np.unique(key, axis=0, return_index=True, return_inverse=True)
    count = free[first].sum(axis=1)
    size = np.minimum(-(-count // STEP) * STEP, free.shape[1])
    inverse = np.zeros((len(first), free.shape[1], free.shape[1]))
    for n in np.unique(size[size > 0]):
        members = np.flatnonzero(size == n)
        for some in np.array_split(members, -(-len(members) * n * n // TOGETHER)):
            children = first[some]
            cells = np.argsort(~free[children], axis=1, kind="stable")[:, :n]
            inside = np.arange(n) < count[some][:, None]
            both = inside[:, :, None] & inside[:, None, :]
            at = cells[:, :, None], cells[:, None, :]
            part = np.where(both, family.precision[family.kinds[children][:, None, None], *at], np.eye(n))
            inverse[some[:, None, None], *at] = np.where(both, np.linalg.inv(part), 0.0)
    return inverse[same.ravel()]


class _Equalities:
    """The linear equations of the stationary point: each child's free cells and rows eliminated, then nu."""

    def __init__(self, family: Family, rows: _Rows, active: _Active) -> None:
        n_rows = len(rows.matrix)
        self.family, self.rows = family, rows
        self.mask = active.free.astype(np.float64)
        self.row_mask = (active.rows != 0).astype(np.float64)
        self.inverse = _inverse_on(family, active.free)
        total = self.inverse.sum(axis=0)
        if n_rows:
            matrix = rows.matrix[None] * self.row_mask[:, :, None] * self.mask[:, None, :]
            self.by_row = matrix @ self.inverse
            middle = self.by_row @ np.swapaxes(matrix, 1, 2)
            self.middle_inverse = _pseudo_solve(middle, np.broadcast_to(np.eye(n_rows), middle.shape))
            self.weights = self.middle_inverse @ self.by_row
            n_cells = self.mask.shape[1]
            total -= self.by_row.reshape(-1, n_cells).T @ self.weights.reshape(-1, n_cells)
        self.total = 0.5 * (total + total.T)

    def solve(
        self, linear: FloatArray, wanted: FloatArray, parent: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The free cells `(C, k)` (0 in the others), nu `(k,)` and the rows' multipliers `(C, g)`.

        Args:
            linear: `(C, k)` of the free cells, the fixed ones' part taken off; what others hold does not matter.
            wanted: `(C, g)` sums of the active rows over the free cells.
            parent: `(k,)` sums of the free cells over the children.
        """
        right = linear * self.mask
        x = np.matmul(self.inverse, right[:, :, None])[:, :, 0]
        nu = np.zeros(x.shape[1])
        multipliers = np.zeros_like(wanted)
        if len(self.rows.matrix):
            missed = wanted * self.row_mask - np.matmul(self.by_row, right[:, :, None])[:, :, 0]
            x += np.matmul(missed[:, None, :], self.weights)[:, 0]
        if self.family.parent is not None:
            nu = _pseudo_solve(self.total, (parent - x.sum(axis=0))[:, None])[:, 0]
            x += self.inverse @ nu
            if len(self.rows.matrix):
                x -= np.matmul((self.by_row @ nu)[:, None, :], self.weights)[:, 0]
        if len(self.rows.matrix):
            missed -= self.by_row @ nu
            multipliers = np.matmul(self.middle_inverse, missed[:, :, None])[:, :, 0] * self.row_mask
        return x, nu, multipliers

    def ray(self, parent: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How gradient and multipliers change as nu and the rows' multipliers follow what is missed."""
        step = wanted
        if len(self.rows.matrix):
            step = wanted - np.matmul(self.middle_inverse, (self.by_row @ parent)[:, :, None])[:, :, 0] * self.row_mask
        return -(parent + step @ self.rows.matrix), step


def _stationary(family: Family, rows: _Rows, active: _Active, anchor: tuple[FloatArray, FloatArray]) -> _Stationary:
    """The stationary point, mended once where the equalities are missed: counts of millions lose digits."""
    equalities = _Equalities(family, rows, active)
    x = np.where(active.free, 0.0, active.fixed)
    nu, multipliers = anchor[0], anchor[1] * equalities.row_mask
    target = np.where(active.rows > 0, rows.upper, np.where(active.rows < 0, rows.lower, 0.0))
    wanted = (target - x @ rows.matrix.T) * equalities.row_mask
    parent = np.zeros(len(nu)) if family.parent is None else family.parent - x.sum(axis=0)
    for _ in range(2):
        linear = family.linear - family.times(x) + nu + multipliers @ rows.matrix
        step = equalities.solve(linear, wanted, parent)
        x, nu, multipliers = x + step[0], nu + step[1], multipliers + step[2]
        wanted = (target - x @ rows.matrix.T) * equalities.row_mask
        parent = np.zeros(len(nu)) if family.parent is None else family.parent - x.sum(axis=0)
        missed = max(np.abs(wanted).max(initial=0.0), np.abs(parent).max())
        if missed < 0.1 * FEASIBLE:
            break
    gradient = family.times(x) - family.linear - nu - multipliers @ rows.matrix
    ray = None if missed < MET else equalities.ray(parent, wanted)
    return _Stationary(x, gradient, multipliers, ray)
