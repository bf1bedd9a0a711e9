"""The downward pass: the children of every parent, whose whole numbers are fixed, are solved and then rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.passes import Pass, passes_of, possible_groups
from postprocess.downward.tasks import LevelTask, level_tasks
from postprocess.errors import SolverError
from postprocess.families.cvxpy_reference import solve_with_cvxpy
from postprocess.families.family import Family, GroupRange, Solution
from postprocess.families.rounding import GroupLevel, round_family, tie_breaks
from postprocess.families.solve import solve_families
from postprocess.linear.upward import LevelEstimate
from postprocess.marginal import refines
from postprocess.problem import Problem

#: Persons: a solution of the batched solver that differs from cvxpy's by more in a cell stops the run.
LARGEST_DIFFERENCE = 1e-3
#: Share of the parents that cvxpy solves again, and the least number that is drawn for this.
CHECKED_SHARE, CHECKED_LEAST = 0.01, 22
#: Numbers in the quadratic forms of a family's children above which cvxpy is too slow to compare with.
CHECKED_NUMBERS = 300_000
#: Stands for no upper bound.
UNBOUNDED = float(1 << 52)


@dataclass
class SolverReport:
    """What the solvers did, for the manifest; only public values."""

    families: int = 0
    by_solver: dict[str, int] = field(default_factory=dict)
    iterations: int = 0
    primal: float = 0.0
    dual: float = 0.0
    checked: int = 0
    largest_difference: float = 0.0

    def add(self, solution: Solution) -> None:
        """Count one family's solution."""
        self.families += 1
        self.by_solver[solution.solver] = self.by_solver.get(solution.solver, 0) + 1
        self.iterations += solution.iterations
        self.primal = max(self.primal, solution.primal)
        self.dual = max(self.dual, solution.dual)

    def merge(self, report: SolverReport) -> None:
        """Add what another report counts."""
        self.families += report.families
        for solver, count in report.by_solver.items():
            self.by_solver[solver] = self.by_solver.get(solver, 0) + count
        self.iterations += report.iterations
        self.primal = max(self.primal, report.primal)
        self.dual = max(self.dual, report.dual)
        self.checked += report.checked
        self.largest_difference = max(self.largest_difference, report.largest_difference)

    def public(self) -> dict[str, object]:
        """For the manifest: what does not depend on the last bits of floating point. Residuals are upper limits."""
        return {
            "families": self.families,
            "by_solver": dict(sorted(self.by_solver.items())),
            "primal_residual_at_most": _at_most(self.primal),
            "dual_residual_at_most": _at_most(self.dual),
            "solved_again_by_cvxpy": self.checked,
            "largest_difference_at_most": _at_most(self.largest_difference),
        }


def _at_most(residual: float) -> float:
    """The next power of ten, from 1e-6."""
    return float(f"1e{max(-6, math.ceil(math.log10(max(residual, 1e-12))))}")


@dataclass(frozen=True, eq=False)
class _Member:
    """One family of a pass: which parent, which cells of the pass, and how to round it."""

    parent: int
    cells: IntArray
    family: Family
    chain: tuple[GroupLevel, ...]
    ties: IntArray


def solve_task(task: LevelTask) -> tuple[sp.csr_array, SolverReport]:
    """Whole-number histograms `(n, n_cells)` of the children of a batch of parents.

    Raises:
        SolverError: a family was not solved to its tolerance, or cvxpy disagrees; names the parent.
    """
    report = SolverReport()
    n = int(task.offsets[-1])
    asymmetric, _ = task.basis.cell_blocks
    held: IntArray | None = None
    patterns, pattern_of = np.unique(task.possible, axis=0, return_inverse=True)
    copied, solved = _copies(task)
    result: list[tuple[IntArray, IntArray, IntArray]] = []
    for number, current in enumerate(task.passes):
        possible = possible_groups(current, patterns[:, asymmetric])[pattern_of.ravel()]
        targets = _targets(task, current)
        members = [
            member
            for parent in solved
            if (member := _member(task, number, current, parent, targets, possible, held)) is not None
        ]
        solutions = solve_families([member.family for member in members], task.solver)
        answers = np.zeros((n, current.hold.size), dtype=np.int64) if current.hold is not None else None
        for member, solution in zip(members, solutions, strict=True):
            report.add(solution)
            _compare(task, member, solution, report)
            rounded = round_family(member.family, solution.x, member.chain, member.ties)
            _assert_kept(member, rounded)
            first = int(task.offsets[member.parent])
            if answers is not None and current.hold is not None:
                group = current.group_of(current.hold)[member.cells]
                np.add.at(answers[first : first + len(rounded)].T, group, rounded.T)
            else:
                rows, columns = np.nonzero(rounded)
                result.append((rows + first, member.cells[columns], rounded[rows, columns]))
        held = answers
    result.extend(copied)
    rows = np.concatenate([r for r, _, _ in result]) if result else np.zeros(0, dtype=np.int64)
    columns = np.concatenate([c for _, c, _ in result]) if result else np.zeros(0, dtype=np.int64)
    values = np.concatenate([v for _, _, v in result]) if result else np.zeros(0, dtype=np.int64)
    out = sp.csr_array((values, (rows, columns)), shape=(n, len(asymmetric)), dtype=np.int64)
    out.sort_indices()
    return out, report


def _copies(task: LevelTask) -> tuple[list[tuple[IntArray, IntArray, IntArray]], list[int]]:
    """The entries of only children, which are copies of their parents, and the parents that have to be solved.

    Nobody lives below an empty parent, so these are left out.
    """
    if task.parents is None:
        return [], list(range(len(task.offsets) - 1))
    copied, solved = [], []
    sizes = np.diff(task.offsets)
    for parent in range(len(sizes)):
        row = slice(task.parents.indptr[parent], task.parents.indptr[parent + 1])
        if row.start == row.stop:
            continue
        if sizes[parent] == 1:
            cells = task.parents.indices[row].astype(np.int64)
            copied.append((np.full(len(cells), task.offsets[parent]), cells, task.parents.data[row]))
        else:
            solved.append(parent)
    return copied, solved


def _targets(task: LevelTask, current: Pass) -> list[tuple[IntArray, FloatArray]] | None:
    """Per parent the cells of the pass that are not zero, and their whole numbers; None at the top."""
    if task.parents is None:
        return None
    targets = []
    for parent in range(task.parents.shape[0]):
        row = slice(task.parents.indptr[parent], task.parents.indptr[parent + 1])
        cells, counts = task.parents.indices[row].astype(np.int64), task.parents.data[row].astype(np.float64)
        if not current.detail:
            sums = np.bincount(current.cells.cell_answer[cells], counts, minlength=current.cells.size)
            cells = np.flatnonzero(sums)
            counts = sums[cells]
        targets.append((cells, counts))
    return targets


def _member(
    task: LevelTask,
    number: int,
    current: Pass,
    parent: int,
    targets: list[tuple[IntArray, FloatArray]] | None,
    possible: BoolArray,
    held: IntArray | None,
) -> _Member | None:
    """The family of one parent in one pass; None where nothing is left to solve."""
    rows = slice(int(task.offsets[parent]), int(task.offsets[parent + 1]))
    if targets is None:
        cells = np.flatnonzero(possible[rows][0])
        counts = None
        upper = np.full((1, len(cells)), UNBOUNDED)
    else:
        cells, counts = targets[parent]
        upper = np.where(possible[rows][:, cells], counts[None, :], 0.0)
    if not len(cells):
        return None
    held_group = held_values = None
    chain: list[GroupLevel] = []
    if held is not None and current.held is not None:
        present, held_group = _renumbered(current.group_of(current.held)[cells])
        held_values = held[rows][:, present]
        chain.append(GroupLevel(held_group, held_values, held_values))
        upper = np.minimum(upper, held_values[:, held_group])
    ranges = list(_ranges(task, current, rows, cells, counts, upper))
    hard = [GroupLevel(r.group, np.rint(r.lower).astype(np.int64), np.rint(r.upper).astype(np.int64)) for r in ranges]
    chain = _chain(
        chain, hard, [current.group_of(marginal)[cells] for marginal in current.chain], rows.stop - rows.start
    )
    used, kind = _renumbered(task.classes[rows])
    terms = task.terms[number]
    if terms.linear is not None:
        precision = terms.precision[used][:, cells[:, None], cells[None, :]]
        linear = terms.linear[rows][:, cells]
    else:
        precision = task.basis.dense(terms.precision[used], cells)
        linear = _linear(task, rows, cells)
    name = (
        f"{task.parent_names[parent]} (its {task.level_name} children)"
        if task.parents is not None
        else (task.parent_names[parent])
    )
    family = Family(
        name=name,
        precision=precision,
        linear=linear,
        upper=upper,
        parent=counts,
        held_group=held_group,
        held=None if held_values is None else held_values.astype(np.float64),
        ranges=tuple(ranges),
        kind=kind,
    )
    children = np.arange(task.first_child + rows.start, task.first_child + rows.stop)
    ties = tie_breaks(task.seed, [np.array([task.level * 64 + number]), children[:, None], cells[None, :]])
    return _Member(parent, cells, family, tuple(chain), ties)


def _linear(task: LevelTask, rows: slice, cells: IntArray) -> FloatArray:
    """A'D^-1 y + J m on some cells of some children, `(C, k)`."""
    linear = np.zeros((rows.stop - rows.start, len(cells)))
    kinds = None if task.kinds is None else task.kinds[rows]
    for measured in task.measured:
        linear += measured.values[rows][:, measured.marginal.cell_answer[cells]] / measured.by_row(kinds)
    for extra in (task.children_term, task.prior_term):
        if extra is not None:
            linear += extra[rows][:, cells]
    return linear


def _ranges(
    task: LevelTask, current: Pass, rows: slice, cells: IntArray, counts: FloatArray | None, upper: FloatArray
) -> Iterator[GroupRange]:
    """The bounds that are not implied by non-negativity, the parent's sums, impossible cells and held sums."""
    for bound in task.bounds:
        if current.held is not None and refines(current.held, bound.marginal):
            continue
        present, group = _renumbered(current.group_of(bound.marginal)[cells])
        low = bound.lower[rows][:, present].astype(np.float64)
        high = bound.upper[rows][:, present].astype(np.float64)
        if counts is None:
            most = np.full((1, len(present)), UNBOUNDED)
        else:
            most = np.zeros_like(high)
            np.add.at(most.T, group, upper.T)
        if (low > 0).any() or (high < most).any():
            yield GroupRange(group, low, np.maximum(np.minimum(high, most), low))


def _chain(held: list[GroupLevel], hard: list[GroupLevel], soft: Iterable[IntArray], n: int) -> list[GroupLevel]:
    """Partitions for rounding, coarse to fine; soft ones only where they nest with those already there."""
    chain = sorted([*held, *hard], key=lambda partition: partition.lower.shape[1])
    for group in soft:
        present, local = _renumbered(group)
        free = GroupLevel(
            local, np.zeros((n, len(present)), dtype=np.int64), np.full((n, len(present)), int(UNBOUNDED))
        )
        if all(_nest(partition.group, local) for partition in chain):
            chain = sorted([*chain, free], key=lambda partition: partition.lower.shape[1])
    return chain


def _renumbered(group: IntArray) -> tuple[IntArray, IntArray]:
    """The groups that occur, in order, and each cell's place among them; as `numpy.unique` with its inverse."""
    present = np.flatnonzero(np.bincount(group))
    place = np.zeros(present[-1] + 1, dtype=np.int64)
    place[present] = np.arange(len(present))
    return present, place[group]


def _nest(first: IntArray, second: IntArray) -> bool:
    """Whether one of two groupings, numbered from 0, refines the other."""
    sizes = int(first.max()) + 1, int(second.max()) + 1
    pairs = int(np.count_nonzero(np.bincount(first * sizes[1] + second)))
    return pairs in sizes


def _compare(task: LevelTask, member: _Member, solution: Solution, report: SolverReport) -> None:
    """Solve a sampled family again with cvxpy and compare cell by cell."""
    family = member.family
    numbers = family.linear.size * family.n_cells
    if task.solver != "auto" or not task.checked[member.parent] or numbers > CHECKED_NUMBERS:
        return
    if solution.solver != "batched":
        return
    reference = solve_with_cvxpy(family, once=True)
    difference = float(np.abs(reference.x - solution.x).max(initial=0.0))
    report.checked += 1
    report.largest_difference = max(report.largest_difference, difference)
    if difference > LARGEST_DIFFERENCE:
        raise SolverError(
            f"{family.name}: the batched solver and {reference.solver} differ by {difference:.2g} persons in a cell; "
            f"allowed is {LARGEST_DIFFERENCE:g}"
        )


def _assert_kept(member: _Member, rounded: IntArray) -> None:
    """Raises SolverError if the whole numbers break a constraint, whatever the solvers did."""
    family = member.family
    broken = (rounded < 0).any() or (rounded > family.upper).any()
    if family.parent is not None:
        broken = broken or (rounded.sum(axis=0) != np.rint(family.parent)).any()
    for partition in member.chain:
        sums = np.zeros(partition.lower.shape, dtype=np.int64)
        np.add.at(sums.T, partition.group, rounded.T)
        broken = broken or (sums < partition.lower).any() or (sums > partition.upper).any()
    if broken:
        raise SolverError(f"{family.name}: the rounded solution breaks a constraint")


def checked_parents(spine: Spine, seed: int) -> list[BoolArray]:
    """Per level, which parents cvxpy solves again: drawn by the public seed from all with two children or more."""
    sizes = [np.ones(len(spine.levels[0].geocodes), dtype=np.int64)]
    sizes += [np.diff(spine.child_offsets(level)) for level in range(spine.n_levels - 1)]
    draws: list[IntArray] = []
    places: list[tuple[int, int]] = []
    for level, size in enumerate(sizes):
        ties = tie_breaks(seed + 1, [np.array([level]), np.arange(len(size))])
        eligible = np.flatnonzero((size > 1) | (level == 0))
        draws.append(ties[eligible])
        places.extend((level, int(i)) for i in eligible)
    n_checked = max(CHECKED_LEAST, int(np.ceil(CHECKED_SHARE * len(places) * 1.2)))
    chosen = np.argsort(np.concatenate(draws), kind="stable")[:n_checked]
    flags = [np.zeros(len(size), dtype=bool) for size in sizes]
    for i in chosen:
        level, parent = places[i]
        flags[level][parent] = True
    return flags


def run_here(
    function: Callable[[LevelTask], tuple[sp.csr_array, SolverReport]], tasks: Sequence[LevelTask]
) -> Iterator[tuple[sp.csr_array, SolverReport]]:
    """Run the batches one after the other in this process."""
    return map(function, tasks)


def downward_level(
    problem: Problem,
    basis: Basis,
    level: int,
    estimate: LevelEstimate,
    parents: sp.csr_array | None,
    runner: Callable[..., Iterable[tuple[sp.csr_array, SolverReport]]] = run_here,
    checked: BoolArray | None = None,
    passes: Sequence[Pass] | None = None,
) -> tuple[sp.csr_array, SolverReport]:
    """Whole-number histograms `(n, n_cells)` of one level, given those of the level above (None at the top).

    Args:
        problem: what the release is computed from.
        basis: of the problem.
        level: index of the level, 0 at the top.
        estimate: of the level, from the upward pass.
        parents: the histograms of the level above; None at the top.
        runner: performs `solve_task` on the batches, in order.
        checked: `(n_parents,)` which parents cvxpy solves again; by default those that `checked_parents` draws.
        passes: by default those of the problem.
    """
    if passes is None:
        passes = passes_of(problem)
    if checked is None:
        checked = checked_parents(problem.spine, problem.seed)[level]
    tasks = level_tasks(problem, basis, level, estimate, parents, passes, checked)
    report = SolverReport()
    parts = []
    for part, part_report in runner(solve_task, tasks):
        parts.append(part)
        report.merge(part_report)
    return sp.csr_array(sp.vstack(parts, format="csr"), dtype=np.int64), report
