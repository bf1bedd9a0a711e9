"""Passes: coarse answers are solved, rounded and held fixed before the detail, which keeps positive biases small."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from postprocess.arrays import BoolArray, IntArray
from postprocess.marginal import Marginal, detail_of, join, refines
from postprocess.problem import Problem


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
