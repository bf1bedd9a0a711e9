"""Exporting a release's public files to the layouts that others read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.exports.chosen import Choice, chosen_files
from features.exports.database import write_database
from features.exports.facts import write_status
from features.exports.maps import write_geopackage, write_geoparquet
from features.exports.pl94171 import CensusTables, column_names
from features.exports.pl94171_files import SummaryFiles, census_levels
from features.exports.plain_files import write_csv_files, write_parquet_files
from features.exports.registry import write_registry_entry
from features.exports.sdmx.files import write_sdmx
from features.exports.words import area_names
from features.exports.workbooks import write_workbooks
from geography.spine import Level
from pipeline.errors import InputError
from pipeline.exchange.nmf import write_nmf
from pipeline.metadata.contents import DataFile
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease
from pipeline.release.layout import file_name
from pipeline.storage.files import new_folder
from pipeline.storage.plain_tables import CsvFiles

#: Geounits worked on at a time.
_AT_ONCE = 20_000


def export_release(
    release: PublishedRelease,
    layout: str,
    out: Path,
    *,
    tables: Sequence[str] = (),
    levels: Sequence[str] = (),
    microdata: bool = False,
    measurements: bool = False,
) -> Path:
    """Write a release in another layout to a new folder; returns the folder.

    Args:
        release: the finished release.
        layout: one of `LAYOUTS`.
        out: a folder that is new or empty; it appears complete or not at all.
        tables: export only these, for the layouts of `TABULAR`; all if empty.
        levels: export only these, likewise.
        microdata: the records, too, for csv and parquet.
        measurements: the noisy answers with a column for each, too, for csv and parquet.

    Raises:
        InputError: the release lacks what the layout needs; the message names it.
    """
    choice = Choice(tables, levels, microdata, measurements)
    if choice and layout not in TABULAR:
        raise InputError(f"--format {layout}: --table and --level choose among tables of {', '.join(TABULAR)}")
    if (microdata or measurements) and layout not in _WITH_RECORDS:
        raise InputError(f"--format {layout}: --microdata and --measurements are for {' and '.join(_WITH_RECORDS)}")
    choice.check(release)
    with new_folder(out) as folder:
        if layout in TABULAR:
            TABULAR[layout](release, folder, chosen_files(release, choice))
        else:
            FORMATS[layout](release, folder)
            write_status(release, folder)
    return out


def _folder(folder: Path, universe: Universe) -> Path:
    return folder / "companions" / file_name("companion", universe.name) if universe.name else folder


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
        if reason := universe.source.refusal("noisy counts"):
            raise InputError(f"--format nmf: {reason}")
    if release.spec.update is not None and release.spec.update.answers:
        raise InputError(
            "--format nmf: this version was made with answers, which the layout has no place for; write the "
            "measurements of the release that it replaces, and the answers as they are in answers/"
        )
    for universe in release.universes:
        if levels := universe.strategy.where_positive:
            raise InputError(
                f"--format nmf: at {', '.join(levels)} there are answers where the area above is positive alone, which "
                "the layout has no place for; they are in positive/"
            )
    for universe in release.universes:
        directory = release.run.universe(universe.name)
        for level in universe.strategy.levels:
            measured = [
                (
                    release.unchanged(directory.measurement(level.level, measured_query.query.name)),
                    measured_query.query,
                )
                for measured_query in level.queries
            ]
            measured += [
                (release.unchanged(directory.invariant(name, query.name)), query)
                for name, query in universe.invariants
                if name == level.level
            ]
            if measured:
                write_nmf(_folder(folder, universe) / f"{file_name('level', level.level)}.parquet", measured)


#: Layouts of tables, of which some can be chosen -> what writes them.
TABULAR: Mapping[str, Callable[[PublishedRelease, Path, Sequence[DataFile]], None]] = {
    "csv": write_csv_files,
    "xlsx": write_workbooks,
    "parquet": write_parquet_files,
    "sdmx": write_sdmx,
    "duckdb": write_database,
    "gpkg": write_geopackage,
    "geoparquet": write_geoparquet,
}
_WITH_RECORDS = ("csv", "parquet")
#: Other layouts, none of which has a place for the status of a release -> what writes them.
FORMATS: Mapping[str, Callable[[PublishedRelease, Path], None]] = {
    "pl94171": _pl94171,
    "nmf": _nmf,
    "dp-registry": write_registry_entry,
}
#: All formats.
LAYOUTS: tuple[str, ...] = (*FORMATS, *TABULAR)
