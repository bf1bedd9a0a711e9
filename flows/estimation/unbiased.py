"""Unbiased estimates beside the release: what the measurements say, without non-negativity and rounding.

They are real numbers and may be negative, but sums and differences of them are unbiased, with known variances. One file
a level, one row a geounit; for each table two columns of lists, "<table>" and "<table>:variance", whose entries stand
in the order of the table's columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flows.estimation.constraints import marginal_of
from flows.estimation.whole_spine import Estimation
from pipeline.model.universe import Table
from pipeline.storage.files import RowGroups, parquet_sink, rows_per_group, strings
from postprocess.linear.downward import AnswerVariances, unbiased_estimates, variances_of
from postprocess.linear.upward import LevelEstimate, upward_pass
from postprocess.problem import FloatArray, Marginal, Problem

VARIANCE_SUFFIX = ":variance"
#: Decimals of estimates (persons) and significant digits of variances: more than the noise leaves meaning in, and few
#: enough that the last bits of a computation, which differ between processors, do not show.
_DECIMALS, _DIGITS = 3, 6
_LIST = pa.list_(pa.field("element", pa.float64(), nullable=False))


@dataclass(eq=False)
class Unbiased:
    """The unbiased estimates of one universe, level by level from the top."""

    estimation: Estimation
    #: Estimates `(n, n_cells)` of the level done last.
    above: FloatArray | None = None

    @cached_property
    def problem(self) -> Problem:
        """The problem with all measurements together, whichever way the release was made."""
        return replace(self.estimation.problem, estimator="full")

    @cached_property
    def upward(self) -> list[LevelEstimate]:
        if self.estimation.problem.estimator == "full":
            return self.estimation.upward
        return upward_pass(self.problem, self.estimation.basis)

    @cached_property
    def variances(self) -> list[AnswerVariances]:
        """Per level, the variances of its tables' answers; the matrices behind them are held one level at a time."""
        names = self.estimation.job.spine.level_names
        levels = variances_of(self.problem, self.upward)
        return [
            found.of_queries(self.estimation.basis, [marginal_of(table.query) for table in self.tables(name)])
            for name, found in zip(names, levels, strict=True)
        ]

    def tables(self, level: str) -> list[Table]:
        return [table for table in self.estimation.universe.tables if level in table.levels]

    def files(self) -> tuple[Path, ...]:
        """What `publish` writes."""
        folder = self.estimation.job.folder(self.estimation.universe)
        return tuple(folder.estimates(level) for level in self.estimation.job.spine.level_names if self.tables(level))

    def publish(self) -> None:
        """Write the estimates of all levels that tables are published for."""
        job = self.estimation.job
        for number, level in enumerate(job.spine.levels):
            tables = self.tables(level.name)
            chunks = self._estimates(number)
            if tables:
                target = job.folder(self.estimation.universe).estimates(level.name)
                _write(target, job.run.staging, level.name, level.geocodes, tables, self._answers(number, chunks))
            else:
                for _ in chunks:
                    pass

    def close(self) -> None:
        """Forget what was computed."""
        self.above = None
        for name in ("problem", "upward", "variances"):
            self.__dict__.pop(name, None)

    def _estimates(self, level: int) -> Iterator[tuple[slice, FloatArray]]:
        """Estimates of a level in chunks of geounits; those of all but the leaves are kept for the level below."""
        job = self.estimation.job
        is_leaf = level == job.spine.n_levels - 1
        shape = (len(job.spine.levels[level]), self.problem.n_cells)
        kept = None if is_leaf else np.empty(shape)
        for rows, best in unbiased_estimates(self.problem, self.estimation.basis, self.upward, level, self.above):
            if kept is not None:
                kept[rows] = best
            yield rows, best
            job.progress.advance(len(best))
        self.above = kept

    def _answers(
        self, level: int, chunks: Iterator[tuple[slice, FloatArray]]
    ) -> Iterator[tuple[slice, list[FloatArray]]]:
        """For each chunk: estimates and variances of each table, rounded; NaN where nothing was measured."""
        tables = self.tables(self.estimation.job.spine.level_names[level])
        marginals = [marginal_of(table.query) for table in tables]
        variances = [self._class_variances(level, marginal) for marginal in marginals]
        for rows, best in chunks:
            classes = self.variances[level].classes[rows]
            columns = []
            for marginal, by_class in zip(marginals, variances, strict=True):
                variance = by_class[classes]
                estimate = np.where(np.isnan(variance), np.nan, np.round(marginal.answer(best), _DECIMALS))
                columns += [estimate + 0.0, variance]  # + 0.0: no negative zeros
            yield rows, columns

    def _class_variances(self, level: int, marginal: Marginal) -> FloatArray:
        """Variances `(n_classes, size)` of a query's answers, rounded."""
        return _significant(self.variances[level].of_classes(self.estimation.basis, marginal))


def _significant(values: FloatArray) -> FloatArray:
    """Positive values rounded to some significant digits; NaN stays."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = _DIGITS - 1 - np.floor(np.log10(values))
    scale = 10.0 ** np.where(np.isfinite(places), places, 0.0)
    return np.asarray(np.round(values * scale) / scale)


def _write(
    target: Path,
    staging: Path,
    level: str,
    geocodes: NDArray[np.str_],
    tables: Sequence[Table],
    chunks: Iterator[tuple[slice, list[FloatArray]]],
) -> None:
    names = [name for table in tables for name in (table.name, table.name + VARIANCE_SUFFIX)]
    fields = [
        pa.field("geocode", pa.string(), nullable=False),
        *(pa.field(name, _LIST, nullable=False) for name in names),
    ]
    header = {"kind": "estimates", "level": level, "queries": {table.name: table.query.name for table in tables}}
    groups = RowGroups(rows_per_group(2 * sum(table.query.size for table in tables)))
    with parquet_sink(target, staging, pa.schema(fields), header) as sink:
        for rows, columns in chunks:
            for part in groups.add(geocodes[rows], *columns):
                sink.write(*_arrays(part))
        for part in groups.rest():
            sink.write(*_arrays(part))


def _arrays(columns: Sequence[NDArray[np.generic]]) -> list[pa.Array]:
    """Geocodes `(n,)` and values `(n, size)` as columns of text and of lists."""
    arrays: list[pa.Array] = [strings(columns[0])]
    for values in columns[1:]:
        n, size = values.shape
        offsets = pa.array(np.arange(0, n * size + 1, size, dtype=np.int32))
        arrays.append(pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)), type=_LIST))
    return arrays
