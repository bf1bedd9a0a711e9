"""A batch of parents of one level, with everything needed to solve their children: what is sent to a worker.

In passes coarse answers are solved, rounded and held fixed before the detail, which keeps positive biases small. What
the solvers did, and how far solutions break a constraint, is reported for the manifest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.algebra import Basis, products
from postprocess.arrays import BoolArray, FloatArray, IntArray, Rows, distinct_places, group_sums, largest_of
from postprocess.errors import SolverError
from postprocess.families.family import Family, Solution
from postprocess.families.precisions import Dense, Precisions
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy
from postprocess.families.rounding import GroupLevel, tie_breaks
from postprocess.families.sum_weights import MeasuredWeights, OnCells
from postprocess.linear.information import (
    BLIND,
    RANK_TOLERANCE,
    ROUNDING,
    TINY,
    full_rank,
    inverse_off,
    null_projector,
    zero_masks,
)
from postprocess.linear.upward import LevelEstimate, estimated_answers
from postprocess.marginal import Marginal, detail_of, each_in_one, join, refines
from postprocess.members import Implied
from postprocess.positive import PositiveAnswers
from postprocess.problem import GroupBounds, MeasuredAnswers, Problem
from postprocess.shares.shared import Shared, blind_centres


@dataclass(frozen=True)
class SolverReport:
    """What the solvers did, for the manifest; only public values. Reports are added with `+`."""

    families: int = 0
    by_solver: Mapping[str, int] = field(default_factory=dict)
    iterations: int = 0
    primal: float = 0.0
    dual: float = 0.0
    checked: int = 0
    largest_difference: float = 0.0

    @classmethod
    def of(cls, solutions: Iterable[Solution]) -> SolverReport:
        """The report of some families' solutions."""
        every = tuple(solutions)
        return cls(
            families=sum(solution.families for solution in every),
            by_solver=dict(sum((Counter({one.solver: one.families}) for one in every), Counter())),
            iterations=sum(solution.iterations for solution in every),
            primal=max([0.0, *(solution.primal for solution in every)]),
            dual=max([0.0, *(solution.dual for solution in every)]),
        )

    def __add__(self, other: SolverReport) -> SolverReport:
        return SolverReport(
            families=self.families + other.families,
            by_solver=dict(Counter(self.by_solver) + Counter(other.by_solver)),
            iterations=self.iterations + other.iterations,
            primal=max(self.primal, other.primal),
            dual=max(self.dual, other.dual),
            checked=self.checked + other.checked,
            largest_difference=max(self.largest_difference, other.largest_difference),
        )

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
class Pass:
    """One solve per parent.

    Attributes:
        cells: the partition that is solved: the held query joined with all queries that bounds are stated on;
            in the last pass every cell.
        hold: the query whose whole numbers are fixed afterwards; None in the last pass.
        held: the query that the previous pass fixed; None in the first.
        chain: nested queries that rounding keeps within one of the solution.
        detail: whether this is the last pass, over all cells.
    """

    cells: Marginal
    hold: Marginal | None
    held: Marginal | None
    chain: tuple[Marginal, ...]
    detail: bool

    def group_of(self, coarse: Marginal, cells: IntArray) -> IntArray:
        """The answer of a coarser query that each of some cells of the pass falls in, `(k,)`."""
        return coarse.answers_at(cells if self.detail else self.cells.representative[cells])


def passes_of(problem: Problem) -> tuple[Pass, ...]:
    """The declared passes, and the detail last; households that are joined have the query of the join first."""
    limited: dict[tuple[bytes, ...], Marginal] = {}
    for marginal in (*(bound.marginal for level in problem.constraints.bounds for bound in level), *problem.further):
        limited[marginal.key] = marginal
    further = {query.key for query in problem.further}
    passes: list[Pass] = []
    held: Marginal | None = None
    for query in problem.passes:
        cells = join([query, *limited.values()]) if limited else query
        chain = (query,) if cells.size > query.size else ()
        if query.key in further:
            chain = (*(own for own in problem.rounding if own.size < query.size and refines(query, own)), *chain)
        passes.append(Pass(cells=cells, hold=query, held=held, chain=chain, detail=False))
        held = query
    passes.append(
        Pass(cells=detail_of(problem.shape), hold=None, held=held, chain=tuple(problem.rounding), detail=True)
    )
    return tuple(passes)


#: Persons: a solution of the batched solver that differs from the second solver's by more in a cell stops the run.
LARGEST_DIFFERENCE = 1e-3
#: Numbers in the quadratic forms of a family's children above which another solver is too slow to compare with.
CHECKED_NUMBERS = 300_000
#: Stands for no upper bound.
UNBOUNDED = float(1 << 52)
#: Whole numbers of some children of a batch: their rows, columns and values.
Entries = tuple[IntArray, IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class PassTerms:
    """The objective of a coarse pass: `precision` `(n_classes, g, g)` of its answers, and `linear` `(n, g)`."""

    precision: FloatArray
    linear: FloatArray

    @classmethod
    def of_answers(
        cls,
        covariance: FloatArray,
        null: FloatArray,
        classes: IntArray,
        best: FloatArray,
    ) -> PassTerms:
        """That of the best linear estimates `(n, g)`, whose covariances are `(n_classes, g, g)`.

        Args:
            covariance: of each class.
            null: projectors on its null space, of which nothing is known.
            classes: `(n,)`.
            best: the estimates.
        """
        precision = inverse_off(covariance, null)
        precision = precision + typical(precision)[:, None, None] * null
        return cls(precision, products(precision, classes, best))

    def of(self, classes: IntArray, rows: slice) -> PassTerms:
        """The terms of some children, whose classes are numbered in the order given."""
        return PassTerms(self.precision[classes], self.linear[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch(ABC):
    """Children `first_child ...` of the parents `first_parent ...`, arrays sliced to them.

    Attributes:
        offsets: `(n_parents + 1,)` children of each parent, from 0.
        parents: whole-number histograms `(n_parents, n_cells)`; None at the top of the spine.
        checked: `(n_parents,)` True where the solution is compared with another solver's.
        passes: coarse ones, then the detail.
        terms: of the coarse passes.
        classes: `(n,)` class of each child in the `terms`.
        positive: the children's noisy answers where their parents are positive, for the detail alone.
        bounds: that are kept.
        implied: the persons that households are to have; None where nothing is measured of them.
        shares: how public numbers share the parents' answers among the children; empty at the top.
    """

    level: int
    level_name: str
    parent_names: tuple[str, ...]
    first_parent: int
    first_child: int
    offsets: IntArray
    parents: sp.csr_array | None
    checked: BoolArray
    solver: str
    seed: int
    passes: tuple[Pass, ...]
    terms: tuple[PassTerms, ...]
    classes: IntArray
    positive: tuple[PositiveAnswers, ...]
    bounds: tuple[GroupBounds, ...] = ()
    implied: Implied | None = None
    shares: tuple[Shared, ...] = ()

    @property
    @abstractmethod
    def patterns(self) -> tuple[BoolArray, IntArray]:
        """Different patterns `(p, n_cells)` of cells that can have persons, and which each child has, `(n,)`."""

    @abstractmethod
    def detail(
        self, rows: Rows, cells: IntArray, counts: FloatArray | None, kinds: tuple[IntArray, IntArray]
    ) -> tuple[Precisions, FloatArray]:
        """The objective of the last pass.

        Args:
            rows: of some children.
            cells: `(k,)` of the pass.
            counts: `(k,)` their parent's persons there; None at the top.
            kinds: different classes, and which of them each child has, `(C,)`.

        Returns:
            Precisions of these classes, and the linear term `(C, k)`.
        """

    def objective(
        self, number: int, rows: Rows, cells: IntArray, counts: FloatArray | None
    ) -> tuple[IntArray, Precisions, FloatArray]:
        """Which precision each of some children has, the precisions, and linear terms, in the pass with a number."""
        classes, kind = distinct_places(self.classes[rows])
        if number == len(self.terms):
            return kind, *self.detail(rows, cells, counts, (classes, kind))
        terms = self.terms[number]
        precision = np.ascontiguousarray(terms.precision[classes][:, cells[:, None], cells[None, :]])
        return kind, Dense(precision), terms.linear[rows][:, cells]

    def entries(self, parent: int, rows: Rows, cells: IntArray, rounded: IntArray) -> Entries:  # noqa: ARG002
        """The histograms of a parent's children, from whole numbers `(C, k)` in cells of the last pass."""
        children, columns = np.nonzero(rounded)
        return self.numbers(rows)[children], cells[columns], rounded[children, columns]

    def numbers(self, rows: Rows) -> IntArray:
        """The numbers of some children in the batch."""
        return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

    def rows(self, parent: int) -> slice:
        """The children of a parent, by its number in the batch."""
        return slice(int(self.offsets[parent]), int(self.offsets[parent + 1]))

    def name_of(self, parent: int) -> str:
        """The family of a parent, for messages."""
        name = self.parent_names[parent]
        return name if self.parents is None else f"{name} (its {self.level_name} children)"

    def ties(self, number: int, rows: Rows, cells: IntArray) -> IntArray:
        """What breaks ties in the cells `(k,)` of some children in the pass with a number, `(C, k)`."""
        children = self.first_child + self.numbers(rows)
        return tie_breaks(self.seed, [np.array([self.level * 64 + number]), children[:, None], cells[None, :]])

    def differences(self, parent: int, family: Family, solution: Solution) -> tuple[float, ...]:
        """Of a sampled family, which another solver solves again, the largest difference of a cell; nothing of others.

        Raises:
            SolverError: it is too large.
        """
        numbers = family.linear.size * family.n_cells
        if self.solver != "auto" or not self.checked[parent] or numbers > CHECKED_NUMBERS:
            return ()
        if solution.solver != "batched":
            return ()
        own = family.with_matrices()
        reference = solve_again(own)
        difference = largest_of(reference.x - solution.x)
        if difference > LARGEST_DIFFERENCE:
            # A first-order method ends where its residuals are small: in a direction of which little is known that may
            # be persons away, on some processors. So an interior point method decides.
            reference = solve_with_cvxpy(own, first=1)
            difference = largest_of(reference.x - solution.x)
        if difference > LARGEST_DIFFERENCE:
            raise SolverError(
                f"{family.name}: the batched solver and {reference.solver} differ by {difference:.2g} persons in a "
                f"cell; allowed is {LARGEST_DIFFERENCE:g}"
            )
        return (difference,)

    def histograms(self, entries: Iterable[Entries], n_cells: int) -> sp.csr_array:
        """The whole-number histograms `(n, n_cells)` of all children."""
        nothing = np.zeros(0, dtype=np.int64)
        rows, columns, values = (
            np.concatenate(part) for part in zip((nothing, nothing, nothing), *entries, strict=True)
        )
        shape = int(self.offsets[-1]), n_cells
        out = sp.csr_array((values, (rows, columns)), shape=shape, dtype=np.int64)
        out.sort_indices()
        return out


def stored_row(counts: sp.csr_array, row: int) -> tuple[IntArray, NDArray[Any]]:
    """The columns of a row's stored numbers, and these."""
    own = slice(counts.indptr[row], counts.indptr[row + 1])
    return counts.indices[own].astype(np.int64), counts.data[own]


def limits_kept(family: Family, rounded: IntArray, chain: Sequence[GroupLevel]) -> BoolArray:
    """Which children's whole numbers `(C, k)` are within the limits of their cells and sums, `(C,)`."""
    kept = ((rounded >= 0) & (rounded <= family.upper)).all(axis=1)
    for partition in chain:
        sums = group_sums(rounded, partition.group, partition.size)
        kept &= ((sums >= partition.lower) & (sums <= partition.upper)).all(axis=1)
    return np.asarray(kept)


def assert_kept(family: Family, rounded: IntArray, chain: Sequence[GroupLevel]) -> None:
    """Raises SolverError if whole numbers `(C, k)` break a constraint, whatever the solvers did."""
    broken = not limits_kept(family, rounded, chain).all()
    if family.parent is not None:
        broken = broken or (rounded.sum(axis=0) != np.rint(family.parent)).any()
    if broken:
        raise SolverError(f"{family.name}: the rounded solution breaks a constraint")


def with_free(chain: list[GroupLevel], group: IntArray, n: int) -> list[GroupLevel]:
    """A chain of partitions of cells, coarse to fine, and one without bounds where it nests with all of them.

    Args:
        chain: of n children.
        group: `(k,)` the other partition, from 0.
        n: children.
    """
    shape = n, int(group.max()) + 1
    free = GroupLevel(group, np.zeros(shape, dtype=np.int64), np.full(shape, int(UNBOUNDED)))
    pairs = [(partition.group, group) for partition in chain]
    if not all(each_in_one(*pair) or each_in_one(*pair[::-1]) for pair in pairs):
        return chain
    return sorted([*chain, free], key=lambda partition: partition.size)


#: Children's cells in one batch; a whole family is never split.
BATCH_CELLS = 7_000_000
#: Operations in one batch, about a second's, and those per number of a family's matrices.
BATCH_OPERATIONS, ITERATIONS = 2.0e10, 600.0
#: Bytes per cell of the families of a batch: terms, answers, the solution and what it is compared with.
BATCH_BYTES = 50.0


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelTask(Batch):
    """A batch of a level whose estimates are of cells.

    Attributes:
        blocks: precisions of the detail, `(n_classes, n_blocks, a, a)`.
        measured: the children's own answers.
        children_term: `(n, n_cells)` linear term from below; None at the leaves and in the topdown estimator.
        prior_term: `(n, n_cells)` what unmeasured directions are pulled towards; None where everything was measured.
        possible: `(n, a)` False where an asymmetric cell is impossible.
        kinds: `(n,)` how precisely each child was measured, as in `Problem`.
    """

    basis: Basis
    blocks: FloatArray
    measured: tuple[MeasuredAnswers, ...]
    children_term: FloatArray | None
    prior_term: FloatArray | None
    possible: BoolArray
    kinds: NDArray[np.signedinteger] | None

    @cached_property
    def patterns(self) -> tuple[BoolArray, IntArray]:
        """See `Batch.patterns`."""
        patterns, pattern_of = np.unique(self.possible, axis=0, return_inverse=True)
        return patterns[:, self.basis.cell_blocks[0]], pattern_of.ravel()

    def detail(
        self,
        rows: Rows,
        cells: IntArray,
        counts: FloatArray | None,  # noqa: ARG002
        kinds: tuple[IntArray, IntArray],
    ) -> tuple[Precisions, FloatArray]:
        """A'D^-1 y + J m is the linear term; precisions are weights on sums of cells."""
        classes, linear = kinds[0], np.zeros((len(kinds[1]), len(cells)))
        of_rows = None if self.kinds is None else self.kinds[rows]
        for measured in self.measured:
            linear += measured.values[rows][:, measured.marginal.cell_answer[cells]] / measured.by_row(of_rows)
        for answers in self.positive:
            linear += answers.at(rows, answers.marginal.cell_answer[cells]) / answers.variance
        for extra in (self.children_term, self.prior_term):
            if extra is not None:
                linear += extra[rows][:, cells]
        return OnCells(self.weights, classes, cells), linear

    @cached_property
    def weights(self) -> MeasuredWeights:
        """The precisions of the detail, of all classes."""
        return MeasuredWeights(self.basis, self.blocks)


def _coarse_terms(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, current: Pass, share: FloatArray | None
) -> PassTerms:
    """Precision and linear term of a coarse pass: the best linear estimate of its answers."""
    marginal = current.cells
    centre = estimated_answers(problem, basis, level, estimate, marginal, np.arange(len(estimate.classes)))
    covariance = basis.answer_covariances(estimate.info.covariance, marginal)
    # Where all answers are known what is left of their covariance is rounding, beside the variance of one measurement.
    most = np.abs(estimate.info.precision).max(axis=(1, 2, 3))
    null = null_projector(covariance, size=np.where(most > 0, ROUNDING / RANK_TOLERANCE / np.maximum(most, TINY), TINY))
    if share is not None:
        centre = centre + products(_of(estimate.info.blind, null), estimate.classes, share - centre)
    return PassTerms.of_answers(covariance, null, estimate.classes, centre)


def _of(classes: BoolArray, blocks: FloatArray) -> FloatArray:
    """The blocks of some classes `(n_classes,)`, zero in the others."""
    return np.where(classes.reshape(-1, *(1,) * (blocks.ndim - 1)), blocks, 0.0)


def _detail_terms(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, share: FloatArray | None
) -> tuple[FloatArray, FloatArray | None]:
    """Definite precisions of the classes and, where directions are unmeasured, what they are drawn to `(n, n_cells)`.

    Each class by itself, so that no estimate depends on which other classes are worked on beside it.
    """
    blocks, blind = estimate.info.precision, estimate.info.blind
    if positive := problem.positive_of(level):
        # On the cells that are positive in the parent, which alone can have persons, this is what all answers add.
        blocks = blocks + basis.precision([(answers.marginal, answers.variance) for answers in positive])
    lacking = np.asarray(~full_rank(blocks).all(axis=1))
    if not lacking.any():
        return blocks, None
    null = null_projector(blocks)
    if any(any(~kept.all() for kept in one.marginal.answered) for one in problem.measured[level]):
        # What part of a query leaves out, the known directions determine: a weight on these, which do not vary, makes
        # the precision definite, and one on what is left out would draw it to zero.
        null = np.where(blind[:, None, None, None], null, estimate.info.known)
    null, ridge = _of(lacking, null), typical(blocks)
    blocks = blocks + ridge[:, None, None, None] * null
    if share is None or not blind.any():
        return blocks, None
    drawn = basis.unfold(basis.apply(_of(blind, null), basis.fold(share), estimate.classes))
    return blocks, ridge[estimate.classes][:, None] * drawn


def typical(precision: FloatArray) -> FloatArray:
    """A precision for directions without one, `(n_classes,)`: the median of the class's others, or 1."""
    diagonal = np.diagonal(precision, axis1=-2, axis2=-1).reshape(len(precision), -1)
    ordered = np.sort(np.where(diagonal > 0, diagonal, np.inf), axis=1)
    middle = np.maximum((diagonal > 0).sum(axis=1) - 1, 0) // 2
    found = ordered[np.arange(len(ordered)), middle]
    return np.where(np.isfinite(found), found, 1.0)


def members_expected(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, parents: sp.csr_array | None
) -> Implied | None:
    """The members that households of a level are to have, given the released level above; None where there are none.

    Args:
        problem, basis, level, parents: as in `level_tasks`.
        estimate: of the level; only that of the second level of the spine counts.
    """
    if not problem.implied:
        return None
    implied = problem.implied[level]
    if parents is None:
        return implied.at_top()
    noise = _least_noise(implied, basis, estimate) * (problem.first_level + level == 1)
    return implied.below(parents, problem.implied[level - 1], problem.spine.levels[level].parents, noise)


def _least_noise(implied: Implied, basis: Basis, estimate: LevelEstimate) -> FloatArray:
    """The largest variance `(r,)` of the least members, from the households' own measurements of a level."""
    covariance = basis.answer_covariances(estimate.info.covariance, implied.counted.households)
    of_sums = np.einsum("ri,nij,rj->nr", implied.counted.least, covariance, implied.counted.least)
    return np.asarray(of_sums.max(axis=0), dtype=np.float64)


def _blind(basis: Basis, estimate: LevelEstimate, shared: Shared) -> BoolArray:
    """Of which shared answers `(n, r)` nothing is measured."""
    unmeasured = basis.answer_variances(estimate.info.unmeasured, shared.query)[:, shared.answers]
    return unmeasured[estimate.classes] > BLIND


def level_tasks(
    problem: Problem,
    basis: Basis,
    level: int,
    estimate: LevelEstimate,
    parents: sp.csr_array | None,
    passes: Sequence[Pass],
    checked: BoolArray,
    share: FloatArray | None,
) -> Iterator[LevelTask]:
    """The batches of one level, in the order of the spine; they do not depend on how many workers there are.

    Each is made when it is asked for: it has matrices of its own.

    Args:
        problem, basis, level, estimate, parents, passes, checked: as in `level.downward_level`.
        share: `(n, n_cells)` what unmeasured directions are drawn to; None where there is nothing above.
    """
    shares = () if parents is None else problem.shares_of(level)
    if share is not None and shares:
        share = blind_centres(
            [(one, _blind(basis, estimate, one)) for one in shares], share, problem.spine.levels[level].parents
        )
    terms = [
        _coarse_terms(problem, basis, level, estimate, current, None if share is None else current.cells.answer(share))
        for current in passes[:-1]
    ]
    blocks, prior = _detail_terms(problem, basis, level, estimate, share)
    possible, kinds = ~zero_masks(problem, basis, level), problem.kinds_of(level)
    implied = members_expected(problem, basis, level, estimate, parents)

    def filled(children: IntArray, cells: IntArray) -> list[FloatArray | IntArray]:
        operations = children.astype(np.float64) * cells * cells * (ITERATIONS + 4.0 * cells)
        return [np.cumsum(children) * problem.n_cells // BATCH_CELLS, np.cumsum(operations) // BATCH_OPERATIONS]

    every = batches(
        problem, level, parents, checked, (estimate.classes, passes, terms), filled, problem.positive_of(level)
    )
    for rows, classes, of_any in every:
        yield LevelTask(
            **of_any,
            basis=basis,
            blocks=blocks[classes],
            measured=tuple(replace(m, values=m.values[rows]) for m in problem.measured[level]),
            children_term=None if estimate.children is None else estimate.children.term[rows],
            prior_term=None if prior is None else prior[rows],
            possible=possible[rows],
            bounds=tuple(bound.of_rows(rows) for bound in problem.bounds_of(level)),
            kinds=None if kinds is None else kinds[rows],
            implied=None if implied is None else implied.of_rows(rows),
            shares=tuple(one.of_rows(rows) for one in shares),
        )


def batches(
    problem: Problem,
    level: int,
    parents: sp.csr_array | None,
    checked: BoolArray,
    solved: tuple[IntArray, Sequence[Pass], Sequence[PassTerms]],
    filled: Callable[[IntArray, IntArray], Sequence[FloatArray | IntArray]],
    positive: Sequence[PositiveAnswers],
) -> Iterator[tuple[slice, IntArray, dict[str, Any]]]:
    """Whole families, batch by batch: their children, the classes of these, and what a `Batch` of any form has.

    Args:
        problem, level, parents, checked: as in `level_tasks`.
        solved: class of each child, passes, and terms of the coarse ones.
        filled: (children of each parent, cells of each child) -> of each limit, how many batches are filled by all
            families up to each.
        positive: of the level.
    """
    spine, (of_child, passes, terms) = problem.spine, solved
    n = len(spine.levels[level])
    offsets = spine.child_offsets(level - 1) if level else np.arange(n + 1, dtype=np.int64)
    above = max(level - 1, 0)
    upper_name, names = spine.level_names[above], spine.levels[above].geocodes
    cells = np.full(len(offsets) - 1, problem.n_cells) if parents is None else np.diff(parents.indptr)
    new = np.any([np.diff(limit) > 0 for limit in filled(np.diff(offsets), cells)], axis=0)
    for first, last in pairwise([0, *(int(i) + 1 for i in np.flatnonzero(new)), len(offsets) - 1]):
        rows = slice(int(offsets[first]), int(offsets[last]))
        classes, local = np.unique(of_child[rows], return_inverse=True)
        yield (
            rows,
            classes,
            {
                "level": problem.first_level + level,
                "level_name": spine.level_names[level],
                "parent_names": tuple(f"{upper_name} {code}" for code in names[first:last]),
                "first_parent": first,
                "first_child": problem.first_row(level) + rows.start,
                "offsets": offsets[first : last + 1] - offsets[first],
                "parents": None if parents is None else parents[first:last],
                "passes": tuple(passes),
                "terms": tuple(term.of(classes, rows) for term in terms),
                "classes": local,
                "checked": checked[first:last],
                "solver": problem.solver,
                "seed": problem.seed,
                "positive": tuple(answers.of_rows(rows) for answers in positive),
            },
        )


def batch_bytes(geounits: int, most_children: int, n_cells: int, in_family: float) -> float:
    """Bytes that a process holds for a batch, at most, besides the matrices of its families.

    Args:
        geounits: of the level that has most.
        most_children: of a parent.
        n_cells: of the schema.
        in_family: cells of a family at most; fewer can make a batch larger.
    """
    k = np.arange(1, int(in_family) + 1, dtype=np.float64)
    children = np.minimum(BATCH_CELLS / n_cells, BATCH_OPERATIONS / (k * k * (ITERATIONS + 4 * k)))
    cells = float((np.minimum(geounits, children) * k).max(initial=0.0))
    return BATCH_BYTES * max(cells, most_children * in_family)
