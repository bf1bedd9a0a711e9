"""Unbiased estimates beside the release: what the measurements say, without non-negativity and rounding.

They are real numbers and may be negative, but sums and differences of them are unbiased, with known variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flows.estimation.constraints import marginal_of
from flows.estimation.whole_spine import Estimation
from pipeline.model.universe import Table
from pipeline.release.estimates import write_estimates
from postprocess.arrays import FloatArray
from postprocess.linear.downward import AnswerVariances, unbiased_estimates, variances_of
from postprocess.linear.upward import LevelEstimate, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Problem

#: Decimals of estimates (persons) and significant digits of variances: more than the noise leaves meaning in, and few
#: enough that the last bits of a computation, which differ between processors, do not show.
_DECIMALS, _DIGITS = 3, 6


@dataclass(frozen=True, eq=False)
class Unbiased:
    """The unbiased estimates of one universe, level by level from the top."""

    estimation: Estimation

    def tables(self, level: str) -> list[Table]:
        """The tables that are published at a level."""
        return [table for table in self.estimation.universe.tables if level in table.levels]

    def files(self) -> tuple[Path, ...]:
        """What `publish` writes."""
        folder = self.estimation.job.folder(self.estimation.universe)
        return tuple(folder.estimates(level) for level in self.estimation.job.spine.level_names if self.tables(level))

    def publish(self) -> None:
        """Write the estimates of all levels that tables are published for."""
        job = self.estimation.job
        computed = self._computed()
        above: FloatArray | None = None
        for number, level in enumerate(job.spine.levels):
            is_leaf = number == job.spine.n_levels - 1
            estimates = None if is_leaf else np.empty((len(level), computed.problem.n_cells))
            chunks = self._chunks(computed, number, above, estimates)
            if tables := self.tables(level.name):
                target = job.folder(self.estimation.universe).estimates(level.name)
                answers = self._answers(computed, number, tables, chunks)
                write_estimates(target, job.run.staging, level.name, level.geocodes, tables, answers)
            else:
                for _ in chunks:  # the estimates are needed below
                    pass
            above = estimates

    def _computed(self) -> _Computed:
        """With all measurements together, whichever way the release was made."""
        problem = replace(self.estimation.problem, estimator="full")
        upward = self.estimation.upward
        if self.estimation.problem.estimator != "full":
            upward = upward_pass(problem, self.estimation.basis)
        names = self.estimation.job.spine.level_names
        variances = [
            level.of_queries(self.estimation.basis, [marginal_of(table.query) for table in self.tables(name)])
            for name, level in zip(names, variances_of(problem, upward), strict=True)
        ]
        return _Computed(problem, upward, variances)

    def _chunks(
        self, computed: _Computed, level: int, above: FloatArray | None, estimates: FloatArray | None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Estimates of a level, some geounits at a time, from those of the level above; all are put into `kept`."""
        basis = self.estimation.basis
        for rows, best in unbiased_estimates(computed.problem, basis, computed.upward, level, above):
            if estimates is not None:
                estimates[rows] = best
            yield rows, best
            self.estimation.job.progress.advance(len(best))

    def _answers(
        self, computed: _Computed, level: int, tables: list[Table], chunks: Iterator[tuple[slice, FloatArray]]
    ) -> Iterator[tuple[slice, list[FloatArray]]]:
        """For each chunk: estimates and variances of each table, rounded; NaN where nothing was measured."""
        marginals = [marginal_of(table.query) for table in tables]
        variances = [self._class_variances(computed.variances[level], marginal) for marginal in marginals]
        for rows, best in chunks:
            classes = computed.variances[level].classes[rows]
            columns = []
            for marginal, by_class in zip(marginals, variances, strict=True):
                variance = by_class[classes]
                estimate = np.where(np.isnan(variance), np.nan, np.round(marginal.answer(best), _DECIMALS))
                columns += [estimate + 0.0, variance]  # + 0.0: no negative zeros
            yield rows, columns

    def _class_variances(self, level: AnswerVariances, marginal: Marginal) -> FloatArray:
        """Variances `(n_classes, size)` of a query's answers, rounded."""
        return _significant(level.of_classes(self.estimation.basis, marginal))


@dataclass(frozen=True, eq=False)
class _Computed:
    """What the estimates of all levels are computed from."""

    problem: Problem
    upward: list[LevelEstimate]
    variances: list[AnswerVariances]


def _significant(values: FloatArray) -> FloatArray:
    """Positive values rounded to some significant digits; NaN stays."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = _DIGITS - 1 - np.floor(np.log10(values))
    scale = 10.0 ** np.where(np.isfinite(places), places, 0.0)
    return np.asarray(np.round(values * scale) / scale)
