"""Whole numbers with given sums of rows and columns, and cells from the expected ones: many small problems at once.

Where a table of an area is held and one attribute comes to it, the cells below one held cell are a two-way table: a row
for each child, whose sum is held, and a column for each value of the new attribute, whose sum is the parent's:

    minimise sum of (x_cj - h_cj)^2 / v_cj   subject to   x >= 0,  sum over j of x_cj = r_c,  sum over c of x_cj = p_j

The dual has a number for each row and each column. Given those of the rows, those of the columns follow exactly, by
sorting; Newton's method on the rows' then ends after finitely many steps, as the dual is piecewise quadratic (whichever
side is shorter takes the part of the rows). Constraints of a transport problem are totally unimodular, so next to every
solution there are whole numbers with the same sums, each cell at the floor or the ceiling, and a minimum-cost flow
finds the nearest: no integer programme is needed.

Given a held number r of a row and the numbers p_j of the columns, N in all, a cell of a two-way table is expected to
have m_j = r p_j / N: a child's table divides as its parent's, given what is held. A child's total is expected to be
that of its siblings. Numbers deviate from what is expected by a mixture,

    t ~ sum over k of  w_k N(u_k m, u_k m + c_k m^2),        y = t + noise of variance v,

of ratios u_k (0 for cells that an area lacks, 1 with several widths c_k, and powers of 2), whose weights w_k are found
by maximum likelihood from the noisy numbers of the level alone, for cells with about the same m (Kiefer and Wolfowitz
1956; adaptive shrinkage: Stephens 2017, Biostatistics 18, 275). u = 1, c = 0 is what random parts of the parent would
have. The others make it robust: a cell whose measurement contradicts what is expected keeps its measurement, one that
is near to it is drawn to it. Where sums are held, deviations and noise are those beside the sums (`centred`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.errors import SolverError
from postprocess.families.rounding import COST_UNIT, TIE_RANGE, Arcs, cheapest_flow

#: Persons: by how much a row's sum may be missed, and what counts as a whole number.
MET, WHOLE = 1e-7, 1e-5
#: Newton's steps, and halvings of each.
MOST_STEPS, MOST_HALVINGS = 200, 40
#: Share of the growth that a gradient promises (Armijo).
GROWTH = 1e-4
#: No variance counts as less than this part of the largest in its table.
LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class TwoWayTables:
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
    def turned(self) -> TwoWayTables:
        """The same with rows and columns exchanged."""
        estimate, variance = (np.swapaxes(one, 1, 2) for one in (self.estimate, self.variance))
        return TwoWayTables(np.ascontiguousarray(estimate), np.ascontiguousarray(variance), self.columns, self.rows)

    @property
    def used(self) -> BoolArray:
        """Which cells are in a row and a column that are not empty, `(B, C, m)`."""
        return (self.rows > 0)[:, :, None] & (self.columns > 0)[:, None, :]


def nearest(tables: TwoWayTables) -> FloatArray:
    """The solutions `(B, C, m)`.

    Raises:
        SolverError: one was not found.
    """
    if tables.rows.shape[1] > tables.columns.shape[1]:
        return np.swapaxes(_nearest(tables.turned), 1, 2)
    return _nearest(tables)


def _nearest(tables: TwoWayTables) -> FloatArray:
    used = tables.used
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
    floors, fractions = _whole_and_rest(x)
    missing = columns - floors.sum(axis=1)
    rank = np.argsort(np.argsort(np.where(allowed, _costs(fractions, ties), np.iinfo(np.int64).max), axis=1), axis=1)
    return floors + (rank < missing[:, None, :])


def round_tables(x: FloatArray, tables: TwoWayTables, ties: IntArray) -> IntArray:
    """Whole numbers `(B, C, m)` next to the solutions, with the sums of rows and columns, at the least cost.

    Args:
        x: the solutions.
        tables: that were solved.
        ties: `(B, C, m)` whole numbers below `TIE_RANGE`.

    Raises:
        SolverError: a table has none, which can only be if `x` misses its sums.
    """
    floors, fractions = _whole_and_rest(x)
    if _flow_up(floors, fractions > 0, tables, _costs(fractions, ties)):
        return floors
    # What was left out as too small to go up was needed somewhere.
    if not _flow_up(floors, tables.used, tables, _costs(fractions, ties)):
        raise SolverError("no whole numbers next to a solution have the sums of its rows and columns")
    return floors


def _whole_and_rest(x: FloatArray) -> tuple[IntArray, FloatArray]:
    """Floors and fractions; the latter 0 where x is whole but for the solver's error."""
    floors = np.floor(x + WHOLE)
    fractions = x - floors
    return floors.astype(np.int64), np.where(fractions > WHOLE, fractions, 0.0)


def _costs(fractions: FloatArray, ties: IntArray) -> IntArray:
    """What it costs a cell to go up: less for a larger fraction."""
    return (COST_UNIT - 2 * np.floor(fractions * COST_UNIT + 0.381966).astype(np.int64)) * TIE_RANGE + ties


def _flow_up(floors: IntArray, movable: BoolArray, tables: TwoWayTables, cost: IntArray) -> bool:
    """Raise cells so that rows and columns have their sums, in place; False if that is impossible."""
    of_rows, of_columns = tables.rows - floors.sum(axis=2), tables.columns - floors.sum(axis=1)
    if (of_rows < 0).any() or (of_columns < 0).any():
        return False
    if not of_rows.any() and not of_columns.any():
        return True
    # A row or column that lacks nothing has nothing to move.
    table, row, column = np.nonzero(movable & (of_rows > 0)[:, :, None] & (of_columns > 0)[:, None, :])
    n_rows = of_rows.size
    tail, head = table * of_rows.shape[1] + row, n_rows + table * of_columns.shape[1] + column
    arcs = Arcs(tail, head, 0, 1, cost[table, row, column])
    flows = cheapest_flow(np.concatenate([of_rows.ravel(), -of_columns.ravel()]), [arcs])
    if flows is None:
        return False
    floors[table, row, column] += flows[0]
    return True


#: Cells whose expectations are within so many octaves have weights of their own; the first class ends at 2^-6.
OCTAVES, FIRST = 3, -6
#: Classes of expectations.
CLASSES = 9
#: Cells of a class that weights are found from, about; those far from the expectation are all among them.
ENOUGH = 4000
#: Standard errors from which a cell counts as far.
FAR = 3.0
#: Standard deviations of the parts around a ratio, in parts of it; and octaves below 1 in which there are others.
WIDTHS, OCTAVES_BELOW = np.array([0.0625, 0.125, 0.25, 0.35]), 4
#: Steps of the EM algorithm, and the cells as which the first guess, all parts alike, counts.
STEPS, GUESSED = 60, 1.0
#: The least weight that is kept, and cells that are worked on together.
LEAST, AT_ONCE = 1e-5, 1 << 18


@dataclass(frozen=True, eq=False)
class ExpectedCells:
    """Cells of one shape.

    Attributes:
        expected: m; 0 where there is nobody.
        estimate: y, with the sums that are held.
        noise: the variance of a cell's own noise.
        free: the part of a variance that is left where sums are held.
    """

    expected: FloatArray
    estimate: FloatArray
    noise: FloatArray
    free: FloatArray


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Of one class: ratios u, factors c and weights w of the parts, `(K,)` each."""

    ratios: FloatArray
    factors: FloatArray
    weights: FloatArray

    def parts(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of numbers that are expected to be m in each part, `(K, n)` each."""
        mean = self.ratios[:, None] * m
        return mean, mean + self.factors[:, None] * m**2

    def likely(self, y: FloatArray, m: FloatArray, noise: FloatArray) -> FloatArray:
        """How likely each part is given a noisy number, `(K, n)`."""
        return _shared(self.weights, self.unlikely(y, m, noise))

    def unlikely(self, y: FloatArray, m: FloatArray, noise: FloatArray) -> FloatArray:
        """Minus the logarithm of how likely a noisy number is in each part, but for a constant, `(K, n)`."""
        mean, variance = self.parts(m)
        total = variance + noise
        return np.asarray(0.5 * (np.log(total) + (y - mean) ** 2 / total))

    def given(self, y: FloatArray, m: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of numbers of each part given noisy ones, `(K, n)` each."""
        mean, variance = self.parts(m)
        share = variance / (variance + noise)
        return mean + share * (y - mean), share * noise


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """How numbers deviate from their expectations, by class of these."""

    classes: tuple[_Mixture, ...]

    @classmethod
    def of(cls, cells: Sequence[ExpectedCells]) -> Shrinkage:
        """From the noisy numbers of cells."""
        used = [one.expected > 0 for one in cells]
        m, y, noise = (
            np.concatenate([part[some] for part, some in zip(parts, used, strict=True)])
            for parts in zip(*((one.expected, one.estimate, one.noise * one.free) for one in cells), strict=True)
        )
        some = noise > 0
        m, y, noise = m[some], y[some], noise[some]
        number = _class_of(m)
        return cls(tuple(_fitted(*(one[number == place] for one in (m, y, noise))) for place in range(CLASSES)))

    def given(self, cells: ExpectedCells, uniform: Sequence[FloatArray] | None = None) -> tuple[FloatArray, FloatArray]:
        """What is expected and measured of cells put together: mean, 0 where 0 is expected, and variance.

        Args:
            cells: measured.
            uniform: two numbers between 0 and 1 for each, with which numbers are drawn from what they may be in place
                of their mean: so that they vary as much once their sums are held.
        """
        used: BoolArray = (cells.expected > 0) & (cells.free > 0)
        free = cells.free[used]
        measured = cells.expected[used], cells.estimate[used], cells.noise[used] * free
        mean, variance = np.where(cells.expected > 0, cells.estimate, 0.0), np.array(cells.noise)
        number = _class_of(measured[0])
        of_mean, of_variance = np.empty_like(free), np.empty_like(free)
        for place, mixture in enumerate(self.classes):
            (mine,) = np.nonzero(number == place)
            for start in range(0, len(mine), AT_ONCE):
                some = mine[start : start + AT_ONCE]
                own = [one[some] for one in measured]
                of_mean[some], of_variance[some] = _mean(mixture, *own)
                if uniform is not None:
                    away = _drawn(mixture, *own, *(one[used][some] for one in uniform)) - of_mean[some]
                    of_mean[some] += away / np.sqrt(free[some])
        mean[used] = of_mean
        variance[used] = of_variance
        return mean, variance


def expected(tables: TwoWayTables) -> FloatArray:
    """What each cell is expected to have, `(B, C, m)`; 0 in empty rows and columns."""
    total = tables.rows.sum(axis=1)[:, None, None]
    return np.asarray(tables.rows[:, :, None] * tables.columns[:, None, :] / np.maximum(total, 1), dtype=np.float64)


def centred(away: FloatArray, used: BoolArray, *, of_rows: bool = True) -> tuple[FloatArray, FloatArray]:
    """Deviations `(B, C, m)` less what sums say of them, and the part of a variance that is left.

    The cells that are used are all those of some rows and columns; without `of_rows`, any of a column.
    """
    out, free = np.where(used, away, 0.0), used.astype(np.float64)
    for axis in (1, 2) if of_rows else (1,):
        many = np.maximum(used.sum(axis=axis, keepdims=True), 1)
        out = np.where(used, out - out.sum(axis=axis, keepdims=True) / many, 0.0)
        free = free * (1.0 - 1.0 / many)
    return out, free


def _class_of(m: FloatArray) -> IntArray:
    octave = np.floor((np.log2(m) - FIRST) / OCTAVES).astype(np.int64) + 1
    return np.clip(octave, 0, CLASSES - 1)


def _mean(mixture: _Mixture, m: FloatArray, y: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of numbers given noisy ones, `(n,)` each."""
    likely, (means, variances) = mixture.likely(y, m, noise), mixture.given(y, m, noise)
    mean = (likely * means).sum(axis=0)
    variance = (likely * (variances + means**2)).sum(axis=0) - mean**2
    return mean, np.maximum(variance, 0.0)


def _drawn(
    mixture: _Mixture, m: FloatArray, y: FloatArray, noise: FloatArray, of_part: FloatArray, inside: FloatArray
) -> FloatArray:
    """Numbers drawn from what they may be, `(n,)`, by two numbers between 0 and 1: a part, and inside of it."""
    below = np.cumsum(mixture.likely(y, m, noise), axis=0)
    part = np.minimum((below < of_part).sum(axis=0), len(below) - 1)[None]
    mean, variance = (np.take_along_axis(one, part, axis=0)[0] for one in mixture.given(y, m, noise))
    return np.asarray(mean + np.sqrt(variance) * ndtri(inside))


def _fitted(m: FloatArray, y: FloatArray, noise: FloatArray) -> _Mixture:
    """Weights of maximum likelihood, by the EM algorithm."""
    if not len(m):
        return _Mixture(np.ones(1), np.zeros(1), np.ones(1))
    far: BoolArray = (y - m) ** 2 > FAR**2 * (noise + m)
    numbers, weights_of = [], []
    for cells in (np.flatnonzero(far), np.flatnonzero(~far)):
        step = max(1, len(cells) // ENOUGH)
        numbers.append(cells[::step])
        weights_of.append(np.full(len(numbers[-1]), float(step)))
    chosen, times = np.concatenate(numbers), np.concatenate(weights_of)
    m, y, noise = m[chosen], y[chosen], noise[chosen]
    ratios, factors = _parts(float(np.average(m, weights=times)), float(noise.mean()), float((y / m).max()))
    mixture = _Mixture(ratios, factors, np.full(len(ratios), 1.0 / len(ratios)))
    weights, unlikely = mixture.weights, mixture.unlikely(y, m, noise)
    for _ in range(STEPS):
        weights = (_shared(weights, unlikely) * times).sum(axis=1) + GUESSED / len(ratios)
        weights = weights / weights.sum()
    kept = weights >= LEAST
    return _Mixture(ratios[kept], factors[kept], weights[kept] / weights[kept].sum())


def _shared(weights: FloatArray, unlikely: FloatArray) -> FloatArray:
    """How likely each part is by its weight and what it makes of a number, `(K, n)`."""
    log = np.log(weights)[:, None] - unlikely
    likely = np.exp(log - log.max(axis=0))
    return np.asarray(likely / likely.sum(axis=0))


def _parts(middle: float, noise: float, largest: float) -> tuple[FloatArray, FloatArray]:
    """Ratios and factors of the parts of a class: none that noise would hide from its neighbours."""
    least = np.sqrt(noise) / 4 / middle
    narrow = WIDTHS[least < WIDTHS]
    octaves = 2.0 ** np.arange(-OCTAVES_BELOW, max(1, int(np.ceil(np.log2(max(largest, 1.0))))) + 1)
    others = octaves[(octaves != 1.0) & (octaves > least)]
    return (
        np.concatenate([[0.0, 1.0], np.ones(len(narrow)), others]),
        np.concatenate([[0.0, 0.0], narrow**2, (WIDTHS[-1] * others) ** 2]),
    )
