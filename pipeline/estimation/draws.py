"""Joint draws beside the release: what the truth may be given the measurements, for analysts.

The noise of the draws comes from the public seed. They see public data only, cost no budget, and anyone can repeat
them. Where the spine is cut, the levels down to the cut are drawn here, and the parts below it one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import ndtri

from geography.spine import Spine
from pipeline.estimation.by_subtree import ComputedBySubtree
from pipeline.estimation.measurement_files import Form, PartTask, checked
from pipeline.estimation.whole_spine import Estimation
from pipeline.execution.batches import run_kept, run_missing
from pipeline.model.public_key import public_key
from pipeline.model.universe import Table
from pipeline.privacy.noise.streams import Stream
from pipeline.release.draws import DrawsFile, draws_file
from postprocess.algebra import Basis
from postprocess.arrays import Arrays, BoolArray, FloatArray, IntArray
from postprocess.linear.downward import AnswerVariances, LevelVariances, variances_of
from postprocess.linear.draws import (
    UNKNOWN,
    DrawnLevel,
    DrawnRows,
    at_top,
    draw,
    drawn_levels,
    persons,
    within_families,
)
from postprocess.linear.upward import LevelEstimate, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Problem


@dataclass(frozen=True)
class PublicNormals:
    """Standard normal numbers of one draw, by their place alone: level, number of the geounit, number within it.

    Attributes:
        seed: public.
        universe: its name; universes and draws do not share noise.
        number: of the draw, from 0.
        first_level, first_rows: the level, and per level the number in the whole release of the first geounit, where
            only a part of the spine is drawn; 0 and empty for all of it.
    """

    seed: int
    universe: str
    number: int
    first_level: int = 0
    first_rows: tuple[int, ...] = ()

    def of(self, level: int, first: int, shape: tuple[int, int]) -> FloatArray:
        """The numbers of `shape[0]` geounits of a level from `first` on, `shape[1]` of each."""
        key = public_key("spinewise draws 1", self.seed, self.universe, self.number, self.first_level + level)
        stream = Stream(key)
        first += self.first_rows[level] if self.first_rows else 0
        words = stream.words(first * shape[1], shape[0] * shape[1])
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        return np.asarray(ndtri(uniform), dtype=np.float64).reshape(shape)


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """A table of which draws are published.

    Attributes:
        table: of the universe.
        levels: numbers of the levels that it is published at.
    """

    table: Table
    levels: tuple[int, ...]


def asked_at(tables: Sequence[DrawnTable], level: int) -> tuple[Marginal, ...]:
    """The queries whose answers are published at a level."""
    return tuple(drawn.table.query for drawn in tables if level in drawn.levels)


#: Of some tables, by their numbers: answers `(n, size)` of a level in steps of the grid, and which are not determined.
Steps = dict[int, tuple[IntArray, BoolArray]]


@dataclass(frozen=True, eq=False)
class DrawnLast:
    """What was drawn of the lowest level of a spine, from which the parts below a cut go on.

    Attributes:
        normals: of the draw.
        histograms: of the level; None where these are not made, for there is nothing below.
        steps: of the tables that are published there or below.
    """

    normals: PublicNormals
    histograms: FloatArray | None
    steps: Steps

    def of_rows(self, rows: slice) -> DrawnLast:
        """The part of some geounits."""
        steps = {table: (own[rows], unknown[rows]) for table, (own, unknown) in self.steps.items()}
        return DrawnLast(self.normals, None if self.histograms is None else self.histograms[rows], steps)


@dataclass(frozen=True, eq=False)
class DrawnSpine:
    """A spine, or an upper or lower part of one, that is drawn from.

    Attributes:
        spine, basis: of the problem; `basis` is that of the whole release.
        levels: from the top to the lowest with a table.
        variances: of the levels that are drawn; which answers are known (0) and not determined (NaN).
        tables: that are published, with the levels of the whole release.
        first_level: number in the whole release of the top level.
    """

    spine: Spine
    basis: Basis
    levels: tuple[DrawnLevel, ...]
    variances: tuple[AnswerVariances, ...]
    tables: tuple[DrawnTable, ...]
    first_level: int = 0

    @classmethod
    def of(
        cls,
        problem: Problem,
        basis: Basis,
        upward: Sequence[LevelEstimate],
        tables: tuple[DrawnTable, ...],
        n_levels: int,
        found: Iterable[LevelVariances],
        below: Sequence[Marginal] = (),
    ) -> DrawnSpine:
        """The first `n_levels` of a problem; of a part those below its top, which is drawn before.

        Args:
            problem, basis: of what is drawn, and of the whole release.
            upward: the upward pass.
            tables: that are published.
            n_levels: how many.
            found: the covariances of the levels that are drawn, and maybe of others after these.
            below: queries that are published of levels below the problem's.
        """
        first = problem.first_level
        variances = tuple(
            one.of_queries(basis, [drawn.table.query for drawn in tables if level <= drawn.levels[-1]])
            for level, one in zip(range(first + int(first > 0), first + n_levels), found, strict=False)
        )
        queries = [asked_at(tables, first + level) for level in range(n_levels)]
        return cls(problem.spine, basis, drawn_levels(problem, basis, upward, queries, below), variances, tables, first)

    def draw(self, normals: PublicNormals, top: DrawnLast | None = None) -> tuple[Arrays, DrawnLast]:
        """One draw.

        Args:
            normals: of the draw.
            top: what was drawn of the top level, if that was done before; the levels begin below it then.

        Returns:
            What is published of each level, `(n, size)` int64 in steps of the grid, `UNKNOWN` where it is not
            determined, as "TABLE-LEVEL", both by their numbers; and what was drawn of the last level.
        """
        arrays: dict[str, np.ndarray] = {}
        first, histograms, above = (0, None, Steps()) if top is None else (1, top.histograms, top.steps)
        levels = draw(self.spine, self.levels, normals.of, histograms)
        for level, (parts, variances) in enumerate(zip(levels, self.variances, strict=True), first):
            number = self.first_level + level
            followed = [i for i, drawn in enumerate(self.tables) if number <= drawn.levels[-1]]
            histograms, answers = self._answers(parts, followed)
            steps: Steps = {}
            for i in followed:
                of_class = variances.by_query[self.tables[i].table.query.key]
                known, unknown = (of_class == 0)[variances.classes], np.isnan(of_class)[variances.classes]
                if level:
                    own = within_families(answers[i], known, unknown, *above[i], self.spine.child_offsets(level - 1))
                else:
                    own = at_top(answers[i], known)
                steps[i] = own, unknown
                if number in self.tables[i].levels:
                    arrays[f"{i}-{number}"] = np.where(unknown, UNKNOWN, own)
            above = steps
        return arrays, DrawnLast(normals, histograms, above)

    def _answers(
        self, parts: Iterator[DrawnRows], followed: Sequence[int]
    ) -> tuple[FloatArray | None, dict[int, FloatArray]]:
        """The histograms of a level if they are whole, and the answers of some tables."""
        found: dict[int, list[FloatArray]] = {i: [] for i in followed}
        histograms = None
        for part in parts:
            histograms = part.histograms if part.without_best is None else None
            for i in followed:
                found[i].append(part.answers(self.basis, self.tables[i].table.query))
        return histograms, {i: np.concatenate(some) for i, some in found.items()}


#: Numbers at the cut that are held of all draws together; what is more is drawn in several rounds over the parts.
MOST_AT_CUT = 1 << 25


@dataclass(frozen=True, eq=False)
class DrawTask:
    """One draw of a whole spine, as it is sent to a worker."""

    drawn: DrawnSpine
    normals: PublicNormals


def run_draw(task: DrawTask) -> Arrays:
    """What is published of one draw, see `DrawnSpine.draw`."""
    return task.drawn.draw(task.normals)[0]


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
        return tuple(DrawnTable(table, levels) for table, levels in published if levels)

    def publish(self) -> None:
        """Draw, and write the answers of all tables at all their levels."""
        tables, computed = self.tables, self.estimation.linear()
        problem, upward = computed.combined()
        found = variances_of(problem, upward)
        held, lowest = problem.spine.n_levels, 1 + max(drawn.levels[-1] for drawn in tables)
        with ExitStack() as stack:
            sinks = self._sinks(stack, tables)
            if not isinstance(computed, ComputedBySubtree) or lowest <= held:
                self._draw_levels(DrawnSpine.of(problem, computed.basis, upward, tables, lowest, found), sinks)
                return
            covariances = list(found)
            below = tuple(query for level in range(held, lowest) for query in asked_at(tables, level))
            drawn = DrawnSpine.of(problem, computed.basis, upward, tables, held, covariances, below)
            self._draw_parts(computed, drawn, covariances[-1], sinks)

    def _normals(self, number: int) -> PublicNormals:
        return PublicNormals(self.estimation.job.spec.postprocess.seed, self.estimation.universe.name, number)

    def _draw_levels(self, drawn: DrawnSpine, sinks: dict[tuple[int, int], DrawsFile]) -> None:
        """Draw a spine that is held at once."""
        job = self.estimation.job
        tasks = [DrawTask(drawn, self._normals(number)) for number in range(self.count)]
        results = run_kept(
            job.workers, job.batches, self.step, run_draw, tasks,
            named=lambda task: str(task.normals.number), packed=_as_they_are, unpacked=_as_they_are,
            done=lambda _: job.progress.advance(job.n_geounits),
        )  # fmt: skip
        for number, result in enumerate(results):
            for (table, level), sink in sinks.items():
                sink.add(number, persons(np.asarray(result[f"{table}-{level}"])))

    def _draw_parts(
        self,
        computed: ComputedBySubtree,
        drawn: DrawnSpine,
        top: LevelVariances,
        sinks: dict[tuple[int, int], DrawsFile],
    ) -> None:
        """Draw the levels down to the cut, of some draws at a time, and then those below it, part by part."""
        job, cut = self.estimation.job, computed.cut
        step, parts = f"{self.step} {cut.name}", range(len(cut.parts))
        at_once = max(1, MOST_AT_CUT // (drawn.levels[-1].numbers * len(drawn.levels[-1].classes)))
        for first in range(0, self.count, at_once):
            numbers = range(first, min(first + at_once, self.count))
            upper = [drawn.draw(self._normals(number)) for number in numbers]
            for number, (arrays, _) in zip(numbers, upper, strict=True):
                job.batches.put(step, f"{number}", arrays)
            lasts = [last for _, last in upper]
            del upper

            def task(part: int, lasts: list[DrawnLast] = lasts) -> DrawBelowTask:
                rows = slice(*cut.parts[part])
                tops = tuple(last.of_rows(rows) for last in lasts)
                return DrawBelowTask(part, *computed.part(part), top.of_rows(rows), drawn.tables, tops)

            tasks = [([f"{number}-{part}" for number in numbers], partial(task, part)) for part in parts]
            run_missing(job.workers, job.batches, step, draw_below, tasks, computed.part_done)
            for number in numbers:
                self._write_parts(computed, step, sinks, number)
        job.batches.forget(step)

    def _write_parts(
        self, computed: ComputedBySubtree, step: str, sinks: dict[tuple[int, int], DrawsFile], number: int
    ) -> None:
        """Write one draw of all levels."""
        batches, cut = self.estimation.job.batches, computed.cut
        above = batches.needed(step, f"{number}")
        for (table, level), sink in sinks.items():
            if level <= cut.level:
                sink.add(number, persons(np.asarray(above[f"{table}-{level}"])))
        for part, run in enumerate(cut.parts):
            arrays = batches.needed(step, f"{number}-{part}")
            rows = computed.job.spine.rows_below(cut.level, *run)
            for (table, level), sink in sinks.items():
                if level > cut.level:
                    answers = persons(np.asarray(arrays[f"{table}-{level}"]))
                    sink.add(number, answers, rows[level - cut.level].start)

    def _sinks(self, stack: ExitStack, tables: Sequence[DrawnTable]) -> dict[tuple[int, int], DrawsFile]:
        """The open files, by the numbers of table and level."""
        job, sinks = self.estimation.job, {}
        for number, drawn in enumerate(tables):
            for level in drawn.levels:
                geounits = job.spine.levels[level]
                path = job.folder(self.estimation.universe).draws(drawn.table.name, geounits.name)
                sinks[number, level] = stack.enter_context(
                    draws_file(path, job.run.staging, drawn.table, geounits.name, geounits.geocodes, self.count)
                )
        return sinks


# -- draws of one part of a spine that is cut, given what was drawn at the cut ----------------------------------------


@dataclass(frozen=True, eq=False)
class DrawBelowTask(PartTask):
    """One part, and some draws of its geounits at the cut.

    Attributes:
        top: the covariances at the cut, after both passes.
        tables: that are published.
        tops: the draws.
    """

    top: LevelVariances
    tables: tuple[DrawnTable, ...]
    tops: tuple[DrawnLast, ...]

    @property
    def n_results(self) -> int:
        """One of each draw."""
        return len(self.tops)

    def check(self, number: int, arrays: Arrays) -> None:  # noqa: ARG002
        """See `PartTask.check`."""
        levels, first = self.part.spine.levels, self.part.first_level
        form: Form = {
            f"{table}-{level}": (np.int64, (len(levels[level - first]), drawn.table.query.size))
            for table, drawn in enumerate(self.tables)
            for level in drawn.levels
            if level > first
        }
        checked(arrays, form)


def draw_below(task: DrawBelowTask) -> list[Arrays]:
    """Of each draw, the answers of the part's levels below the cut; ReleaseError where a file is damaged."""
    problem = task.problem()
    upward = upward_pass(problem, task.basis)
    n_levels = 1 + max(drawn.levels[-1] for drawn in task.tables) - problem.first_level
    found = variances_of(problem, upward, task.top)
    drawn = DrawnSpine.of(problem, task.basis, upward, task.tables, n_levels, found)
    rows = tuple(problem.first_row(level) for level in range(n_levels))
    return [
        drawn.draw(replace(top.normals, first_level=problem.first_level, first_rows=rows), top)[0] for top in task.tops
    ]
