"""Suppression: small numbers are not published, all others are exact; what the tables together say of each number.

A number from 1 to t - 1 is suppressed, a published 0 is a 0. Tables of an area add up, and areas add up to the one that
they are in, so that the published numbers bound the suppressed ones, often to a single value. Whole numbers that keep
all of it are the estimate, and the least and the most that each number can be are proven: no rounding follows.

First bounds are carried over single sums, up and down, until none becomes narrower (interval propagation). What is then
still open falls apart into many small sets that no sum joins, each of them an integer programme (HiGHS, through SciPy).
A programme's solution is a witness for all of its numbers at once, so that few of them have to be solved for. The
effort is limited by nodes of the search and by size, never by time, so that the results are the same on every machine;
where a limit is reached the range is that of the relaxation, which is proven too, and counted as undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine, counted, first_few
from pipeline.disclosure.method import UNBOUNDED, DisclosureMethod, Range
from pipeline.errors import InputError
from postprocess.arrays import BoolArray, FloatArray, IntArray, group_sums
from postprocess.errors import SolverError
from postprocess.marginal import Marginal, join, refines

#: What stands for a number that was not published.
SUPPRESSED: Final = -1
#: Of an integer programme: the most nodes of its search.
_NODES: Final = 1000
#: Open numbers of a set above which each is not solved for: their ranges are those of the propagation.
_LARGE: Final = 400
#: Persons: errors of the solver are smaller.
_TOLERANCE: Final = 1e-6
#: HiGHS' answer that a programme has no solution.
_INFEASIBLE: Final = 2


@dataclass(frozen=True)
class Suppression(DisclosureMethod):
    """Counts from 1 to `under` - 1 are not published, and stand as `SUPPRESSED`; all others are exact.

    Attributes:
        under: t, 2 or more, persons.
    """

    under: int

    random: ClassVar[bool] = False

    @property
    def variance(self) -> Fraction:
        """See `DisclosureMethod.variance`: of a suppressed number, if all that are possible are equally frequent."""
        return Fraction((self.under - 1) ** 2 - 1, 12)

    @property
    def large(self) -> int:
        """See `DisclosureMethod.large`: none, since what is published is exact."""
        return UNBOUNDED

    def publish(self, counts: IntArray, keys: IntArray) -> IntArray:
        """See `DisclosureMethod.publish`; keys are not used."""
        del keys
        return np.where((counts > 0) & (counts < self.under), SUPPRESSED, counts)

    def allowed(self, published: IntArray) -> Range:
        """See `DisclosureMethod.allowed`."""
        hidden = published == SUPPRESSED
        return np.where(hidden, 1, published), np.where(hidden, self.under - 1, published)

    def impossible(self, published: IntArray) -> BoolArray:
        """See `DisclosureMethod.impossible`: below 0, or small and not suppressed."""
        return np.asarray((published < SUPPRESSED) | ((published > 0) & (published < self.under)))

    def __str__(self) -> str:
        return f"suppression of counts from 1 to {self.under - 1}"


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """What a table at a level says of its true numbers.

    Attributes:
        level: from the top, 0.
        query: whose answers are counted.
        least, most: `(n_geounits, query.size)` of each number; equal where it is exact.
    """

    level: int
    query: Marginal
    least: IntArray
    most: IntArray


@dataclass(frozen=True, eq=False)
class ProvenTables:
    """Whole numbers that all tables allow, and what each published number can be.

    Attributes:
        query: what the tables tell apart, the coarsest product that refines them all.
        leaves: `(n_leaves, query.size)` the estimate.
        n_open: published numbers, of all tables, that can be more than one number.
        n_undecided: those of them whose range may be wider than what is possible.
        numbers: all of them.
    """

    query: Marginal
    leaves: IntArray
    n_open: int
    n_undecided: int
    numbers: _Numbers

    def knows(self, query: Marginal) -> bool:
        """Whether a query is that of one of the tables, or what they tell apart."""
        return any(one.key == query.key for one in self.numbers.queries)

    def range_of(self, level: int, query: Marginal) -> Range:
        """The least and the most `(n_geounits, query.size)` of a query of one of the tables, at any level."""
        place = self.numbers.place(query)
        return self.numbers.least[level][:, place], self.numbers.most[level][:, place]


def check_bounds(spine: Spine, tables: Sequence[PublishedTable]) -> None:
    """Refuse tables of which bounds over single sums show that they contradict each other; see `proven`."""
    _Numbers.of(spine, tables).propagate()


def proven(spine: Spine, tables: Sequence[PublishedTable]) -> ProvenTables:
    """What tables of exact and of suppressed numbers say together.

    Args:
        spine: the geography.
        tables: of any levels.

    Raises:
        InputError: no numbers can be behind all of the tables; the message names areas.
        SolverError: no whole numbers were found within the limit; the message names areas.
    """
    numbers = _Numbers.of(spine, tables)
    numbers.propagate()
    numbers.decide()
    n_open, n_undecided = (
        sum(int(which[one.level][:, numbers.place(one.query)].sum()) for one in tables)
        for which in (numbers.is_open(), numbers.undecided)
    )
    return ProvenTables(numbers.queries[0], numbers.leaves(), n_open, n_undecided, numbers)


@dataclass(frozen=True, eq=False)
class _Sum:
    """Numbers of a coarse query are sums of those of a fine one: positions of both, and the sum that each is in."""

    coarse: slice
    fine: slice
    into: IntArray


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The answers of all queries in every area: of each level `(n_geounits, n_answers)`, one query after the other.

    Attributes:
        queries: the first is what all tables together tell apart; the others are sums of it.
        sums: between queries, within an area; those of the first query imply all.
        least, most: of each level; they become narrower.
        solved: of each level; whole numbers that keep all sums, once `decide` has found them.
        undecided: of each level; whose range may be wider than what is possible.
    """

    spine: Spine
    queries: tuple[Marginal, ...]
    sums: tuple[_Sum, ...]
    least: list[IntArray]
    most: list[IntArray]
    solved: list[IntArray]
    undecided: list[BoolArray]

    @classmethod
    def of(cls, spine: Spine, tables: Sequence[PublishedTable]) -> _Numbers:
        """Before anything is derived."""
        finest = join([one.query for one in tables])
        queries = tuple({query.key: query for query in (finest, *(one.query for one in tables))}.values())
        ends = np.concatenate([[0], np.cumsum([query.size for query in queries])])
        places = [slice(int(first), int(last)) for first, last in pairwise(ends)]
        sums = tuple(
            _Sum(places[coarse], places[fine], queries[fine].answers_in(queries[coarse]))
            for fine in range(len(queries))
            for coarse in range(1, len(queries))
            if fine != coarse and refines(queries[fine], queries[coarse])
        )
        shapes = [(len(level), int(ends[-1])) for level in spine.levels]
        least, most = ([np.full(shape, end, dtype=np.int64) for shape in shapes] for end in (0, UNBOUNDED))
        numbers = cls(spine, queries, sums, least, most, [], [np.zeros(shape, dtype=bool) for shape in shapes])
        for one in tables:
            place = numbers.place(one.query)
            np.maximum(least[one.level][:, place], one.least, out=least[one.level][:, place])
            np.minimum(most[one.level][:, place], one.most, out=most[one.level][:, place])
        return numbers

    def place(self, query: Marginal) -> slice:
        """The positions of a query's answers."""
        number = next(i for i, one in enumerate(self.queries) if one.key == query.key)
        first = sum(one.size for one in self.queries[:number])
        return slice(first, first + query.size)

    def is_open(self) -> list[BoolArray]:
        """Of each level which numbers can be more than one."""
        return [np.asarray(least < most) for least, most in zip(self.least, self.most, strict=True)]

    def leaves(self) -> IntArray:
        """What was found of the finest query in the leaves."""
        least, most, solved = (values[-1][:, : self.queries[0].size] for values in (self.least, self.most, self.solved))
        return np.where(least == most, least, solved)

    # -- bounds over single sums -----------------------------------------------------------------------------------

    def propagate(self) -> None:
        """Carry bounds over every sum, up and down, until none becomes narrower."""
        width = None
        while width != (width := self._width()):
            for level in range(self.spine.n_levels - 1, -1, -1):
                self._within(level)
                if level:
                    self._between(level)
            for level in range(1, self.spine.n_levels):
                self._between(level)
                self._within(level)

    def _width(self) -> int:
        return sum(int((most - least).sum()) for least, most in zip(self.least, self.most, strict=True))

    def _within(self, level: int) -> None:
        least, most = self.least[level], self.most[level]
        for one in self.sums:
            size = one.coarse.stop - one.coarse.start
            sums = [group_sums(end[:, one.fine], one.into, size) for end in (least, most)]
            self._narrow(level, one.coarse, *sums)
            rest = [end[:, one.coarse][:, one.into] for end in (least, most)]
            others = [total[:, one.into] - end[:, one.fine] for total, end in zip(sums, (least, most), strict=True)]
            self._narrow(level, one.fine, rest[0] - others[1], rest[1] - others[0])

    def _between(self, level: int) -> None:
        """Between the areas of a level and those that they are in."""
        starts, parents = self.spine.child_offsets(level - 1)[:-1], self.spine.levels[level].parents
        everywhere = slice(None)
        sums = [np.add.reduceat(end[level], starts, axis=0) for end in (self.least, self.most)]
        self._narrow(level - 1, everywhere, *sums)
        rest = [end[level - 1][parents] for end in (self.least, self.most)]
        others = [total[parents] - end[level] for total, end in zip(sums, (self.least, self.most), strict=True)]
        self._narrow(level, everywhere, rest[0] - others[1], rest[1] - others[0])

    def _narrow(self, level: int, place: slice, least: IntArray, most: IntArray) -> None:
        """Numbers are also at least and at most these; InputError where that cannot be."""
        own = self.least[level][:, place], self.most[level][:, place]
        np.maximum(own[0], least, out=own[0])
        np.minimum(own[1], most, out=own[1])
        if (wrong := own[0] > own[1]).any():
            row, column = (int(found[0]) for found in np.nonzero(wrong))
            areas = self.spine.levels[level].geocodes[wrong.any(axis=1)]
            raise InputError(
                f"level {self.spine.levels[level].name!r}: the published numbers contradict each other in "
                f"{counted(len(areas), 'geounit')}: {first_few(areas)}; in {areas[0]} a number of "
                f"{self._name(column + (place.start or 0))} would have to be at least {own[0][row, column]:,} and at "
                f"most {own[1][row, column]:,}: correct the files, or what is stated of the method"
            )

    def _name(self, column: int) -> str:
        """The query of a position."""
        return next(repr(query.name) for query in self.queries if column < self.place(query).stop)

    # -- what is open after that -----------------------------------------------------------------------------------

    def decide(self) -> None:
        """Find whole numbers, and the least and the most of each open number, set by set."""
        self.solved[:] = [least.copy() for least in self.least]
        ends = self._ends()
        matrix, known, at = self._open_sums()
        least, most = (np.concatenate([end.ravel() for end in each]) for each in (self.least, self.most))
        for columns, rows in _sets(matrix):
            own = at[columns]
            found = _Set(matrix[rows][:, columns], known[rows], least[own], most[own], self._areas(own)).decided()
            for level, first in enumerate(ends[:-1]):
                here = (own >= first) & (own < ends[level + 1])
                self.least[level].reshape(-1)[own[here] - first] = found.least[here]
                self.most[level].reshape(-1)[own[here] - first] = found.most[here]
                self.solved[level].reshape(-1)[own[here] - first] = found.values[here]
                self.undecided[level].reshape(-1)[own[here] - first] = found.undecided[here]

    def _ends(self) -> IntArray:
        """Where the numbers of each level begin among those of all levels, with the end."""
        return np.concatenate([[0], np.cumsum([least.size for least in self.least])])

    def _open_sums(self) -> tuple[sp.csr_array, IntArray, IntArray]:
        """Of all sums with open numbers: coefficients `(n_sums, n_open)`, what they have to be, and which numbers.

        A number is minus 1 in the sum that it is, so that all sums are 0 with what is known.
        """
        first, n_rows = 0, 0
        entries: list[tuple[IntArray, IntArray, int]] = []
        size = self.queries[0].size
        before: IntArray | None = None
        for level, least in enumerate(self.least):
            places = first + np.arange(least.size).reshape(least.shape)
            first += least.size
            for one in self.sums:
                if one.fine.start == 0:
                    width = one.coarse.stop - one.coarse.start
                    rows = n_rows + np.arange(len(least) * width).reshape(-1, width)
                    n_rows += rows.size
                    entries += [(rows, places[:, one.coarse], -1), (rows[:, one.into], places[:, one.fine], 1)]
            if before is not None:
                rows = n_rows + np.arange(len(before) * size).reshape(-1, size)
                n_rows += rows.size
                parents = self.spine.levels[level].parents
                entries += [(rows, before[:, :size], -1), (rows[parents], places[:, :size], 1)]
            before = places
        rows = np.concatenate([sums.ravel() for sums, _, _ in entries])
        columns = np.concatenate([numbers.ravel() for _, numbers, _ in entries])
        signs = np.concatenate([np.full(entry[0].size, entry[2]) for entry in entries])
        least, most = (np.concatenate([end.ravel() for end in ends]) for ends in (self.least, self.most))
        is_open = least < most
        known = np.zeros(n_rows, dtype=np.int64)
        fixed = ~is_open[columns]
        np.subtract.at(known, rows[fixed], signs[fixed] * least[columns[fixed]])
        at = np.flatnonzero(is_open)
        number = np.cumsum(is_open) - 1
        matrix = sp.csr_array((signs[~fixed], (rows[~fixed], number[columns[~fixed]])), shape=(n_rows, len(at)))
        kept = np.diff(matrix.indptr) > 0
        return matrix[kept], known[kept], at

    def _areas(self, places: IntArray) -> str:
        """The lowest areas of some numbers, by their positions among those of all levels."""
        ends = self._ends()
        level = int(np.searchsorted(ends, places.max(), side="right")) - 1
        rows = np.unique((places[places >= ends[level]] - ends[level]) // self.least[level].shape[1])
        return f"{self.spine.levels[level].name} {first_few(self.spine.levels[level].geocodes[rows])}"


def _sets(matrix: sp.csr_array) -> Iterator[tuple[IntArray, IntArray]]:
    """The columns and rows of a matrix that are joined to each other, set by set."""
    from scipy.sparse.csgraph import connected_components

    n_rows, n_columns = matrix.shape
    if not n_columns:
        return
    links = abs(matrix)
    _, labels = connected_components(sp.block_array([[None, links], [links.T, None]]), directed=False)
    of_rows, of_columns = labels[:n_rows], labels[n_rows:]
    row_order, column_order = (np.argsort(of, kind="stable") for of in (of_rows, of_columns))
    for label in np.unique(of_columns):
        yield tuple(
            order[np.searchsorted(of[order], label) : np.searchsorted(of[order], label, side="right")]
            for of, order in ((of_columns, column_order), (of_rows, row_order))
        )  # type: ignore[misc]


@dataclass(frozen=True, eq=False)
class _Decided:
    """Of the numbers of a set `(n,)`: their ranges, whole numbers that are possible together, and what is undecided."""

    least: IntArray
    most: IntArray
    values: IntArray
    undecided: BoolArray


@dataclass(frozen=True, eq=False)
class _Set:
    """Open numbers that sums join.

    Attributes:
        matrix: `(n_sums, n)`.
        known: `(n_sums,)` what the sums have to be.
        least, most: `(n,)` bounds of the numbers.
        areas: names them, for messages.
    """

    matrix: sp.csr_array
    known: IntArray
    least: IntArray
    most: IntArray
    areas: str

    def decided(self) -> _Decided:
        """The least and the most of each number, and whole numbers in the middle of all solutions that were found."""
        n = len(self.least)
        found: list[IntArray] = []
        ends = {1: self.least.copy(), -1: self.most.copy()}
        decided = {1: np.zeros(n, dtype=bool), -1: np.zeros(n, dtype=bool)}

        def solve(cost: FloatArray) -> int | None:
            """Keep a solution; the proven least of its cost, None where that is not its own."""
            values, bound = self._solved(cost)
            if values is not None:
                found.append(values)
                for sign, at in decided.items():
                    at |= values == ends[sign]
                if bound >= cost @ values - _TOLERANCE:
                    return None
            return math.ceil(bound - _TOLERANCE)

        if n <= _LARGE:
            for sign in (1, -1):
                # Together as far as that goes, then one by one.
                before = -1
                while before < (before := int(decided[sign].sum())) < n:
                    solve(np.where(decided[sign], 0.0, sign))
                for number in np.flatnonzero(~decided[sign]):
                    if not decided[sign][number]:
                        cost = np.zeros(n)
                        cost[number] = sign
                        short = solve(cost)
                        ends[sign][number] = sign * short if short is not None else found[-1][number]
                        decided[sign][number] = short is None
        else:
            for sign in (1, -1):
                solve(np.full(n, float(sign)))
        middle = np.mean(found, axis=0) if found else (self.least + self.most) / 2
        values = self._nearest(middle)
        undecided = ~(decided[1] & decided[-1]) & (ends[1] < ends[-1])
        return _Decided(ends[1], ends[-1], values, undecided)

    def _solved(self, cost: FloatArray) -> tuple[IntArray | None, float]:
        """Whole numbers with the least cost that was found, None for none, and a proven bound of the cost."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        n = len(cost)
        result = milp(
            cost,
            integrality=np.ones(n),
            bounds=Bounds(self.least, self.most),
            constraints=[LinearConstraint(self.matrix, self.known, self.known)],
            options={"node_limit": _NODES, "mip_rel_gap": 0.0},
        )
        if result.status == _INFEASIBLE:
            raise InputError(
                f"the published numbers of {self.areas} contradict each other: no whole numbers have all of the sums; "
                "correct the files, or what is stated of the method"
            )
        trivial = float(np.where(cost > 0, cost * self.least, cost * self.most).sum())
        bound = result.mip_dual_bound if result.mip_dual_bound is not None else trivial
        values = None if result.x is None else np.rint(result.x).astype(np.int64)
        return values, max(float(bound), trivial)

    def _nearest(self, middle: FloatArray) -> IntArray:
        """Whole numbers of which the distances to `middle` add up to the least."""
        n = len(middle)
        floor = np.floor(middle)
        # A number is its floor with what is above it, the first unit of which is cheaper, or less what is below.
        share = middle - floor
        room = [np.minimum(1, self.most - floor), np.maximum(self.most - floor - 1, 0), floor - self.least]
        cost = np.concatenate([1 - 2 * share, np.ones(n), np.ones(n)])
        wide = sp.hstack([self.matrix, self.matrix, -self.matrix], format="csr")
        shifted = _Set(
            wide,
            self.known - (self.matrix @ floor).astype(np.int64),
            np.zeros(3 * n, dtype=np.int64),
            np.concatenate(room).astype(np.int64),
            self.areas,
        )
        values, _ = shifted._solved(cost)
        if values is None:
            raise SolverError(f"no whole numbers were found for {self.areas}, within the limit of the search")
        up, more, down = np.split(values, 3)
        return (floor + up + more - down).astype(np.int64)
