"""The draws of one part of a spine that is cut, given what was drawn at the cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.estimation.drawn_tables import DrawnSpine, DrawnTable, PublicNormals, Steps, asked_at, followed_at
from pipeline.estimation.part import PartTask
from pipeline.execution.batch_store import Arrays
from pipeline.execution.workers import foreign_arrays
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.downward import LevelVariances, variances_below
from postprocess.linear.draws import drawn_levels
from postprocess.linear.upward import upward_pass


@dataclass(frozen=True, eq=False)
class DrawnTop:
    """One draw of the geounits at the cut.

    Attributes:
        normals: of the draw.
        histograms: that were drawn there.
        steps: of each table, by its number, that goes on below: the answers there.
    """

    normals: PublicNormals
    histograms: FloatArray
    steps: dict[int, IntArray]

    def of_rows(self, rows: slice) -> DrawnTop:
        """That of some geounits."""
        return DrawnTop(self.normals, self.histograms[rows], {i: steps[rows] for i, steps in self.steps.items()})


@dataclass(frozen=True, eq=False)
class DrawBelowTask(PartTask):
    """One part, and some draws of its geounits at the cut.

    Attributes:
        top: the covariances at the cut, after both passes.
        unknown: of each table that goes on below, which answers at the cut are not determined.
        tables: that are published.
        tops: the draws.
    """

    top: LevelVariances
    unknown: dict[int, BoolArray]
    tables: tuple[DrawnTable, ...]
    tops: tuple[DrawnTop, ...]

    def arrays_of(self, result: Any) -> Arrays:
        """See `PartTask.arrays_of`."""
        return {f"{i}.{name}": array for i, arrays in enumerate(result) for name, array in arrays.items()}

    def result_of(self, arrays: Arrays) -> Any:
        """See `PartTask.result_of`."""
        expected = {
            f"{i}.{number}-{level}": (len(self.part.spine.levels[level - self.part.first_level]), table.marginal.size)
            for i in range(len(self.tops))
            for number, table in enumerate(self.tables)
            for level in table.levels
            if level > self.part.first_level
        }
        found = {name: array.shape for name, array in arrays.items() if array.dtype == np.int64}
        if found != expected or len(arrays) != len(expected):
            raise foreign_arrays("draws")
        own: list[dict[str, IntArray]] = [{} for _ in self.tops]
        for name, array in arrays.items():
            draw, _, place = name.partition(".")
            own[int(draw)][place] = array
        return own


def draw_below(task: DrawBelowTask) -> list[Arrays]:
    """Of each draw, the answers of the part's levels below the cut; ReleaseError where a file is damaged."""
    problem = task.problem()
    upward = upward_pass(problem, task.basis)
    cut = problem.first_level
    n_levels = 1 + max(table.levels[-1] for table in task.tables) - cut
    queries = [asked_at(task.tables, cut + level) for level in range(n_levels)]
    variances = tuple(
        found.of_queries(task.basis, followed_at(task.tables, cut + level))
        for level, found in zip(range(1, n_levels), variances_below(problem, upward, task.top), strict=False)
    )
    levels = drawn_levels(problem, task.basis, upward, queries)
    drawn = DrawnSpine(problem.spine, task.basis, levels, variances, task.tables, cut)
    rows = tuple(problem.first_row(level) for level in range(n_levels))
    out: list[Arrays] = []
    for top in task.tops:
        above: Steps = {number: (steps, task.unknown[number]) for number, steps in top.steps.items()}
        normals = replace(top.normals, first_level=cut, first_rows=rows)
        arrays: dict[str, IntArray] = {}
        for level, found, _ in drawn.steps(normals, top.histograms, above):
            arrays |= drawn.published(level, found)
        out.append(arrays)
    return out
