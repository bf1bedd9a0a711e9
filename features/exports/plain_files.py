"""A release as CSV or Parquet files, with descriptions that other programs read: datapackage.json, and CSVW."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from features.exports.rows import FileRows
from features.exports.words import facts, write_words
from pipeline.metadata.contents import DataFile
from pipeline.metadata.csvw import csvw_table, table_group
from pipeline.metadata.datapackage import data_package, resource
from pipeline.published import PublishedRelease
from pipeline.storage.files import canonical_json
from pipeline.storage.plain_tables import write_csv, write_plain_parquet

#: Of an export: the two descriptions. CSVW readers find the second beside any CSV of the folder.
PACKAGE, CSVW = "datapackage.json", "csv-metadata.json"


def write_csv_files(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write files as CSV, the lists of words, and the descriptions of all of them."""
    rows, written = FileRows(release), []
    for file in files:
        write_csv(folder / f"{file.path}.csv", rows.parts(file, cells=True))
        written.append(rows.described(file))
    written += write_words(release, folder)
    describe(release, folder, written, "csv")
    about, language = release.spec.about, release.spec.report.language or ""
    tables = [csvw_table(file, f"{file.path}.csv") for file in written]
    group = table_group(about, release.spec.name, language, tables)
    group["notes"] = [{"schema:name": key, "schema:text": text} for key, text in facts(release).items()]
    (folder / CSVW).write_bytes(canonical_json(group))


def write_parquet_files(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write files as Parquet with titles of columns in the metadata of fields, and their description."""
    rows = FileRows(release)
    for file in files:
        write_plain_parquet(
            folder / f"{file.path}.parquet", rows.parts(file), titles_of(rows.described(file)), facts(release)
        )
    describe(release, folder, [rows.described(file) for file in files], "parquet")


def titles_of(file: DataFile) -> dict[str, str]:
    """Column of a file -> what it is called for people."""
    return {column.name: column.title for column in file.columns}


def describe(release: PublishedRelease, folder: Path, files: Sequence[DataFile], suffix: str) -> None:
    """Write datapackage.json of exported files, whose names end in `suffix`."""
    described = []
    for file in files:
        path = f"{file.path}.{suffix}"
        described.append(resource(file, path, folder / path))
    spec = release.spec
    package = data_package(spec.name, spec.about, spec.report.language or "", facts(release), described)
    (folder / PACKAGE).write_bytes(canonical_json(package))
