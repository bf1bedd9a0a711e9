"""Joint draws beside the release: what the truth may be given the measurements, for analysts.

The noise of the draws comes from the public seed. They see public data only, cost no budget, and anyone can repeat
them.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from flows.estimation.constraints import marginal_of
from flows.estimation.whole_spine import Estimation
from flows.execution.batch_store import Arrays
from flows.execution.batches import run_kept
from geography.spine import Spine
from pipeline.model.universe import Table
from pipeline.privacy.noise.streams import Stream
from pipeline.release.draws import DrawsFile, draws_file
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.downward import AnswerVariances, variances_of
from postprocess.linear.draw_grid import at_top, persons, within_families
from postprocess.linear.draws import DrawnLevel, draw, drawn_levels
from postprocess.linear.upward import upward_pass
from postprocess.marginal import Marginal


@dataclass(frozen=True)
class PublicNormals:
    """Standard normal numbers of one draw, by their place alone: level, number of the geounit, number within it.

    Attributes:
        seed: public.
        universe: its name; universes and draws do not share noise.
        number: of the draw, from 0.
    """

    seed: int
    universe: str
    number: int

    def of(self, level: int, first: int, shape: tuple[int, int]) -> FloatArray:
        """The numbers of `shape[0]` geounits of a level from `first` on, `shape[1]` of each."""
        place = json.dumps(["spinewise draws 1", self.seed, self.universe, self.number, level])
        stream = Stream(hashlib.sha256(place.encode()).digest())
        words = stream.words(first * shape[1], shape[0] * shape[1])
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.asarray(ndtri(uniform), dtype=np.float64).reshape(shape)


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """A table of which draws are published.

    Attributes:
        table: of the universe.
        marginal: its query.
        levels: numbers of the levels that it is published at.
    """

    table: Table
    marginal: Marginal
    levels: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DrawTask:
    """One draw of all levels, as it is sent to a worker.

    Attributes:
        spine, basis: of the problem.
        levels: from the top to the lowest with a table.
        variances: of these levels; which answers are known (0) and unknown (NaN).
        tables: that are published.
        normals: of this draw.
    """

    spine: Spine
    basis: Basis
    levels: tuple[DrawnLevel, ...]
    variances: tuple[AnswerVariances, ...]
    tables: tuple[DrawnTable, ...]
    normals: PublicNormals

    def known(self, level: int, marginal: Marginal) -> tuple[BoolArray, BoolArray]:
        """Which answers `(n, size)` of a query are fixed, and which the measurements do not determine."""
        return known_answers(self.variances[level], marginal)


def known_answers(variances: AnswerVariances, marginal: Marginal) -> tuple[BoolArray, BoolArray]:
    """Which answers `(n, size)` of a query have the variance 0, and which none."""
    of_class = variances.by_query[marginal.key]
    return (of_class == 0)[variances.classes], np.isnan(of_class)[variances.classes]


def run_draw(task: DrawTask) -> Arrays:
    """The answers of one draw in steps of the grid, `(n, size)` int64: "TABLE-LEVEL", both by their numbers."""
    out: dict[str, IntArray] = {}
    above: dict[int, tuple[IntArray, BoolArray]] = {}
    for level, drawn in enumerate(draw(task.spine, task.levels, task.normals.of)):
        tables = {number: table for number, table in enumerate(task.tables) if level <= table.levels[-1]}
        found: dict[int, list[FloatArray]] = {number: [] for number in tables}
        for part in drawn:
            for number, table in tables.items():
                found[number].append(part.answers(task.basis, table.marginal))
        for number, table in tables.items():
            known, unknown = task.known(level, table.marginal)
            linear = np.concatenate(found.pop(number))
            if level:
                offsets = task.spine.child_offsets(level - 1)
                steps = within_families(linear, known, unknown, *above[number], offsets)
            else:
                steps = at_top(linear, known)
            above[number] = steps, unknown
            if level in table.levels:
                out[f"{number}-{level}"] = steps
    return out


def _as_they_are(arrays: Arrays) -> Arrays:
    return arrays


class Draws:
    """The draws of one universe: each of all levels and tables together."""

    def __init__(self, estimation: Estimation) -> None:
        self.estimation = estimation

    @property
    def count(self) -> int:
        """Draws that are published."""
        return self.estimation.job.spec.publish.draws

    @property
    def step(self) -> str:
        """The name of the step that publishes them."""
        return f"draws {self.estimation.universe.name}".rstrip()

    @property
    def tables(self) -> tuple[DrawnTable, ...]:
        """The tables with a level, in the spec's order."""
        names = self.estimation.job.spine.level_names
        published = (
            (table, tuple(sorted(map(names.index, table.levels)))) for table in self.estimation.universe.tables
        )
        return tuple(DrawnTable(table, marginal_of(table.query), levels) for table, levels in published if levels)

    def files(self) -> tuple[Path, ...]:
        """What `publish` writes."""
        return tuple(self._file(table, level) for table in self.tables for level in table.levels)

    def publish(self) -> None:
        """Draw, and write the answers of all tables at all their levels."""
        job = self.estimation.job
        first = self._first_task()
        tasks = [
            replace(first, normals=PublicNormals(first.normals.seed, first.normals.universe, number))
            for number in range(self.count)
        ]
        results = run_kept(
            job.workers, job.batches, self.step, run_draw, tasks,
            named=lambda task: str(task.normals.number), packed=_as_they_are, unpacked=_as_they_are,
            done=lambda _: job.progress.advance(job.n_geounits),
        )  # fmt: skip
        with ExitStack() as stack:
            sinks = {
                (number, level): stack.enter_context(self._sink(table, level))
                for number, table in enumerate(first.tables)
                for level in table.levels
            }
            for drawn, result in enumerate(results):
                for (number, level), sink in sinks.items():
                    unknown = first.known(level, first.tables[number].marginal)[1]
                    sink.add(drawn, persons(np.asarray(result[f"{number}-{level}"]), unknown))

    def _first_task(self) -> DrawTask:
        """The first draw: all that the draws share."""
        estimation, tables = self.estimation, self.tables
        problem = replace(estimation.problem, estimator="full")
        upward = estimation.upward
        if estimation.problem.estimator != "full":
            upward = upward_pass(problem, estimation.basis)
        lowest = max(table.levels[-1] for table in tables)
        asked = [[table.marginal for table in tables if table.levels[-1] >= level] for level in range(lowest + 1)]
        published = [[table.marginal for table in tables if level in table.levels] for level in range(lowest + 1)]
        variances = tuple(
            level.of_queries(estimation.basis, queries)
            for queries, level in zip(asked, variances_of(problem, upward), strict=False)
        )
        return DrawTask(
            estimation.job.spine,
            estimation.basis,
            drawn_levels(problem, estimation.basis, upward, published),
            variances,
            tables,
            PublicNormals(problem.seed, estimation.universe.name, 0),
        )

    def _file(self, table: DrawnTable, level: int) -> Path:
        name = self.estimation.job.spine.level_names[level]
        return self.estimation.job.folder(self.estimation.universe).draws(table.table.name, name)

    def _sink(self, table: DrawnTable, level: int) -> AbstractContextManager[DrawsFile]:
        job = self.estimation.job
        geounits = job.spine.levels[level]
        return draws_file(
            self._file(table, level), job.run.staging, table.table, geounits.name, geounits.geocodes, self.count
        )
