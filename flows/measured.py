"""Measurement files as the post-processing reads them: whole, or the rows of one part of the spine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.files import VALUES_PER_ROW_GROUP, rows_per_group
from pipeline.measurements import MeasurementFile, MeasurementHeader, open_measurement
from postprocess.problem import Marginal, Measured

#: Answers read at a time, as int64, before they are kept in the smallest type that holds them.
_READ_AT_ONCE = 1 << 22
_NO_VALUES: NDArray[np.signedinteger] = np.zeros((0, 0), dtype=np.int8)


@dataclass(frozen=True, eq=False)
class MeasuredFile:
    """The file of one query's noisy answers at one level.

    Attributes:
        path: under public/.
        header: what the spec says that it is.
        marginal: the query.
    """

    path: Path
    header: MeasurementHeader
    marginal: Marginal

    def without_values(self) -> Measured:
        """The query with its variance, as long as the values are not needed."""
        # The variance is recomputed from the spec, as the file's was: a float of another machine is not relied on.
        return Measured(self.marginal, _NO_VALUES, self.header.variance)

    def read(self, geocodes: NDArray[np.str_], start: int = 0, stop: int | None = None) -> Measured:
        """The answers of the geounits at positions [start, stop), which are to be those of `geocodes`.

        Raises:
            ReleaseError: the file is missing, damaged, or not what the spec says.
        """
        with open_measurement(self.path) as file:
            if (wrong := differing(file.header, self.header)) is not None:
                raise ReleaseError(f"{self.path} is not what the spec says: {wrong}")
            whole = stop is None
            last = len(file) if stop is None else min(stop, len(file))
            values, found = read_compact(file, min(start, last), last)
            if (whole and len(file) != len(geocodes)) or not np.array_equal(found, geocodes):
                raise ReleaseError(
                    f"{self.path} does not have the geounits of level {self.header.level!r}, in the spine's order"
                )
        return Measured(self.marginal, values, self.header.variance)


def differing(found: MeasurementHeader, expected: MeasurementHeader) -> str | None:
    """What differs between two headers but the variance, which follows from the scale."""
    for field in ("level", "query", "size", "mechanism", "scale"):
        if getattr(found, field) != getattr(expected, field):
            return f"its {field} is {getattr(found, field)}, and {getattr(expected, field)} is expected"
    return None


def read_compact(file: MeasurementFile, start: int, stop: int) -> tuple[NDArray[np.signedinteger], NDArray[np.str_]]:
    """Values `(n, size)` of the geounits at [start, stop), in the smallest type that holds them, and geocodes."""
    size = file.header.size
    values: NDArray[np.signedinteger] = np.empty((stop - start, size), dtype=np.int8)
    geocodes = []
    # In steps of whole row groups, so that none is read twice.
    step = rows_per_group(size) * max(1, _READ_AT_ONCE // VALUES_PER_ROW_GROUP)
    for begin, end in pairwise(sorted({start, stop, *range(start - start % step + step, stop, step)})):
        part = file.read(begin, end)
        values = values.astype(_wide_enough(values.dtype, int(part.values.min()), int(part.values.max())), copy=False)
        values[begin - start : begin - start + len(part.values)] = part.values
        geocodes.append(part.geocodes)
    return values, np.concatenate(geocodes) if geocodes else np.zeros(0, dtype=np.str_)


def _wide_enough(dtype: np.dtype[np.signedinteger], least: int, most: int) -> np.dtype[np.signedinteger]:
    """`dtype`, or the next signed type that holds `least` and `most`."""
    while not np.iinfo(dtype).min <= least <= most <= np.iinfo(dtype).max:
        dtype = np.dtype(f"i{2 * dtype.itemsize}")
    return dtype
