"""The files of joins that a release publishes, average household sizes and tables by households, and their page.

Columns: geocode, persons and households (int64), average (float64) and, where margins of error are published,
"average:moe90", "average:low90" and "average:high90" (float64), as a table has them. Null where there are no
households, and the last three where the interval of a count is unknown. No number is infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from features.joins.link import size_sources
from pipeline.metadata.contents import Column, Contents, DataFile, ProductFile, axes_of
from pipeline.metadata.products import Description, Product, ReleaseScope
from pipeline.model.link import tables_of
from pipeline.model.texts.message import marked
from pipeline.pages.templates import ReleaseFacts
from pipeline.release.form import REAL, TEXT, WHOLE, Form, open_form
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.tables import INTERVAL_SUFFIXES, decimals_of, interval_columns
from pipeline.storage.files import texts
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray
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


def _form(stated: Mapping[str, Any]) -> Form:
    header = {"kind": "household sizes", **{key: stated.get(key) for key in ("companion", "level", "margins")}}
    averages = [AVERAGE, *(AVERAGE + suffix for suffix in INTERVAL_SUFFIXES if header["margins"])]
    columns = {"geocode": TEXT, PERSONS: WHOLE, HOUSEHOLDS: WHOLE, **dict.fromkeys(averages, REAL)}
    return Form("a file of average household sizes", header, columns, averages)


def write_household_sizes(target: Path, staging: Path, sizes: HouseholdSizes) -> None:
    """Write the file of a level; ReleaseError where it cannot be written."""
    stated = {"companion": sizes.companion, "level": sizes.level, "margins": sizes.averages.lows is not None}
    with _form(stated).writer(target, staging) as out:
        out.add(sizes.geocodes, *(values for _, values in sizes.columns()))


def read_household_sizes(path: Readable, rows: int | None = None) -> HouseholdSizes:
    """What `write_household_sizes` wrote, of at most `rows` geounits.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    with open_form(path, lambda file: _form(file.header), rows) as file:
        header, table = file.header, file.whole()
    with_margins = header["margins"]
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
    )


def _table(of: Contents, file: ProductFile) -> DataFile:
    """A table of persons by what their households are, at a level."""
    own, table, level = of.spec.labels(), file.subject, file.level
    theirs = of.spec.labels(table.companion)
    axes = (*axes_of(table.persons, own, ""), *axes_of(table.households, theirs, table.companion))
    titles = table.columns(own.answers(table.persons), theirs.answers(table.households))
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


def households_view(facts: ReleaseFacts) -> dict[str, Any] | None:
    """What the section on persons and households shows; None where nothing of it is published.

    Errors as `read_household_sizes`.
    """
    sizes = [
        _of_level(
            read_household_sizes(
                facts.readable(sizes_file(facts.run, source.residents.companion, level.name)), len(level)
            )
        )
        for level in facts.spine.levels
        for source in size_sources(facts.links, level.name)
    ]
    tables = tables_of(facts.links)
    return {"sizes": sizes, "tables": tables, "margins": facts.spec.publish.margins} if sizes or tables else None


def _of_level(sizes: HouseholdSizes) -> dict[str, Any]:
    """How many areas, how many of them without households, quantiles of averages and of margins; areas where few."""
    values, lows, highs = sizes.averages.values, sizes.averages.lows, sizes.averages.highs
    margins = (
        np.full(len(values), np.nan) if lows is None or highs is None else np.maximum(values - lows, highs - values)
    )
    return {
        "companion": sizes.companion,
        "level": sizes.level,
        "areas": len(values),
        "empty": int((sizes.households == 0).sum()),
        **{name: quantile_of(values, percent) for name, percent in (("low", 10), ("median", 50), ("high", 90))},
        "margin": quantile_of(margins, 50),
        "listed": list(_areas(sizes)) if len(values) <= MOST_LISTED else [],
    }


def _areas(sizes: HouseholdSizes) -> Iterator[dict[str, Any]]:
    """The average of each area with its interval; None where it is not known."""
    columns = {"average": sizes.averages.values, "low": sizes.averages.lows, "high": sizes.averages.highs}
    for row, code in enumerate(sizes.geocodes.tolist()):
        ends = {
            name: None if column is None or np.isnan(column[row]) else float(column[row])
            for name, column in columns.items()
        }
        counts = {"persons": int(sizes.persons[row]), "households": int(sizes.households[row])}
        yield {"geocode": code, **counts, **ends, "decimals": decimals_of(ends["low"], ends["high"])}
