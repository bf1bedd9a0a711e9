"""Unbiased estimates beside the release: what the measurements say, without non-negativity and rounding.

They are real numbers and may be negative, but sums and differences of them are unbiased, with known variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from geography.spine import Spine
from pipeline.estimation.by_subtree import ComputedBySubtree
from pipeline.estimation.constraints import published_facilities
from pipeline.estimation.problem import invariants_of, measurements_in, sizes_in, unmeasured_problem
from pipeline.estimation.subtree_answers import LinearParts
from pipeline.estimation.whole_spine import Estimation
from pipeline.model.universe import Table, Universe
from pipeline.release.estimates import write_estimates
from pipeline.release.published_files import UniverseFiles
from postprocess.arrays import FloatArray
from postprocess.linear.downward import AnswerVariances, LevelVariances, unbiased_estimates, variances_of
from postprocess.linear.upward import LevelEstimate, basis_of, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Problem

#: Decimals of estimates (persons) and significant digits of variances: more than the noise leaves meaning in, and few
#: enough that the last bits of a computation, which differ between processors, do not show.
_DECIMALS, _DIGITS = 3, 6


def unbiased_leaves(universe: Universe, files: UniverseFiles, spine: Spine) -> FloatArray:
    """The unbiased estimates `(n_leaves, n_cells)` of a universe whose measurements are published in `files`.

    Raises:
        ReleaseError: a file is missing or damaged, or is not what the spec says.
    """
    invariants = invariants_of(files, universe, spine)
    problem = unmeasured_problem(universe, spine, published_facilities(files, universe, spine), "full", invariants)
    sources = measurements_in(files, universe, spine, sizes_in(universe, invariants))
    measured = tuple(
        tuple(source.read(level.geocodes) for source in of_level)
        for level, of_level in zip(spine.levels, sources, strict=True)
    )
    problem = replace(problem, measured=measured)
    basis = basis_of(problem)
    upward = upward_pass(problem, basis)
    above: FloatArray | None = None
    for level in range(spine.n_levels):
        estimates = np.empty((len(spine.levels[level]), problem.n_cells))
        for rows, best in unbiased_estimates(problem, basis, upward, level, above):
            estimates[rows] = best
        above = estimates
    return estimates


@dataclass(frozen=True, eq=False)
class Unbiased:
    """The unbiased estimates of one universe, level by level from the top."""

    estimation: Estimation

    def tables(self, level: str) -> list[Table]:
        """The tables that are published at a level."""
        return [table for table in self.estimation.universe.tables if level in table.levels]

    def publish(self) -> None:
        """Write the estimates of all levels that tables are published for."""
        job = self.estimation.job
        computed = self.estimation.linear()
        problem, upward = computed.combined()
        above: FloatArray | None = None
        for number, variances in enumerate(variances_of(problem, upward)):
            level = job.spine.levels[number]
            is_leaf = number == job.spine.n_levels - 1
            estimates = None if is_leaf else np.empty((len(level), problem.n_cells))
            chunks = self._chunks(problem, upward, number, above, estimates)
            if tables := self.tables(level.name):
                by_query = variances.of_queries(self.estimation.basis, self._marginals(number))
                self._write(number, tables, self._answers(by_query, tables, chunks))
            else:
                for _ in chunks:  # the estimates are needed below
                    pass
            above = estimates
        if isinstance(computed, ComputedBySubtree):
            self._publish_below(computed, variances, above)

    def _publish_below(self, computed: ComputedBySubtree, top: LevelVariances, best: FloatArray | None) -> None:
        """Write the levels below the cut, from its estimates `(n, n_cells)` and their covariances."""
        levels = range(computed.cut.level + 1, self.estimation.job.spine.n_levels)
        queries = tuple(self._marginals(level) for level in levels)
        step = f"unbiased {self.estimation.universe.name}"
        parts = LinearParts(computed, top, queries, step, best)
        parts.compute(computed.part_done)
        for level in levels:
            if tables := self.tables(self.estimation.job.spine.level_names[level]):
                self._write(level, tables, self._of_parts(parts, level, len(computed.cut.parts), tables))
        parts.forget()

    def _of_parts(
        self, parts: LinearParts, level: int, n_parts: int, tables: list[Table]
    ) -> Iterator[tuple[slice, list[FloatArray]]]:
        """As `_answers`, of a level below the cut."""
        places = {marginal.key: place for place, marginal in enumerate(self._marginals(level))}
        for number in range(n_parts):
            found = parts.level(level, number)
            columns: list[FloatArray] = []
            for marginal in (table.query for table in tables):
                variance = _significant(found.variances.by_query[marginal.key])[found.variances.classes]
                columns += _rounded(found.answers[places[marginal.key]], variance)
            yield parts.rows(level, number), columns

    def _marginals(self, level: int) -> tuple[Marginal, ...]:
        """The queries of a level's tables, each once."""
        marginals = [table.query for table in self.tables(self.estimation.job.spine.level_names[level])]
        return tuple({marginal.key: marginal for marginal in marginals}.values())

    def _write(self, level: int, tables: list[Table], answers: Iterator[tuple[slice, list[FloatArray]]]) -> None:
        job, geounits = self.estimation.job, self.estimation.job.spine.levels[level]
        target = job.folder(self.estimation.universe).estimates(geounits.name)
        write_estimates(target, job.run.staging, geounits.name, geounits.geocodes, tables, answers)

    def _chunks(
        self,
        problem: Problem,
        upward: list[LevelEstimate],
        level: int,
        above: FloatArray | None,
        estimates: FloatArray | None,
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Estimates of a level, some geounits at a time, from those above it; all are put into `estimates`."""
        for rows, best in unbiased_estimates(problem, self.estimation.basis, upward, level, above):
            if estimates is not None:
                estimates[rows] = best
            yield rows, best
            self.estimation.job.progress.advance(len(best))

    def _answers(
        self, variances: AnswerVariances, tables: list[Table], chunks: Iterator[tuple[slice, FloatArray]]
    ) -> Iterator[tuple[slice, list[FloatArray]]]:
        """For each chunk: estimates and variances of each table, rounded; NaN where nothing was measured."""
        marginals = [table.query for table in tables]
        by_class = [_significant(variances.by_query[marginal.key]) for marginal in marginals]
        for rows, best in chunks:
            columns: list[FloatArray] = []
            for marginal, values in zip(marginals, by_class, strict=True):
                columns += _rounded(marginal.answer(best), values[variances.classes[rows]])
            yield rows, columns


def _rounded(estimates: FloatArray, variances: FloatArray) -> list[FloatArray]:
    """Estimates, rounded, and their variances, both `(n, size)`; NaN where the measurements do not determine them."""
    # + 0.0: no negative zeros
    return [np.where(np.isnan(variances), np.nan, np.round(estimates, _DECIMALS)) + 0.0, variances]


def _significant(values: FloatArray) -> FloatArray:
    """Positive values rounded to some significant digits; NaN stays."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = _DIGITS - 1 - np.floor(np.log10(values))
    scale = 10.0 ** np.where(np.isfinite(places), places, 0.0)
    return np.asarray(np.round(values * scale) / scale)
