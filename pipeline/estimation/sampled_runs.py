"""The simulated runs of one universe: how many, of which geounits, and everything that each of them needs.

All of it follows from public files and the public seed, and not from where or how the release is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from pipeline.model.public_key import public_key
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.downward.samples import GROUP_CELLS, Rates, needed_of, rates_of, sizes_of, visited, work_of
from postprocess.downward.simulated_margins import ErrorCounts, PublishedTable
from postprocess.downward.simulation import Simulated, Stretch, Summary
from postprocess.downward.sized_errors import ENOUGH
from postprocess.downward.subtrees import Cut, above_cut, chosen_subtrees, cut_level, without_values
from postprocess.downward.summaries import summarised
from postprocess.linear.downward import AnswerVariances
from postprocess.linear.upward import LevelEstimate, silent_of
from postprocess.problem import Problem

if TYPE_CHECKING:
    from pipeline.estimation.table_variances import TableVariances
    from pipeline.estimation.whole_spine import Estimation


#: Simulations of a level for the errors of each cell, at most: more of the same areas say little of others.
_MOST_VISITS = 8.0


@dataclass(eq=False)
class _Group:
    """Subtrees that are worked on together, while what they need is put together."""

    problem: Problem
    rows: list[IntArray]
    released: list[sp.csr_array]
    variances: list[AnswerVariances | None]

    def stretch(self) -> Stretch:
        everywhere = tuple(np.ones(len(rows), dtype=bool) for rows in self.rows[:-1])
        return Stretch(self.problem, tuple(self.rows), tuple(self.released), everywhere, tuple(self.variances))


class SampledRuns:
    """The simulated runs of one universe.

    Args:
        estimation: of the universe, whose histograms are written.
        tables: each table at each of its levels.
        variances: of the tables' numbers.
        most: simulated runs at most.
        stand_ins: per level, what stands in for the truth; the released histograms by default.
    """

    def __init__(
        self,
        estimation: Estimation,
        tables: tuple[PublishedTable, ...],
        variances: TableVariances,
        most: int,
        stand_ins: tuple[sp.csr_array, ...] | None = None,
    ) -> None:
        self._stand_ins = stand_ins
        self._estimation = estimation
        self._spine = estimation.job.spine
        self._tables = tables
        self._variances = variances
        self._most = most

    def rates(self) -> Rates:
        """How often each level is simulated."""
        needed: list[float] = []
        filled: list[FloatArray | IntArray] = []
        n_cells = self._estimation.stated.n_cells
        cut = cut_level(self._spine)
        for level in range(self._spine.n_levels):
            released = self._truth(level)
            filled.append(np.diff(released.indptr))
            leaves = self._spine.n_leaves if cut is not None and level > cut else 0
            needed.append(max(self._needed(level, released, leaves), self._of_each(level)))
        return rates_of(self._spine, needed, work_of(self._spine, n_cells, filled[:-1]), self._most)

    def _truth(self, level: int) -> sp.csr_array:
        """What stands in for the truth, `(n, n_cells)`."""
        return self._estimation.released(level) if self._stand_ins is None else self._stand_ins[level]

    def _of_each(self, level: int) -> float:
        """Simulations by which each cell has errors enough, of counts of 0 and of others; 0 where all share them."""
        with_tables = any(table.level == level for table in self._tables)
        enough = min(_MOST_VISITS, 2 * ENOUGH / len(self._spine.levels[level]))
        return enough if self._stand_ins is not None and with_tables else 0.0

    def _needed(self, level: int, released: sp.csr_array, leaves: int) -> float:
        tables = [table for table in self._tables if table.level == level]
        if not tables:
            return 0.0
        origin = self._estimation.known.origin(level)
        if origin is not None:
            released = sp.csr_array(released - origin)
        sizes: list[IntArray] = [np.zeros(1, dtype=np.int64)] * len(tables)
        for rows, variances in self._variances.stretches(level):
            part = released[rows]
            for i, table in enumerate(tables):
                sizes[i] = sizes[i] + sizes_of(table.marginal, variances, part)
        return needed_of(sizes, leaves)

    def tasks(self, rates: Rates) -> Iterator[Simulated]:
        """The runs, in order."""
        estimation, stated = self._estimation, self._estimation.simulated
        flags = visited(self._spine, rates, self._key("sample"))
        last = self._spine.n_levels - 1 if rates.cut is None else rates.cut
        upper = stated if rates.cut is None else above_cut(stated, Cut(last, ()))
        upper_released = tuple(self._truth(level) for level in range(last + 1))
        variances = tuple(self._whole(level) for level in range(last + 1))
        at_cut: LevelEstimate | None = None
        if rates.cut is not None and stated.estimator == "full":
            at_cut = summarised(estimation.combined()[1][last])
        nothing = tuple(
            ErrorCounts.empty(table, estimation.basis, self._variances.largest(table.level)) for table in self._tables
        )
        silent = tuple(silent_of(stated)[: last + 1])
        for run, groups in enumerate(self._groups(rates, flags)):
            yield Simulated(
                replicate=run,
                basis=estimation.basis,
                passes=estimation.passes,
                upper=Stretch(
                    _bare(upper),
                    tuple(np.arange(len(level)) for level in upper.spine.levels),
                    upper_released,
                    tuple(flags[level][run] for level in range(last)),
                    variances,
                ),
                silent=silent,
                summary=None if at_cut is None else Summary(at_cut, self._key("summary", run)),
                groups=groups,
                tables=self._tables,
                nothing=nothing,
                key=self._key("members", run),
            )

    def _whole(self, level: int) -> AnswerVariances | None:
        """Variances of all of a level that is held at once."""
        if not self._variances.has_tables(level):
            return None
        (_, variances), *_ = self._variances.stretches(level)
        return variances

    def _groups(self, rates: Rates, flags: list[BoolArray]) -> list[tuple[Stretch, ...]]:
        """Of each run its subtrees below the cut, some at a time."""
        if rates.cut is None:
            return [()] * rates.runs
        found: dict[bytes, _Group] = {}
        of_runs: list[list[bytes]] = []
        for chosen in flags[rates.cut]:
            of_runs.append([])
            for tops in self._together(rates.cut, np.flatnonzero(chosen)):
                key = tops.tobytes()
                of_runs[-1].append(key)
                if key not in found:
                    problem, rows = chosen_subtrees(self._estimation.simulated, rates.cut, tops)
                    found[key] = _Group(problem, rows, [], [])
        for i, level in enumerate(range(rates.cut, self._spine.n_levels)):
            released = self._truth(level)
            below = i > 0 and self._variances.has_tables(level)
            rows = [group.rows[i] for group in found.values()]
            variances = self._variances.of_groups(level, rows) if below else [None] * len(rows)
            for group, own in zip(found.values(), variances, strict=True):
                group.released.append(released[group.rows[i]])
                group.variances.append(own)
        stretches = {key: group.stretch() for key, group in found.items()}
        return [tuple(stretches[key] for key in keys) for keys in of_runs]

    def _together(self, cut: int, tops: IntArray) -> Iterator[IntArray]:
        """Subtrees in groups of up to `GROUP_CELLS` leaf cells."""
        leaves = self._spine.leaf_offsets(cut)
        cells = (leaves[tops + 1] - leaves[tops]) * self._estimation.stated.n_cells
        starts, begun = [0], 0
        for number, total in enumerate(np.cumsum(cells).tolist()):
            if total - begun > GROUP_CELLS and number > starts[-1]:
                starts.append(number)
                begun = total - int(cells[number])
        for first, end in pairwise([*starts, len(tops)]):
            if end > first:
                yield tops[first:end]

    def _key(self, purpose: str, *numbers: int) -> int:
        """128 bits that follow from the public seed, the universe and what they are for."""
        seed, universe = self._estimation.stated.seed, self._estimation.universe.name
        return int.from_bytes(public_key(f"spinewise simulated {purpose} 1", seed, universe, *numbers)[:16], "big")


def _bare(problem: Problem) -> Problem:
    """A problem without the values of its measurements."""
    return replace(problem, measured=tuple(without_values(queries) for queries in problem.measured))
