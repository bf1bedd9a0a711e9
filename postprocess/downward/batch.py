"""What the batches of parents of a level have in common: their passes, what solvers did, checks of solutions.

What the solvers did, for the manifest.

Passes: coarse answers are solved, rounded and held fixed before the detail, which keeps positive biases small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.arrays import BoolArray, IntArray, Rows, group_sums, largest_of
from postprocess.errors import SolverError
from postprocess.families.family import Family, Solution
from postprocess.families.reference_solvers import solve_again, solve_with_cvxpy
from postprocess.families.rounding import GroupLevel, tie_breaks
from postprocess.marginal import Marginal, detail_of, join, refines
from postprocess.problem import Problem


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

    @cached_property
    def representative(self) -> IntArray:
        """A cell of the schema in each cell of the pass, `(size,)`."""
        _, first = np.unique(self.cells.cell_answer, return_index=True)
        return first.astype(np.int64)

    def group_of(self, coarse: Marginal) -> IntArray:
        """The answer of a coarser query that each cell of the pass falls in, `(size,)`."""
        return coarse.cell_answer[self.representative]


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


def possible_groups(solve: Pass, possible_cells: BoolArray) -> BoolArray:
    """Which cells of a pass hold a possible cell of the schema: `(n, n_cells)` -> `(n, size)`."""
    if solve.detail:
        return possible_cells
    return solve.cells.answer(possible_cells.astype(np.int64)) > 0


#: Persons: a solution of the batched solver that differs from the second solver's by more in a cell stops the run.
LARGEST_DIFFERENCE = 1e-3
#: Numbers in the quadratic forms of a family's children above which another solver is too slow to compare with.
CHECKED_NUMBERS = 300_000
#: Stands for no upper bound.
UNBOUNDED = float(1 << 52)
#: Whole numbers of some children of a batch: their rows, columns and values.
Entries = tuple[IntArray, IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class Batch:
    """Children `first_child ...` of the parents `first_parent ...`, arrays sliced to them.

    Attributes:
        offsets: `(n_parents + 1,)` children of each parent, from 0.
        parents: whole-number histograms `(n_parents, n_cells)`; None at the top of the spine.
        checked: `(n_parents,)` True where the solution is compared with another solver's.
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

    def rows(self, parent: int) -> slice:
        """The children of a parent, by its number in the batch."""
        return slice(int(self.offsets[parent]), int(self.offsets[parent + 1]))

    def name_of(self, parent: int) -> str:
        """The family of a parent, for messages."""
        name = self.parent_names[parent]
        return name if self.parents is None else f"{name} (its {self.level_name} children)"

    def ties(self, number: int, rows: Rows, cells: IntArray) -> IntArray:
        """What breaks ties in the cells `(k,)` of some children in the pass with a number, `(C, k)`."""
        children = self.first_child + (np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)
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
            reference = solve_with_cvxpy(own, once=True, first=1)
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
    if not all(_nest(partition.group, group) for partition in chain):
        return chain
    return sorted([*chain, free], key=lambda partition: partition.size)


def _nest(first: IntArray, second: IntArray) -> bool:
    """Whether one of two groupings, numbered from 0, refines the other."""
    sizes = int(first.max()) + 1, int(second.max()) + 1
    pairs = int(np.count_nonzero(np.bincount(first * sizes[1] + second)))
    return pairs in sizes
