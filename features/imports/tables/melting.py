"""Rows with counts side by side that differ in more than their area, as rows of one count each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from features.imports.tables.batches import BatchWriter
from features.imports.tables.guess_schema import attribute_name
from features.imports.tables.guess_wide import WideCells
from features.imports.tables.parts import Parts
from features.imports.tables.table_file import TableFile
from pipeline.records.columns import CountReader
from pipeline.records.problems import MistakeLog

_TERM = re.compile(r"\s([+-])\s")


def melted(
    parts: Parts, file: TableFile, cells: WideCells, counts: Sequence[str], name: str
) -> tuple[TableFile, str, Mapping[str, str]]:
    """The table with a row for each count, in `name`; the column of counts; and the column of each attribute of cells.

    Args:
        parts: the folder.
        file: the table.
        cells: which cell each column of counts is, or the difference of two.
        counts: the columns of counts.
        name: of the new file.
    """
    keys = [column for column in file.names() if column not in counts]
    columns: dict[str, str] = {}
    for attribute in cells.attributes:
        columns[attribute] = attribute_name(attribute, [*keys, *columns.values()])
    count = attribute_name("people", [*keys, *columns.values()])
    log = MistakeLog(file.path)
    with parts.folder.file("melted.parquet", private=True) as target, BatchWriter(target) as written:
        for chunk in file.chunks(file.names()):
            numbers = {
                column: CountReader(column, file.text.decimal).read(chunk.column(column), 0, log) for column in counts
            }
            texts = {key: chunk.column(key).cast(pa.string()) for key in keys}
            for expression, values in _cells(cells):
                first, *rest = _TERM.split(expression)
                total = numbers[first].copy()
                for sign, column in zip(rest[::2], rest[1::2], strict=True):
                    total += numbers[column] if sign == "+" else -numbers[column]
                made = {columns[attribute]: pa.array([value] * len(total)) for attribute, value in values.items()}
                batch = pa.RecordBatch.from_pydict({**texts, **made, count: pa.array(total)})
                written.write(batch)
    log.raise_if_any()
    return TableFile(parts.in_place(file, target, name), origin=file.origin), count, columns


def _cells(cells: WideCells) -> list[tuple[str, dict[str, str]]]:
    """Each cell's column, or a sum and difference of columns, and its values."""
    found = []
    for cell in cells.cells:
        fixed = {attribute: value for attribute, value in cell.items() if attribute != "counts"}
        free = [attribute for attribute in cells.attributes if attribute not in fixed]
        for values in itertools.product(*(cells.attributes[attribute] for attribute in free)):
            chosen = dict(zip(free, values, strict=True))
            expression = cell["counts"]
            for attribute, value in chosen.items():
                expression = expression.replace(f"{{{attribute}}}", value)
            found.append((expression, {attribute: {**fixed, **chosen}[attribute] for attribute in cells.attributes}))
    return found
