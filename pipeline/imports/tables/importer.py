"""A table of records, or of persons and households -> a folder with its areas and a spec that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from geography.build import spine_from_prefixes, spine_from_table
from geography.codes import counted
from pipeline.errors import InputError, SpineError
from pipeline.imports.folder import ImportFolder, import_folder
from pipeline.imports.tables.guess_schema import GuessedAttribute, guess_count_column, guess_schema, value_labels
from pipeline.imports.tables.guess_spine import GuessedSpine, distinct_rows, guess_spine, level_name
from pipeline.imports.tables.guess_wide import guess_wide, is_wide
from pipeline.imports.tables.households import check_key, guess_key, households_of, place_persons
from pipeline.imports.tables.profile import Column, profile, read_text
from pipeline.imports.tables.sources import describe_source, fetch, is_database
from pipeline.imports.tables.spec_text import GuessedUniverse, shown_path, table_spec
from pipeline.records.record_files import column_names
from pipeline.spec.release_spec import parse_spec
from pipeline.storage.files import check_new


@dataclass(frozen=True)
class TableSource:
    """A table: a CSV or Parquet file, or a database and the query to ask it."""

    source: str
    query: str | None = None

    def __post_init__(self) -> None:
        if self.query is None and is_database(self.source):
            raise InputError(f'{describe_source(self.source)}: a database needs a query; give --query "select ..."')
        if self.query is not None and not is_database(self.source):
            raise InputError(
                f"{self.source}: a query needs a database: a .duckdb file, postgresql://USER@HOST/DATABASE, or duckdb: "
                "for queries over files"
            )


@dataclass(frozen=True)
class TableRequest:
    """What is to be imported.

    Attributes:
        persons: the records.
        households: a table of households, with `key` in both.
        key: the column that says which household a person belongs to; guessed where it is None.
        areas: the public list of all areas, with the columns of the geography.
        geography: the columns of the levels, top first; guessed where it is empty.
        count: the column of counts, where a row is not one record; guessed where it is None.
        name: the release's name; by default that of the file.
    """

    persons: TableSource
    households: TableSource | None = None
    key: str | None = None
    areas: Path | None = None
    geography: tuple[str, ...] = ()
    count: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class ImportedTable:
    """What was written, and what was guessed."""

    spec: Path
    told: tuple[str, ...]


@dataclass
class _Parts:
    """What becomes the spec, as it is found."""

    folder: ImportFolder
    out: Path
    told: list[str] = field(default_factory=list)

    def table(self, source: TableSource, name: str) -> Path:
        """The table's file; a query's result is written to the folder."""
        if source.query is None:
            return Path(source.source)
        with self.folder.file(name, private=True) as path:
            n_rows = fetch(source.source, source.query, path)
        self.told.append(f"{n_rows:,} rows of {describe_source(source.source)} are in {name}")
        return path

    def shown(self, path: Path) -> str:
        """The file as the spec names it: files of the folder by their name."""
        return path.name if path.parent == self.folder.path else shown_path(path)


def import_table(request: TableRequest, out: Path) -> ImportedTable:
    """Look at the table, guess spine and schema, and write `out`: areas.parquet, release.toml, and what was fetched.

    Raises:
        InputError: a file cannot be read, or nothing in it can be guessed; nothing is written then.
    """
    check_new(out)
    with import_folder(out) as folder:
        parts = _Parts(folder, out)
        path = parts.table(request.persons, "persons.parquet")
        columns = profile(path)
        households: GuessedUniverse | None = None
        if request.households is not None:
            path, columns, spine, areas, households = _with_households(request, parts, path, columns)
        else:
            spine = guess_spine(path, columns, request.geography)
            areas = path
            if spine.width:
                path = _with_zeros(parts, path, spine)
                areas = path
        parts.told += spine.told
        _write_areas(request, parts, areas, spine)
        others = [name for name in columns if name not in spine.columns]
        if request.households is None and is_wide(columns, spine.leaf, others) and request.count is None:
            persons = _wide(parts, path, columns, spine, others)
        else:
            key = request.key
            if request.households is None:
                key = key or guess_key(path, columns, spine.leaf)
            if request.households is None and key is not None:
                households = _own_households(parts, path, columns, key, spine)
            persons = _records(request, parts, path, columns, spine, key, households)
        text = table_spec(
            name=request.name or _name_of(request.persons.source),
            source=describe_source(request.persons.source),
            query=request.persons.query,
            spine=spine,
            areas_given=request.areas is not None,
            persons=persons,
            households=households,
            told=parts.told,
        )
        parse_spec(text, f"{out / 'release.toml'} (not written)", out)
        folder.text("release.toml", text)
    return ImportedTable(out / "release.toml", tuple(parts.told))


def _name_of(source: str) -> str:
    name = "release" if is_database(source) else Path(source).name.split(".")[0]
    return level_name(name).replace("_", "-")


def _with_households(
    request: TableRequest, parts: _Parts, path: Path, columns: Mapping[str, Column]
) -> tuple[Path, dict[str, Column], GuessedSpine, Path, GuessedUniverse]:
    """The persons with their leaf, and the households, of two tables with a key."""
    assert request.households is not None
    household_path = parts.table(request.households, "households.parquet")
    household_columns = profile(household_path)
    key = request.key or next(
        (name for name in household_columns if name in columns and _is_key(household_columns[name])), None
    )
    if key is None:
        raise InputError(
            f"{household_path}: no column is the key of its rows and stands in {path} too; name it with --key"
        )
    for file, of_file in ((path, columns), (household_path, household_columns)):
        check_key(file, of_file, key)
    spine = guess_spine(household_path, household_columns, request.geography)
    with parts.folder.file("located.parquet", private=True) as target:
        n_empty = place_persons(path, household_path, key, spine.leaf, target)
    parts.told.append(f"column {key!r} leads from persons to households; persons have the {spine.leaf!r} of theirs")
    if n_empty:
        parts.told.append(f"{counted(n_empty, 'household')} without persons")
    if path.parent == parts.folder.path:
        path.unlink()
    path = target.rename(target.with_name("persons.parquet"))
    schema = guess_schema(household_columns, [*spine.columns, key])
    if not schema.attributes:
        raise InputError(f"{household_path}: no column can be an attribute of households: {'; '.join(schema.left_out)}")
    households = GuessedUniverse(
        schema.attributes, parts.shown(household_path), spine.leaf, "microdata", left_out=schema.left_out
    )
    return path, profile(path), spine, household_path, households


def _with_zeros(parts: _Parts, path: Path, spine: GuessedSpine) -> Path:
    """The table as text, with codes filled up to their width, in persons.parquet."""
    writer: pq.ParquetWriter | None = None
    try:
        with parts.folder.file("filled.parquet", private=True) as target:
            for chunk in read_text(path, column_names(path)):
                chunk[spine.leaf] = [code.zfill(spine.width) if code else code for code in chunk[spine.leaf]]
                columns = {
                    name: pa.array([value or None for value in values], pa.string()) for name, values in chunk.items()
                }
                batch = pa.RecordBatch.from_pydict(columns)
                writer = writer or pq.ParquetWriter(target, batch.schema, compression="zstd")
                writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    return target.rename(target.with_name("persons.parquet"))


def _is_key(column: Column) -> bool:
    return not column.n_missing and (column.too_many or column.n_distinct == column.n_rows)


def _own_households(
    parts: _Parts, path: Path, columns: Mapping[str, Column], key: str, spine: GuessedSpine
) -> GuessedUniverse:
    """The households of a table of persons, written to households.parquet."""
    found = households_of(path, columns, key, spine.leaf, spine.columns)
    parts.told += [f"column {key!r} is the key of households", *found.told]
    table = pa.table({name: pa.array(found.table[name].tolist(), pa.string()) for name in found.table.columns})
    parts.folder.parquet("households.parquet", table, private=True)
    target = parts.folder.path / "households.parquet"
    schema = guess_schema(profile(target), [spine.leaf, key])
    if not schema.attributes:
        raise InputError(f"{path}: no column can be an attribute of households: {'; '.join(schema.left_out)}")
    return GuessedUniverse(schema.attributes, target.name, spine.leaf, "microdata", left_out=schema.left_out)


def _records(
    request: TableRequest,
    parts: _Parts,
    path: Path,
    columns: Mapping[str, Column],
    spine: GuessedSpine,
    key: str | None,
    households: GuessedUniverse | None,
) -> GuessedUniverse:
    """Microdata or the long form."""
    used = [*spine.columns, *([key] if key is not None else [])]
    if households is not None and request.households is None:
        used += [attribute.column for attribute in households.attributes]
    count = request.count
    if count is not None and count not in columns:
        raise InputError(f"{path}: --count: no column {count!r}; the columns are {', '.join(list(columns)[:20])}")
    if count is None and households is None:
        count = guess_count_column(columns, used)
    if count is not None:
        used.append(count)
        parts.told.append(f"column {count!r} holds counts: a row is a cell, not a record")
    schema = guess_schema(columns, used)
    if not schema.attributes:
        raise InputError(
            f"{path}: no column can be an attribute: {'; '.join(schema.left_out) or 'all of them are the geography'}"
        )
    parts.told.append("attributes: " + ", ".join(f"{a.name} ({len(a.values)} values)" for a in schema.attributes))
    parts.told += [f"left out: {text}" for text in schema.left_out]
    return GuessedUniverse(
        schema.attributes,
        parts.shown(path),
        spine.leaf,
        "microdata" if count is None else "long",
        count,
        left_out=schema.left_out,
    )


def _wide(
    parts: _Parts, path: Path, columns: Mapping[str, Column], spine: GuessedSpine, others: Sequence[str]
) -> GuessedUniverse:
    found = guess_wide(path, columns, others)
    left_out = tuple(f"column {name!r}: not one of the counts" for name in others if name not in found.used)
    parts.told += ["a row is an area, with its counts side by side", *found.told]
    parts.told += [f"left out: {text}" for text in left_out]
    attributes = tuple(_named(name, values) for name, values in found.attributes.items())
    return GuessedUniverse(attributes, parts.shown(path), spine.leaf, "wide", cells=found.cells, left_out=left_out)


def _named(name: str, texts: Sequence[str]) -> GuessedAttribute:
    labels = value_labels(texts)
    mapped = {text: label for text, label in labels.items() if text != label}
    return GuessedAttribute(name, name, tuple(labels.values()), mapped)


def _write_areas(request: TableRequest, parts: _Parts, path: Path, spine: GuessedSpine) -> None:
    """areas.parquet: one column a level, or the nested codes; from the list that was given, else from the records."""
    if request.areas is not None:
        path = request.areas
        present = column_names(path, what="the list of areas")
        if missing := [name for name in spine.columns if name not in present]:
            raise InputError(
                f"{path}: --areas: no column {missing[0]!r}, which the records have; its columns are "
                f"{', '.join(present[:20])}"
            )
    else:
        parts.told.append("areas.parquet was made from the records; put the public list of all areas in its place")
    rows = distinct_rows(path, spine.columns)
    incomplete = (rows == "").any(axis=1)
    if incomplete.all():
        raise InputError(f"{path}: no row has a code in every column of {', '.join(spine.columns)}")
    if incomplete.any():
        parts.told.append("Warning: rows without a code in every column of the geography are in no area")
    rows = rows[~incomplete]
    if spine.width:
        rows = rows.apply(
            lambda column: column.str.zfill(spine.width)
        ).drop_duplicates()  # a list may have lost them too
    table = areas_table(rows, spine)
    try:
        if spine.prefixes:
            spine_from_prefixes(table.column("geocode").to_pylist(), spine.prefixes)
        else:
            spine_from_table(table, spine.names)
    except SpineError as error:
        raise InputError(f"{path}: {error}") from None
    parts.folder.parquet("areas.parquet", table)


def areas_table(rows: pd.DataFrame, spine: GuessedSpine) -> pa.Table:
    """The areas in order, one row a leaf."""
    rows = rows.sort_values(list(spine.columns))
    names = ("geocode",) if spine.prefixes else spine.names
    return pa.table(
        {name: pa.array(rows[column].tolist(), pa.string()) for name, column in zip(names, spine.columns, strict=True)}
    )
