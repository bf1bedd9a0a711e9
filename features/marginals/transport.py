"""Whole numbers with given sums of rows and columns, nearest to an estimate: many small problems at once.

Where a table of an area is held and one attribute comes to it, the cells below one held cell are a two-way table: a row
for each child, whose sum is held, and a column for each value of the new attribute, whose sum is the parent's:

    minimise sum of (x_cj - h_cj)^2 / v_cj   subject to   x >= 0,  sum over j of x_cj = r_c,  sum over c of x_cj = p_j

The dual has a number for each row and each column. Given those of the rows, those of the columns follow exactly, by
sorting; Newton's method on the rows' then ends after finitely many steps, as the dual is piecewise quadratic (whichever
side is shorter takes the part of the rows). Constraints of a transport problem are totally unimodular, so next to every
solution there are whole numbers with the same sums, each cell at the floor or the ceiling, and a minimum-cost flow
finds the nearest: no integer programme is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.errors import SolverError
from postprocess.families.rounding import COST_UNIT, TIE_RANGE

__all__ = ["Tables", "nearest", "project_columns", "round_columns", "round_tables"]

#: Persons: by how much a row's sum may be missed, and what counts as a whole number.
MET, WHOLE = 1e-7, 1e-5
#: Newton's steps, and halvings of each.
MOST_STEPS, MOST_HALVINGS = 200, 40
#: Share of the growth that a gradient promises (Armijo).
GROWTH = 1e-4
#: No variance counts as less than this part of the largest in its table.
LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class Tables:
    """Two-way tables of one shape; some rows and columns at the end of a table may be empty.

    Attributes:
        estimate: h, `(B, C, m)`.
        variance: v, `(B, C, m)`, positive.
        rows: r, `(B, C)` whole numbers; 0 in empty rows.
        columns: p, `(B, m)` whole numbers, with the same sum; 0 in empty columns.
    """

    estimate: FloatArray
    variance: FloatArray
    rows: IntArray
    columns: IntArray

    @property
    def turned(self) -> Tables:
        """The same with rows and columns exchanged."""
        estimate, variance = (np.swapaxes(one, 1, 2) for one in (self.estimate, self.variance))
        return Tables(np.ascontiguousarray(estimate), np.ascontiguousarray(variance), self.columns, self.rows)

    def part(self, members: BoolArray | IntArray) -> Tables:
        """Some of the tables."""
        return Tables(self.estimate[members], self.variance[members], self.rows[members], self.columns[members])


def nearest(tables: Tables) -> FloatArray:
    """The solutions `(B, C, m)`.

    Raises:
        SolverError: one was not found.
    """
    if tables.rows.shape[1] > tables.columns.shape[1]:
        return np.swapaxes(_nearest(tables.turned), 1, 2)
    return _nearest(tables)


def _nearest(tables: Tables) -> FloatArray:
    used = (tables.rows > 0)[:, :, None] & (tables.columns > 0)[:, None, :]
    scale = np.where(used, tables.variance, 0.0).max(axis=(1, 2), keepdims=True)
    scale = np.where(scale > 0, scale, 1.0)
    weight = np.where(used, np.maximum(tables.variance / scale, LEAST_SHARE), 0.0)
    inverse = np.divide(1.0, weight, out=np.zeros_like(weight), where=used)
    out = np.zeros_like(tables.estimate)
    state = _State(tables.estimate * inverse, weight, used, tables.rows.astype(np.float64), tables.columns)
    place = np.arange(len(out))
    price = np.zeros(tables.rows.shape)
    for _ in range(MOST_STEPS):
        x, value, active = state.at(price)
        gap = state.rows - x.sum(axis=2)
        done = np.abs(gap).max(axis=1, initial=0.0) <= MET
        out[place[done]] = x[done]
        if done.all():
            return out
        left = ~done
        state, place, price = state.part(left), place[left], price[left]
        step = _newton_step(state.weight * active[left], state.weight, gap[left])
        price = _line_search(state, price, step, gap[left], value[left])
    raise SolverError(f"{len(place)} two-way tables were not solved in {MOST_STEPS} steps")


@dataclass(frozen=True, eq=False)
class _State:
    """Tables in the form x = weight * max(0, base + price of the row + price of the column)."""

    base: FloatArray
    weight: FloatArray
    used: BoolArray
    rows: FloatArray
    columns: IntArray

    def part(self, members: BoolArray) -> _State:
        parts = (self.base, self.weight, self.used, self.rows, self.columns)
        return _State(*(one[members] for one in parts))  # type: ignore[arg-type]

    def at(self, price: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """x, the value of the dual, and which cells are positive, with the best prices of the columns."""
        level = self.base + price[:, :, None]
        of_columns = column_prices(level, self.weight, self.used, self.columns)
        above = np.where(self.used, level + of_columns[:, None, :], 0.0)
        active = above > 0
        above = np.where(active, above, 0.0)
        x = self.weight * above
        value = (price * self.rows).sum(axis=1) + (of_columns * self.columns).sum(axis=1)
        return x, value - 0.5 * (x * above).sum(axis=(1, 2)), active


def column_prices(level: FloatArray, weight: FloatArray, used: BoolArray, columns: IntArray) -> FloatArray:
    """The price of each column `(B, m)` at which sum of weight * max(0, level + price) is its sum; 0 if that is 0.

    The positive cells are the first of the sorted ones; how many there are is found by trying all numbers at once.
    """
    order = np.argsort(np.where(used, -level, np.inf), axis=1, kind="stable")
    sorted_level = np.take_along_axis(np.where(used, level, 0.0), order, axis=1)
    sorted_weight = np.take_along_axis(weight, order, axis=1)
    weights = np.cumsum(sorted_weight, axis=1)
    sums = np.cumsum(sorted_weight * sorted_level, axis=1)
    price = np.divide(columns[:, None, :] - sums, weights, out=np.zeros_like(sums), where=weights > 0)
    positive = (sorted_weight > 0) & (sorted_level + price > 0)
    last = np.where(positive, np.arange(level.shape[1])[None, :, None], 0).max(axis=1)
    found = np.take_along_axis(price, last[:, None, :], axis=1)[:, 0]
    return np.where(columns > 0, found, 0.0)


def _newton_step(active: FloatArray, weight: FloatArray, gap: FloatArray) -> FloatArray:
    """The step of the rows' prices `(B, C)` from the weights of the positive cells, as if these stayed the same."""
    of_columns = active.sum(axis=1)
    of_rows = active.sum(axis=2)
    scaled = np.divide(active, of_columns[:, None, :], out=np.zeros_like(active), where=of_columns[:, None, :] > 0)
    matrix = -np.matmul(scaled, np.swapaxes(active, 1, 2))
    all_weight = weight.sum(axis=2)
    # A row without positive cells moves as if all were; one without any cell stays where it is.
    diagonal = np.where(of_rows > 0, of_rows, np.where(all_weight > 0, all_weight, 1.0))
    at = np.arange(matrix.shape[1])
    matrix[:, at, at] += diagonal + 1e-9 * diagonal.max(axis=1, keepdims=True)
    return np.linalg.solve(matrix, gap[:, :, None])[:, :, 0]


def _line_search(state: _State, price: FloatArray, step: FloatArray, gap: FloatArray, value: FloatArray) -> FloatArray:
    """Prices at which the dual is enough higher, the step being halved where it is not."""
    promised = (gap * step).sum(axis=1)
    length = np.ones(len(price))
    open_ = np.ones(len(price), dtype=bool)
    slack = 1e-12 * (1.0 + np.abs(value))
    for _ in range(MOST_HALVINGS):
        at = np.flatnonzero(open_)
        tried = price[at] + length[at, None] * step[at]
        _, reached, _ = state.part(at).at(tried)  # type: ignore[arg-type]
        open_[at] = reached < value[at] + GROWTH * length[at] * promised[at] - slack[at]
        if not open_.any():
            break
        length[open_] *= 0.5
    return price + length[:, None] * step


def project_columns(estimate: FloatArray, variance: FloatArray, allowed: BoolArray, columns: IntArray) -> FloatArray:
    """The nearest `(B, C, m)` not below 0 with the sums of the columns `(B, m)` alone; 0 where not allowed."""
    used = allowed & (columns > 0)[:, None, :]
    scale = np.where(used, variance, 0.0).max(axis=1, keepdims=True)
    weight = np.where(used, np.maximum(variance / np.where(scale > 0, scale, 1.0), LEAST_SHARE), 0.0)
    level = np.divide(estimate, weight, out=np.zeros_like(weight), where=used)
    price = column_prices(level, weight, used, columns)
    return weight * np.where(used, np.maximum(level + price[:, None, :], 0.0), 0.0)


def round_columns(x: FloatArray, allowed: BoolArray, columns: IntArray, ties: IntArray) -> IntArray:
    """Whole numbers `(B, C, m)` with the sums of the columns: the cells with the largest fractions go up."""
    floors, fractions = _parts(x)
    missing = columns - floors.sum(axis=1)
    rank = np.argsort(np.argsort(np.where(allowed, _costs(fractions, ties), np.iinfo(np.int64).max), axis=1), axis=1)
    return floors + (rank < missing[:, None, :])


def round_tables(x: FloatArray, tables: Tables, ties: IntArray) -> IntArray:
    """Whole numbers `(B, C, m)` next to the solutions, with the sums of rows and columns, at the least cost.

    Args:
        x: the solutions.
        tables: that were solved.
        ties: `(B, C, m)` whole numbers below `TIE_RANGE`.

    Raises:
        SolverError: a table has none, which can only be if `x` misses its sums.
    """
    floors, fractions = _parts(x)
    if _flow_up(floors, fractions > 0, tables, _costs(fractions, ties)):
        return floors
    # What was left out as too small to go up was needed somewhere.
    used = (tables.rows > 0)[:, :, None] & (tables.columns > 0)[:, None, :]
    if not _flow_up(floors, used, tables, _costs(fractions, ties)):
        raise SolverError("no whole numbers next to a solution have the sums of its rows and columns")
    return floors


def _parts(x: FloatArray) -> tuple[IntArray, FloatArray]:
    """Floors and fractions; the latter 0 where x is whole but for the solver's error."""
    floors = np.floor(x + WHOLE)
    fractions = x - floors
    return floors.astype(np.int64), np.where(fractions > WHOLE, fractions, 0.0)


def _costs(fractions: FloatArray, ties: IntArray) -> IntArray:
    """What it costs a cell to go up: less for a larger fraction."""
    return (COST_UNIT - 2 * np.floor(fractions * COST_UNIT + 0.381966).astype(np.int64)) * TIE_RANGE + ties


def _flow_up(floors: IntArray, movable: BoolArray, tables: Tables, cost: IntArray) -> bool:
    """Raise cells so that rows and columns have their sums, in place; False if that is impossible."""
    of_rows, of_columns = tables.rows - floors.sum(axis=2), tables.columns - floors.sum(axis=1)
    if (of_rows < 0).any() or (of_columns < 0).any():
        return False
    if not of_rows.any() and not of_columns.any():
        return True
    from ortools.graph.python import min_cost_flow

    # A row or column that lacks nothing has nothing to move.
    table, row, column = np.nonzero(movable & (of_rows > 0)[:, :, None] & (of_columns > 0)[:, None, :])
    n_rows = of_rows.size
    network = min_cost_flow.SimpleMinCostFlow()
    arcs = network.add_arcs_with_capacity_and_unit_cost(
        table * of_rows.shape[1] + row,
        n_rows + table * of_columns.shape[1] + column,
        np.ones(len(table), dtype=np.int64),
        cost[table, row, column],
    )
    network.set_nodes_supplies(
        np.arange(n_rows + of_columns.size), np.concatenate([of_rows.ravel(), -of_columns.ravel()])
    )
    if network.solve() != network.OPTIMAL:
        return False
    floors[table, row, column] += network.flows(arcs)
    return True
