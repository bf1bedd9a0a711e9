"""How often errors of each size were seen, of counts of each size: whole numbers in classes, sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from postprocess.arrays import FloatArray, IntArray, distinct_places

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
