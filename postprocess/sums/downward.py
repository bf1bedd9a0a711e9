"""The downward pass of a wide schema: families with weights on sums, and below them the detail in proportion.

At a wide level a family has the cells that are positive in its parent, at the top all possible ones. Its precisions
are weights on the sums of queries (`weights`), so that no matrix of cells is needed (`solution`), and no cell of a
solution is further than 1e-5 persons from the exact one.

At the lower levels nothing is measured but few sums, and cells in which all these agree are solved as one, in the same
way; what the sums do not determine is drawn to the completion of the children (`postprocess.families.fitting`),
which is fitted to each child's own estimates. The persons of such a cell are then divided among its children as they
were solved, in proportion to what the parent has of each of its cells: nothing says more of them. That is the table of
maximum entropy with these sums, and whole numbers next to it with the same sums are found by minimum-cost flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import symmetrise
from postprocess.arrays import BoolArray, FloatArray, IntArray, Rows, distinct_places
from postprocess.downward.batch import (
    Batch,
    Entries,
    Pass,
    PassTerms,
    SolverReport,
    assert_kept,
    batches,
    passes_of,
    stored_row,
)
from postprocess.downward.level import Runner, solve_level
from postprocess.errors import SolverError
from postprocess.families.family import Family, Solution
from postprocess.families.fitting import FittedSums, fitted, not_negative
from postprocess.families.precisions import Dense
from postprocess.families.projected import ALLOWED, distance
from postprocess.families.rounding import GroupLevel, round_family
from postprocess.families.sum_weights import SumWeights
from postprocess.linear.information import null_projector
from postprocess.marginal import Marginal, refines
from postprocess.positive import PositiveAnswers
from postprocess.sums.space import Space
from postprocess.sums.upward import KnownSums, SumsLevel

#: Numbers of children's cells of a batch, and its children, at most where it has several parents.
BATCH_NUMBERS, BATCH_CHILDREN = 4_000_000, 1000
#: Cells that the typical precision of a class is the median of.
TYPICAL = 512
#: The number that marks, in the keys of ties, where persons are divided in proportion.
DIVIDED = 63


@dataclass(frozen=True, eq=False, kw_only=True)
class SumsTask(Batch):
    """A batch of a level whose estimates are of sums.

    Attributes:
        n_cells: of the schema.
        known: what is known of the children.
        space: the few sums.
        divided: whether the last pass is of the cells that the sums tell apart, and its persons are divided in
            proportion. With noisy answers where parents are positive it has all cells instead.
        impossible: at the top the cells that cannot have persons; empty elsewhere.
        fitted: the finest queries whose answers are determined, and `(n, size)` estimates of them, not negative.
    """

    n_cells: int
    known: SumsLevel
    space: Space
    divided: bool
    impossible: IntArray
    fitted: tuple[tuple[Marginal, FloatArray], ...]

    @cached_property
    def patterns(self) -> tuple[BoolArray, IntArray]:
        """See `Batch.patterns`."""
        possible = np.ones((1, self.n_cells), dtype=bool)
        possible[0, self.impossible] = False
        return possible, np.zeros(len(self.classes), dtype=np.int64)

    @cached_property
    def weights(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of the lower levels: r `(n_classes,)`, N as weights on the sums `(n_classes, s, s)`, and least eigenvalues.

        Precisions are r I + A'N A, with N = Q M Q' - r (A A')^-1: r in the directions that the sums do not see. In the
        others the eigenvalues are those of A'(Q M Q')A on all cells that the sums tell apart, no less on some of them.
        """
        q, joint, on_cells = self.space.q, self.known.joint, self.space.on_cells
        every = self.space.cells.representative
        some = self.space.sums(every[:: max(1, len(every) // TYPICAL)])
        measured = symmetrise(q @ joint @ q.T)
        typical = np.array([float(np.median((some.T @ one * some.T.toarray()).sum(axis=1))) for one in measured])
        typical = np.where(typical > 0, typical, 1.0)
        if self.known.unmeasured is not None:
            measured = measured + typical[:, None, None] * symmetrise(q @ self.known.unmeasured @ q.T)
        seen = np.linalg.eigvalsh(symmetrise(on_cells.T @ measured @ on_cells))[:, 0]
        return typical, measured - typical[:, None, None] * self.space.inverse_on_cells, np.minimum(typical, seen)

    def detail(
        self, rows: Rows, cells: IntArray, counts: FloatArray | None, kinds: tuple[IntArray, IntArray]
    ) -> tuple[SumWeights, FloatArray]:
        """Precisions are weights on sums of cells."""
        (classes, kind), known, q = kinds, self.known, self.space.q
        few = self.space.sums(self.space.cells.representative[cells] if self.divided else cells)
        linear = np.ascontiguousarray((few.T @ (q @ known.term[rows].T)).T)
        if self.divided:
            typical, joint, least = (part[classes] for part in self.weights)
            drawn = self._completion(rows, cells, counts)
            seen = few.T @ (self.space.inverse_on_cells @ (few @ drawn.T))
            linear += typical[kind][:, None] * (drawn - seen.T)
            return SumWeights.made(typical, [], few, joint, least), linear
        scale, wide, own = 0.0, [], np.zeros(self.space.n_sums)
        places = self.space.places
        answered = [(one.marginal, one.values[rows], one.variance) for one in known.measured]
        for query, values, variance in answered:
            if query.key in places:
                at = places[query.key]
                own[at] += 1.0 / variance
                linear += (few[at].T @ (values.T / variance)).T
        detailed = [
            *((query, values[:, query.answers_at(cells)], variance)
              for query, values, variance in answered if query.key not in places),
            *((one.marginal, one.at(rows, one.marginal.answers_at(cells)), one.variance) for one in self.positive),
        ]  # fmt: skip
        for query, on_cells, variance in detailed:
            linear += on_cells / variance
            if query.size == self.n_cells:
                scale += 1.0 / variance
            else:
                wide.append((query.answers_at(cells), 1.0 / variance))
        joint = symmetrise(q @ known.joint[classes] @ q.T) + np.diag(own)
        return SumWeights.made(np.full(len(classes), scale), wide, few, joint), linear

    def _completion(self, rows: Rows, cells: IntArray, counts: FloatArray | None) -> FloatArray:
        """What children are drawn to where nothing is measured, `(C, k)`: fitted to the estimates of their sums."""
        assert counts is not None, "the detail is measured at the top"
        n = len(self.classes[rows])
        sums = []
        for query, values in self.fitted:
            present, group = distinct_places(self.passes[-1].group_of(query, cells))
            sums.append(FittedSums(Marginal(query.name, (group,)), values[rows][:, present], np.ones(n, dtype=bool)))
        parent, nothing = sp.csr_array(counts[None, :]), np.zeros(len(cells), dtype=np.int64)
        return fitted(parent, np.array([0, n]), sums, np.ones((n, 1), dtype=bool), nothing)

    def differences(self, parent: int, family: Family, solution: Solution) -> tuple[float, ...]:
        """See `Batch.differences`; first, that every cell is within `ALLOWED` of the exact solution."""
        if (most := distance(family, solution.x)) > ALLOWED:
            raise SolverError(
                f"{family.name}: a cell may be {most:.2g} persons from the exact solution; allowed is {ALLOWED:g}"
            )
        return super().differences(parent, family, solution)

    def entries(self, parent: int, rows: Rows, cells: IntArray, rounded: IntArray) -> Entries:
        """See `Batch.entries`; persons of the solved cells are divided among the parent's cells in them."""
        if not self.divided or self.parents is None:
            return super().entries(parent, rows, cells, rounded)
        detail, counts = stored_row(self.parents, parent)
        of_detail = np.searchsorted(cells, self.space.cells.answers_at(detail))
        single = np.bincount(of_detail) == 1
        # The only cell of its kind has all persons of these, and the only child with such persons the parent's.
        alone = single | ((rounded > 0).sum(axis=0) == 1)
        own = rounded[:, of_detail]
        out = np.where(single[of_detail], own, (own > 0) * counts) * alone[of_detail]
        left = np.flatnonzero(~alone[of_detail])
        if len(left):
            groups, group = np.unique(of_detail[left], return_inverse=True)
            persons = np.bincount(of_detail, counts)[of_detail[left]]
            x, own_counts = own[:, left] * (counts[left] / persons), counts[left].astype(np.float64)
            upper = np.broadcast_to(own_counts, x.shape)
            family = Family(self.name_of(parent), Dense(np.zeros((1, 0, 0))), x, upper, own_counts)
            chain = [GroupLevel(group, rounded[:, groups], rounded[:, groups])]
            out[:, left] = round_family(family, x, chain, self.ties(DIVIDED, rows, detail[left]))
            assert_kept(family, out[:, left], chain)
        return super().entries(parent, rows, detail, out)


def _coarse_terms(known: KnownSums, level: SumsLevel) -> list[PassTerms]:
    """The objectives of a level's coarse passes: the best linear estimates of their answers."""
    out = []
    for query in known.problem.passes:
        rows = known.space.rows(query)
        covariance = symmetrise(rows @ level.covariance @ rows.T)
        out.append(PassTerms.of_answers(covariance, null_projector(covariance), level.classes, level.best @ rows.T))
    return out


def _fitted(known: KnownSums, level: SumsLevel) -> list[tuple[Marginal, FloatArray]]:
    """The finest queries whose answers are determined, and the estimates of these, not negative, with their total."""
    out = []
    for query in known.space.finest:
        rows = known.space.rows(query)
        if level.unmeasured is None or np.abs(rows @ level.unmeasured).max() <= 1e-6 * np.abs(rows).max():
            out.append((query, not_negative(level.best @ rows.T)))
    return out


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
    problem, of_level = known.problem, known.levels[level]
    *coarse, detail = passes_of(problem)
    if divided := level >= known.first and not positive:
        nested = tuple(query for query in detail.chain if refines(known.space.cells, query))
        detail = Pass(known.space.cells, hold=None, held=detail.held, chain=nested, detail=False)
    estimates = _fitted(known, of_level) if divided and problem.completed else []
    impossible = np.flatnonzero(problem.constraints.structural_zeros if parents is None else False)

    def filled(children: IntArray, cells: IntArray) -> list[IntArray]:
        numbers = children * (BATCH_NUMBERS if parents is None else cells)
        return [np.cumsum(numbers) // BATCH_NUMBERS, np.cumsum(children) // BATCH_CHILDREN]

    solved = of_level.classes, [*coarse, detail], _coarse_terms(known, of_level)
    return [
        SumsTask(
            **of_any,
            n_cells=problem.n_cells,
            known=SumsLevel(
                measured=tuple(replace(one, values=one.values[rows]) for one in of_level.measured),
                classes=of_any["classes"],
                joint=of_level.joint[classes],
                term=of_level.term[rows],
                covariance=of_level.covariance[:0],
                best=of_level.best[:0],
                unmeasured=None if of_level.unmeasured is None else of_level.unmeasured[classes],
            ),
            space=known.space,
            divided=divided,
            impossible=impossible,
            fitted=tuple((query, values[rows]) for query, values in estimates),
        )
        for rows, classes, of_any in batches(problem, level, parents, checked, solved, filled, positive)
    ]


def downward_sums(
    known: KnownSums,
    level: int,
    parents: sp.csr_array | None,
    checked: BoolArray,
    runner: Runner = map,
    positive: Sequence[PositiveAnswers] = (),
) -> tuple[sp.csr_array, SolverReport]:
    """Whole-number histograms `(n, n_cells)` of one level, given those of the level above (None at the top).

    Args:
        known, level, parents, checked, positive: see `sums_tasks`.
        runner: performs `solve_task` on the batches, in order.

    Raises:
        SolverError: as `solve_task`.
    """
    return solve_level(sums_tasks(known, level, parents, checked, positive), runner)
