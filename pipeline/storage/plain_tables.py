"""Released tables and microdata as plain CSV and Parquet, for programs that know nothing of this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from pipeline.errors import ReleaseError
from pipeline.storage.files import open_parquet, read_row_groups, reading
from pipeline.storage.paths import Readable, local_name

_OPTIONS = csv.WriteOptions(quoting_style="needed", quoting_header="needed")


def plain_parts(path: Readable, rows: int | None = None) -> Iterator[pa.Table]:
    """The rows of a released Parquet file, part by part, without dictionaries and headers; at most so many rows."""
    with open_parquet(path, rows) as file, reading(path):
        fields = [
            pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
            for field in file.schema_arrow
        ]
        if nested := [field.name for field in fields if pa.types.is_nested(field.type)]:
            raise ReleaseError(f"{path} is damaged: its column {nested[0]!r} is neither of numbers nor of texts")
        schema = pa.schema(fields)
        if not file.num_row_groups:
            yield schema.empty_table()
        for part in read_row_groups(file, path):
            yield part.replace_schema_metadata(None).cast(schema)


def write_csv(target: Path, parts: Iterator[pa.Table]) -> None:
    """Write parts of one table as CSV: UTF-8, a line of names, text in quotes.

    A margin of error that is not known is an empty field. A file whose name ends in `.gz` is compressed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    first = next(parts)
    with pa.output_stream(target) as out, csv.CSVWriter(out, first.schema, write_options=_OPTIONS) as writer:
        writer.write_table(without_nan(first))
        for part in parts:
            writer.write_table(without_nan(part))


class CsvFiles:
    """Several CSV files that are written side by side, part by part; open it in a `with` block.

    Args:
        folder: they are made in, and it with them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._writers: dict[str, csv.CSVWriter] = {}

    def __enter__(self) -> CsvFiles:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, name: str, part: pa.Table) -> None:
        """Append rows to `<name>.csv`."""
        if name not in self._writers:
            target = self._folder / f"{name}.csv"
            self._writers[name] = self._stack.enter_context(csv.CSVWriter(target, part.schema, write_options=_OPTIONS))
        self._writers[name].write_table(part)


def write_plain_parquet(
    target: Path,
    parts: Iterator[pa.Table],
    titles: Mapping[str, str] | None = None,
    facts: Mapping[str, str] | None = None,
) -> None:
    """Write parts of one table as Parquet; of our metadata it has the titles of its columns, and the facts, alone."""
    target.parent.mkdir(parents=True, exist_ok=True)
    first = next(parts)
    schema = with_titles(first.schema, titles or {}).with_metadata(dict(facts or {}) or None)
    with pq.ParquetWriter(local_name(target), schema, compression="zstd") as writer:
        writer.write_table(first.cast(schema))
        for part in parts:
            writer.write_table(part.cast(schema))


def with_titles(schema: pa.Schema, titles: Mapping[str, str]) -> pa.Schema:
    """A schema with what its columns are called for people, as `title` in the metadata of each field."""
    fields = [field.with_metadata({"title": titles[field.name]}) if field.name in titles else field for field in schema]
    return pa.schema(fields, schema.metadata)


def without_nan(table: pa.Table) -> pa.Table:
    """The table with null where a number is NaN: a margin of error that is not known."""
    columns = []
    for column in table.columns:
        if pa.types.is_floating(column.type):
            whole = pa.compute.if_else(pa.compute.is_nan(column), pa.scalar(None, column.type), column)
            columns.append(whole)
        else:
            columns.append(column)
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in table.schema]))
