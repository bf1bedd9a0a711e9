"""Constraints over a part of the spine as one linear programme: whether any histograms keep them.

The unknowns are persons in each geounit and *atom*: the cells that the bounds from that level down do not tell apart.
A geounit's atoms are the sums of its children's; a bound is a row, or the range of an unknown where it is on one atom.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from geography.spine import Spine
from postprocess.passes import join
from postprocess.problem import BoolArray, FloatArray, GroupBounds, IntArray
from postprocess.set_bounds import UNBOUNDED

#: A violation below this is the solver's, in persons.
TOLERANCE = 1e-6
#: HiGHS' answers to a programme.
_SOLVED, _STOPPED, _INFEASIBLE = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Statement:
    """Bounds as somebody stated them: on the geounits of a level, or summed from those of the levels `below`."""

    bounds: GroupBounds
    below: str = ""


@dataclass(frozen=True, eq=False)
class Section:
    """Some geounits of a level, the roots, with all below them down to another level.

    Attributes:
        first: the roots' level; rows: which geounits of each level from there on.
        parents: per level, position in the level above among those of the section.
        atoms: per level, number of each possible cell's atom.
        statements: per level, with the rows of these geounits only.
    """

    first: int
    rows: tuple[slice, ...]
    parents: tuple[IntArray, ...]
    atoms: tuple[IntArray, ...]
    statements: tuple[tuple[Statement, ...], ...]
    possible: BoolArray

    def size(self, level: int) -> tuple[int, int]:
        """Geounits and atoms of a level of the section."""
        rows = self.rows[level]
        return rows.stop - rows.start, int(self.atoms[level].max(initial=-1)) + 1

    @property
    def n_unknowns(self) -> int:
        return sum(int(np.prod(self.size(level))) for level in range(len(self.rows)))

    def group(self, level: int, statement: Statement) -> IntArray:
        """The statement's answer that each atom of the level falls in, `(n_atoms,)`."""
        out = np.zeros(self.size(level)[1], dtype=np.int64)
        out[self.atoms[level]] = statement.bounds.marginal.cell_answer[self.possible]
        return out

    def coarser(self, level: int) -> IntArray:
        """The atom of the level below that each atom of the level falls in."""
        out = np.zeros(self.size(level)[1], dtype=np.int64)
        out[self.atoms[level]] = self.atoms[level + 1]
        return out


def section(
    spine: Spine,
    stated: Sequence[Sequence[Statement]],
    possible: BoolArray,
    first: int,
    roots: slice,
) -> Section:
    """The roots `roots` of level `first` with all below them, down to the last level of `stated`."""
    rows, parents, atoms, statements = [roots], [np.zeros(roots.stop - roots.start, dtype=np.int64)], [], []
    for level in range(first, len(stated)):
        here = rows[-1]
        lower_levels = [one.bounds.marginal for below in stated[level:] for one in below]
        _, numbers = np.unique(join(lower_levels).cell_answer[possible], return_inverse=True)
        atoms.append(numbers.ravel().astype(np.int64))
        statements.append(tuple(_sliced(one, here) for one in stated[level]))
        if level + 1 < len(stated):
            offsets = spine.child_offsets(level)
            rows.append(slice(int(offsets[here.start]), int(offsets[here.stop])))
            parents.append(spine.levels[level + 1].parents[rows[-1]] - here.start)
    return Section(first, tuple(rows), tuple(parents), tuple(atoms), tuple(statements), possible)


def _sliced(statement: Statement, rows: slice) -> Statement:
    one = statement.bounds
    return Statement(GroupBounds(one.name, one.marginal, one.lower[rows], one.upper[rows]), statement.below)


def _limits(statement: Statement) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds as real numbers, infinite where there is none."""
    upper = statement.bounds.upper.astype(np.float64)
    return np.maximum(statement.bounds.lower, 0).astype(np.float64), np.where(upper >= UNBOUNDED, np.inf, upper)


@dataclass(frozen=True)
class Verdict:
    """Whether histograms keep the constraints, and whether whole numbers were found; None where that is not known."""

    feasible: bool | None
    whole: bool | None


class _Matrix:
    """Rows of a sparse matrix with their ranges."""

    def __init__(self) -> None:
        self.entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        self.low: list[FloatArray] = []
        self.high: list[FloatArray] = []
        self.n_rows = 0

    def add(self, rows: IntArray, columns: IntArray, values: float, low: FloatArray, high: FloatArray) -> IntArray:
        """New rows with the ranges `low` to `high`, of which those in `rows` (from 0) have `values` in `columns`."""
        self.entries.append((rows + self.n_rows, columns, np.full(len(rows), values)))
        self.low.append(low)
        self.high.append(high)
        self.n_rows += len(low)
        return np.arange(self.n_rows - len(low), self.n_rows)

    def more(self, rows: IntArray, columns: IntArray, values: float) -> None:
        """Further entries of rows that are there, by their numbers."""
        self.entries.append((rows, columns, np.full(len(rows), values)))

    def matrix(self, n_columns: int) -> sp.csr_array:
        parts = self.entries or [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
        rows, columns, values = (np.concatenate([part[i] for part in parts]) for i in range(3))
        return sp.csr_array((values, (rows, columns)), shape=(self.n_rows, n_columns))


def decide(part: Section, *, whole: bool = False, seconds: float = 60.0) -> Verdict:
    """Whether any histograms keep the section's constraints; `whole`: in whole numbers."""
    rows = _Matrix()
    lower: list[FloatArray] = []
    upper: list[FloatArray] = []
    n_columns = 0
    above: tuple[IntArray, IntArray] | None = None
    for level in range(len(part.rows)):
        n, n_atoms = part.size(level)
        low, high = np.zeros((n, n_atoms)), np.full((n, n_atoms), np.inf)
        wide: list[tuple[Statement, IntArray]] = []
        for statement in part.statements[level]:
            group = part.group(level, statement)
            least, most = _limits(statement)
            members = np.bincount(group, minlength=least.shape[1])
            if (least[:, members == 0] > TOLERANCE).any() or (most < 0).any():
                return Verdict(False, False)
            single = members[group] == 1
            low[:, single] = np.maximum(low[:, single], least[:, group[single]])
            high[:, single] = np.minimum(high[:, single], most[:, group[single]])
            high = np.where(most[:, group] == 0, 0.0, high)
            if not single.all():
                wide.append((statement, group))
        if (low > high).any():
            return Verdict(False, False)
        tied = np.zeros(n, dtype=bool)
        kept: list[tuple[Statement, IntArray, BoolArray]] = []
        for statement, group in wide:
            least, most = _limits(statement)
            present = _grouped((high > 0).astype(np.float64), group, least.shape[1])
            if ((present == 0) & (least > 0)).any():
                return Verdict(False, False)
            speaks = ((least > 0) | (most < np.inf)) & (present > 0)
            tied |= speaks.any(axis=1)
            kept.append((statement, group, speaks))
        columns, n_new = _columns(part, level, tied, high > 0)
        columns = np.where(columns >= 0, columns + n_columns, -1)
        filled = columns >= 0
        lower.append(np.zeros(n_new))
        upper.append(np.zeros(n_new))
        np.add.at(lower[-1], columns[filled] - n_columns, low[filled])
        np.add.at(upper[-1], columns[filled] - n_columns, high[filled])
        for statement, group, speaks in kept:
            least, most = _limits(statement)
            numbers = np.full(speaks.shape, -1, dtype=np.int64)
            numbers[speaks] = np.arange(int(speaks.sum()))
            used = filled & speaks[:, group]
            rows.add(numbers[:, group][used], columns[used], 1.0, least[speaks], most[speaks])
        if above is not None:
            above_columns, coarser = above
            n_coarse = n_atoms
            there, atom = np.nonzero(above_columns >= 0)
            balance = there * n_coarse + coarser[atom]
            n_rows = len(above_columns) * n_coarse
            first = rows.add(balance, above_columns[there, atom], 1.0, np.zeros(n_rows), np.zeros(n_rows))[0]
            geounits, atoms = np.nonzero(filled)
            pairs = np.unique(
                np.stack([part.parents[level][geounits] * n_coarse + atoms, columns[geounits, atoms]]), axis=1
            )
            rows.more(first + pairs[0], pairs[1], -1.0)
        if level + 1 < len(part.rows):
            above = (columns, part.coarser(level))
        n_columns += n_new
    return _solved(rows, np.concatenate(lower), np.concatenate(upper), whole=whole, seconds=seconds)


def _columns(part: Section, level: int, tied: BoolArray, exists: BoolArray) -> tuple[IntArray, int]:
    """Number of each unknown of a level, `(n, n_atoms)`, -1 where it can only be 0; and how many there are.

    At the last level, siblings whose atoms no row ties together share one unknown, their sum.
    """
    columns = np.full(exists.shape, -1, dtype=np.int64)
    if level + 1 < len(part.rows) or level == 0:
        columns[exists] = np.arange(int(exists.sum()))
        return columns, int(exists.sum())
    geounits, atoms = np.nonzero(exists)
    parent = part.parents[level][geounits]
    key = np.where(tied[geounits], len(part.parents[level]) + geounits, parent) * exists.shape[1] + atoms
    _, numbers = np.unique(key, return_inverse=True)
    columns[geounits, atoms] = numbers.ravel()
    return columns, int(numbers.max(initial=-1)) + 1


def _grouped(values: FloatArray, group: IntArray, size: int) -> FloatArray:
    """Sums of columns over groups, `(n, size)`."""
    out = np.zeros((len(values), size))
    np.add.at(out.T, group, values.T)
    return out


def _solved(rows: _Matrix, lower: FloatArray, upper: FloatArray, *, whole: bool, seconds: float) -> Verdict:
    if not len(lower):
        low, high = np.concatenate([*rows.low, np.zeros(0)]), np.concatenate([*rows.high, np.zeros(0)])
        fits = bool((low <= 0).all() and (high >= 0).all())
        return Verdict(fits, fits)
    constraints = []
    if rows.n_rows:
        matrix = rows.matrix(len(lower))
        constraints.append(LinearConstraint(matrix, np.concatenate(rows.low), np.concatenate(rows.high)))
    result = milp(
        np.zeros(len(lower)),
        integrality=np.full(len(lower), int(whole)),
        bounds=Bounds(lower, upper),
        constraints=constraints,
        options={"time_limit": seconds},
    )
    if result.status == _INFEASIBLE:
        return Verdict(False, False)
    if result.x is None:
        return Verdict(None, None)
    integral = whole or bool((np.abs(result.x - np.rint(result.x)) < TOLERANCE).all())
    return Verdict(True, True if integral else None)


@dataclass(frozen=True, order=True)
class RowKey:
    """One answer of a statement at a level of a section, in all its geounits; `at_least` or at most."""

    level: int
    statement: int
    answer: int
    at_least: bool


@dataclass(frozen=True, eq=False)
class Shortfall:
    """By how many persons the bounds have to give way at least, and which geounits' bounds make it so.

    Attributes:
        persons: the smallest sum of violations.
        rows: the bounds that a proof of that rests on, with the positions of their geounits in the section's level.
    """

    persons: float
    rows: dict[RowKey, IntArray]


def shortfall(part: Section, among: Collection[RowKey] | None = None) -> Shortfall:
    """The smallest violation of the section's bounds (only of those in `among`), with a proof by duality."""
    balance, demands = _Matrix(), _Matrix()
    keys: list[RowKey] = []
    key_of: list[IntArray] = []
    geounit_of: list[IntArray] = []
    n_columns = 0
    above: tuple[IntArray, IntArray] | None = None
    for level in range(len(part.rows)):
        n, n_atoms = part.size(level)
        columns = n_columns + np.arange(n * n_atoms).reshape(n, n_atoms)
        n_columns += n * n_atoms
        for number, statement in enumerate(part.statements[level]):
            group = part.group(level, statement)
            least, most = _limits(statement)
            for answer in range(least.shape[1]):
                inside = np.flatnonzero(group == answer)
                for at_least, limit in ((True, least[:, answer]), (False, most[:, answer])):
                    key = RowKey(level, number, answer, at_least)
                    geounits = np.flatnonzero(limit > 0 if at_least else limit < np.inf)
                    if not len(geounits) or (among is not None and key not in among):
                        continue
                    sign = -1.0 if at_least else 1.0
                    of = np.repeat(np.arange(len(geounits)), len(inside))
                    entries = columns[geounits[:, None], inside[None, :]].ravel()
                    free = np.full(len(geounits), -np.inf)
                    demands.add(of, entries, sign, free, sign * limit[geounits])
                    key_of.append(np.full(len(geounits), len(keys)))
                    geounit_of.append(geounits)
                    keys.append(key)
        if above is not None:
            above_columns, coarser = above
            of = (np.arange(len(above_columns))[:, None] * n_atoms + coarser[None, :]).ravel()
            zeros = np.zeros(len(above_columns) * n_atoms)
            first = balance.add(of, above_columns.ravel(), 1.0, zeros, zeros)[0]
            children = first + part.parents[level][:, None] * n_atoms + np.arange(n_atoms)[None, :]
            balance.more(children.ravel(), columns.ravel(), -1.0)
        if level + 1 < len(part.rows):
            above = (columns, part.coarser(level))
    n_slack = demands.n_rows
    if not n_slack:
        return Shortfall(0.0, {})
    demands.more(np.arange(n_slack), n_columns + np.arange(n_slack), -1.0)
    cost = np.concatenate([np.zeros(n_columns), np.ones(n_slack)])
    equalities = {"A_eq": balance.matrix(len(cost)), "b_eq": np.concatenate(balance.low)} if balance.n_rows else {}
    result = linprog(
        cost, A_ub=demands.matrix(len(cost)), b_ub=np.concatenate(demands.high), method="highs", **equalities
    )
    if result.status != _SOLVED:
        return Shortfall(0.0, {})
    proof = np.abs(result.ineqlin.marginals) > TOLERANCE
    which, geounits = np.concatenate(key_of), np.concatenate(geounit_of)
    rows = {key: geounits[proof & (which == number)] for number, key in enumerate(keys)}
    return Shortfall(float(result.fun), {key: found for key, found in rows.items() if len(found)})
