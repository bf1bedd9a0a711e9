"""Exporting a release's public files to the layouts that others read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from features.exports.chosen import ExportChoice, chosen_files
from features.exports.database import write_database
from features.exports.maps import write_geopackage, write_geoparquet
from features.exports.pl94171 import write_pl94171
from features.exports.plain_files import write_csv_files, write_parquet_files
from features.exports.registry import write_registry_entry
from features.exports.sdmx import write_sdmx
from features.exports.words import facts
from features.exports.workbook import write_workbooks
from pipeline.errors import InputError
from pipeline.exchange.nmf import write_nmf
from pipeline.metadata.contents import DataFile
from pipeline.metadata.facts import fact_lines
from pipeline.published import PublishedRelease
from pipeline.release.layout import file_name
from pipeline.storage.files import new_folder


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
    choice = ExportChoice(tables, levels, microdata, measurements)
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
            (folder / STATUS_FILE).write_text(fact_lines(facts(release)), encoding="utf-8")
    return out


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
        for level in universe.level_names:
            measured = [
                (release.unchanged(directory.measurement(level, draw.query.name)), draw.query)
                for draw in universe.draws()
                if draw.level == level
            ]
            measured += [
                (release.unchanged(directory.invariant(name, query.name)), query)
                for name, query in universe.invariants
                if name == level
            ]
            if measured:
                name = universe.name
                own = folder / "companions" / file_name("companion", name) if name else folder
                write_nmf(own / f"{file_name('level', level)}.parquet", measured)


#: Beside the files of a layout that has no place for such words.
STATUS_FILE = "STATUS.txt"
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
    "pl94171": write_pl94171,
    "nmf": _nmf,
    "dp-registry": write_registry_entry,
}
#: All formats.
LAYOUTS: tuple[str, ...] = (*FORMATS, *TABULAR)
