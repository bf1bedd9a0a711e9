"""The downward pass of a wide schema: families with weights on sums, and below them the detail in proportion.

At a wide level a family has the cells that are positive in its parent, at the top all possible ones. Its precisions
are weights on the sums of queries (`weights`), so that no matrix of cells is needed (`solution`), and no cell of a
solution is further than 1e-5 persons from the exact one.

At the lower levels nothing is measured but few sums, and cells in which all these agree are solved as one, in the same
way; what the sums do not determine is drawn to the completion of the children (`postprocess.downward.level`),
which is fitted to each child's own estimates. The persons of such a cell are then divided among its children as they
were solved, in proportion to what the parent has of each of its cells: nothing says more of them. That is the table of
maximum entropy with these sums, and whole numbers next to it with the same sums are found by minimum-cost flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import symmetrise
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.batch import (
    UNBOUNDED,
    Batch,
    Entries,
    PassTerms,
    SolverReport,
    assert_kept,
    stored_row,
    with_free,
)
from postprocess.errors import SolverError
from postprocess.families.family import Family, GroupRange, Solution
from postprocess.families.precisions import Dense, Precisions
from postprocess.families.projected import ALLOWED, distance
from postprocess.families.rounding import GroupLevel, round_family
from postprocess.families.solve import solve_families
from postprocess.families.sum_weights import SumWeights
from postprocess.linear.information import inverse_off, null_projector
from postprocess.marginal import Marginal, refines
from postprocess.positive import PositiveAnswers
from postprocess.problem import MeasuredAnswers
from postprocess.sums.space import Space, answers_of, plain, representative_cells
from postprocess.sums.upward import KnownSums, SumsLevel

#: Numbers of children's cells of a batch, and its children, at most where it has several parents.
BATCH_NUMBERS, BATCH_CHILDREN = 4_000_000, 1000
#: Cells that the typical precision of a class is the median of.
TYPICAL = 512
#: Rounds of fitting at most, and persons by which the last one changes a cell at most.
MOST_ROUNDS, FITTED = 100, 1e-6
#: The number that marks, in the keys of ties, where persons are divided in proportion.
DIVIDED = 63


@dataclass(frozen=True, eq=False)
class SumsTask(Batch):
    """A batch of a level whose estimates are of sums.

    Attributes:
        n_cells: of the schema.
        known: what is known of the children.
        space: the few sums.
        divided: whether what the sums do not tell apart is divided in proportion.
        possible: at the top the cells that can have persons; empty elsewhere.
        passes: queries that are solved and held first, coarse to fine.
        terms: of each.
        rounding: nested queries that rounding keeps within one of the solution.
        fitted: the finest queries whose answers are determined, and `(n, size)` estimates of them, not negative.
        positive: the children's noisy answers where their parents are positive, that of the detail among them; with
            them the families of a lower level have all cells that are positive in the parent.
    """

    n_cells: int
    known: SumsLevel
    space: Space
    divided: bool
    possible: IntArray
    passes: tuple[Marginal, ...]
    terms: tuple[PassTerms, ...]
    rounding: tuple[Marginal, ...]
    fitted: tuple[tuple[Marginal, FloatArray], ...]
    positive: tuple[PositiveAnswers, ...]

    @cached_property
    def weights(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of the lower levels: r `(n_classes,)`, N as weights on the sums `(n_classes, s, s)`, and least eigenvalues.

        Precisions are r I + A'N A, with N = Q M Q' - r (A A')^-1: r in the directions that the sums do not see. In the
        others the eigenvalues are those of A'(Q M Q')A on all cells that the sums tell apart, no less on some of them.
        """
        q, joint, on_cells = self.space.q, self.known.joint, self.space.on_cells
        every = representative_cells(self.space.cells)
        some = self.space.sums(every[:: max(1, len(every) // TYPICAL)])
        measured = symmetrise(q @ joint @ q.T)
        typical = np.array([float(np.median((some.T @ one * some.T.toarray()).sum(axis=1))) for one in measured])
        typical = np.where(typical > 0, typical, 1.0)
        if self.known.unmeasured is not None:
            measured = measured + typical[:, None, None] * symmetrise(q @ self.known.unmeasured @ q.T)
        seen = np.linalg.eigvalsh(symmetrise(on_cells.T @ measured @ on_cells))[:, 0]
        return typical, measured - typical[:, None, None] * self.space.inverse_on_cells, np.minimum(typical, seen)


def solve_sums_task(task: SumsTask) -> tuple[sp.csr_array, SolverReport]:
    """Whole-number histograms `(n, n_cells)` of the children of a batch of parents.

    Raises:
        SolverError: a family was not solved to its tolerance, or another solver disagrees; names the parent.
    """
    report = SolverReport()
    entries: list[Entries] = []
    for parent in range(len(task.offsets) - 1):
        rows = task.rows(parent)
        cells, counts = _of_parent(task, parent)
        if not len(cells):
            continue
        if counts is not None and rows.stop - rows.start == 1:
            entries.append((np.full(len(cells), rows.start), cells, counts.astype(np.int64)))
            continue
        family = _Family(task, parent, cells, counts)
        rounded, columns = family.released()
        report += family.report
        children, places = np.nonzero(rounded)
        entries.append((children + rows.start, columns[places], rounded[children, places]))
    return task.histograms(entries, task.n_cells), report


def _of_parent(task: SumsTask, parent: int) -> tuple[IntArray, FloatArray | None]:
    """The cells of a family, and its parent's persons in them; None at the top."""
    if task.parents is None:
        return task.possible, None
    cells, counts = stored_row(task.parents, parent)
    return cells, counts.astype(np.float64)


class _Family:
    """The children of one parent: `cells` `(k,)` of the schema and the parent's `counts` `(k,)`, None at the top."""

    def __init__(self, task: SumsTask, parent: int, cells: IntArray, counts: FloatArray | None) -> None:
        self.task, self.parent, self.detail, self.counts = task, parent, cells, counts
        self.rows = task.rows(parent)
        self.classes, self.kind = np.unique(task.known.classes[self.rows], return_inverse=True)
        self.name = task.name_of(parent)
        self.report = SolverReport()
        if task.divided:
            # Cells that the sums do not tell apart are one.
            _, first, self.of_detail = np.unique(
                answers_of(task.space.cells, cells), return_index=True, return_inverse=True
            )
            self.cells = cells[first]
            assert counts is not None, "the detail is measured at the top"
            self.persons: FloatArray | None = np.bincount(self.of_detail, counts).astype(np.float64)
        else:
            self.cells, self.persons = cells, counts

    @property
    def n_children(self) -> int:
        """C."""
        return self.rows.stop - self.rows.start

    def released(self) -> tuple[IntArray, IntArray]:
        """Whole numbers `(C, k)` of the children in some cells of the schema, and these cells."""
        held: tuple[Marginal, IntArray] | None = None
        for number, query in enumerate(self.task.passes):
            held = query, self._coarse(number, query, held)
        group, values = self._held(held)
        precision, linear = self._weights_on_cells()
        family = self._stated(precision, linear, self.persons, group, values, self.kind)
        solution = self._solved(family)
        x, cells = solution.x, self.cells
        if self.counts is None:
            positive = np.flatnonzero(x[0] > 0)
            x, cells, group = x[:, positive], cells[positive], None if group is None else group[positive]
        chain = self._chain(cells, group, values, self.task.rounding)
        rounded = self._rounded(len(self.task.passes), x, cells, self.persons, chain)
        return (self._divided(rounded), self.detail) if self.task.divided else (rounded, cells)

    def _stated(
        self,
        precision: Precisions,
        linear: FloatArray,
        persons: FloatArray | None,
        group: IntArray | None,
        held: IntArray | None,
        kind: IntArray,
    ) -> Family:
        upper = np.full(linear.shape, UNBOUNDED)
        if persons is not None:
            upper = np.minimum(upper, persons[None, :])
        limits = None
        if group is not None and held is not None:
            upper = np.minimum(upper, held[:, group])
            limits = GroupRange.fixed(group, held)
        return Family(
            name=self.name,
            precision=precision,
            linear=linear,
            upper=upper,
            parent=persons,
            held=limits,
            kind=kind,
        )

    def _solved(self, family: Family) -> Solution:
        """The solution of a family, every cell of which is within `ALLOWED` of the exact one."""
        (solution,) = solve_families([family], self.task.solver)
        if (most := distance(family, solution.x)) > ALLOWED:
            raise SolverError(
                f"{family.name}: a cell may be {most:.2g} persons from the exact solution; allowed is {ALLOWED:g}"
            )
        self.report += SolverReport.of([solution])
        differences = self.task.differences(self.parent, family, solution)
        self.report += SolverReport(checked=len(differences), largest_difference=max(differences, default=0.0))
        return solution

    def _coarse(self, number: int, query: Marginal, held: tuple[Marginal, IntArray] | None) -> IntArray:
        """Whole-number answers `(C, m)` of a coarse query, the pass with a number."""
        own, terms = answers_of(query, self.cells), self.task.terms[number]
        assert terms.linear is not None
        present, place, of_cell = np.unique(own, return_index=True, return_inverse=True)
        persons = None if self.persons is None else np.bincount(of_cell, self.persons).astype(np.float64)
        group = values = None
        if held is not None:
            found, group = np.unique(answers_of(held[0], self.cells[place]), return_inverse=True)
            values = held[1][:, found]
        precision = Dense(terms.precision[self.classes][:, present[:, None], present[None, :]])
        linear = terms.linear[self.rows][:, present]
        solution = self._solved(self._stated(precision, linear, persons, group, values, self.kind))
        cells = self.cells[place]
        out = np.zeros((self.n_children, query.size), dtype=np.int64)
        chain = self._chain(cells, group, values, [])
        out[:, present] = self._rounded(number, solution.x, cells, persons, chain)
        return out

    def _held(self, held: tuple[Marginal, IntArray] | None) -> tuple[IntArray | None, IntArray | None]:
        """The held group of each cell, and the held sums `(C, m)`."""
        if held is None:
            return None, None
        present, group = np.unique(answers_of(held[0], self.cells), return_inverse=True)
        return group, held[1][:, present]

    def _weights_on_cells(self) -> tuple[SumWeights, FloatArray]:
        """Precisions and linear terms `(C, k)` on the cells that are solved."""
        task, known, q = self.task, self.task.known, self.task.space.q
        few = task.space.sums(self.cells)
        linear = np.ascontiguousarray((few.T @ (q @ known.term[self.rows].T)).T)
        if not task.divided:
            scale, wide, own = 0.0, [], np.zeros(task.space.n_sums)
            places = task.space.places
            for one in known.measured:
                if one.marginal.key in places:
                    rows = places[one.marginal.key]
                    own[rows] += 1.0 / one.variance
                    linear += (few[rows].T @ (one.values[self.rows].T / one.variance)).T
                    continue
                answers = answers_of(one.marginal, self.cells)
                linear += one.values[self.rows][:, answers] / one.variance
                if one.marginal.size == task.n_cells:
                    scale += 1.0 / one.variance
                else:
                    wide.append((answers, 1.0 / one.variance))
            for answered in task.positive:
                answers = answers_of(answered.marginal, self.cells)
                linear += answered.at(self.rows, answers) / answered.variance
                if answered.marginal.size == task.n_cells:
                    scale += 1.0 / answered.variance
                else:
                    wide.append((answers, 1.0 / answered.variance))
            joint = symmetrise(q @ known.joint[self.classes] @ q.T) + np.diag(own)
            return SumWeights.made(np.full(len(self.classes), scale), wide, few, joint), linear
        typical, joint, least = (part[self.classes] for part in task.weights)
        drawn = self._completion()
        seen = few.T @ (task.space.inverse_on_cells @ (few @ drawn.T))
        linear += typical[self.kind][:, None] * (drawn - seen.T)
        return SumWeights.made(typical, [], few, joint, least), linear

    def _completion(self) -> FloatArray:
        """What the children are drawn to where nothing is measured, `(C, k)`: fitted to the estimates of their sums."""
        assert self.persons is not None
        z = np.repeat(self.persons[None, :] / self.n_children, self.n_children, axis=0)
        tables = []
        for query, values in self.task.fitted:
            present, group = np.unique(answers_of(query, self.cells), return_inverse=True)
            tables.append((sp.csr_array((np.ones(len(group)), (group, np.arange(len(group))))), group,
                           values[self.rows][:, present]))  # fmt: skip
        for _ in range(MOST_ROUNDS if len(tables) > 1 else 1):
            before = z
            for sums, group, values in tables:
                at = (sums @ z.T).T
                z = z * np.divide(values, at, out=np.zeros_like(values), where=at > 0)[:, group]
            total = z.sum(axis=0)
            z = np.where(total > 0, z * np.divide(self.persons, total, out=np.zeros_like(total), where=total > 0),
                         self.persons / self.n_children)  # fmt: skip
            if np.abs(z - before).max(initial=0.0) <= FITTED:
                break
        return z

    def _chain(
        self, cells: IntArray, group: IntArray | None, held: IntArray | None, soft: Sequence[Marginal]
    ) -> list[GroupLevel]:
        """Partitions for rounding, coarse to fine: what is held, and queries that nest with it."""
        chain = [] if group is None or held is None else [GroupLevel(group, held, held)]
        for query in soft:
            if not self.task.divided or refines(self.task.space.cells, query):
                _, of_query = np.unique(answers_of(query, cells), return_inverse=True)
                chain = with_free(chain, of_query, self.n_children)
        return chain

    def _rounded(
        self, number: int, x: FloatArray, cells: IntArray, persons: FloatArray | None, chain: Sequence[GroupLevel]
    ) -> IntArray:
        """Whole numbers next to a solution, with its sums."""
        family = self._stated(Dense(np.zeros((1, 0, 0))), x, persons, None, None, np.zeros(len(x), dtype=np.int64))
        rounded = round_family(family, x, chain, self.task.ties(number, self.rows, cells))
        assert_kept(family, rounded, chain)
        return rounded

    def _divided(self, rounded: IntArray) -> IntArray:
        """Persons `(C, k)` of the solved cells divided among the parent's cells in them, in proportion."""
        assert self.counts is not None
        assert self.persons is not None
        single = np.bincount(self.of_detail) == 1
        # The only cell of its kind has all persons of these, and the only child with such persons the parent's.
        alone = single | ((rounded > 0).sum(axis=0) == 1)
        of_single, easy = single[self.of_detail], alone[self.of_detail]
        own = rounded[:, self.of_detail]
        out = np.where(of_single, own, (own > 0) * self.counts.astype(np.int64)) * easy
        left = np.flatnonzero(~easy)
        if len(left):
            groups, group = np.unique(self.of_detail[left], return_inverse=True)
            held = rounded[:, groups]
            x = own[:, left] * (self.counts[left] / self.persons[self.of_detail[left]])[None, :]
            chain = [GroupLevel(group, held, held)]
            out[:, left] = self._rounded(DIVIDED, x, self.detail[left], self.counts[left], chain)
        return out


def _coarse_terms(known: KnownSums, level: SumsLevel) -> tuple[PassTerms, ...]:
    """The objectives of a level's coarse passes: the best linear estimates of their answers."""
    out = []
    for query in known.problem.passes:
        rows = known.space.rows(query)
        covariance = symmetrise(rows @ level.covariance @ rows.T)
        null = null_projector(covariance)
        precision = inverse_off(covariance, null)
        best = level.best @ rows.T
        typical = np.array([float(np.median(np.diagonal(one))) or 1.0 for one in precision])
        precision = precision + typical[:, None, None] * null
        linear = np.einsum("nij,nj->ni", precision[level.classes], best)
        out.append(PassTerms(precision, linear))
    return tuple(out)


def _fitted(known: KnownSums, level: SumsLevel) -> tuple[tuple[Marginal, FloatArray], ...]:
    """The finest queries whose answers are determined, and the estimates of these, not negative, with their total."""
    out = []
    for query in known.space.finest:
        rows = known.space.rows(query)
        if level.unmeasured is not None and np.abs(rows @ level.unmeasured).max() > 1e-6 * np.abs(rows).max():
            continue
        best = level.best @ rows.T
        total, kept = np.maximum(best.sum(axis=1), 0.0), np.maximum(best, 0.0)
        out.append((plain(query), kept * (total / np.maximum(kept.sum(axis=1), 1e-12))[:, None]))
    return tuple(out)


def sums_tasks(
    known: KnownSums,
    level: int,
    parents: sp.csr_array | None,
    checked: BoolArray,
    positive: Sequence[PositiveAnswers],
) -> list[SumsTask]:
    """The batches of one level, in the order of the spine; they do not depend on how many workers there are.

    Args:
        known: of the problem.
        level: index of the level.
        parents: the histograms of the level above; None at the top.
        checked: `(n_parents,)` whose children are solved again.
        positive: of the level, with values.
    """
    problem = known.problem
    spine, of_level = problem.spine, known.levels[level]
    n = len(spine.levels[level])
    offsets = spine.child_offsets(level - 1) if level else np.arange(n + 1, dtype=np.int64)
    names, upper_name = spine.levels[max(level - 1, 0)].geocodes, spine.level_names[max(level - 1, 0)]
    divided = level >= known.first and not positive
    terms = _coarse_terms(known, of_level)
    fitted = _fitted(known, of_level) if divided and problem.completed else ()
    possible = np.zeros(0, dtype=np.int64) if level else np.flatnonzero(~problem.constraints.structural_zeros)
    tasks = []
    for first, last in _batches(offsets, parents):
        rows = slice(int(offsets[first]), int(offsets[last]))
        classes, local = np.unique(of_level.classes[rows], return_inverse=True)
        tasks.append(
            SumsTask(
                level=level,
                level_name=spine.level_names[level],
                parent_names=tuple(f"{upper_name} {code}" for code in names[first:last]),
                first_parent=first,
                first_child=rows.start,
                offsets=offsets[first : last + 1] - offsets[first],
                parents=None if parents is None else parents[first:last],
                n_cells=problem.n_cells,
                known=SumsLevel(
                    measured=tuple(_rows_of(one, rows) for one in of_level.measured),
                    classes=local,
                    joint=of_level.joint[classes],
                    term=of_level.term[rows],
                    covariance=of_level.covariance[:0],
                    best=of_level.best[:0],
                    unmeasured=None if of_level.unmeasured is None else of_level.unmeasured[classes],
                ),
                space=known.space,
                divided=divided,
                possible=possible,
                passes=tuple(map(plain, problem.passes)),
                terms=tuple(one.of(classes, rows) for one in terms),
                rounding=tuple(map(plain, problem.rounding)),
                checked=checked[first:last],
                solver=problem.solver,
                seed=problem.seed,
                fitted=tuple((query, values[rows]) for query, values in fitted),
                positive=tuple(replace(one.of_rows(rows), marginal=plain(one.marginal)) for one in positive),
            )
        )
    return tasks


def _rows_of(measured: MeasuredAnswers, rows: slice) -> MeasuredAnswers:
    return replace(measured, marginal=plain(measured.marginal), values=measured.values[rows])


def _batches(offsets: IntArray, parents: sp.csr_array | None) -> list[tuple[int, int]]:
    """First parent of each batch and the one after its last; batches of whole families are limited in numbers."""
    children = np.diff(offsets)
    cells = np.full(len(children), BATCH_NUMBERS) if parents is None else np.diff(parents.indptr)
    numbers = np.cumsum(children * cells) // BATCH_NUMBERS
    many = np.cumsum(children) // BATCH_CHILDREN
    new = np.flatnonzero((np.diff(numbers) > 0) | (np.diff(many) > 0)) + 1
    starts = [0, *map(int, new), len(children)]
    return list(pairwise(starts))


def downward_sums(
    known: KnownSums,
    level: int,
    parents: sp.csr_array | None,
    checked: BoolArray,
    runner: Callable[..., Iterable[tuple[sp.csr_array, SolverReport]]] = map,
    positive: Sequence[PositiveAnswers] = (),
) -> tuple[sp.csr_array, SolverReport]:
    """Whole-number histograms `(n, n_cells)` of one level, given those of the level above (None at the top).

    Args:
        known, level, parents, checked, positive: see `sums_tasks`.
        runner: performs `solve_sums_task` on the batches, in order.

    Raises:
        SolverError: as `solve_sums_task`.
    """
    report, parts = SolverReport(), []
    for part, of_part in runner(solve_sums_task, sums_tasks(known, level, parents, checked, positive)):
        parts.append(part)
        report += of_part
    return sp.csr_array(sp.vstack(parts, format="csr"), dtype=np.int64), report
