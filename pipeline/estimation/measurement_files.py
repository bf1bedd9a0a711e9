"""Measurement files as the post-processing reads them: whole, or the rows of one part of the spine.

Noisy answers that are drawn only where the released parent is positive, as the estimation of a level reads them.

One part of a spine that is cut into subtrees, as it is sent to a worker with the work on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.execution.workers import foreign_arrays
from pipeline.model.draw import by_level
from pipeline.model.source import ToCounts
from pipeline.model.universe import Universe
from pipeline.release.measurements import MeasurementFile, MeasurementHeader, header_of, open_measurement, read_positive
from pipeline.release.published_files import UniverseFiles
from pipeline.storage.paths import Readable
from postprocess.algebra import Basis
from postprocess.arrays import Arrays, FloatArray, wide_enough
from postprocess.marginal import Marginal
from postprocess.positive import PositiveAnswers, PositivePlaces
from postprocess.problem import MeasuredAnswers, Problem


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
        with open_measurement(self.path, len(expected) if whole_level else None, self.header) as file:
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
        answers = values if self.to_counts is None else self.to_counts(values, first)
        # Variances are those of the spec, as the file's were, so as not to rely on another machine's floats.
        variance, *others = self.header.variances
        return MeasuredAnswers(self.marginal, answers, variance, tuple(others))

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


@dataclass(frozen=True, eq=False)
class PositiveSource:
    """The file of one query's noisy answers at one level.

    Attributes:
        path: under public/.
        header: what it should be according to the spec.
        marginal: the query.
        level: number of the level.
    """

    path: Readable
    header: MeasurementHeader
    marginal: Marginal
    level: int

    def read(self, spine: Spine, released: sp.csr_array) -> PositiveAnswers:
        """The answers, which must be just those that are positive in the released level above.

        Args:
            spine: the geography.
            released: histograms `(n_parents, n_cells)` of the level above.

        Raises:
            ReleaseError: the file is missing, damaged, or has others.
        """
        level = spine.levels[self.level]
        due = PositivePlaces.of(released, self.marginal).below(level.parents)
        most = int(np.diff(due.starts).max(initial=0))
        values = read_positive(self.path, self.header, level.geocodes, most)
        self.check_places(spine, values, due)
        return PositiveAnswers(self.marginal, values, self.header.variance)

    def check_places(self, spine: Spine, found: sp.csr_array, due: PositivePlaces) -> None:
        """Raises ReleaseError where other answers were drawn than are due."""
        if np.array_equal(found.indptr, due.starts) and np.array_equal(found.indices, due.answers):
            return
        level = spine.levels[self.level]
        other = next(
            row
            for row in range(len(level))
            if not np.array_equal(
                found.indices[found.indptr[row] : found.indptr[row + 1]],
                due.answers[due.starts[row] : due.starts[row + 1]],
            )
        )
        raise ReleaseError(
            f"{self.path} does not have just the answers that are positive in the released level "
            f"{spine.level_names[self.level - 1]!r}: first in {level.geocodes[other]}"
        )


def positive_sources(folder: UniverseFiles, universe: Universe, spine: Spine) -> tuple[tuple[PositiveSource, ...], ...]:
    """The files of a universe, per level; empty where it has none."""
    if not universe.strategy.where_positive:
        return ()
    levels = by_level((draw for draw in universe.draws(spine) if draw.where_positive), spine.level_names)
    return tuple(
        tuple(
            PositiveSource(
                folder.readable(folder.positive(draw.level, draw.query.name)),
                header_of(draw),
                universe.source.measured(draw.query),
                number,
            )
            for draw in level
        )
        for number, level in enumerate(levels)
    )


#: Of each array by its name, type and shape; None for any length.
Form = dict[str, tuple[type[np.generic], tuple[int | None, ...]]]


def require(right: bool, name: str) -> None:
    """Raises WorkerError where an array that came back, by its name, is none of its part."""
    if not right:
        raise foreign_arrays(name)


def checked(arrays: Arrays, form: Form) -> Arrays:
    """The arrays that came back; WorkerError where one is missing, too many, or has another type or shape."""
    for name in sorted(arrays.keys() ^ form.keys()):
        raise foreign_arrays(name)
    for name, (kind, shape) in form.items():
        array = arrays[name]
        require(array.dtype == kind and array.ndim == len(shape), name)
        require(all(n in (None, own) for n, own in zip(shape, array.shape, strict=True)), name)
    return arrays


@dataclass(frozen=True, eq=False)
class PartTask(ABC):
    """Work on one part of the spine, which gives named arrays: of each level below its top, or of other results.

    Attributes:
        number: of the part.
        part: its problem, with the values of those measurements that have no file here.
        files: of the measurements, per level from the cut down; None where all values are packed.
        basis: of the whole release.
    """

    number: int
    part: Problem
    files: SourceFiles | None
    basis: Basis

    def problem(self) -> Problem:
        """The part's problem with the values of its measurements; ReleaseError where a file is damaged."""
        stated = self.part.in_64_bits()
        return stated if self.files is None else replace(stated, measured=self._read(self.files))

    def packed(self) -> PartTask:
        """The task with all values, so that it can be done where the release's files are not available."""
        return replace(self, part=self.problem(), files=None)

    @property
    def n_results(self) -> int:
        """How many results the task gives."""
        return self.part.spine.n_levels - 1

    @abstractmethod
    def check(self, number: int, arrays: Arrays) -> None:
        """Raises WorkerError where arrays that came back are not those of a result of this part, by its number."""

    def arrays_of(self, result: Iterable[Arrays]) -> Arrays:
        """The results together, "NUMBER.NAME", on the machine that worked on them."""
        return {f"{i}.{name}": array for i, arrays in enumerate(result) for name, array in arrays.items()}

    def result_of(self, arrays: Arrays) -> list[Arrays]:
        """The results again; WorkerError where the arrays are not those of this part."""
        found: dict[str, dict[str, NDArray[np.generic]]] = {str(i): {} for i in range(self.n_results)}
        for name, array in arrays.items():
            number, _, own = name.partition(".")
            require(number in found, name)
            found[number][own] = array
        for i, result in enumerate(found.values()):
            self.check(i, result)
        return list(found.values())

    def _read(self, files: SourceFiles) -> tuple[tuple[MeasuredAnswers, ...], ...]:
        levels = zip(self.part.spine.levels, self.part.measured, files, strict=True)
        return tuple(
            tuple(
                known if file is None else file.read(level.geocodes, self.part.first_row(i))
                for known, file in zip(queries, of_level, strict=True)
            )
            for i, (level, queries, of_level) in enumerate(levels)
        )
