"""The errors of simulated runs, counted: what the intervals beside published counts are made of.

New runs are simulated from the released histogram, which stands in for the truth. Each published number then gives a
pair: the stand-in t and the simulated release r. They are counted in three ways, by table, level and cell:

- r - t by the size of t: how far releases of a truth of this size go astray, whatever is seen of them;
- t - r by the size of r: how far the truth is from a release of this size;
- |r - t| in standard errors by the size of r, for releases so far above zero that non-negativity does not bite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray, distinct_places
from postprocess.linear.downward import AnswerVariances, LevelVariances
from postprocess.linear.half_widths import EXACT_STANDARD
from postprocess.marginal import Marginal

#: What intervals that are to cover 90 % of true counts hold of simulated errors: a run that starts from a release,
#: which has more zeros than the truth and fewer counts of one or two, errs a little less than one that starts from the
#: truth. Measured where the truth is known: docs/decisions/intervals.md.
SIMULATED_COVERAGE = 0.92
#: Standard errors above zero from which a count is large.
LARGE = 3.0
#: Sizes up to this stand alone; above it, each octave has `_PER_OCTAVE` classes.
ALONE, _PER_OCTAVE = 30, 8
#: Lower ends of the size classes of counts.
SIZE_CLASSES: IntArray = np.unique(
    np.concatenate([np.arange(ALONE + 1), np.ceil(ALONE * 2.0 ** (np.arange(1, 26 * _PER_OCTAVE) / _PER_OCTAVE))])
).astype(np.int64)
_CLASS_OF_SMALL = np.searchsorted(SIZE_CLASSES, np.arange(1 << 12), side="right") - 1
#: Errors are counted in this many classes of a whole number of persons on each side of 0; larger ones in the last.
ERROR_CLASSES = 512
#: Standard errors that the classes of errors reach to, at least.
REACH = 8.0
#: Standard errors in a class of errors in standard errors: the classes reach to some 20 of them. Where what is held
#: above a detailed answer is noisier than its own measurement, its errors are many of its standard errors.
STEP = 0.04
#: Simulated errors that a quantile needs.
ENOUGH = 400
#: Numbers held at once, in each of some ten arrays.
CHUNK_NUMBERS = 2_000_000
#: Where there are at most so many numbers in all for one that is not 0, zeros are written out.
_SPARSE = 8
#: Steps of a sequence that fills the unit interval evenly, by which whole errors are spread over their unit.
_GOLDEN = (0.6180339887498949, 0.7548776662466927, 0.5698402909980532)


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A table of one level whose margins are wanted."""

    name: str
    level: int
    marginal: Marginal


@dataclass(frozen=True, eq=False)
class SizedErrors:
    """How often each error was seen in each cell and size class.

    Attributes:
        places: sorted, distinct: (cell * size classes + size class) * (2 * ERROR_CLASSES + 1) + error class.
        times: how often, the same shape.
    """

    places: IntArray
    times: IntArray

    @classmethod
    def of(cls, cells: IntArray, sizes: IntArray, errors: IntArray) -> SizedErrors:
        """Those of single errors, all arrays of one shape: cell, count whose size matters, class of the error."""
        error_class = np.clip(errors, -ERROR_CLASSES, ERROR_CLASSES) + ERROR_CLASSES
        places = (cells * len(SIZE_CLASSES) + size_class(sizes)) * (2 * ERROR_CLASSES + 1) + error_class
        return cls(*_distinct(places, np.ones(len(places), dtype=np.int64)))

    @classmethod
    def none(cls) -> SizedErrors:
        """No errors."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def __add__(self, other: SizedErrors) -> SizedErrors:
        return SizedErrors(
            *_distinct(np.concatenate([self.places, other.places]), np.concatenate([self.times, other.times]))
        )

    def is_of(self, n_cells: int) -> bool:
        """Whether places and times are such as those of a table with so many cells."""
        most = n_cells * len(SIZE_CLASSES) * (2 * ERROR_CLASSES + 1)
        arrays = (self.places, self.times)
        if any(array.dtype != np.int64 or array.ndim != 1 for array in arrays) or len(self.places) != len(self.times):
            return False
        inside = not len(self.places) or (self.places[0] >= 0 and self.places[-1] < most)
        return bool(inside and (np.diff(self.places) > 0).all() and (self.times > 0).all())

    def parts(self) -> tuple[IntArray, IntArray, IntArray]:
        """Cell, size class and error class (from -ERROR_CLASSES) of each place."""
        rest, error_class = np.divmod(self.places, 2 * ERROR_CLASSES + 1)
        cells, sizes = np.divmod(rest, len(SIZE_CLASSES))
        return cells, sizes, error_class - ERROR_CLASSES


@dataclass(eq=False)
class ErrorCounts:
    """How often each error was seen, for one table at one level.

    Attributes:
        by_truth: r - t by the size of t, in classes of `unit` persons.
        by_release: t - r by the size of r, likewise.
        large: r - t of large counts by the size of r, in classes of `STEP` standard errors.
        unit: persons in a class of errors.
    """

    by_truth: SizedErrors
    by_release: SizedErrors
    large: SizedErrors
    unit: int

    @classmethod
    def empty(cls, table: PublishedTable, basis: Basis, variances: LevelVariances | AnswerVariances) -> ErrorCounts:
        """No errors yet; the unit is as fine as the table's largest standard error allows."""
        largest = float(np.nanmax(standard_errors(table, basis, variances), initial=0.0))
        return cls(
            SizedErrors.none(),
            SizedErrors.none(),
            SizedErrors.none(),
            max(1, int(np.ceil(largest * REACH / ERROR_CLASSES))),
        )

    def add(self, counts: ErrorCounts) -> None:
        """Add the errors of another run, in place."""
        self.by_truth = self.by_truth + counts.by_truth
        self.by_release = self.by_release + counts.by_release
        self.large = self.large + counts.large


def _distinct(places: IntArray, times: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct places in order, and the sums of their times."""
    distinct, which = distinct_places(places)
    return distinct, np.bincount(which, weights=times, minlength=len(distinct)).astype(np.int64)


def size_class(counts: IntArray) -> IntArray:
    """The size class of each count."""
    out = _CLASS_OF_SMALL[np.minimum(counts, len(_CLASS_OF_SMALL) - 1)]
    large = counts >= len(_CLASS_OF_SMALL)
    out[large] = np.searchsorted(SIZE_CLASSES, counts[large], side="right") - 1
    return out


def is_large(counts: IntArray, standard: FloatArray) -> BoolArray:
    """Where a count is so far above zero that non-negativity does not bite; never where no variance is known."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts > LARGE * standard) & (standard > 0)


def standard_errors(table: PublishedTable, basis: Basis, variances: LevelVariances | AnswerVariances) -> FloatArray:
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
    """Errors of one simulated run in one table, of some geounits of a level.

    Only numbers that are 0 neither in the one nor in the other are looked at one by one. Those that are certain, and
    those that no measurement determines, have no errors that say something of others.

    Args:
        table: whose.
        basis: of the problem.
        variances: of the geounits.
        released: `(n, n_cells)` what stands in for the truth.
        simulated: `(n, n_cells)` released anew.
    """
    counts = ErrorCounts.empty(table, basis, variances)
    by_class = standard_errors(table, basis, variances)
    uncertain = by_class >= EXACT_STANDARD
    zeros = uncertain.T.astype(np.int64) @ np.bincount(variances.classes, minlength=len(uncertain))
    for rows, cells, truth, seen in pairs_of(table.marginal, released, simulated):
        standard = by_class[variances.classes[rows], cells]
        counted = standard >= EXACT_STANDARD
        rows, cells, truth, seen = rows[counted], cells[counted], truth[counted], seen[counted]
        standard = standard[counted]
        zeros -= np.bincount(cells, minlength=len(zeros))
        error = seen - truth
        counts.by_truth += SizedErrors.of(cells, truth, error // counts.unit)
        counts.by_release += SizedErrors.of(cells, seen, -error // counts.unit)
        large = is_large(seen, standard)
        cells, seen, error, standard = cells[large], seen[large], error[large], standard[large]
        in_steps = np.floor((error + evenly(cells, seen, error) - 0.5) / standard / STEP)
        counts.large += SizedErrors.of(cells, seen, in_steps.astype(np.int64))
    nothing = SizedErrors.of(np.arange(len(zeros)), np.zeros_like(zeros), np.zeros_like(zeros))
    right = SizedErrors(nothing.places[zeros > 0], zeros[zeros > 0])
    counts.by_truth += right
    counts.by_release += right
    return counts


def pairs_of(
    marginal: Marginal, released: sp.csr_array, simulated: sp.csr_array
) -> Iterator[tuple[IntArray, IntArray, IntArray, IntArray]]:
    """Row, cell, t and r of a query's answers, where they are not both 0; some rows at a time."""
    nonzero = np.cumsum(np.diff(released.indptr) + np.diff(simulated.indptr))
    starts = [0, *(np.flatnonzero(np.diff(nonzero // CHUNK_NUMBERS)) + 1).tolist(), len(nonzero)]
    for first, last in pairwise(starts):
        if (last - first) * marginal.size <= _SPARSE * (nonzero[last - 1] - nonzero[first] + 1):
            truth = answers_of(marginal, released, first, last).ravel()
            seen = answers_of(marginal, simulated, first, last).ravel()
            places = np.flatnonzero(truth | seen)
            yield places // marginal.size + first, places % marginal.size, truth[places], seen[places]
            continue
        truth_at, truth = _nonzero(marginal, released[first:last])
        seen_at, seen = _nonzero(marginal, simulated[first:last])
        places = np.union1d(truth_at, seen_at)
        t, r = np.zeros(len(places), dtype=np.int64), np.zeros(len(places), dtype=np.int64)
        t[np.searchsorted(places, truth_at)] = truth
        r[np.searchsorted(places, seen_at)] = seen
        rows, cells = np.divmod(places, marginal.size)
        yield rows + first, cells, t, r


def _nonzero(marginal: Marginal, counts: sp.csr_array) -> tuple[IntArray, IntArray]:
    """Places (row * size + cell), in order, and values of a query's answers that are not 0."""
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    places, values = _distinct(rows * marginal.size + marginal.cell_answer[counts.indices], counts.data)
    return places[values != 0], values[values != 0]


def evenly(*numbers: IntArray) -> FloatArray:
    """A number from 0 to 1 for whole numbers, up to three, of one shape; over many of them, spread evenly.

    Whole errors are spread with it over the unit around them, so that the quantile of many is a number between, and
    such a quantile is rounded with it to a whole number, down or up.
    """
    return np.asarray(sum(step * number for step, number in zip(_GOLDEN, numbers, strict=False)) % 1.0)
