"""The errors of simulated runs, counted: what the intervals beside published counts are made of.

New runs are simulated from the released histogram, which stands in for the truth. Each published number then gives a
pair: the stand-in t and the simulated release r. They are counted in three ways, by table, level and cell:

- r - t by the size of t: how far releases of a truth of this size go astray, whatever is seen of them;
- t - r by the size of r: how far the truth is from a release of this size;
- |r - t| in standard errors by the size of r, for releases so far above zero that non-negativity does not bite.

Errors of simulated runs of reports, counted by cell, by the number of persons in the area, and by released size.

What a count from reports says of the truth depends on both: see `postprocess.downward.intervals`.

How often errors of each size were seen, of counts of each size: whole numbers in classes, sparse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray, distinct_places, owners
from postprocess.linear.downward import AnswerVariances
from postprocess.marginal import Marginal
from postprocess.statistics import EXACT_STANDARD

#: Sizes up to this stand alone; above it, each octave has `_PER_OCTAVE` classes.
ALONE, _PER_OCTAVE = 30, 8
#: Lower ends of the size classes of counts.
SIZE_CLASSES: IntArray = np.unique(
    np.concatenate([np.arange(ALONE + 1), np.ceil(ALONE * 2.0 ** (np.arange(1, 26 * _PER_OCTAVE) / _PER_OCTAVE))])
).astype(np.int64)
#: The middles of the size classes; the last one has no end, and its least size.
MIDDLES: FloatArray = np.append(0.5 * (SIZE_CLASSES[:-1] + SIZE_CLASSES[1:] - 1), SIZE_CLASSES[-1])
_CLASS_OF_SMALL = np.searchsorted(SIZE_CLASSES, np.arange(1 << 12), side="right") - 1
#: Errors are counted in this many classes of a whole number of persons on each side of 0; larger ones in the last.
ERROR_CLASSES = 512
#: Simulated errors that a quantile needs.
ENOUGH = 400


@dataclass(frozen=True, eq=False)
class Seen:
    """How often each of some places was seen, `(n,)` distinct and in order; those of several geounits can be added."""

    places: IntArray
    times: IntArray

    @classmethod
    def none(cls) -> Self:
        """Nothing."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def __add__(self, other: Self) -> Self:
        pairs = (self.places, other.places), (self.times, other.times)
        return type(self)(*distinct_sums(*map(np.concatenate, pairs)))


class SizedErrors(Seen):
    """How often each error was seen in each cell and size class.

    Attributes:
        places: sorted, distinct: (cell * size classes + size class) * (2 * ERROR_CLASSES + 1) + error class.
        times: how often, the same shape.
    """

    @classmethod
    def of(cls, cells: IntArray, sizes: IntArray, errors: IntArray) -> SizedErrors:
        """Those of single errors, all arrays of one shape: cell, count whose size matters, class of the error."""
        error_class = np.clip(errors, -ERROR_CLASSES, ERROR_CLASSES) + ERROR_CLASSES
        places = (cells * len(SIZE_CLASSES) + size_class(sizes)) * (2 * ERROR_CLASSES + 1) + error_class
        return cls(*distinct_sums(places, np.ones(len(places), dtype=np.int64)))

    @classmethod
    def of_zeros(cls, zeros: IntArray) -> SizedErrors:
        """No error of counts of 0, so many times in each cell, `(n_cells,)`."""
        none = cls.of(np.arange(len(zeros)), np.zeros_like(zeros), np.zeros_like(zeros))
        return cls(none.places[zeros > 0], zeros[zeros > 0])

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


def distinct_sums(places: IntArray, times: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct places in order, and the sums of their times."""
    distinct, which = distinct_places(places)
    return distinct, np.bincount(which, weights=times, minlength=len(distinct)).astype(np.int64)


def size_class(counts: IntArray) -> IntArray:
    """The size class of each count."""
    out = _CLASS_OF_SMALL[np.minimum(counts, len(_CLASS_OF_SMALL) - 1)]
    large = counts >= len(_CLASS_OF_SMALL)
    out[large] = np.searchsorted(SIZE_CLASSES, counts[large], side="right") - 1
    return out


#: What intervals that are to cover 90 % of true counts hold of simulated errors: a run that starts from a release,
#: which has more zeros than the truth and fewer counts of one or two, errs a little less than one that starts from the
#: truth. Measured where the truth is known: docs/decisions/intervals.md.
SIMULATED_COVERAGE = 0.92
#: The same of large counts: nothing becomes 0 there, and a run errs as the release did. As few errors tell it, what is
#: covered differs from table to table by a percent or more: the middle of 88 % and 93 % is aimed at, and a bit more.
LARGE_COVERAGE = 0.915
#: Standard errors above zero from which a count is large.
LARGE = 3.0
#: Standard errors that the classes of errors reach to, at least.
REACH = 8.0
#: Standard errors in a class of errors in standard errors: the classes reach to some 20 of them. Where what is held
#: above a detailed answer is noisier than its own measurement, its errors are many of its standard errors.
STEP = 0.04
#: Numbers held at once, in each of some ten arrays.
CHUNK_NUMBERS = 2_000_000
#: Bytes for each of these while errors are counted, and for each size with its error that a table's cells have seen.
NUMBER_BYTES, SEEN_BYTES = 10.4, 96.0
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
class ErrorCounts:
    """How often each error was seen, for one table at one level; simulated runs share those of no errors.

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
    def empty(cls, table: PublishedTable, variances: AnswerVariances) -> ErrorCounts:
        """No errors yet; the unit is as fine as the table's largest standard error allows."""
        largest = float(np.nanmax(variances.standard_errors(table.marginal), initial=0.0))
        none = SizedErrors.none()
        return cls(none, none, none, max(1, int(np.ceil(largest * REACH / ERROR_CLASSES))))

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        """The errors of both; ValueError where their classes are not of the same unit."""
        if self.unit != other.unit:
            raise ValueError(f"errors in classes of {self.unit} persons and of {other.unit} cannot be added")
        return ErrorCounts(
            self.by_truth + other.by_truth, self.by_release + other.by_release, self.large + other.large, self.unit
        )


def counting_bytes(numbers: int, seen: int) -> float:
    """Bytes of a process that counts the errors of so many published numbers, or that holds those that were seen."""
    return SEEN_BYTES * seen + NUMBER_BYTES * min(CHUNK_NUMBERS, numbers)


def is_large(counts: IntArray, standard: FloatArray, least: float = LARGE) -> BoolArray:
    """Where a count is so far above zero that non-negativity does not bite; never where no variance is known."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts > least * standard) & (standard > 0)


def count_errors(
    table: PublishedTable,
    variances: AnswerVariances,
    released: sp.csr_array,
    simulated: sp.csr_array,
    own: OwnErrors | None = None,
    unit: int | None = None,
) -> ErrorCounts:
    """Errors of one simulated run in one table, of some geounits of a level.

    Only numbers that are 0 neither in the one nor in the other are looked at one by one. Those that are certain, and
    those that no measurement determines, have no errors that say something of others.

    Args:
        table: whose.
        variances: of the geounits.
        released: `(n, n_cells)` what stands in for the truth.
        simulated: `(n, n_cells)` released anew.
        own: of reports. Their errors are t - r alone, by owner in place of cell; areas without persons have none.
        unit: persons in a class of errors; by default as of `ErrorCounts.empty`.
    """
    size, unit = table.marginal.size, unit or ErrorCounts.empty(table, variances).unit
    by_class = variances.standard_errors(table.marginal)
    uncertain = by_class >= EXACT_STANDARD
    octaves, some = np.zeros(len(variances.classes), dtype=np.int64), np.ones(len(variances.classes), dtype=bool)
    units: IntArray = np.full(size, unit)
    if own is not None:
        persons: IntArray = np.rint(simulated.sum(axis=1)).astype(np.int64).ravel()
        octaves, some, units = person_class(persons), persons > 0, units_of(table.marginal, own)
    places = octaves[some] * len(uncertain) + variances.classes[some]
    areas = np.bincount(places, minlength=len(units) // size * len(uncertain)).reshape(-1, len(uncertain))
    zeros = (areas @ uncertain.astype(np.int64)).ravel()
    by_truth = by_release = of_large = SizedErrors.none()
    for rows, cells, truth, seen in pairs_of(table.marginal, released, simulated):
        standard = by_class[variances.classes[rows], cells]
        counted = (standard >= EXACT_STANDARD) & some[rows]
        rows, cells, truth, seen = rows[counted], cells[counted], truth[counted], seen[counted]
        standard, owner, error = standard[counted], octaves[rows] * size + cells, seen - truth
        zeros -= np.bincount(owner, minlength=len(zeros))
        by_release += SizedErrors.of(owner, seen, -error // units[owner])
        if own is not None:
            continue
        by_truth += SizedErrors.of(cells, truth, error // unit)
        large = is_large(seen, standard)
        cells, seen, error, standard = cells[large], seen[large], error[large], standard[large]
        in_steps = np.floor((error + evenly(cells, seen, error) - 0.5) / standard / STEP)
        of_large += SizedErrors.of(cells, seen, in_steps.astype(np.int64))
    right = SizedErrors.of_zeros(zeros)
    return ErrorCounts(by_truth + right if own is None else by_truth, by_release + right, of_large, unit)


def pairs_of(
    marginal: Marginal, released: sp.csr_array, simulated: sp.csr_array
) -> Iterator[tuple[IntArray, IntArray, IntArray, IntArray]]:
    """Row, cell, t and r of a query's answers, where they are not both 0; some rows at a time."""
    nonzero = np.cumsum(np.diff(released.indptr) + np.diff(simulated.indptr))
    starts = [0, *(np.flatnonzero(np.diff(nonzero // CHUNK_NUMBERS)) + 1).tolist(), len(nonzero)]
    for first, last in pairwise(starts):
        if (last - first) * marginal.size <= _SPARSE * (nonzero[last - 1] - nonzero[first] + 1):
            truth = marginal.answer_csr(released[first:last]).ravel()
            seen = marginal.answer_csr(simulated[first:last]).ravel()
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
    rows = owners(counts.indptr)
    places, values = distinct_sums(rows * marginal.size + marginal.cell_answer[counts.indices], counts.data)
    return places[values != 0], values[values != 0]


def evenly(*numbers: IntArray) -> FloatArray:
    """A number from 0 to 1 for whole numbers, up to three, of one shape; over many of them, spread evenly.

    Whole errors are spread with it over the unit around them, so that the quantile of many is a number between, and
    such a quantile is rounded with it to a whole number, down or up.
    """
    return np.asarray(sum(step * number for step, number in zip(_GOLDEN, numbers, strict=False)) % 1.0)


def whole_ends(middle: FloatArray | IntArray, width: FloatArray, *numbers: IntArray) -> Ends:
    """The least and the most of as many whole numbers about the middle as the width is, right on average.

    To round up always would cover up to 97 % where the standard error is a person or two. `numbers` as of `evenly`.
    """
    count = np.floor(width + evenly(*numbers))
    low = np.floor(middle - 0.5 * count + 1.0)
    return low, low + count - 1


#: Octaves of numbers of persons.
PERSON_CLASSES = 40


class OwnErrors(Protocol):
    """By what the standard errors of counts differ from those of an average cell."""

    def __call__(
        self, answers: IntArray, cells: IntArray, counts: IntArray, persons: IntArray, standard: FloatArray, /
    ) -> FloatArray:
        """Factors: answer of each cell, answers that the counts are of, counts, persons in the geounit, these errors.

        All but the first are of one shape, or are broadcast to one.
        """
        ...

    def variances(self, answers: IntArray, cells: IntArray, persons: IntArray, /) -> FloatArray:
        """Of counts from reports alone, by the average cell."""
        ...


def person_class(persons: IntArray) -> IntArray:
    """The octave of each number of persons; 0 where there are none."""
    return octave_of(np.maximum(persons, 1).astype(np.float64))


def octave_of(numbers: FloatArray) -> IntArray:
    """The exponent of the power of 2 that each number, above 0, is at or above: exact, unlike a logarithm."""
    return np.asarray(np.frexp(numbers)[1] - 1, dtype=np.int64)


def owners_of(cells: IntArray, persons: IntArray, size: int) -> IntArray:
    """By what errors are told apart: a number for each cell and octave of persons."""
    return person_class(persons) * size + cells


def n_owners(marginal: Marginal) -> int:
    """Numbers of `owners_of`."""
    return PERSON_CLASSES * marginal.size


def units_of(marginal: Marginal, own: OwnErrors) -> IntArray:
    """Persons in a class of errors, `(n_owners,)`: as fine as the largest error that is likely there allows."""
    largest = np.sqrt(variances_of(marginal, own)) * REACH / ERROR_CLASSES
    return np.maximum(1, np.ceil(largest)).astype(np.int64)


def variances_of(marginal: Marginal, own: OwnErrors) -> FloatArray:
    """The variance of each owner's counts, `(n_owners,)`, at the most persons that it has."""
    persons = 2 ** np.arange(1, PERSON_CLASSES + 1, dtype=np.int64)[:, None]
    found = own.variances(marginal.cell_answer, np.arange(marginal.size)[None, :], persons)
    return np.broadcast_to(found, (PERSON_CLASSES, marginal.size)).ravel()
