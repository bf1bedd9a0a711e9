"""The files of tables that others published: a row an area, a column TABLE.CELL for each cell of each table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from features.published.agreement import check_agreement
from features.published.section import PublishedNumbers
from pipeline.errors import InputError
from pipeline.inputs.area_numbers import read_whole_numbers
from pipeline.inputs.public_input import InputScope
from pipeline.metadata.products import INVARIANTS, MEASUREMENTS
from pipeline.model.universe import Universe
from pipeline.publishing.public_inputs import ReceivedInput
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import MeasurementWriter, exact_header, read_measurement
from pipeline.release.published_files import PublishedFiles
from postprocess.arrays import IntArray

#: The column of the areas' geocodes.
GEOCODE = "geocode"


class PublishedInput(ReceivedInput):
    """The published tables, as they were read: those of the draws in their order, then those that are exact."""

    key = "published"
    after = "bounds"
    products = (MEASUREMENTS, INVARIANTS)

    def __init__(self, files: Mapping[str, Path], numbers: Callable[[Universe], Sequence[PublishedNumbers]]) -> None:
        self._files = files
        self._numbers = numbers

    def read(self, scope: InputScope) -> Sequence[IntArray]:
        """See `PublicInput.read`; also InputError where a number is one that the method does not publish."""
        found = dict(self._read(scope))
        check_agreement(scope.spine, found)
        return [found[one] for one in sorted(found, key=lambda one: one.method is None)]

    def _read(self, scope: InputScope) -> Iterator[tuple[PublishedNumbers, IntArray]]:
        for level, numbers in groupby(self._numbers(scope.universes[0]), key=lambda one: one.level):
            tables, path, where = list(numbers), self._files[level], f"published.files.{level}"
            columns = [column for one in tables for column in one.columns]
            values = read_whole_numbers(where, path, GEOCODE, columns, scope.spine.down_to(level))
            at = 0
            for one in tables:
                own = values[:, at : at + one.query.size]
                at += one.query.size
                impossible = own < 0 if one.method is None else one.method.impossible(own)
                if impossible.any():
                    row, column = (int(place[0]) for place in np.nonzero(impossible))
                    code = scope.spine.level(level).geocodes[row]
                    stated = "exact counts" if one.method is None else str(one.method)
                    raise InputError(
                        f"{where}: {path}: found {own[row, column]:,} in the column {one.columns[column]!r}, geounit "
                        f"{code}, and {int(impossible.sum()):,} such numbers of table {one.table!r} in all, of "
                        f"{impossible.size:,}; {stated} gives none of them: correct the file, or the method"
                    )
                yield one, own

    def again(self, scope: InputScope, files: PublishedFiles) -> Sequence[IntArray]:
        """See `PublicInput.again`."""
        folder = files.run.universe("")
        exact = [folder.invariant(level, query.name) for level, query in scope.universes[0].invariants]
        return [*super().again(scope, files), *(read_measurement(files.unchanged(path)).values for path in exact)]

    def write(self, scope: InputScope, run: RunDirectory, found: Sequence[IntArray]) -> None:
        """See `PublicInput.write`."""
        universe, folder = scope.universes[0], run.universe("")
        protected = len(found) - len(universe.invariants)
        super().write(scope, run, found[:protected])
        for (level, query), values in zip(universe.invariants, found[protected:], strict=True):
            header = exact_header(level, query)
            with MeasurementWriter.open(folder.invariant(level, query.name), run.staging, header) as writer:
                writer.write(scope.spine.level(level).geocodes, values)
