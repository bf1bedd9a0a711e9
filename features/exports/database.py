"""All tables of a release in one DuckDB database, with views by level and the words that explain them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from features.exports.chosen import by_table
from features.exports.rows import FileRows, check_columns, required
from features.exports.words import ABOUT_COLUMNS, LABEL_COLUMNS, about_rows, label_rows, text_table
from pipeline.errors import InputError
from pipeline.metadata.contents import DataFile
from pipeline.published import PublishedRelease
from pipeline.storage.paths import local_name
from pipeline.storage.plain_tables import without_nan


def write_database(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write `NAME.duckdb`.

    A table has the rows of all its levels, with a column `level` first; the view `TABLE_LEVEL` has those of one level.
    Tables of a companion begin with its name, others with household_sizes and household_tables. `release_areas` has
    every area with its level, name and the area above it; `release_columns` every column with its title;
    `release_about` and `release_labels` the words.

    Raises:
        InputError: duckdb is not installed, or two names differ in what the database does not tell apart.
    """
    duckdb = required("duckdb", "duckdb", "duckdb")
    with duckdb.connect(local_name(folder / f"{release.spec.name}.duckdb")) as database:
        try:
            _write(database, release, files)
        except duckdb.CatalogException as error:
            raise InputError(
                "--format duckdb: tables or views of one name, or whose names differ in capital letters only, cannot "
                f"stand side by side in a database ({str(error).splitlines()[0]}); leave them out with --table"
            ) from None


def _write(database: Any, release: PublishedRelease, files: Sequence[DataFile]) -> None:
    rows = FileRows(release)
    for file in files:
        check_columns("duckdb", file)
    described = []
    for group in by_table(files).values():
        # The level that has most columns first: some levels have names, and others none.
        own = sorted(group, key=lambda file: -len(rows.described(file).columns))
        columns_of = rows.described(own[0]).columns
        described += [(table_name(group[0]), column.name, column.type, column.title) for column in columns_of]
        _write_table(database, own, rows)
    for file in files:
        table = table_name(file)
        column, level = _quoted(_level_column(file)), file.level.replace("'", "''")
        database.execute(
            f"create view {_quoted(f'{table}_{file.level}')} as select * exclude ({column}) "
            f"from {_quoted(table)} where {column} = '{level}'"
        )
    columns = ("table", "column", "type", "title")
    _write_texts(database, "columns", columns, described)
    _write_texts(database, "areas", ("level", "geocode", "name", "above"), list(_areas(release, rows)))
    _write_texts(database, "labels", LABEL_COLUMNS, label_rows(release))
    _write_texts(database, "about", ABOUT_COLUMNS, about_rows(release))


def table_name(file: DataFile) -> str:
    """The name of the table that a file's rows are in."""
    *folders, table, _ = file.path.removeprefix("companions/").split("/")
    return "_".join([*folders, table])


def _write_table(database: Any, files: Sequence[DataFile], rows: FileRows) -> None:
    name = _quoted(table_name(files[0]))
    made = False
    for file in files:
        for part in rows.parts(file):
            levelled = without_nan(part).add_column(0, _level_column(file), pa.array([file.level] * part.num_rows))
            database.register("part", levelled)
            if not made:
                database.execute(f"create table {name} as select * from part limit 0")
                made = True
            database.execute(f"insert into {name} by name select * from part")
            database.unregister("part")


def _level_column(file: DataFile) -> str:
    """The column of levels: "level", unless an answer is called so."""
    return "level" if "level" not in {column.name.casefold() for column in file.columns} else "level of the area"


def _areas(release: PublishedRelease, rows: FileRows) -> Iterator[tuple[str, str, str, str]]:
    """Level, geocode, name and the code of the area above, "" at the top."""
    above: Sequence[str] = ()
    for number, level in enumerate(release.spine.levels):
        codes = level.geocodes.tolist()
        names = rows.names(level.name) or [""] * len(codes)
        parents = [above[parent] for parent in level.parents.tolist()] if number else [""] * len(codes)
        yield from zip([level.name] * len(codes), codes, names, parents, strict=True)
        above = codes


def _write_texts(database: Any, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of texts, which may have no rows."""
    database.register("part", text_table(columns, rows))
    database.execute(f"create table release_{name} as select * from part")
    database.unregister("part")


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
