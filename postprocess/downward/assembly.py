"""The families of a batch: for each parent and pass the least-squares problem of its children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray, Rows, distinct_places, group_sums
from postprocess.downward.batch import UNBOUNDED, Batch, Pass, stored_row, with_free
from postprocess.families.active_set import STACK_NUMBERS
from postprocess.families.family import MOST_TOGETHER, Family, GroupRange, Solution, padded
from postprocess.families.precisions import Dense
from postprocess.families.rounding import GroupLevel
from postprocess.marginal import Marginal, refines


@dataclass(frozen=True, eq=False)
class Member:
    """One family of a pass: which parent, which cells of the pass, and how to round it.

    Attributes:
        parent: its number in the batch; of several areas without a parent, the first one.
        rows: its children in the batch.
        used: `(C, r)` which comparisons of households' members with persons are in it; None where there are none.
    """

    parent: int
    rows: Rows
    cells: IntArray
    family: Family
    chain: tuple[GroupLevel, ...]
    ties: IntArray
    used: BoolArray | None

    def of_children(self, rows: IntArray, some: BoolArray) -> Member:
        """Some `(C,)` of several areas without a parent, whose numbers are `rows`."""
        number = np.flatnonzero(some)
        chain = tuple(one.of_children(number) for one in self.chain)
        return replace(self, rows=rows[some], family=self.family.of_children(number), chain=chain, ties=self.ties[some])


@dataclass(frozen=True, eq=False)
class BatchPass:
    """A pass over a batch.

    Attributes:
        task: the batch.
        number: of the pass.
        held: `(n, size)` answers that the pass before fixed; None in the first.
    """

    task: Batch
    number: int
    held: IntArray | None

    @property
    def current(self) -> Pass:
        """The pass."""
        return self.task.passes[self.number]

    @cached_property
    def possible(self) -> BoolArray:
        """Patterns `(p, size)` of cells of the pass that can have persons."""
        cells, current = self.task.patterns[0], self.current
        if current.detail:
            return cells
        if cells.all():
            return np.ones((len(cells), current.cells.size), dtype=bool)
        return current.cells.answer(cells.astype(np.int64)) > 0

    def target(self, parent: int) -> tuple[IntArray, FloatArray | None]:
        """The cells of the pass in which a parent has persons, and these; at the top the possible ones of an area."""
        if self.task.parents is None:
            pattern = self.task.patterns[1][self.task.rows(parent).start]
            return np.flatnonzero(self.possible[pattern]), None
        cells, counts = stored_row(self.task.parents, parent)
        if not self.current.detail:
            cells, group = distinct_places(self.current.cells.answers_at(cells))
            counts = np.bincount(group, counts)
        return cells, counts.astype(np.float64)

    def member(self, parent: int, used: BoolArray | None = None, areas: IntArray | None = None) -> Member | None:
        """The family of one parent; None where nothing is left to solve.

        Args:
            parent: its number in the batch.
            used: `(C, r)` which comparisons of households' members with persons count; by default the first ones.
            areas: `(C,)` where there are no parents, several areas that are stated together, of `areas_alike`.
        """
        task, current = self.task, self.current
        own = task.rows(parent)
        rows: Rows = own if areas is None else areas
        cells, counts = self.target(parent)
        if not len(cells):
            return None
        pattern_of = task.patterns[1][rows]
        n = len(pattern_of)
        if counts is None:
            upper = np.full((n, len(cells)), UNBOUNDED)
        else:
            upper = np.where(self.possible[pattern_of[:, None], cells], counts[None, :], 0.0)
        held_sums = None
        chain: list[GroupLevel] = []
        if self.held is not None and current.held is not None:
            present, group = distinct_places(current.group_of(current.held, cells))
            held_values = self.held[rows][:, present]
            chain.append(GroupLevel(group, held_values, held_values))
            upper = np.minimum(upper, held_values[:, group])
            held_sums = GroupRange.fixed(group, held_values)
        ranges = list(self._ranges(rows, cells, counts, upper))
        hard = [
            GroupLevel(r.group, np.rint(r.lower).astype(np.int64), np.rint(r.upper).astype(np.int64)) for r in ranges
        ]
        chain = _chain(chain, hard, [current.group_of(marginal, cells) for marginal in current.chain], n)
        kind, precision, linear = task.objective(self.number, rows, cells, counts)
        implied = task.implied
        if implied is not None and (expected := self._members_in(cells, own.start)) is not None:
            used = implied.used_at_first(own) if used is None else used
            kind, matrices, linear = implied.terms(expected, own, kind, precision.matrices(), linear, used)
            precision = Dense(matrices)
        for shared in task.shares:
            if counts is not None and self.says_more(shared.query):
                kind, matrices, linear = shared.terms(
                    current.group_of(shared.query, cells), counts, own, (kind, precision.matrices(), linear)
                )
                precision = Dense(matrices)
        family = Family(
            name=task.name_of(parent),
            precision=precision,
            linear=linear,
            upper=upper,
            parent=counts,
            held=held_sums,
            ranges=tuple(ranges),
            kind=kind,
        )
        return Member(parent, rows, cells, family, tuple(chain), task.ties(self.number, rows, cells), used)

    def areas_alike(self) -> list[IntArray]:
        """The areas without a parent, those together that `member` can state together.

        These have the same possible cells and the same bounds that say something. Each is a problem by itself, and none
        depends on which others are beside it.
        """
        task, pattern_of = self.task, self.task.patterns[1]
        together = []
        order = np.argsort(pattern_of, kind="stable")
        for areas in np.split(order, np.flatnonzero(np.diff(pattern_of[order])) + 1):
            cells, _ = self.target(int(areas[0]))
            if not len(cells):
                continue
            if len(cells) > MOST_TOGETHER or task.implied is not None:
                together.extend(np.split(areas, len(areas)))
                continue
            binding = np.zeros(len(areas), dtype=np.int64)
            for bound in task.bounds:
                present = np.unique(self.current.group_of(bound.marginal, cells))
                low, high = bound.lower[areas][:, present], bound.upper[areas][:, present]
                binding = 2 * binding + ((low > 0) | (high < UNBOUNDED)).any(axis=1)
                _, binding = np.unique(binding, return_inverse=True)
            most = STACK_NUMBERS // padded(len(cells)) ** 2
            for kind in range(int(binding.max()) + 1):
                equal = areas[binding == kind]
                together.extend(np.split(equal, range(most, len(equal), most)))
        return together

    def _members_in(self, cells: IntArray, row: int) -> FloatArray | None:
        """Expected members `(r, k)` in some cells; None where they say nothing that is not fixed by then.

        `row` is a child of the family.
        """
        implied = self.task.implied
        if implied is None or not self.says_more(query := implied.counted.households):
            return None
        return implied.members_of_kinds(row)[:, self.current.group_of(query, cells)]

    def says_more(self, query: Marginal) -> bool:
        """Whether the pass can state a query, and its answers are not fixed before."""
        held = self.current.held
        return refines(self.current.cells, query) and (held is None or not refines(held, query))

    def used_then(self, member: Member, solution: Solution) -> BoolArray | None:
        """Which comparisons with persons `(C, r)` count after a solution; None where they are the same as before."""
        implied, used, rows = self.task.implied, member.used, self.task.rows(member.parent)
        if implied is None or used is None:
            return None
        expected = self._members_in(member.cells, rows.start)
        assert expected is not None
        then = implied.used_then(expected, rows, solution.x, used)
        return then if (then != used).any() else None

    def _ranges(
        self, rows: Rows, cells: IntArray, counts: FloatArray | None, upper: FloatArray
    ) -> Iterator[GroupRange]:
        """The bounds that are not implied by non-negativity, the parent's sums, impossible cells and held sums."""
        current = self.current
        for bound in self.task.bounds:
            if current.held is not None and refines(current.held, bound.marginal):
                continue
            present, group = distinct_places(current.group_of(bound.marginal, cells))
            low = bound.lower[rows][:, present].astype(np.float64)
            high = bound.upper[rows][:, present].astype(np.float64)
            most = np.full(high.shape, UNBOUNDED) if counts is None else group_sums(upper, group, high.shape[1])
            if (low > 0).any() or (high < most).any():
                yield GroupRange(group, low, np.maximum(np.minimum(high, most), low))


def _chain(held: list[GroupLevel], hard: list[GroupLevel], soft: Iterable[IntArray], n: int) -> list[GroupLevel]:
    """Partitions for rounding, coarse to fine; soft ones only where they nest with those already there."""
    chain = sorted([*held, *hard], key=lambda partition: partition.size)
    for group in soft:
        chain = with_free(chain, distinct_places(group)[1], n)
    return chain
