"""Joint draws beside the release: what the truth may be given the measurements, for analysts.

The noise of the draws comes from the public seed. They see public data only, cost no budget, and anyone can repeat
them. Where the spine is cut, the levels down to the cut are drawn here, and the parts below it one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from geography.spine import Spine
from pipeline.estimation.by_subtree import ComputedBySubtree
from pipeline.estimation.measurement_files import Form, PartTask, checked
from pipeline.estimation.whole_spine import Computed, Estimation
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
        marginal: its query.
        levels: numbers of the levels that it is published at.
    """

    table: Table
    marginal: Marginal
    levels: tuple[int, ...]


def asked_at(tables: Sequence[DrawnTable], level: int) -> tuple[Marginal, ...]:
    """The queries whose answers are published at a level."""
    return tuple(table.marginal for table in tables if level in table.levels)


def followed_at(tables: Sequence[DrawnTable], level: int) -> tuple[Marginal, ...]:
    """The queries whose answers are published at a level or below it."""
    return tuple(table.marginal for table in tables if level <= table.levels[-1])


def known_answers(variances: AnswerVariances, marginal: Marginal) -> tuple[BoolArray, BoolArray]:
    """Which answers `(n, size)` of a query are fixed, their variance being 0, and which are not determined."""
    of_class = variances.by_query[marginal.key]
    return (of_class == 0)[variances.classes], np.isnan(of_class)[variances.classes]


#: Of some tables, by their numbers: answers `(n, size)` of a level in steps of the grid, and which are not determined.
Steps = dict[int, tuple[IntArray, BoolArray]]


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
        drawn = zip(range(int(first > 0), n_levels), found, strict=False)
        variances = tuple(one.of_queries(basis, followed_at(tables, first + level)) for level, one in drawn)
        queries = [asked_at(tables, first + level) for level in range(n_levels)]
        return cls(problem.spine, basis, drawn_levels(problem, basis, upward, queries, below), variances, tables, first)

    def steps(
        self, normals: PublicNormals, top: FloatArray | None = None, above: Steps | None = None
    ) -> Iterator[tuple[int, Steps, FloatArray | None]]:
        """One draw: each level's number in the whole release, its answers, and its histograms if they are whole.

        Args:
            normals: of the draw.
            top: what was drawn of the top level, if that was done before; the levels begin below it then.
            above: the answers there.
        """
        first = 0 if top is None else 1
        for level, parts in enumerate(draw(self.spine, self.levels, normals.of, top), first):
            followed = {
                number: table
                for number, table in enumerate(self.tables)
                if self.first_level + level <= table.levels[-1]
            }
            linear, histograms = self._answers(parts, followed)
            offsets = self.spine.child_offsets(level - 1) if level else None
            found: Steps = {}
            for number, table in followed.items():
                known, unknown = known_answers(self.variances[level - first], table.marginal)
                if offsets is None or above is None:
                    found[number] = at_top(linear[number], known), unknown
                else:
                    found[number] = within_families(linear[number], known, unknown, *above[number], offsets), unknown
            yield self.first_level + level, found, histograms
            above = found

    def _answers(
        self, parts: Iterator[DrawnRows], followed: dict[int, DrawnTable]
    ) -> tuple[dict[int, FloatArray], FloatArray | None]:
        found: dict[int, list[FloatArray]] = {number: [] for number in followed}
        histograms = None
        for part in parts:
            histograms = part.histograms if part.without_best is None else None
            for number, table in followed.items():
                found[number].append(part.answers(self.basis, table.marginal))
        return {number: np.concatenate(some) for number, some in found.items()}, histograms

    def published(self, level: int, found: Steps) -> Arrays:
        """Of the answers at a level, those that are published there: "TABLE-LEVEL", both by their numbers.

        Those that are not determined are `UNKNOWN`.
        """
        return {
            f"{number}-{level}": np.where(unknown, UNKNOWN, steps)
            for number, (steps, unknown) in found.items()
            if level in self.tables[number].levels
        }


#: Numbers at the cut that are held of all draws together; what is more is drawn in several rounds over the parts.
MOST_AT_CUT = 1 << 25


@dataclass(frozen=True, eq=False)
class DrawTask:
    """One draw of a whole spine, as it is sent to a worker."""

    drawn: DrawnSpine
    normals: PublicNormals


def run_draw(task: DrawTask) -> Arrays:
    """The answers of one draw in steps of the grid, `(n, size)` int64, as `DrawnSpine.published` names them."""
    arrays: dict[str, np.ndarray] = {}
    for level, found, _ in task.drawn.steps(task.normals):
        arrays |= task.drawn.published(level, found)
    return arrays


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
        return tuple(DrawnTable(table, table.query, levels) for table, levels in published if levels)

    def publish(self) -> None:
        """Draw, and write the answers of all tables at all their levels."""
        lowest = max(table.levels[-1] for table in self.tables)
        computed = self.estimation.linear()
        if isinstance(computed, ComputedBySubtree) and lowest > computed.cut.level:
            self._publish_parts(computed)
        else:
            self._publish_levels(computed, lowest)

    def _normals(self, number: int) -> PublicNormals:
        return PublicNormals(self.estimation.job.spec.postprocess.seed, self.estimation.universe.name, number)

    def _publish_levels(self, computed: Computed, lowest: int) -> None:
        """Draw the levels that are held at once, of which `lowest` is the lowest with a table."""
        job, tables = self.estimation.job, self.tables
        problem, upward = computed.combined()
        found = variances_of(problem, upward)
        drawn = DrawnSpine.of(problem, computed.basis, upward, tables, lowest + 1, found)
        tasks = [DrawTask(drawn, self._normals(number)) for number in range(self.count)]
        results = run_kept(
            job.workers, job.batches, self.step, run_draw, tasks,
            named=lambda task: str(task.normals.number), packed=_as_they_are, unpacked=_as_they_are,
            done=lambda _: job.progress.advance(job.n_geounits),
        )  # fmt: skip
        with ExitStack() as stack:
            sinks = self._sinks(stack)
            for number, result in enumerate(results):
                for (table, level), sink in sinks.items():
                    sink.add(number, persons(np.asarray(result[f"{table}-{level}"])))

    def _publish_parts(self, computed: ComputedBySubtree) -> None:
        job, tables, cut = self.estimation.job, self.tables, computed.cut
        step = f"{self.step} {cut.name}"
        problem, upward = computed.combined()
        found = list(variances_of(problem, upward))
        below = tuple(query for level in range(cut.level + 1, job.spine.n_levels) for query in asked_at(tables, level))
        drawn = DrawnSpine.of(problem, computed.basis, upward, tables, cut.level + 1, found, below)
        unknown = {
            number: known_answers(drawn.variances[cut.level], table.marginal)[1]
            for number, table in enumerate(tables)
            if table.levels[-1] > cut.level
        }
        at_once = max(1, MOST_AT_CUT // (drawn.levels[-1].numbers * len(drawn.levels[-1].classes)))
        with ExitStack() as stack:
            sinks = self._sinks(stack)
            for first in range(0, self.count, at_once):
                numbers = range(first, min(first + at_once, self.count))
                tops = []
                for number in numbers:
                    arrays, at_cut = self._above(drawn, number, cut.level)
                    tops.append(at_cut)
                    job.batches.put(step, f"{number}", arrays)
                self._draw_parts(computed, step, found[-1], unknown, tops)
                for number in numbers:
                    self._write_parts(computed, step, sinks, number)
            job.batches.forget(step)

    def _above(self, drawn: DrawnSpine, number: int, cut: int) -> tuple[Arrays, DrawnTop]:
        """One draw of the levels down to the cut: what is published of it, and what the parts go on with."""
        arrays: dict[str, np.ndarray] = {}
        normals = self._normals(number)
        top = None
        for level, found, histograms in drawn.steps(normals):
            arrays |= drawn.published(level, found)
            if level == cut and histograms is not None:
                going_on = {i: steps for i, (steps, _) in found.items() if self.tables[i].levels[-1] > cut}
                top = DrawnTop(normals, histograms, going_on)
        assert top is not None
        return arrays, top

    def _draw_parts(
        self,
        computed: ComputedBySubtree,
        step: str,
        top: LevelVariances,
        unknown: dict[int, BoolArray],
        tops: list[DrawnTop],
    ) -> None:
        """Draw below the cut, part by part; each draw of each part is kept."""

        def task(part: int) -> DrawBelowTask:
            rows = slice(*computed.cut.parts[part])
            own = {number: array[rows] for number, array in unknown.items()}
            drawn = tuple(one.of_rows(rows) for one in tops)
            return DrawBelowTask(part, *computed.part(part), top.of_rows(rows), own, self.tables, drawn)

        parts = [
            ([f"{one.normals.number}-{part}" for one in tops], partial(task, part))
            for part in range(len(computed.cut.parts))
        ]
        job = self.estimation.job
        run_missing(job.workers, job.batches, step, draw_below, parts, computed.part_done)

    def _write_parts(
        self,
        computed: ComputedBySubtree,
        step: str,
        sinks: dict[tuple[int, int], DrawsFile],
        number: int,
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

    def _file(self, table: DrawnTable, level: int) -> Path:
        name = self.estimation.job.spine.level_names[level]
        return self.estimation.job.folder(self.estimation.universe).draws(table.table.name, name)

    def _sinks(self, stack: ExitStack) -> dict[tuple[int, int], DrawsFile]:
        """The open files, by the numbers of table and level."""
        return {
            (number, level): stack.enter_context(self._sink(table, level))
            for number, table in enumerate(self.tables)
            for level in table.levels
        }

    def _sink(self, table: DrawnTable, level: int) -> AbstractContextManager[DrawsFile]:
        job = self.estimation.job
        geounits = job.spine.levels[level]
        return draws_file(
            self._file(table, level), job.run.staging, table.table, geounits.name, geounits.geocodes, self.count
        )


# -- draws of one part of a spine that is cut, given what was drawn at the cut ----------------------------------------


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
        """The part of some geounits."""
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

    @property
    def n_results(self) -> int:
        """One of each draw."""
        return len(self.tops)

    def check(self, number: int, arrays: Arrays) -> None:  # noqa: ARG002
        """See `PartTask.check`."""
        levels, first = self.part.spine.levels, self.part.first_level
        form: Form = {
            f"{table}-{level}": (np.int64, (len(levels[level - first]), drawn.marginal.size))
            for table, drawn in enumerate(self.tables)
            for level in drawn.levels
            if level > first
        }
        checked(arrays, form)


def draw_below(task: DrawBelowTask) -> list[Arrays]:
    """Of each draw, the answers of the part's levels below the cut; ReleaseError where a file is damaged."""
    problem = task.problem()
    upward = upward_pass(problem, task.basis)
    cut = problem.first_level
    n_levels = 1 + max(table.levels[-1] for table in task.tables) - cut
    found = variances_of(problem, upward, task.top)
    drawn = DrawnSpine.of(problem, task.basis, upward, task.tables, n_levels, found)
    rows = tuple(problem.first_row(level) for level in range(n_levels))
    out: list[Arrays] = []
    for top in task.tops:
        above: Steps = {number: (steps, task.unknown[number]) for number, steps in top.steps.items()}
        normals = replace(top.normals, first_level=cut, first_rows=rows)
        arrays: dict[str, IntArray] = {}
        for level, answers, _ in drawn.steps(normals, top.histograms, above):
            arrays |= drawn.published(level, answers)
        out.append(arrays)
    return out
