"""Unbiased estimates beside the release: what the measurements say, without non-negativity and rounding.

They are real numbers and may be negative, but sums and differences of them are unbiased, with known variances.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from geography.spine import Spine
from pipeline.estimation.by_subtree import ComputedBySubtree
from pipeline.estimation.constraints import published_facilities
from pipeline.estimation.problem import invariants_of, measurements_in, sizes_in, unmeasured_problem, with_values
from pipeline.estimation.subtree_answers import LinearLevel, LinearParts
from pipeline.estimation.whole_spine import Estimation
from pipeline.model.universe import Table, Universe
from pipeline.release.estimates import write_estimates
from pipeline.release.published_files import UniverseFiles
from postprocess.arrays import FloatArray
from postprocess.linear.downward import (
    AnswerVariances,
    LevelVariances,
    unbiased_estimates,
    variances_of,
    whole_estimates,
)
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.marginal import Marginal, MarginalKey

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
    problem = with_values(problem, measurements_in(files, universe, spine, sizes_in(universe, invariants)))
    basis = basis_of(problem)
    return deque(whole_estimates(problem, basis, upward_pass(problem, basis)), maxlen=1).pop()


@dataclass(frozen=True, eq=False)
class Unbiased:
    """The unbiased estimates of one universe, level by level from the top."""

    estimation: Estimation

    def tables(self, level: str) -> list[Table]:
        """The tables that are published at a level."""
        return [table for table in self.estimation.universe.tables if level in table.levels]

    def publish(self) -> None:
        """Write the estimates of all levels that tables are published for."""
        computed, above = self.estimation.linear(), None
        problem, upward = computed.combined()
        for number, variances in enumerate(variances_of(problem, upward)):
            level = problem.spine.levels[number]
            is_leaf = number == self.estimation.job.spine.n_levels - 1
            estimates = None if is_leaf else np.empty((len(level), problem.n_cells))
            chunks = unbiased_estimates(problem, self.estimation.basis, upward, number, above)
            of_queries = variances.of_queries(self.estimation.basis, self._marginals(number))
            self._write(number, self._kept(number, chunks, of_queries, estimates))
            above = estimates
        if isinstance(computed, ComputedBySubtree):
            self._publish_below(computed, variances, above)

    def _publish_below(self, computed: ComputedBySubtree, top: LevelVariances, best: FloatArray | None) -> None:
        """Write the levels below the cut, from its estimates `(n, n_cells)` and their covariances."""
        levels = range(computed.cut.level + 1, self.estimation.job.spine.n_levels)
        queries = tuple(self._marginals(level) for level in levels)
        step, numbers = f"unbiased {self.estimation.universe.name}", range(len(computed.cut.parts))
        parts = LinearParts(computed, top, queries, step, best)
        parts.compute(computed.part_done)
        for level, own in zip(levels, queries, strict=True):
            if own:
                self._write(level, ((parts.rows(level, number), parts.level(level, number)) for number in numbers))
        parts.forget()

    def _marginals(self, level: int) -> tuple[Marginal, ...]:
        """The queries of a level's tables, each once."""
        marginals = [table.query for table in self.tables(self.estimation.job.spine.level_names[level])]
        return tuple({marginal.key: marginal for marginal in marginals}.values())

    def _kept(
        self,
        level: int,
        chunks: Iterator[tuple[slice, FloatArray]],
        variances: AnswerVariances,
        estimates: FloatArray | None,
    ) -> Iterator[tuple[slice, LinearLevel]]:
        """What is published of a level, some geounits at a time; all estimates are put into `estimates`."""
        queries = self._marginals(level)
        for rows, best in chunks:
            if estimates is not None:
                estimates[rows] = best
            yield rows, LinearLevel(variances.with_rows(rows), tuple(query.answer(best) for query in queries))
            self.estimation.job.progress.advance(len(best))

    def _write(self, level: int, parts: Iterator[tuple[slice, LinearLevel]]) -> None:
        """Write a level's tables; where there are none, its estimates are needed below."""
        job, geounits = self.estimation.job, self.estimation.job.spine.levels[level]
        places = {marginal.key: place for place, marginal in enumerate(self._marginals(level))}
        keys = [table.query.key for table in self.tables(geounits.name)]
        columns = (
            (rows, [column for key in keys for column in _rounded(found.answers[places[key]], found.variances, key)])
            for rows, found in parts
        )
        if not keys:
            for _ in columns:
                pass
            return
        target = job.folder(self.estimation.universe).estimates(geounits.name)
        tables = self.tables(geounits.name)
        write_estimates(target, job.run.staging, geounits.name, geounits.geocodes, tables, columns)


def _rounded(estimates: FloatArray, found: AnswerVariances, key: MarginalKey) -> list[FloatArray]:
    """Estimates, rounded, and their variances, both `(n, size)`; NaN where the measurements do not determine them."""
    variances = _significant(found.by_query[key])[found.classes]
    # + 0.0: no negative zeros
    return [np.where(np.isnan(variances), np.nan, np.round(estimates, _DECIMALS)) + 0.0, variances]


def _significant(values: FloatArray) -> FloatArray:
    """Positive values rounded to some significant digits; NaN stays."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = _DIGITS - 1 - np.floor(np.log10(values))
    scale = 10.0 ** np.where(np.isfinite(places), places, 0.0)
    return np.asarray(np.round(values * scale) / scale)
