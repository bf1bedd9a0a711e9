"""The families of a batch: for each parent and pass the least-squares problem of its children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from postprocess.arrays import BoolArray, FloatArray, IntArray, Rows, distinct_places, group_sums
from postprocess.downward.batch import UNBOUNDED, Pass, stored_row, with_free
from postprocess.families.active_set import STACK_NUMBERS
from postprocess.families.family import ALONE, Family, GroupRange, Solution, is_large, padded
from postprocess.families.precisions import Dense, InBlocks, Precisions
from postprocess.families.rounding import GroupLevel
from postprocess.marginal import Marginal, refines
from postprocess.members import Implied

if TYPE_CHECKING:
    from postprocess.downward.batch import LevelTask

#: Per parent the cells of a pass that are not zero, and their whole numbers; None at the top.
Targets = list[tuple[IntArray, FloatArray]] | None


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


def targets_of(task: LevelTask, current: Pass) -> Targets:
    """Per parent the cells of the pass that are not zero, and their whole numbers; None at the top."""
    if task.parents is None:
        return None
    targets = []
    for parent in range(task.parents.shape[0]):
        cells, counts = stored_row(task.parents, parent)
        if not current.detail:
            sums = np.bincount(current.cells.cell_answer[cells], counts, minlength=current.cells.size)
            cells = np.flatnonzero(sums)
            counts = sums[cells]
        targets.append((cells, counts.astype(np.float64)))
    return targets


def member_of(
    task: LevelTask,
    number: int,
    parent: int,
    targets: Targets,
    possible: BoolArray,
    held: IntArray | None,
    used: BoolArray | None = None,
    areas: IntArray | None = None,
) -> Member | None:
    """The family of one parent in one pass; None where nothing is left to solve.

    Args:
        task: the batch.
        number: of the pass.
        parent: its number in the batch.
        targets: from `targets_of`.
        possible: `(n, size)` cells of the pass that can have persons.
        held: `(n, size)` answers that the pass before fixed; None in the first.
        used: `(C, r)` which comparisons of households' members with persons count; by default the first ones.
        areas: `(C,)` where there are no parents, several areas that are stated together, of `areas_alike`.
    """
    current = task.passes[number]
    own = task.rows(parent)
    rows: Rows = own if areas is None else areas
    n = len(task.classes[rows])
    if targets is None:
        cells = np.flatnonzero(possible[rows][0])
        counts = None
        upper = np.full((n, len(cells)), UNBOUNDED)
    else:
        cells, counts = targets[parent]
        upper = np.where(possible[rows][:, cells], counts[None, :], 0.0)
    terms = task.terms[number]
    if not len(cells):
        return None
    held_sums = None
    chain: list[GroupLevel] = []
    if held is not None and current.held is not None:
        present, group = distinct_places(current.group_of(current.held)[cells])
        held_values = held[rows][:, present]
        chain.append(GroupLevel(group, held_values, held_values))
        upper = np.minimum(upper, held_values[:, group])
        held_sums = GroupRange.fixed(group, held_values)
    ranges = list(_ranges(task, current, rows, cells, counts, upper))
    hard = [GroupLevel(r.group, np.rint(r.lower).astype(np.int64), np.rint(r.upper).astype(np.int64)) for r in ranges]
    chain = _chain(chain, hard, [current.group_of(marginal)[cells] for marginal in current.chain], n)
    classes, kind = distinct_places(task.classes[rows])
    precision: Precisions
    if terms.linear is not None:
        precision = Dense(np.ascontiguousarray(terms.precision[classes][:, cells[:, None], cells[None, :]]))
        linear = terms.linear[rows][:, cells]
    else:
        precision = _precision_of_cells(task, classes, cells, n)
        linear = _linear(task, rows, cells)
    implied = task.implied
    if implied is not None and (expected := _members_in(implied, current, cells, own.start)) is not None:
        used = implied.used_at_first(own) if used is None else used
        kind, matrices, linear = implied.terms(expected, own, kind, precision.matrices(), linear, used)
        precision = Dense(matrices)
    for shared in task.shares:
        if counts is not None and says_more(current, shared.query):
            kind, matrices, linear = shared.terms(
                current.group_of(shared.query)[cells], counts, own, (kind, precision.matrices(), linear)
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
    return Member(parent, rows, cells, family, tuple(chain), task.ties(number, rows, cells), used)


def areas_alike(task: LevelTask, number: int, possible: BoolArray, pattern_of: IntArray) -> list[IntArray]:
    """The areas without a parent, those together that `member_of` can state together.

    These have the same possible cells and the same bounds that say something. Each is a problem by itself, and none
    depends on which others are beside it.

    Args:
        task, number, possible: as in `member_of`.
        pattern_of: `(n,)` which areas have the same possible cells.
    """
    current = task.passes[number]
    together = []
    order = np.argsort(pattern_of, kind="stable")
    for areas in np.split(order, np.flatnonzero(np.diff(pattern_of[order])) + 1):
        cells = np.flatnonzero(possible[areas[0]])
        if not len(cells):
            continue
        if len(cells) > ALONE or task.implied is not None:
            together.extend(np.split(areas, len(areas)))
            continue
        binding = np.zeros(len(areas), dtype=np.int64)
        for bound in task.bounds:
            present = np.unique(current.group_of(bound.marginal)[cells])
            low, high = bound.lower[areas][:, present], bound.upper[areas][:, present]
            binding = 2 * binding + ((low > 0) | (high < UNBOUNDED)).any(axis=1)
            _, binding = np.unique(binding, return_inverse=True)
        most = STACK_NUMBERS // padded(len(cells)) ** 2
        for kind in range(int(binding.max()) + 1):
            equal = areas[binding == kind]
            together.extend(np.split(equal, range(most, len(equal), most)))
    return together


def _precision_of_cells(task: LevelTask, classes: IntArray, cells: IntArray, n: int) -> Precisions:
    """The detail's precisions of some classes on some cells of n children.

    As matrices; but of a large family as weights on few sums of cells, where they are that, else in blocks.
    """
    terms = task.terms[-1]
    if not is_large(n, len(cells), has_parent=task.parents is not None):
        return Dense(task.basis.dense(task.table[classes], cells))
    if (few := task.few_sums) is not None:
        return few.on(classes, cells, task.leasts[classes])
    return InBlocks(task.basis, terms.precision[classes], cells)


def _members_in(implied: Implied, current: Pass, cells: IntArray, row: int) -> FloatArray | None:
    """Expected members `(r, k)` in some cells of a pass; None where they say nothing that is not fixed by then.

    `row` is a child of the family.
    """
    query = implied.counted.households
    if not says_more(current, query):
        return None
    return implied.members_of_kinds(row)[:, current.group_of(query)[cells]]


def says_more(current: Pass, query: Marginal) -> bool:
    """Whether a pass can state a query, and its answers are not fixed before."""
    return refines(current.cells, query) and (current.held is None or not refines(current.held, query))


def used_then(task: LevelTask, number: int, member: Member, solution: Solution) -> BoolArray | None:
    """Which comparisons with persons `(C, r)` count after a solution; None where they are the same as before."""
    implied, used = task.implied, member.used
    if implied is None or used is None:
        return None
    rows = task.rows(member.parent)
    expected = _members_in(implied, task.passes[number], member.cells, rows.start)
    assert expected is not None
    then = implied.used_then(expected, rows, solution.x, used)
    return then if (then != used).any() else None


def _linear(task: LevelTask, rows: Rows, cells: IntArray) -> FloatArray:
    """A'D^-1 y + J m on some cells of some children, `(C, k)`."""
    linear = np.zeros((len(task.classes[rows]), len(cells)))
    kinds = None if task.kinds is None else task.kinds[rows]
    for measured in task.measured:
        linear += measured.values[rows][:, measured.marginal.cell_answer[cells]] / measured.by_row(kinds)
    for answers in task.positive:
        linear += answers.at(rows, answers.marginal.cell_answer[cells]) / answers.variance
    for extra in (task.children_term, task.prior_term):
        if extra is not None:
            linear += extra[rows][:, cells]
    return linear


def _ranges(
    task: LevelTask, current: Pass, rows: Rows, cells: IntArray, counts: FloatArray | None, upper: FloatArray
) -> Iterator[GroupRange]:
    """The bounds that are not implied by non-negativity, the parent's sums, impossible cells and held sums."""
    for bound in task.bounds:
        if current.held is not None and refines(current.held, bound.marginal):
            continue
        present, group = distinct_places(current.group_of(bound.marginal)[cells])
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
