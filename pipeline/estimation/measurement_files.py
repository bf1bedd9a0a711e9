"""Measurement files as the post-processing reads them: whole, or the rows of one part of the spine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.model.source import ToCounts
from pipeline.release.measurements import MeasurementFile, MeasurementHeader, open_measurement
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray, wide_enough
from postprocess.marginal import Marginal
from postprocess.problem import MeasuredAnswers

_NO_VALUES: NDArray[np.signedinteger] = np.zeros((0, 0), dtype=np.int8)


@dataclass(frozen=True, eq=False)
class MeasurementSource:
    """The file of one query's noisy answers at one level.

    Attributes:
        path: under public/.
        header: what it should be according to the spec.
        marginal: the query.
        kinds: of all geounits of the level, as in `Problem`: those of kind -1 are not in the file.
        to_counts: makes counts of what is stored; None where the file has counts.
    """

    path: Readable
    header: MeasurementHeader
    marginal: Marginal
    kinds: NDArray[np.signedinteger] | None = None
    to_counts: ToCounts | None = None

    def without_values(self) -> MeasuredAnswers:
        """The query with its variances, for use where the values are not needed."""
        # Variances are recomputed from the spec, as the file's were, so as not to rely on another machine's floats.
        other_variances = tuple(variance for _, variance in self.header.others)
        return MeasuredAnswers(self.marginal, _NO_VALUES, self.header.variance, other_variances)

    def read(self, geocodes: NDArray[np.str_], first: int | None = None) -> MeasuredAnswers:
        """The answers of the geounits `geocodes`: all of the level, or those from number `first` on.

        Geounits that are not measured, because one above is measured instead, have zeros.

        Raises:
            ReleaseError: the file is missing, damaged, or not what the spec says.
        """
        whole_level, first = first is None, first or 0
        kinds = None if self.kinds is None else self.kinds[first : first + len(geocodes)]
        expected = geocodes if kinds is None else geocodes[kinds >= 0]
        start = first if self.kinds is None else int((self.kinds[:first] >= 0).sum())
        with open_measurement(self.path, len(expected) if whole_level else None) as file:
            if (wrong := differing(file.header, self.header)) is not None:
                raise ReleaseError(f"{self.path} does not match the spec: {wrong}")
            stop = min(start + len(expected), len(file))
            values, variances, same = read_compact(file, min(start, stop), expected[: max(stop - start, 0)])
            if not same or stop - start != len(expected) or (whole_level and len(file) != stop):
                raise ReleaseError(
                    f"{self.path} does not have the geounits of level {self.header.level!r}, in the spine's order"
                )
        if kinds is not None:
            values = self._spread(values, variances, kinds)
        if values.shape[1] < self.marginal.size:
            values = self._among_all(values)
        if self.to_counts is not None:
            counts = self.to_counts(values, first)
            return MeasuredAnswers(self.marginal, counts, self.header.variance, self.without_values().others)
        return MeasuredAnswers(self.marginal, values, self.header.variance, self.without_values().others)

    def _among_all(self, values: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
        """The values of a question with a condition among all answers of its query, zeros where none was asked for."""
        out: NDArray[np.signedinteger] = np.zeros((len(values), self.marginal.size), dtype=values.dtype)
        out[:, self.marginal.asked] = values
        return out

    def _spread(
        self, values: NDArray[np.signedinteger], variances: FloatArray, kinds: NDArray[np.signedinteger]
    ) -> NDArray[np.signedinteger]:
        """The values of all geounits, `(n, size)`, zeros where one above is measured instead."""
        measured = kinds >= 0
        if not np.allclose(variances, np.array(self.header.variances)[kinds[measured]], rtol=1e-9, atol=0.0):
            raise ReleaseError(f"{self.path} is damaged: its variances are not those that the spec gives its geounits")
        out: NDArray[np.signedinteger] = np.zeros((len(kinds), self.header.size), dtype=values.dtype)
        out[measured] = values
        return out


#: The files of measurements, per level; None where the values are at hand.
SourceFiles = tuple[tuple[MeasurementSource | None, ...], ...]


def differing(header: MeasurementHeader, expected: MeasurementHeader) -> str | None:
    """What differs between two headers but the variance, which follows from the scale, or of mixed numbers the spec."""
    for field in ("level", "query", "size", "mechanism", "scale", "row"):
        if getattr(header, field) != getattr(expected, field):
            return f"its {field} is {getattr(header, field)}, and {getattr(expected, field)} is expected"
    scales = [[str(scale) for scale, _ in side.others] for side in (header, expected)]
    if scales[0] != scales[1]:
        return (
            f"its scales where levels are bypassed are {', '.join(scales[0])}, and {', '.join(scales[1])} are expected"
        )
    return None


def read_compact(
    file: MeasurementFile, start: int, geocodes: NDArray[np.str_]
) -> tuple[NDArray[np.signedinteger], FloatArray, bool]:
    """As many rows of a file from `start` on as there are geocodes.

    Returns:
        Values `(n, size)` in the smallest signed type that holds them, variances `(n,)`, and whether the rows have the
        geocodes.
    """
    values: NDArray[np.signedinteger] = np.empty((len(geocodes), file.header.size), dtype=np.int8)
    variances, same, first = np.empty(len(geocodes)), True, 0
    for part in file.parts(start, start + len(geocodes)):
        rows = slice(first, first + len(part.values))
        values = values.astype(wide_enough(values.dtype, part.values), copy=False)
        values[rows], variances[rows] = part.values, part.variances
        same = same and np.array_equal(part.geocodes, geocodes[rows])
        first = rows.stop
    return values, variances, same
