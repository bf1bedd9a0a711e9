"""The downward pass: the children of every parent, whose whole numbers are fixed, are solved and then rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, IntArray, group_sums
from postprocess.downward.assembly import Member, Targets, areas_alike, member_of, targets_of, used_then
from postprocess.downward.batch import Entries, assert_kept, limits_kept, stored_row
from postprocess.downward.completion import completed
from postprocess.downward.origin import above_origin, from_origin, origin_of
from postprocess.downward.passes import Pass, passes_of, possible_groups
from postprocess.downward.report import SolverReport
from postprocess.downward.tasks import LevelTask, level_tasks
from postprocess.families.active_set import solve_together
from postprocess.families.family import Solution
from postprocess.families.rounding import round_family, round_together, swapped, tie_breaks
from postprocess.families.solve import solve_families
from postprocess.linear.upward import LevelEstimate
from postprocess.problem import Problem

#: Arguments of `member_of`: the parents' numbers, the possible cells and the held answers.
Given = tuple[Targets, BoolArray, IntArray | None]
#: How often households that have more members than there may be are solved again; what is left bounds the persons.
MOST_TURNS = 3
#: Share of the parents whose children are solved again, and the least number that is drawn for this.
CHECKED_SHARE, CHECKED_LEAST = 0.01, 22


def solve_task(task: LevelTask) -> tuple[sp.csr_array, SolverReport]:
    """Whole-number histograms `(n, n_cells)` of the children of a batch of parents.

    Raises:
        SolverError: a family was not solved to its tolerance, or another solver disagrees; names the parent.
    """
    report = SolverReport()
    differences: list[float] = []
    n = int(task.offsets[-1])
    asymmetric, _ = task.basis.cell_blocks
    held: IntArray | None = None
    patterns, pattern_of = np.unique(task.possible, axis=0, return_inverse=True)
    copied, solved = _copies(task)
    result: list[Entries] = []
    for number, current in enumerate(task.passes):
        possible = possible_groups(current, patterns[:, asymmetric])[pattern_of.ravel()]
        given = targets_of(task, current), possible, held
        if task.parents is None and task.solver != "cvxpy":
            members, solutions = _solved_together(task, number, given, pattern_of.ravel())
        else:
            members, solutions = _solved(task, number, given, solved)
        report += SolverReport.of(solutions)
        answers = np.zeros((n, current.hold.size), dtype=np.int64) if current.hold is not None else None
        for pair in zip(members, solutions, strict=True):
            for member, rounded in _rounded(task, number, given, pair, differences):
                if answers is not None and current.hold is not None:
                    group = current.group_of(current.hold)[member.cells]
                    answers[member.rows] = group_sums(rounded, group, current.hold.size)
                else:
                    rows, columns = np.nonzero(rounded)
                    rows_of = member.rows.start + rows if isinstance(member.rows, slice) else member.rows[rows]
                    result.append((rows_of, member.cells[columns], rounded[rows, columns]))
        held = answers
    out = task.histograms([*result, *copied], len(asymmetric))
    return out, report + SolverReport(checked=len(differences), largest_difference=max(differences, default=0.0))


def _rounded(
    task: LevelTask, number: int, given: Given, pair: tuple[Member, Solution], differences: list[float]
) -> Iterator[tuple[Member, IntArray]]:
    """A family in whole numbers; of areas that are together those by themselves that are checked, or are not sure.

    `differences` gets those from another solver.
    """
    member, solution = pair
    if isinstance(member.rows, slice):
        differences.extend(task.differences(member.parent, member.family, solution))
        rounded = round_family(member.family, solution.x, member.chain, member.ties)
        if member.used is not None:
            rounded = swapped(member.family, solution.x, rounded, member.chain)
        assert_kept(member.family, rounded, member.chain)
        yield member, rounded
        return
    rounded, sure = round_together(member.family, solution.x, member.chain, member.ties)
    sure &= limits_kept(member.family, rounded, member.chain) & ~task.checked[member.rows]
    yield replace(member, rows=member.rows[sure]), rounded[sure]
    for i in np.flatnonzero(~sure):
        alone = member_of(task, number, int(member.rows[i]), *given)
        assert alone is not None
        yield from _rounded(task, number, given, (alone, replace(solution, x=solution.x[i : i + 1])), differences)


def _solved_together(
    task: LevelTask, number: int, given: Given, pattern_of: IntArray
) -> tuple[list[Member], list[Solution]]:
    """The areas of a pass that have no parent, those that are alike together, and their solutions.

    Areas that are not solved with others are families by themselves.

    Args:
        task, number, given: as in `_solved`.
        pattern_of: `(n,)` which areas have the same possible cells.
    """
    _, possible, _ = given
    members: list[Member] = []
    solutions: list[Solution] = []
    single: list[int] = []
    for areas in areas_alike(task, number, possible, pattern_of):
        if len(areas) == 1:
            single.extend(areas.tolist())
            continue
        if (member := member_of(task, number, int(areas[0]), *given, areas=areas)) is None:
            continue
        found = solve_together(member.family)
        single.extend(areas[~found.solved].tolist())
        if n := int(found.solved.sum()):
            members.append(member.of_children(areas, found.solved))
            solutions.append(
                Solution(found.x[found.solved], "batched", found.rounds, found.primal, found.dual, families=n)
            )
    alone = _solved(task, number, given, sorted(single))
    return members + alone[0], solutions + alone[1]


def _solved(task: LevelTask, number: int, given: Given, parents: Sequence[int]) -> tuple[list[Member], list[Solution]]:
    """The families of a pass and their solutions; those that households have more members in than there may be again.

    Args:
        task: the batch.
        number: of the pass.
        given: to `member_of`.
        parents: whose children are solved.
    """
    members = [member for p in parents if (member := member_of(task, number, p, *given)) is not None]
    solutions = solve_families([member.family for member in members], task.solver)
    if task.implied is None or not task.implied.counted.at_most.any():
        return members, solutions
    for _ in range(MOST_TURNS):
        again = [
            (i, then)
            for i, (member, solution) in enumerate(zip(members, solutions, strict=True))
            if (then := used_then(task, number, member, solution)) is not None
        ]
        if not again:
            break
        for i, used in again:
            member = member_of(task, number, members[i].parent, *given, used=used)
            assert member is not None
            members[i] = member
        places = [i for i, _ in again]
        families, near = [members[i].family for i in places], [solutions[i] for i in places]
        for i, solution in zip(places, solve_families(families, task.solver, near), strict=True):
            solutions[i] = solution
    return members, solutions


def _copies(task: LevelTask) -> tuple[list[Entries], list[int]]:
    """The entries of only children, which are copies of their parents, and the parents that have to be solved.

    Nobody lives below an empty parent, so these are left out.
    """
    if task.parents is None:
        return [], list(range(len(task.offsets) - 1))
    copied, solved = [], []
    sizes = np.diff(task.offsets)
    for parent in range(len(sizes)):
        cells, counts = stored_row(task.parents, parent)
        if not len(cells):
            continue
        if sizes[parent] == 1:
            copied.append((np.full(len(cells), task.offsets[parent]), cells, counts))
        else:
            solved.append(parent)
    return copied, solved


def checked_parents(spine: Spine, seed: int) -> list[BoolArray]:
    """Per level, whose children are solved again: drawn by the public seed from all with two children or more."""
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


def downward_level(
    problem: Problem,
    basis: Basis,
    level: int,
    estimate: LevelEstimate,
    parents: sp.csr_array | None,
    runner: Callable[..., Iterable[tuple[sp.csr_array, SolverReport]]] = map,
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
        checked: `(n_parents,)` which parents' children are solved again; by default those that `checked_parents` draws.
        passes: by default those of the problem.
    """
    if passes is None:
        passes = passes_of(problem)
    if checked is None:
        checked = checked_parents(problem.spine, problem.seed)[level]
    if (origin := origin_of(problem, level)) is not None:
        problem, estimate, parents = from_origin(problem, basis, level, estimate, parents, origin)
    share = None
    if parents is not None and estimate.info.blind.any():
        share = completed(problem, basis, level, estimate, parents)
    tasks = level_tasks(problem, basis, level, estimate, parents, passes, checked, share)
    report = SolverReport()
    parts = []
    for part, part_report in runner(solve_task, tasks):
        parts.append(part)
        report += part_report
    counts = sp.csr_array(sp.vstack(parts, format="csr"), dtype=np.int64)
    return counts if origin is None else above_origin(counts, -origin), report
