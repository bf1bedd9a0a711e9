"""Exporting a release's public files to the layouts that others read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geography.spine import Level
from pipeline.errors import InputError
from pipeline.exchange.nmf import write_nmf
from pipeline.export.mdf import DetailFile, person_attributes, unit_attributes
from pipeline.export.pl94171 import CensusTables, column_names
from pipeline.export.pl94171_files import SummaryFiles, census_levels
from pipeline.export.plain import CsvFiles, plain_parts, write_csv, write_plain_parquet
from pipeline.export.population import write_population
from pipeline.export.words import ABOUT_COLUMNS, LABEL_COLUMNS, area_names, label_rows, with_names, write_words
from pipeline.export.workbook import SheetWords, check_fits, require_openpyxl, write_workbook
from pipeline.model.query import Query
from pipeline.model.residents import size_sources
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
from pipeline.release.layout import file_name
from pipeline.release.tables import n_columns, read_table
from pipeline.storage.files import new_folder

#: Geounits worked on at a time.
_AT_ONCE = 20_000


def export_release(
    release: PublishedRelease,
    layout: str,
    out: Path,
    *,
    tables: Sequence[str] = (),
    levels: Sequence[str] = (),
) -> Path:
    """Write a release in another layout to a new folder; returns the folder.

    Args:
        release: the finished release.
        layout: one of `FORMATS`.
        out: a folder that is new or empty; it appears complete or not at all.
        tables: export only these, for csv, parquet and xlsx; all if empty.
        levels: export only these, likewise.

    Raises:
        InputError: the release lacks what the layout needs; the message names it.
    """
    if (tables or levels) and layout not in _PLAIN:
        raise InputError(f"--format {layout}: --table and --level choose among tables of {', '.join(_PLAIN)}")
    if unknown := [level for level in levels if level not in release.spine.level_names]:
        raise InputError(f"--level {unknown[0]}: no such level; the levels are {', '.join(release.spine.level_names)}")
    table_names = list(dict.fromkeys(table.name for universe in release.universes for table in universe.tables))
    if layout in ("csv", "parquet"):
        table_names += [table.name for table in release.spec.tables_of_households()]
    if unknown := [table for table in tables if table not in table_names]:
        raise InputError(f"--table {unknown[0]}: no such table; the tables are {', '.join(table_names) or 'none'}")
    chosen = [
        (universe, table.name, [level for level in table.levels if not levels or level in levels])
        for universe in release.universes
        for table in universe.tables
        if not tables or table.name in tables
    ]
    with new_folder(out) as folder:
        if layout in _PLAIN:
            _PLAIN[layout](release, folder, [choice for choice in chosen if choice[2]])
            if layout in ("csv", "parquet"):
                write = write_csv if layout == "csv" else write_plain_parquet
                for name, path in _of_households(release, tables, levels):
                    write(folder / f"{name}.{layout}", plain_parts(path))
            if layout == "csv" and release.spec.publish.microdata and not tables and not levels:
                _microdata(release, folder)
        else:
            FORMATS[layout](release, folder)
    return out


def _of_households(
    release: PublishedRelease, tables: Sequence[str], levels: Sequence[str]
) -> Iterator[tuple[str, Path]]:
    """What is published of persons and their households: the path of the export without its suffix, and the file."""
    for level in (name for name in release.spine.level_names if not levels or name in levels):
        for source in size_sources(release.universes, release.spec.joins(), level) if not tables else ():
            companion = source.residents.companion
            yield f"household_sizes/{companion}/{level}", release.run.household_sizes(companion, level)
        for table in release.spec.tables_of_households():
            if level in table.levels and (not tables or table.name in tables):
                yield f"household_tables/{table.name}/{level}", release.run.household_table(table.name, level)


def _folder(folder: Path, universe: Universe) -> Path:
    return folder / "companions" / file_name("companion", universe.name) if universe.name else folder


_Chosen = Sequence[tuple[Universe, str, list[str]]]


def _csv(release: PublishedRelease, folder: Path, chosen: _Chosen) -> None:
    names = _names(release)
    for universe, table, levels in chosen:
        for level in levels:
            path = release.run.universe(universe.name).table(table, level)
            parts = with_names(plain_parts(path), names[level], cells=True)
            write_csv(_folder(folder, universe) / table / f"{level}.csv", parts)
    write_words(release, folder)


def _parquet(release: PublishedRelease, folder: Path, chosen: _Chosen) -> None:
    names = _names(release)
    for universe, table, levels in chosen:
        for level in levels:
            path = release.run.universe(universe.name).table(table, level)
            parts = with_names(plain_parts(path), names[level], cells=False)
            write_plain_parquet(_folder(folder, universe) / table / f"{level}.parquet", parts)


def _query(universe: Universe, table: str) -> Query:
    return next(candidate.query for candidate in universe.tables if candidate.name == table)


def _names(release: PublishedRelease) -> dict[str, list[str] | None]:
    return {level: area_names(release, level) for level in release.spine.level_names}


def _xlsx(release: PublishedRelease, folder: Path, chosen: _Chosen) -> None:
    require_openpyxl()
    by_level = {level.name: len(level) for level in release.spine.levels}
    names = _names(release)
    lists: list[tuple[str, Sequence[str], Sequence[Sequence[str]]]] = [
        ("labels", LABEL_COLUMNS, label_rows(release)),
        ("about", ABOUT_COLUMNS, release.spec.about.rows()),
    ]
    for universe, table, levels in chosen:  # before anything is written
        size = _query(universe, table).size
        columns = n_columns(size, with_margins=release.spec.publish.margins)
        for level in levels:
            check_fits(table, level, by_level[level], columns + (names[level] is not None))
    for universe, table, levels in chosen:
        files = release.run.universe(universe.name)
        sheets = [read_table(files.table(table, level), by_level[level]) for level in levels]
        words = SheetWords(names, release.spec.labels(universe.name).columns(_query(universe, table)), lists)
        write_workbook(_folder(folder, universe) / f"{table}.xlsx", sheets, words)


def _microdata(release: PublishedRelease, folder: Path) -> None:
    for universe in release.universes:
        path = release.run.universe(universe.name).microdata
        write_csv(_folder(folder, universe) / "microdata.csv", plain_parts(path))


def _mdf(release: PublishedRelease, folder: Path) -> None:
    leaves = release.spine.leaf_level
    lengths = np.strings.str_len(leaves.geocodes)
    if (lengths != 15).any():
        raise InputError(
            f"--format mdf: the geocodes of level {leaves.name!r} are not the 15 characters of a census block (first "
            f"{str(leaves.geocodes[int(np.argmax(lengths != 15))])!r}); --format csv writes any release's microdata"
        )
    main, *others = release.universes
    files = [(main, DetailFile(main.schema, person_attributes(main.schema), "person"), "mdf_person.csv")]
    for universe in others:
        if attributes := unit_attributes(universe.schema):
            files.append((universe, DetailFile(universe.schema, attributes, "unit"), "mdf_unit.csv"))
    for universe, layout, name in files[:2]:
        write_csv(folder / name, _detail_rows(release, universe, layout))


def _detail_rows(release: PublishedRelease, universe: Universe, layout: DetailFile) -> Iterator[pa.Table]:
    leaves = release.spine.leaf_level
    counts = release.histogram(universe, leaves)
    for start in range(0, len(leaves), _AT_ONCE):
        yield layout.rows(leaves.geocodes[start : start + _AT_ONCE], counts[start : start + _AT_ONCE])


def _pl94171(release: PublishedRelease, folder: Path) -> None:
    tables = CensusTables.of(release.universes)
    summary = census_levels(release.spine)
    with CsvFiles(folder / "tables") as csv, SummaryFiles(folder, tables.names) as files:
        for level in release.spine.levels:
            names = area_names(release, level.name)
            for start, counts in _census_counts(release, tables, level):
                geocodes = level.geocodes[start : start + len(counts["P1"])]
                for name in tables.names:
                    csv.write(name.lower(), _census_part(level.name, summary, geocodes, name, counts[name]))
                if level.name in summary:
                    own = None if names is None else names[start : start + len(geocodes)]
                    files.write(summary[level.name], geocodes, counts, own)


def _census_counts(
    release: PublishedRelease, tables: CensusTables, level: Level
) -> Iterator[tuple[int, dict[str, NDArray[np.int64]]]]:
    """Every table for the geounits of a level, some at a time."""
    histograms = {
        universe.name: release.histogram(universe, level)
        for universe in release.universes
        if universe.name in tables.universes
    }
    for start in range(0, len(level), _AT_ONCE):
        yield start, tables.tables({name: counts[start : start + _AT_ONCE] for name, counts in histograms.items()})


def _census_part(
    level: str, summary: Mapping[str, str], geocodes: NDArray[np.str_], table: str, counts: NDArray[np.int64]
) -> pa.Table:
    """Rows of one table, `(n, columns)`, under their census names."""
    n = len(geocodes)
    columns = {
        "LEVEL": pa.array([level] * n, pa.string()),
        "SUMLEV": pa.array([summary.get(level, "")] * n, pa.string()),
        "GEOCODE": pa.array(geocodes.tolist(), pa.string()),
    }
    for name, column in zip(column_names(table), counts.T, strict=True):
        columns[name] = pa.array(column)
    return pa.table(columns)


def _nmf(release: PublishedRelease, folder: Path) -> None:
    for universe in release.universes:
        directory = release.run.universe(universe.name)
        for level in universe.strategy.levels:
            measured = [
                (directory.measurement(level.level, measured_query.query.name), measured_query.query)
                for measured_query in level.queries
            ]
            measured += [
                (directory.invariant(name, query.name), query)
                for name, query in universe.invariants
                if name == level.level
            ]
            if measured:
                write_nmf(_folder(folder, universe) / f"{file_name('level', level.level)}.parquet", measured)


_PLAIN: Mapping[str, Callable[[PublishedRelease, Path, _Chosen], None]] = {
    "csv": _csv,
    "parquet": _parquet,
    "xlsx": _xlsx,
}
#: Layout -> what writes it.
FORMATS: Mapping[str, Callable[[PublishedRelease, Path], None]] = {
    "pl94171": _pl94171,
    "mdf": _mdf,
    "nmf": _nmf,
    "activitysim": write_population,
}
#: All formats.
LAYOUTS: tuple[str, ...] = ("pl94171", "mdf", "nmf", "activitysim", "csv", "xlsx", "parquet")
