"""Constraints over a part of the spine as one linear programme: whether any histograms keep them.

The unknowns are persons in each geounit and *atom*: cells that the bounds from that level down do not distinguish.
A geounit's atoms are the sums of its children's; a bound is a row, or the range of an unknown if it is on one atom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.bounds.set_bounds import UNBOUNDED
from postprocess.marginal import join
from postprocess.problem import GroupBounds

#: A smaller violation, in persons, is the solver's error.
TOLERANCE = 1e-6
#: HiGHS' answer that a programme has no solution.
_INFEASIBLE = 2


@dataclass(frozen=True, eq=False)
class Statement:
    """Bounds as they were declared: on the geounits of a level, or summed from those of the levels `below`."""

    bounds: GroupBounds
    below: str = ""


@dataclass(frozen=True, eq=False)
class Section:
    """Some geounits of a level, the roots, with everything below them down to another level.

    Attributes:
        first: the roots' level; rows: which geounits of each level from there on.
        parents: per level, the parent's position among the section's geounits of the level above.
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
        """Geounits times atoms, summed over the levels."""
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
        own_rows = rows[-1]
        lower_levels = [statement.bounds.marginal for below in stated[level:] for statement in below]
        _, numbers = np.unique(join(lower_levels).cell_answer[possible], return_inverse=True)
        atoms.append(numbers.ravel().astype(np.int64))
        statements.append(tuple(_sliced(statement, own_rows) for statement in stated[level]))
        if level + 1 < len(stated):
            offsets = spine.child_offsets(level)
            rows.append(slice(int(offsets[own_rows.start]), int(offsets[own_rows.stop])))
            parents.append(spine.levels[level + 1].parents[rows[-1]] - own_rows.start)
    return Section(first, tuple(rows), tuple(parents), tuple(atoms), tuple(statements), possible)


def _sliced(statement: Statement, rows: slice) -> Statement:
    bounds = statement.bounds
    return Statement(GroupBounds(bounds.name, bounds.marginal, bounds.lower[rows], bounds.upper[rows]), statement.below)


def limits(statement: Statement) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds as real numbers; upper ones are infinite where there is none."""
    upper = statement.bounds.upper.astype(np.float64)
    return np.maximum(statement.bounds.lower, 0).astype(np.float64), np.where(upper >= UNBOUNDED, np.inf, upper)


@dataclass(frozen=True)
class Verdict:
    """Whether histograms keep the constraints, and whether whole numbers were found; None where this is unknown."""

    feasible: bool | None
    whole: bool | None


class Rows:
    """Rows of a sparse matrix with their ranges."""

    def __init__(self) -> None:
        self.entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        self.low: list[FloatArray] = []
        self.high: list[FloatArray] = []
        self.n_rows = 0

    def add(self, rows: IntArray, columns: IntArray, value: float, low: FloatArray, high: FloatArray) -> int:
        """Add rows with the ranges `low` to `high`, of which those in `rows` (from 0) have `value` in `columns`.

        Returns:
            The number of the first of them.
        """
        first = self.n_rows
        self.n_rows += len(low)
        self.low.append(low)
        self.high.append(high)
        self.more(rows + first, columns, value)
        return first

    def more(self, rows: IntArray, columns: IntArray, value: float) -> None:
        """Add entries to rows that exist, by their numbers."""
        self.entries.append((rows, columns, np.full(len(rows), value)))

    def matrix(self, n_columns: int) -> sp.csr_array:
        """The matrix of all entries, `(n_rows, n_columns)`."""
        parts = self.entries or [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
        rows, columns, values = (np.concatenate([part[i] for part in parts]) for i in range(3))
        return sp.csr_array((values, (rows, columns)), shape=(self.n_rows, n_columns))


def decide(part: Section, *, whole: bool = False, seconds: float = 60.0) -> Verdict:
    """Whether any histograms keep the section's constraints; `whole`: in whole numbers."""
    rows = Rows()
    lower: list[FloatArray] = []
    upper: list[FloatArray] = []
    n_columns = 0
    above: IntArray | None = None
    for level in range(len(part.rows)):
        ranges = _ranges(part, level)
        if ranges is None:
            return Verdict(False, False)
        low, high, wide = ranges
        tied = np.zeros(len(low), dtype=bool)
        for _, _, speaks in wide:
            tied |= speaks.any(axis=1)
        columns, n_new = _columns(part, level, tied, high > 0)
        filled = columns >= 0
        lower.append(np.bincount(columns[filled], low[filled], n_new).astype(np.float64))
        upper.append(np.bincount(columns[filled], high[filled], n_new).astype(np.float64))
        columns = np.where(filled, columns + n_columns, -1)
        n_columns += n_new
        for statement, group, speaks in wide:
            least, most = limits(statement)
            numbers = np.full(speaks.shape, -1, dtype=np.int64)
            numbers[speaks] = np.arange(int(speaks.sum()))
            used = filled & speaks[:, group]
            rows.add(numbers[:, group][used], columns[used], 1.0, least[speaks], most[speaks])
        if above is not None:
            balance(part, level, above, columns, rows)
        above = columns
    return _solved(rows, np.concatenate(lower), np.concatenate(upper), whole=whole, seconds=seconds)


def _ranges(
    part: Section, level: int
) -> tuple[FloatArray, FloatArray, list[tuple[Statement, IntArray, BoolArray]]] | None:
    """Ranges of a level's unknowns, `(n, n_atoms)` each, and the statements that need rows; None if one cannot be kept.

    With each of these statements: the answer that each atom falls in, and where it is a restriction, `(n, size)`.
    """
    n, n_atoms = part.size(level)
    low, high = np.zeros((n, n_atoms)), np.full((n, n_atoms), np.inf)
    wide = []
    for statement in part.statements[level]:
        group = part.group(level, statement)
        least, most = limits(statement)
        members = np.bincount(group, minlength=least.shape[1])
        if (least[:, members == 0] > TOLERANCE).any() or (most < 0).any():
            return None
        single = members[group] == 1
        low[:, single] = np.maximum(low[:, single], least[:, group[single]])
        high[:, single] = np.minimum(high[:, single], most[:, group[single]])
        high = np.where(most[:, group] == 0, 0.0, high)
        if not single.all():
            wide.append((statement, group))
    if (low > high).any():
        return None
    rows = []
    for statement, group in wide:
        least, most = limits(statement)
        present = np.zeros_like(least)
        np.add.at(present.T, group, (high > 0).T.astype(np.float64))
        if ((present == 0) & (least > 0)).any():
            return None
        rows.append((statement, group, ((least > 0) | (most < np.inf)) & (present > 0)))
    return low, high, rows


def balance(part: Section, level: int, above: IntArray, columns: IntArray, rows: Rows) -> None:
    """Add rows by which each geounit of the level above is the sum of its children, atom by atom of this level."""
    n_atoms = columns.shape[1]
    there, atom = np.nonzero(above >= 0)
    sums = there * n_atoms + part.coarser(level - 1)[atom]
    zeros = np.zeros(len(above) * n_atoms)
    first = rows.add(sums, above[there, atom], 1.0, zeros, zeros)
    geounits, atoms = np.nonzero(columns >= 0)
    # Siblings that share an unknown stand for it once.
    pairs = np.stack([part.parents[level][geounits] * n_atoms + atoms, columns[geounits, atoms]])
    pairs = np.unique(pairs, axis=1)
    rows.more(first + pairs[0], pairs[1], -1.0)


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


def _solved(rows: Rows, lower: FloatArray, upper: FloatArray, *, whole: bool, seconds: float) -> Verdict:
    if not len(lower):
        low, high = np.concatenate([*rows.low, np.zeros(0)]), np.concatenate([*rows.high, np.zeros(0)])
        fits = bool((low <= 0).all() and (high >= 0).all())
        return Verdict(fits, fits)
    from scipy.optimize import Bounds, LinearConstraint, milp

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
