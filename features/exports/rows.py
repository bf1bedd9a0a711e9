"""The rows of a published file as exports have them: with names of areas, and a column for each noisy answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from features.exports.words import area_names, name_column
from pipeline.errors import InputError
from pipeline.metadata.contents import DataFile
from pipeline.missing import install_command
from pipeline.model.area_names import as_cell
from pipeline.model.texts.catalogue import texts_in
from pipeline.published import PublishedRelease
from pipeline.release.measurements import open_measurement
from pipeline.release.tables import read_table_parts
from pipeline.storage.paths import Readable
from pipeline.storage.plain_tables import plain_parts


def required(layout: str, package: str, *packages: str) -> Any:
    """The library that a layout needs; InputError with what to install where it is missing."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(
            f"--format {layout}: needs the package {package}, which is not installed: {install_command(*packages)}"
        ) from None


#: Kinds of files with a row for each geounit of a level, in the spine's order.
_BY_AREA = ("table", "counts", "numbers")
#: Numbers of a measurement read at a time.
_AT_ONCE = 1 << 22


def check_columns(layout: str, file: DataFile, most: int | None = None) -> None:
    """Refuse a file whose columns a database cannot have side by side: it does not tell capital letters apart.

    Args:
        layout: of the export, for the message.
        file: of the release.
        most: columns that it can have.

    Raises:
        InputError: columns differ in capital letters only, or are too many; the message names the table.
    """
    names = [column.name for column in file.columns]
    alike = len({name.casefold() for name in names}) < len(names)
    if alike or (most is not None and len(names) > most):
        found = (
            "answers that differ in capital letters only" if alike else f"{len(names):,} columns, of at most {most:,}"
        )
        raise InputError(
            f"--format {layout}: table {file.table!r} at level {file.level!r} has {found}, which a database cannot "
            "hold: use --format parquet, or leave it out with --table or --level"
        )


class FileRows:
    """The rows of a release's files."""

    def __init__(self, release: PublishedRelease) -> None:
        self._release = release
        self._names: dict[str, Sequence[str] | None] = {}

    def names(self, level: str) -> Sequence[str] | None:
        """The names of a level's areas, None where it has none."""
        if level not in self._names:
            self._names[level] = area_names(self._release, level)
        return self._names[level]

    def source(self, file: DataFile) -> Readable:
        """The published file; ChangedFileError where it is not the release's."""
        return self._release.unchanged(file.source)

    def described(self, file: DataFile) -> DataFile:
        """The file as it is exported: with the column of names, where it has one."""
        if file.kind not in _BY_AREA or self.names(file.level) is None:
            return file
        title = texts_in(self._release.spec.report.language)("Name of the area")
        return file.with_names(name_column([column.name for column in file.columns]), title)

    def parts(self, file: DataFile, *, cells: bool = False) -> Iterator[pa.Table]:
        """Its rows, part by part, at least one part.

        Args:
            file: of the release.
            cells: for files that spreadsheets open: names that they would take for a formula begin with an apostrophe.
        """
        source = self.source(file)
        if file.kind == "measurement":
            return _labelled(file, source)
        if file.kind not in _BY_AREA:
            return plain_parts(source)
        codes, names = self._release.spine.level(file.level).geocodes.tolist(), self.names(file.level)
        most = len(codes) if file.wide is None else None  # a long table has several rows of an area
        parts = _widened(source, len(codes)) if file.widened else plain_parts(source, most)
        if names is None:
            return parts
        own = dict(zip(codes, map(as_cell, names) if cells else names, strict=True))
        return (_named(part, own) for part in parts)


def _named(part: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The rows with the names of their areas after the geocodes."""
    texts = [names[code] for code in part.column("geocode").to_pylist()]
    return part.add_column(1, name_column(part.column_names), pa.array(texts, pa.string()))


def _widened(source: Readable, rows: int) -> Iterator[pa.Table]:
    """A long table with a column for each answer."""
    for part in read_table_parts(source, rows):
        columns = {name: pa.array(values) for name, values in part.columns()}
        yield pa.table({"geocode": pa.array(part.geocodes.tolist(), pa.string()), **columns})


def _labelled(file: DataFile, source: Readable) -> Iterator[pa.Table]:
    """A measurement with a column for each answer, under its label."""
    geocode, *answers, variance = (column.name for column in file.columns)
    with open_measurement(source) as opened:
        step = max(1, _AT_ONCE // len(answers))
        for start in range(0, max(1, len(opened)), step):
            part = opened.read(start, min(start + step, len(opened)))
            numbers = {name: pa.array(column) for name, column in zip(answers, part.values.T, strict=True)}
            codes = pa.array(part.geocodes.tolist(), pa.string())
            yield pa.table({geocode: codes, **numbers, variance: pa.array(part.variances)})
