"""Margins of error: half-widths that cover 90 % of the errors, for every published count.

New runs are simulated from the released histogram, which stands in for the truth: the same strategy with fresh public
noise, the same post-processing, no budget. Their errors are collected by level, table, cell and size of the simulated
count. A released count gets

- where it is large (more than `LARGE` standard errors above zero, so that non-negativity does not bite): its standard
  error by the exact linear variance, times the 90 % quantile of the simulated errors in standard errors;
- where it is small: the smallest whole number that covers 90 % of the simulated errors of counts of its size.

Cells with too few simulated errors are pooled over the table. Source: design in docs/mathematics.md; the parametric
bootstrap of post-processed counts, with the simulation run on the published data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray, IntArray
from postprocess.linear.downward import AnswerVariances, LevelVariances
from postprocess.linear.half_widths import NORMAL_QUANTILE, half_widths, is_exact
from postprocess.marginal import Marginal

COVERAGE = 0.90
#: Standard errors above zero from which a count is large.
LARGE = 3.0
#: Lower ends of the size classes of counts.
SIZE_CLASSES = np.array([0, 1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 400, 1000], dtype=np.int64)
#: Absolute errors are counted in this many classes of a whole number of persons; larger ones count in the last.
ERROR_CLASSES = 512
#: Standard errors that the classes of errors reach to, at least.
REACH = 8.0
#: Errors in standard errors are counted in this many steps of `STEP`.
STEPS, STEP = 400, 0.02
#: Simulated errors that a cell needs to stand by itself.
ENOUGH = 300
#: The value of an unknown margin.
UNKNOWN = -1
#: Numbers held at once, in each of some ten arrays.
CHUNK_NUMBERS = 2_000_000


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A table of one level whose margins are wanted."""

    name: str
    level: int
    marginal: Marginal


@dataclass(eq=False)
class ErrorCounts:
    """How often each error was seen, for one table at one level.

    Attributes:
        small: sparse `(cells * size classes, ERROR_CLASSES)` counts of absolute errors, in classes of `unit` persons.
        large: `(cells, STEPS + 1)` counts of absolute errors of large counts, in steps of standard errors.
        unit: persons in a class of errors.
    """

    small: sp.csr_array
    large: IntArray
    unit: int

    @classmethod
    def empty(cls, table: PublishedTable, basis: Basis, variances: LevelVariances | AnswerVariances) -> ErrorCounts:
        """No errors yet; the unit is as fine as the table's largest standard error allows."""
        cells = table.marginal.size
        largest = float(np.nanmax(_standard_errors(table, basis, variances), initial=0.0))
        return cls(
            sp.csr_array((cells * len(SIZE_CLASSES), ERROR_CLASSES), dtype=np.int64),
            np.zeros((cells, STEPS + 1), dtype=np.int64),
            max(1, int(np.ceil(largest * REACH / ERROR_CLASSES))),
        )

    def add(self, counts: ErrorCounts) -> None:
        """Add the errors of another run, in place."""
        self.small = self.small + counts.small
        self.large += counts.large


def size_class(counts: IntArray) -> IntArray:
    """The size class of each count."""
    return np.searchsorted(SIZE_CLASSES, counts, side="right") - 1


def is_large(counts: IntArray, standard_errors: FloatArray) -> NDArray[np.bool_]:
    """Where a count is so far above zero that non-negativity does not bite; never where no variance is known."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts > LARGE * standard_errors) & (standard_errors > 0)


def _standard_errors(table: PublishedTable, basis: Basis, variances: LevelVariances | AnswerVariances) -> FloatArray:
    """Standard errors `(n_classes, cells)`; NaN where the measurements do not determine the answer."""
    return np.sqrt(variances.of_classes(basis, table.marginal))


def answers_of(marginal: Marginal, counts: sp.csr_array, first: int, last: int) -> IntArray:
    """A query's answers `(last - first, size)` of sparse histograms."""
    part = counts[first:last]
    rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
    flat = rows * marginal.size + marginal.cell_answer[part.indices]
    out = np.bincount(flat, weights=part.data, minlength=part.shape[0] * marginal.size)
    return np.rint(out).astype(np.int64).reshape(part.shape[0], marginal.size)


def count_errors(
    table: PublishedTable,
    basis: Basis,
    variances: LevelVariances | AnswerVariances,
    released: sp.csr_array,
    simulated: sp.csr_array,
) -> ErrorCounts:
    """Errors of one simulated run in one table of one level."""
    cells = table.marginal.size
    counts = ErrorCounts.empty(table, basis, variances)
    by_class = _standard_errors(table, basis, variances)
    column = np.arange(cells)[None, :]
    step = max(1, CHUNK_NUMBERS // cells)
    small = np.zeros(cells * len(SIZE_CLASSES) * ERROR_CLASSES, dtype=np.int64)
    for first in range(0, released.shape[0], step):
        last = min(first + step, released.shape[0])
        seen = answers_of(table.marginal, simulated, first, last)
        error = np.abs(seen - answers_of(table.marginal, released, first, last))
        standard = by_class[variances.classes[first:last]]
        large = is_large(seen, standard)
        error_class = np.minimum(error // counts.unit, ERROR_CLASSES - 1)
        flat = (column * len(SIZE_CLASSES) + size_class(seen)) * ERROR_CLASSES + error_class
        np.add.at(small, flat.ravel(), 1)
        places = np.broadcast_to(column, seen.shape)[large]
        steps = np.minimum((error[large] / standard[large] / STEP).astype(np.int64), STEPS)
        flat = places * (STEPS + 1) + steps
        counts.large += np.bincount(flat, minlength=counts.large.size).reshape(counts.large.shape)
    counts.small = sp.csr_array(small.reshape(-1, ERROR_CLASSES))
    return counts


def _quantile(counts: IntArray) -> FloatArray:
    """The smallest position at which the cumulated counts reach `COVERAGE`, over the last axis; NaN where empty."""
    cumulated = np.cumsum(counts, axis=-1)
    total = cumulated[..., -1:]
    position = (cumulated < np.ceil(COVERAGE * total)).sum(axis=-1).astype(np.float64)
    return np.where(total[..., 0] > 0, position, np.nan)


def _pooled(counts: IntArray) -> IntArray:
    """Counts per cell, with those of the whole table where a cell has too few."""
    few = counts.sum(axis=-1, keepdims=True) < ENOUGH
    return np.where(few, counts.sum(axis=0, keepdims=True), counts)


def _small_margins(errors: ErrorCounts) -> FloatArray:
    """Half-widths `(cells, size classes)` by size; NaN where too few errors were seen, or too large ones."""
    classes = len(SIZE_CLASSES)
    cells = errors.small.shape[0] // classes
    every_class = sp.csr_array(
        (np.ones(cells * classes), (np.tile(np.arange(classes), cells), np.arange(cells * classes)))
    )
    of_table = (every_class @ errors.small).toarray()
    out = np.full((cells, classes), np.nan)
    step = max(1, CHUNK_NUMBERS // (classes * ERROR_CLASSES))
    for first in range(0, cells, step):
        last = min(first + step, cells)
        own = errors.small[first * classes : last * classes].toarray().reshape(last - first, classes, ERROR_CLASSES)
        counts = np.where(own.sum(axis=-1, keepdims=True) < ENOUGH, of_table[None], own)
        position = _quantile(counts)
        usable = (counts.sum(axis=-1) >= ENOUGH) & (position < ERROR_CLASSES - 1)
        out[first:last] = np.where(usable, (position + 1) * errors.unit - 1, np.nan)
    return out


def margins(
    table: PublishedTable,
    basis: Basis,
    variances: LevelVariances | AnswerVariances,
    errors: ErrorCounts,
    released: IntArray,
    rows: slice,
) -> IntArray:
    """Half-widths `(n, cells)` for the released counts `(n, cells)` of some geounits, whole persons.

    They are `UNKNOWN` where the measurements do not determine the answer: simulated errors say nothing about it, since
    a simulated run starts from the release, which is not tied to the truth there.
    """
    standard = _standard_errors(table, basis, variances)[variances.classes[rows]]
    small = _small_margins(errors)
    large_counts = _pooled(errors.large)
    enough = large_counts.sum(axis=-1) >= ENOUGH
    factor = np.where(enough, _quantile(large_counts) * STEP + STEP / 2, NORMAL_QUANTILE)
    by_variance = half_widths(standard, factor[None, :])
    cell = np.broadcast_to(np.arange(table.marginal.size)[None, :], released.shape)
    by_size = small[cell, size_class(released)]
    out = np.where(is_large(released, standard) | np.isnan(by_size), by_variance, by_size)
    out = np.where(is_exact(standard), 0.0, np.where(np.isnan(standard), np.nan, out))
    return np.where(np.isnan(out), UNKNOWN, np.rint(np.nan_to_num(out))).astype(np.int64)
