"""The files of joins that a release publishes: average household sizes, and tables of persons by their households."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from features.joins.household_table import HouseholdTable
from features.joins.link import size_sources
from features.joins.sizes import AVERAGE, HOUSEHOLDS, PERSONS, read_household_sizes
from pipeline.metadata.contents import Column, Contents, DataFile, ProductFile, axes_of
from pipeline.metadata.products import Description, Product, ReleaseScope
from pipeline.model.labels import Labels
from pipeline.model.links.link import tables_of
from pipeline.model.texts.message import marked
from pipeline.release.layout import RunDirectory, file_name


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
