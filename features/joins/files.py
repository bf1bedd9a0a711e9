"""The files of joins that a release publishes, average household sizes and tables by households, and their page.

Columns: geocode, persons and households (int64), average (float64) and, where margins of error are published,
"average:moe90", "average:low90" and "average:high90" (float64), as a table has them. Null where there are no
households, and the last three where the interval of a count is unknown. No number is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.joins.link import HouseholdTable, size_sources
from pipeline.errors import ReleaseError
from pipeline.metadata.contents import Column, Contents, DataFile, ProductFile, axes_of
from pipeline.metadata.products import Description, Product, ReleaseScope
from pipeline.model.labels import Labels
from pipeline.model.link import LinkedTable, tables_of
from pipeline.model.texts.message import marked
from pipeline.pages.templates import ReleaseFacts
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.tables import INTERVAL_SUFFIXES, decimals_of, interval_columns
from pipeline.storage.files import open_parquet, parquet_sink, read_header, reading, rows_per_group, strings, texts
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray, IntArray
from postprocess.statistics import Averages, quantile_of

#: Columns of the file; the interval's follow the last.
PERSONS, HOUSEHOLDS, AVERAGE = "persons", "households", "average"


@dataclass(frozen=True, eq=False)
class HouseholdSizes:
    """Average household sizes of the geounits of a level.

    Attributes:
        companion: whose records are the households.
        level: of the geounits.
        geocodes: `(n,)` of str.
        persons, households: `(n,)` int64, released.
        averages: persons for each household, and their intervals.
    """

    companion: str
    level: str
    geocodes: NDArray[np.str_]
    persons: IntArray
    households: IntArray
    averages: Averages

    def columns(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """The columns after the geocode, with their names; NaN for what is null in the file."""
        yield PERSONS, self.persons
        yield HOUSEHOLDS, self.households
        yield from interval_columns(AVERAGE, self.averages)


def _columns(*, with_margins: bool) -> pa.Schema:
    names = [AVERAGE, *(AVERAGE + suffix for suffix in INTERVAL_SUFFIXES if with_margins)]
    fields = [pa.field("geocode", pa.string(), nullable=False)]
    fields += [pa.field(name, pa.int64(), nullable=False) for name in (PERSONS, HOUSEHOLDS)]
    return pa.schema([*fields, *(pa.field(name, pa.float64()) for name in names)])


def write_household_sizes(target: Path, staging: Path, sizes: HouseholdSizes) -> None:
    """Write the file of a level; ReleaseError where it cannot be written."""
    with_margins = sizes.averages.lows is not None
    columns = _columns(with_margins=with_margins)
    header = {
        "kind": "household sizes", "companion": sizes.companion, "level": sizes.level, "margins": with_margins,
    }  # fmt: skip
    step = rows_per_group(len(columns))
    with parquet_sink(target, staging, columns, header) as sink:
        for first in range(0, len(sizes.geocodes), step):
            rows = slice(first, first + step)
            arrays = [
                pa.array(values[rows], mask=np.isnan(values[rows]) if values.dtype == np.float64 else None)
                for _, values in sizes.columns()
            ]
            sink.write(strings(sizes.geocodes[rows]), *arrays)


def read_household_sizes(path: Readable, rows: int | None = None) -> HouseholdSizes:
    """What `write_household_sizes` wrote, of at most `rows` geounits.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    with open_parquet(path, rows) as file, reading(path):
        header = read_header(file, path)
        if header.get("kind") != "household sizes" or header.keys() != {"kind", "companion", "level", "margins"}:
            raise ReleaseError(f"{path} is not a file of average household sizes")
        with_margins = bool(header["margins"])
        if not file.schema_arrow.equals(_columns(with_margins=with_margins)):
            raise ReleaseError(f"{path} is damaged: its columns are not those of average household sizes")
        table = file.read()
    counts = [table.column(name).to_numpy() for name in (PERSONS, HOUSEHOLDS)]
    names = (AVERAGE, *(AVERAGE + suffix for suffix in INTERVAL_SUFFIXES[1:])) if with_margins else (AVERAGE,)
    values = [np.array(table.column(name).to_numpy(), dtype=np.float64) for name in names]
    lows, highs = (values[1], values[2]) if with_margins else (None, None)
    return HouseholdSizes(
        companion=str(header["companion"]),
        level=str(header["level"]),
        geocodes=texts(table.column("geocode")),
        persons=counts[0],
        households=counts[1],
        averages=Averages(values[0], lows, highs),
    )


def sizes_file(run: RunDirectory, companion: str, level: str) -> Path:
    """Average household sizes of a joined companion, one row a geounit, with their intervals."""
    return run.public / "household_sizes" / file_name("companion", companion) / f"{file_name('level', level)}.parquet"


def _size_files(of: ReleaseScope) -> Iterator[ProductFile]:
    links = of.spec.links(of.universes)
    for level in of.spec.geography.level_names:
        for source in size_sources(links, level):
            companion = source.residents.companion
            yield ProductFile(sizes_file(of.run, companion, level), companion, level, source)


def _table_files(of: ReleaseScope) -> Iterator[ProductFile]:
    for table in tables_of(of.spec.links(of.universes)):
        for level in table.levels:
            yield ProductFile(table.file(of.run.public, level), "", level, table)


def _sizes(of: Contents, file: ProductFile) -> DataFile:
    """Average household sizes of a joined companion at a level."""
    companion, level = file.universe, file.level
    named = of.spec.labels(companion).records or companion
    columns = [
        Column(PERSONS, "integer", of.texts("Persons in {what}", what=named)),
        Column(HOUSEHOLDS, "integer", named[:1].upper() + named[1:]),
        *of.with_interval(AVERAGE, "number", of.texts("Persons for each"), filled=False),
    ]
    return DataFile(
        f"household_sizes/{companion}/{level}",
        "numbers",
        file.path,
        *(companion, companion, level),
        *of.titles(of.texts("Average size of {what}", what=named), level),
        (of.geocode(level), *columns),
        read=read_household_sizes,
    )


def _table(of: Contents, file: ProductFile) -> DataFile:
    """A table of persons by what their households are, at a level."""
    own, table, level = of.spec.labels(), file.subject, file.level
    axes = (
        *axes_of(table.persons, own, ""),
        *axes_of(table.households, of.spec.labels(table.companion), table.companion),
    )
    titles = labels_of_household_table(table, own, of.spec.labels(table.companion))
    counts = [Column(name, "integer", title) for name, title in zip(table.labels, titles, strict=True)]
    return DataFile(
        f"household_tables/{table.name}/{level}",
        "counts",
        file.path,
        *("", table.name, level),
        *of.titles(own.table(table.name), level),
        (of.geocode(level), *counts),
        axes=axes,
        note=of.texts(table.note),
    )


def labels_of_household_table(table: HouseholdTable, persons: Labels, households: Labels) -> tuple[str, ...]:
    """A label for each column of the table, as `HouseholdTable.labels` has the names."""
    theirs = households.answers(table.households)
    if not table.persons.terms:
        return theirs
    own = persons.answers(table.persons)
    return tuple(f"{one} * {home}" for one in own for home in theirs) if table.households.terms else own


HOUSEHOLD_SIZES: Final = Product(
    "household_sizes/NAME/LEVEL.parquet",
    "geocode, persons in households, households, their average with its interval ([[join]])",
    "computed",
    _size_files,
    Description((2, 0), _sizes, of_areas="averages"),
    after="tables/TABLE/LEVEL.parquet",
    in_report=("household_sizes/COMPANION/LEVEL.parquet", marked("average household sizes with their intervals")),
)
HOUSEHOLD_TABLES: Final = Product(
    "household_tables/TABLE/LEVEL.parquet",
    "persons by what their households are, in the form of a table without margins",
    "computed",
    _table_files,
    Description((3, 0), _table, of_areas="tables"),
    after="microdata.parquet",
    in_report=(
        "household_tables/TABLE/LEVEL.parquet",
        marked("persons by the characteristics of their households, without margins of error"),
    ),
)


#: Areas of one level that are listed one by one.
MOST_LISTED = 60


@dataclass(frozen=True)
class AreaSize:
    """The average household size of one area; no average where there are no households."""

    geocode: str
    persons: int
    households: int
    average: float | None
    low: float | None
    high: float | None

    @property
    def decimals(self) -> int:
        """With which the average and its interval are shown."""
        return decimals_of(self.low, self.high)


@dataclass(frozen=True)
class LevelSizes:
    """The average household sizes of a level.

    Attributes:
        areas, empty: how many areas, and how many of them without households.
        low, median, high: 10 %, 50 % and 90 % of the averages are at most this; None where there are none.
        margin: half of the margins of error are at most this; None where there are none.
        listed: all areas; none where they are many.
    """

    companion: str
    level: str
    areas: int
    empty: int
    low: float | None
    median: float | None
    high: float | None
    margin: float | None
    listed: tuple[AreaSize, ...]


@dataclass(frozen=True)
class HouseholdsView:
    """What the section on persons and households shows.

    Attributes:
        sizes: average household sizes of levels.
        tables: of persons by their households.
        margins: whether the release has any.
    """

    sizes: tuple[LevelSizes, ...]
    tables: tuple[LinkedTable, ...]
    margins: bool


def households_view(facts: ReleaseFacts) -> HouseholdsView | None:
    """The section; None where nothing of it is published. Errors as `read_household_sizes`."""
    view = HouseholdsView(level_sizes(facts), tables_of(facts.links), facts.spec.publish.margins)
    return view if view.sizes or view.tables else None


def level_sizes(facts: ReleaseFacts) -> tuple[LevelSizes, ...]:
    """Of every companion and level of which they are published; errors as `read_household_sizes`."""
    return tuple(
        _of_level(
            read_household_sizes(
                facts.readable(sizes_file(facts.run, source.residents.companion, level.name)), len(level)
            )
        )
        for level in facts.spine.levels
        for source in size_sources(facts.links, level.name)
    )


def _of_level(sizes: HouseholdSizes) -> LevelSizes:
    values, lows, highs = sizes.averages.values, sizes.averages.lows, sizes.averages.highs
    margins = (
        np.full(len(values), np.nan) if lows is None or highs is None else np.maximum(values - lows, highs - values)
    )
    ends = [quantile_of(values, percent) for percent in (10, 50, 90)]
    return LevelSizes(
        companion=sizes.companion,
        level=sizes.level,
        areas=len(values),
        empty=int((sizes.households == 0).sum()),
        low=ends[0],
        median=ends[1],
        high=ends[2],
        margin=quantile_of(margins, 50),
        listed=tuple(_areas(sizes)) if len(values) <= MOST_LISTED else (),
    )


def _areas(sizes: HouseholdSizes) -> Iterator[AreaSize]:
    averages = sizes.averages
    for row, code in enumerate(sizes.geocodes.tolist()):
        ends = [_known(column, row) for column in (averages.values, averages.lows, averages.highs)]
        yield AreaSize(code, int(sizes.persons[row]), int(sizes.households[row]), *ends)


def _known(column: FloatArray | None, row: int) -> float | None:
    return None if column is None or np.isnan(column[row]) else float(column[row])
