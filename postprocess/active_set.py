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

#: Rounds after which a guess is given up; a good one needs one to five.
MOST_ROUNDS = 12
#: Relative sizes that count as zero: of violations (persons), multipliers, and pivots.
FEASIBLE, SIGN, PIVOT = 1e-7, 1e-7, 1e-11
#: Cells up to which all children's matrices are inverted in one call, fixed cells included.
SMALL = 80


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
    """Sums over groups of cells: held ones are always active, ranges where they bind. `matrix` `(g, k)`."""

    matrix: FloatArray
    lower: FloatArray
    upper: FloatArray
    always: int


def _rows(family: Family) -> _Rows:
    matrices, lower, upper, always = [], [], [], 0
    if family.held is not None and family.held_group is not None:
        always = family.held.shape[1]
        matrices.append(one_hot(family.held_group, always).T)
        lower.append(family.held)
        upper.append(family.held)
    for one in family.ranges:
        matrices.append(one_hot(one.group, one.lower.shape[1]).T)
        lower.append(one.lower)
        upper.append(one.upper)
    if not matrices:
        empty = np.zeros((family.n_children, 0))
        return _Rows(np.zeros((0, family.n_cells)), empty, empty, 0)
    return _Rows(np.vstack(matrices), np.hstack(lower), np.hstack(upper), always)


def _pseudo_solve(matrices: FloatArray, right: FloatArray) -> FloatArray:
    """Least-norm solutions of stacked symmetric positive semidefinite systems."""
    values, vectors = np.linalg.eigh(matrices)
    cut = PIVOT * np.maximum(values[..., -1:], np.finfo(float).tiny)
    inverse = np.where(values > cut, 1.0 / np.where(values > cut, values, 1.0), 0.0)
    return vectors @ (inverse[..., None] * (np.swapaxes(vectors, -1, -2) @ right))


@dataclass(frozen=True, eq=False)
class Guess:
    """Where another method stands: the unknowns clipped to their bounds, and the multipliers of the bounds.

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


def _anchor(family: Family, rows: _Rows, guess: Guess) -> tuple[FloatArray, FloatArray]:
    """The guess's multipliers of the parent's sums `(k,)` and of the rows `(C, g)`.

    Where all cells of a sum are fixed its multiplier is not determined by the equations; it then stays here.
    """
    ranges = rows.matrix[rows.always :]
    stationary = np.matmul(family.precision, guess.x[:, :, None])[:, :, 0] - family.linear
    stationary = stationary + guess.pull + guess.range_pull @ ranges
    nu = stationary.mean(axis=0) if family.parent is not None else np.zeros(family.n_cells)
    held = rows.matrix[: rows.always]
    sizes = np.maximum(held.sum(axis=1), 1.0)
    return nu, np.hstack([((stationary - nu) @ held.T) / sizes, -guess.range_pull])


def solve_exactly(family: Family, guess: Guess) -> Exact | None:
    """The solution whose active inequalities are near those of the guess; None if none was found."""
    rows = _rows(family)
    upper = family.upper
    x = guess.x
    fixed_value = np.where(x >= upper, upper, 0.0)
    free = (x > 0) & (x < upper)
    sums = np.hstack([np.zeros((len(x), rows.always)), guess.range_sums])
    row_state = np.where(sums <= rows.lower, -1, np.where(sums >= rows.upper, 1, 0))
    row_state[:, : rows.always] = -1
    seen: set[bytes] = set()
    anchor = _anchor(family, rows, guess)
    for round_number in range(1, MOST_ROUNDS + 1):
        key = np.packbits(free).tobytes() + row_state.astype(np.int8).tobytes()
        if key in seen:
            return None
        seen.add(key)
        found = _solve_equalities(family, rows, free, fixed_value, row_state, anchor)
        if found is None:
            return None
        x, gradient, multipliers = found
        scale = max(1.0, float(np.abs(family.linear).max()))
        below, above = free & (x < -FEASIBLE), free & (x > upper + FEASIBLE)
        at_upper = ~free & (fixed_value > 0) & (upper > 0)
        release = ~free & (upper > 0) & np.where(at_upper, gradient > SIGN * scale, gradient < -SIGN * scale)
        sums = x @ rows.matrix.T
        row_below = (row_state == 0) & (sums < rows.lower - FEASIBLE)
        row_above = (row_state == 0) & (sums > rows.upper + FEASIBLE)
        row_release = ((row_state == -1) & (multipliers < -SIGN * scale)) | (
            (row_state == 1) & (multipliers > SIGN * scale)
        )
        row_release &= rows.lower < rows.upper
        row_release[:, : rows.always] = False
        if not (below.any() or above.any() or release.any() or row_below.any() or row_above.any() or row_release.any()):
            clipped = np.clip(x, 0.0, upper)
            primal = max(float(np.abs(clipped - x).max(initial=0.0)), violation(family, clipped))
            if primal > 1e-5:
                return None
            dual = float(np.abs(np.where(free, gradient, 0.0)).max(initial=0.0)) / scale
            return Exact(clipped, round_number, primal, dual)
        fixed_value = np.where(below, 0.0, np.where(above, upper, fixed_value))
        free = (free & ~below & ~above) | release
        row_state = np.where(row_release, 0, np.where(row_below, -1, np.where(row_above, 1, row_state)))
    return None


def _inverse_on(precision: FloatArray, free: BoolArray) -> FloatArray:
    """Inverses of `(1 or C, k, k)` restricted to each child's free cells `(C, k)`, zero elsewhere."""
    n_children, n_cells = free.shape
    if n_cells <= SMALL:
        mask = free.astype(np.float64)
        scale = np.median(np.diagonal(precision, axis1=1, axis2=2), axis=1)[:, None, None]
        outer = mask[:, :, None] * mask[:, None, :]
        return np.linalg.inv(precision * outer + scale * (np.eye(n_cells) * (1.0 - mask[:, None, :]))) * outer
    inverse = np.zeros((n_children, n_cells, n_cells))
    for child in range(n_children):
        cells = np.flatnonzero(free[child])
        index = np.ix_(cells, cells)
        inverse[child][index] = np.linalg.inv(precision[child if len(precision) > 1 else 0][index])
    return inverse


def _solve_equalities(
    family: Family,
    rows: _Rows,
    free: BoolArray,
    fixed_value: FloatArray,
    row_state: FloatArray,
    anchor: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Stationary point with the active inequalities as equalities: x, gradient of the Lagrangian, row multipliers."""
    n_children, n_cells = free.shape
    precision = family.precision
    fixed = np.where(free, 0.0, fixed_value)
    row_anchor = anchor[1] * (row_state != 0)
    linear = family.linear + anchor[0] + row_anchor @ rows.matrix
    mask = free.astype(np.float64)
    try:
        inverse = _inverse_on(precision, free)
    except np.linalg.LinAlgError:
        return None
    right = (linear - np.matmul(precision, fixed[:, :, None])[:, :, 0]) * mask
    n_rows = len(rows.matrix)
    base = np.matmul(inverse, right[:, :, None])[:, :, 0] + fixed
    total = inverse.sum(axis=0)
    by_row = weights = middle_inverse = wanted = None
    if n_rows:
        active = (row_state != 0).astype(np.float64)
        matrix = rows.matrix[None] * active[:, :, None] * mask[:, None, :]
        by_row = matrix @ inverse
        middle = by_row @ np.swapaxes(matrix, 1, 2)
        target = np.where(row_state > 0, rows.upper, rows.lower)
        wanted = (target - fixed @ rows.matrix.T) * active
        middle_inverse = _pseudo_solve(middle, np.broadcast_to(np.eye(n_rows), middle.shape))
        weights = middle_inverse @ by_row
        missed = wanted - np.matmul(by_row, right[:, :, None])[:, :, 0]
        base += np.matmul(missed[:, None, :], weights)[:, 0]
        total -= by_row.reshape(-1, n_cells).T @ weights.reshape(-1, n_cells)
    nu = np.zeros(n_cells)
    if family.parent is not None:
        missing = family.parent - base.sum(axis=0)
        nu = _pseudo_solve(0.5 * (total + total.T), missing[:, None])[:, 0]
        base += inverse @ nu
        if by_row is not None and weights is not None:
            base -= np.matmul((by_row @ nu)[:, None, :], weights)[:, 0]
    gradient = np.matmul(precision, base[:, :, None])[:, :, 0] - linear - nu
    multipliers = np.zeros((n_children, n_rows))
    if by_row is not None and middle_inverse is not None and wanted is not None:
        unheld = np.matmul(by_row, (right + nu * mask)[:, :, None])[:, :, 0]
        multipliers = np.matmul(middle_inverse, (wanted - unheld)[:, :, None])[:, :, 0]
        gradient = gradient - (multipliers * (row_state != 0)) @ rows.matrix
    return base, gradient, multipliers + row_anchor
