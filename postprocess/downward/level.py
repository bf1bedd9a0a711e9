"""The downward pass: the children of every parent, whose whole numbers are fixed, are solved and then rounded.

Numbers that may be below 0: they are solved as what is above the least that their bounds allow.

Sums of an amount from low to high, of which n are counted in a cell, are at least low x n there. Counted from that
least, they are as counts are: not negative, and those of children add up to their parent's, since the counts n do.
Nothing else has to know that some numbers are negative: a level is solved from its origin, which is then added again.

Completion: what no query determines of children, from their parent's table and their own estimates.

Where a level and those below it measure fewer queries than the levels above, some directions of a child's histogram
are unmeasured. The parent's histogram p says more about them than an even split: of all tables x_c >= 0 of the children
with sum_c x_c = p and the child's own estimates as the sums that are determined, the completion is the one of maximum
entropy (`postprocess.families.fitting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray, group_sums
from postprocess.downward.assembly import BatchPass, Member
from postprocess.downward.batch import (
    Batch,
    Entries,
    Pass,
    SolverReport,
    assert_kept,
    level_tasks,
    limits_kept,
    passes_of,
    stored_row,
)
from postprocess.families.active_set import solve_together
from postprocess.families.family import Solution
from postprocess.families.fitting import FittedSums, fitted, not_negative
from postprocess.families.rounding import round_family, round_together, swapped, tie_breaks
from postprocess.families.solve import solve_families
from postprocess.linear.information import FREE, zero_masks
from postprocess.linear.upward import LevelEstimate, estimated_answers
from postprocess.marginal import Marginal, refines
from postprocess.problem import GroupBounds, Problem


def origin_of(problem: Problem, level: int) -> IntArray | None:
    """The least of each cell `(n, n_cells)` of a level; None where no cell can be below 0.

    Only bounds of single cells are below 0.
    """
    bounds = problem.joined[level] if problem.joined else ()
    return next((bound.lower for bound in bounds if (bound.lower < 0).any()), None)


def from_origin(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, parents: sp.csr_array | None, origin: IntArray
) -> tuple[Problem, LevelEstimate, sp.csr_array | None]:
    """What a level is solved from, as numbers above its origin.

    Args:
        problem, basis, level, estimate, parents: as in `level.downward_level`.
        origin: of the level.
    """
    measured, joined = list(problem.measured), list(problem.joined)
    measured[level] = tuple(
        replace(query, values=query.values - query.marginal.answer(origin)) if len(query.values) else query
        for query in measured[level]
    )
    joined[level] = tuple(
        GroupBounds(bound.name, bound.marginal, bound.lower - origin, bound.upper - origin) for bound in joined[level]
    )
    if (children := estimate.children) is not None:
        # Of a cut whose terms are drawn, they hold all that was measured, and no precision of children is kept.
        precision = children.precision if len(children.precision) else estimate.info.precision
        less = basis.unfold(basis.apply(precision, basis.fold(origin.astype(np.float64)), estimate.classes))
        mean = children.mean - origin if len(children.mean) else children.mean
        estimate = replace(estimate, children=replace(children, mean=mean, term=children.term - less))
    if parents is not None:
        above = np.zeros((parents.shape[0], origin.shape[1]), dtype=np.int64)
        np.add.at(above, problem.spine.levels[level].parents, origin)
        parents = above_origin(parents, above)
    return replace(problem, measured=tuple(measured), joined=tuple(joined)), estimate, parents


def above_origin(counts: sp.csr_array, origin: IntArray) -> sp.csr_array:
    """Histograms as numbers above their origin."""
    out = sp.csr_array(counts - sp.csr_array(origin))
    out.eliminate_zeros()
    out.sort_indices()
    return out


def only_below(problem: Problem, level: int, solved: BoolArray) -> Problem:
    """The problem with nothing below the geounits of the level above that are not solved, `(n_parents,)`."""
    if not problem.joined:
        return problem
    joined, kept = list(problem.joined), solved[problem.spine.levels[level].parents][:, None]
    joined[level] = tuple(
        GroupBounds(bound.name, bound.marginal, bound.lower * kept, bound.upper * kept) for bound in joined[level]
    )
    return replace(problem, joined=tuple(joined))


def completed(problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, parents: sp.csr_array) -> FloatArray:
    """The completion `(n, n_cells)` of the children of all parents of a level.

    Args:
        problem: whose `completed` are the queries that may be determined; with none, every child gets the same share.
        basis: of the problem.
        level: of the children.
        estimate: of that level, from the upward pass.
        parents: whole-number histograms of the level above.
    """
    offsets = problem.spine.child_offsets(level - 1)
    possible = ~zero_masks(problem, basis, level)
    sums = list(_determined_sums(problem, basis, level, estimate))
    return fitted(parents, offsets, sums, possible, basis.cell_blocks[0])


def determined(basis: Basis, unmeasured: FloatArray, queries: Sequence[Marginal]) -> BoolArray:
    """Which queries are determined, and not by a finer one that is: `(n_classes, n_queries)`.

    Args:
        basis: in which the queries are stated.
        unmeasured: of each class, as in `Information`.
        queries: all different.
    """
    known = np.stack([basis.answer_variances(unmeasured, query).max(axis=1) < FREE for query in queries], axis=1)
    # Of two that have the same groups the first one stays.
    coarser = np.array(
        [
            [refines(fine, query) and (j < i or not refines(query, fine)) for j, fine in enumerate(queries)]
            for i, query in enumerate(queries)
        ]
    )
    return known & ~(known[:, None, :] & coarser[None, :, :]).any(axis=2)


def _determined_sums(problem: Problem, basis: Basis, level: int, estimate: LevelEstimate) -> Iterator[FittedSums]:
    """What the estimates of a level say of the queries that they determine."""
    queries = list({query.key: query for query in problem.completed}.values())
    if not queries:
        return
    needed = np.asarray(estimate.info.unmeasured.any(axis=(1, 2, 3)))
    use = determined(basis, estimate.info.unmeasured, queries) & needed[:, None]
    for number in np.flatnonzero(use.any(axis=0)):
        query, given = queries[number], use[estimate.classes, number]
        values = np.zeros((len(given), query.size))
        rows = np.flatnonzero(given)
        values[rows] = estimated_answers(problem, basis, level, estimate, query, rows)
        yield FittedSums(query, not_negative(values), given)


#: Performs a function on tasks, in order.
Runner = Callable[..., Iterable[tuple[sp.csr_array, SolverReport]]]
#: How often households that have more members than there may be are solved again; what is left bounds the persons.
MOST_TURNS = 3
#: Share of the parents whose children are solved again, and the least number that is drawn for this.
CHECKED_SHARE, CHECKED_LEAST = 0.01, 22


def solve_task(task: Batch) -> tuple[sp.csr_array, SolverReport]:
    """Whole-number histograms `(n, n_cells)` of the children of a batch of parents.

    Raises:
        SolverError: a family was not solved to its tolerance, or another solver disagrees; names the parent.
    """
    report = SolverReport()
    differences: list[float] = []
    held: IntArray | None = None
    result, solved = _copies(task)
    for number, current in enumerate(task.passes):
        here = BatchPass(task, number, held)
        together = task.parents is None and task.solver != "cvxpy"
        pairs = _solved_together(here) if together else _solved(here, solved)
        report += SolverReport.of(solution for _, solution in pairs)
        held = None if current.hold is None else np.zeros((int(task.offsets[-1]), current.hold.size), dtype=np.int64)
        for pair in pairs:
            for member, rounded in _rounded(here, pair, differences):
                if held is not None and current.hold is not None:
                    group = current.group_of(current.hold, member.cells)
                    held[member.rows] = group_sums(rounded, group, current.hold.size)
                else:
                    result.append(task.entries(member.parent, member.rows, member.cells, rounded))
    out = task.histograms(result, task.patterns[0].shape[1])
    return out, report + SolverReport(checked=len(differences), largest_difference=max(differences, default=0.0))


def _rounded(
    here: BatchPass, pair: tuple[Member, Solution], differences: list[float]
) -> Iterator[tuple[Member, IntArray]]:
    """A family in whole numbers; of areas that are together those by themselves that are checked, or left.

    `differences` gets those from another solver.
    """
    (member, solution), task = pair, here.task
    if isinstance(member.rows, slice):
        differences.extend(task.differences(member.parent, member.family, solution))
        rounded = round_family(member.family, solution.x, member.chain, member.ties)
        if member.used is not None:
            rounded = swapped(member.family, solution.x, rounded, member.chain)
        assert_kept(member.family, rounded, member.chain)
        yield member, rounded
        return
    rounded, found = round_together(member.family, solution.x, member.chain, member.ties)
    found &= limits_kept(member.family, rounded, member.chain) & ~task.checked[member.rows]
    yield replace(member, rows=member.rows[found]), rounded[found]
    for i in np.flatnonzero(~found):
        alone = here.member(int(member.rows[i]))
        assert alone is not None
        yield from _rounded(here, (alone, replace(solution, x=solution.x[i : i + 1])), differences)


def _solved_together(here: BatchPass) -> list[tuple[Member, Solution]]:
    """The areas of a pass that have no parent, those that are alike together, and their solutions.

    Areas that are not solved with others are families by themselves.
    """
    pairs: list[tuple[Member, Solution]] = []
    single: list[int] = []
    for areas in here.areas_alike():
        if len(areas) == 1:
            single.extend(areas.tolist())
            continue
        if (member := here.member(int(areas[0]), areas=areas)) is None:
            continue
        found = solve_together(member.family)
        single.extend(areas[~found.solved].tolist())
        if n := int(found.solved.sum()):
            solution = Solution(found.x[found.solved], "batched", found.rounds, found.primal, found.dual, families=n)
            pairs.append((member.of_children(areas, found.solved), solution))
    return pairs + _solved(here, sorted(single))


def _solved(here: BatchPass, parents: Sequence[int]) -> list[tuple[Member, Solution]]:
    """The families of some parents and their solutions; those with more members than there may be are solved again."""
    task = here.task
    members = [member for parent in parents if (member := here.member(parent)) is not None]
    solutions = solve_families([member.family for member in members], task.solver)
    for _ in range(MOST_TURNS if task.implied is not None and task.implied.counted.at_most.any() else 0):
        again = [
            (i, then)
            for i, pair in enumerate(zip(members, solutions, strict=True))
            if (then := here.used_then(*pair)) is not None
        ]
        if not again:
            break
        for i, used in again:
            member = here.member(members[i].parent, used)
            assert member is not None
            members[i] = member
        places = [i for i, _ in again]
        families, near = [members[i].family for i in places], [solutions[i] for i in places]
        for i, solution in zip(places, solve_families(families, task.solver, near), strict=True):
            solutions[i] = solution
    return list(zip(members, solutions, strict=True))


def _copies(task: Batch) -> tuple[list[Entries], list[int]]:
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
    of_level = [np.ones(len(spine.levels[0]), dtype=np.int64)]
    of_level += [np.diff(spine.child_offsets(level)) for level in range(spine.n_levels - 1)]
    size = np.concatenate(of_level)
    level = np.repeat(np.arange(len(of_level)), [len(sizes) for sizes in of_level])
    ties = tie_breaks(seed + 1, [level, np.concatenate([np.arange(len(sizes)) for sizes in of_level])])
    eligible = np.flatnonzero((size > 1) | (level == 0))
    n_checked = max(CHECKED_LEAST, int(np.ceil(CHECKED_SHARE * len(eligible) * 1.2)))
    flags = np.zeros(len(size), dtype=bool)
    flags[eligible[np.argsort(ties[eligible], kind="stable")[:n_checked]]] = True
    return [flags[level == number] for number in range(len(of_level))]


def downward_level(
    problem: Problem,
    basis: Basis,
    level: int,
    estimate: LevelEstimate,
    parents: sp.csr_array | None,
    runner: Runner = map,
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
    counts, report = solve_level(tasks, runner)
    return counts if origin is None else above_origin(counts, -origin), report


def solve_level(tasks: Iterable[Batch], runner: Runner = map) -> tuple[sp.csr_array, SolverReport]:
    """The histograms of all batches of a level, one after the other; `runner` as in `downward_level`."""
    parts, reports = zip(*runner(solve_task, tasks), strict=True)
    return sp.csr_array(sp.vstack(parts, format="csr"), dtype=np.int64), sum(reports, SolverReport())
