"""Records of units, each of which may have several: counted, or their amounts added up, at most so many of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from geography.spine import Spine
from pipeline.errors import SpecError
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import AmountAttribute, Schema
from pipeline.privacy.units import KeyedHash, kept_records, within_ends
from pipeline.records.cells import CHUNK_ROWS, open_cells
from pipeline.records.count_accumulator import CountAccumulator
from postprocess.arrays import IntArray


@dataclass(frozen=True)
class LeftOutRecords:
    """What was not counted; confidential.

    Attributes:
        records: in all.
        units: that have more records than are counted.
        taken_down: units whose amounts add up to more than is summed of a unit.
    """

    records: int
    units: int
    taken_down: int = 0


@dataclass(frozen=True, eq=False)
class UnitRecords:
    """All records of units at once; confidential.

    Attributes:
        units: `(n,)` number of each record's unit.
        names: of the units.
        cells: `(n,)` leaf * n_cells + cell.
        beside: of each amount that was read beside, `(n,)` units of it.
    """

    units: IntArray
    names: list[str]
    cells: IntArray
    beside: tuple[IntArray, ...] = ()


def read_units(records: RecordSource, schema: Schema, spine: Spine, *, chunk_rows: int = CHUNK_ROWS) -> UnitRecords:
    """The records with their units; errors as `tabulate.tabulate`."""
    opened = open_cells(records, schema, spine, chunk_rows=chunk_rows)
    keys, columns = [], []
    beside: list[list[IntArray]] = [[] for _ in records.beside]
    for chunk in opened.chunks():
        rows = np.arange(chunk.n_rows) if chunk.rows is None else chunk.rows
        keys.append(chunk.keys)
        columns.append(pc.cast(chunk.units, pa.string()).take(pa.array(rows)))
        for parts, found in zip(beside, chunk.beside, strict=True):
            parts.append(found)
    opened.log.raise_if_any()
    encoded = pa.chunked_array(columns, pa.string()).combine_chunks().dictionary_encode()
    units = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return UnitRecords(units, encoded.dictionary.to_pylist(), np.concatenate(keys), tuple(map(np.concatenate, beside)))


def tabulate_units(
    records: RecordSource,
    schema: Schema,
    spine: Spine,
    keyed: KeyedHash,
    *,
    whole: Schema | None = None,
    amounts: tuple[AmountAttribute, ...] = (),
    chunk_rows: int = CHUNK_ROWS,
) -> tuple[sp.csr_array[np.int64], LeftOutRecords]:
    """Count the records of each leaf by cell, at most `records.at_most` of each unit; or add up their amounts.

    All records' units and cells are held at once.

    Args:
        records: microdata, with the column of units.
        schema: the attributes; its cells are the columns of the result.
        spine: the geography; its leaves are the rows of the result.
        keyed: decides which records of a unit are counted.
        whole: the attributes by which that is decided, of which `schema` has some; the same by default.
        amounts: by which that is decided too. Those of one release agree in both, so that its counts and all of its
            sums are of the same records.
        chunk_rows: rows of a Parquet file read at a time.

    Returns:
        `(n_leaves, n_cells)` int64 records, or units of `records.amount`, canonical, and what was left out.

    Raises:
        RecordsError: as `tabulate.tabulate`.
    """
    if records.unit is None or records.at_most is None:
        raise SpecError("a column of units, and how many records of each are counted, are needed")
    told = schema if whole is None else whole
    found = read_units(replace(records, amount=None, beside=amounts), told, spine, chunk_rows=chunk_rows)
    kept = kept_records(found.units, found.cells, found.names, records.at_most, keyed, found.beside)
    persons, taken_down = None, 0
    if (amount := records.amount) is not None:
        persons = found.beside[amounts.index(amount)][kept]
        if amount.total:
            persons, taken_down = taken_to_ends(found.units[kept], persons, amount)
    counts = CountAccumulator(spine.n_leaves, schema.n_cells)
    counts.add(_cells_of(schema, told, found.cells[kept]), persons)
    of_unit = np.bincount(found.units, minlength=len(found.names))
    return counts.finish(), LeftOutRecords(int((~kept).sum()), int((of_unit > records.at_most).sum()), taken_down)


def taken_to_ends(units: IntArray, amounts: IntArray, amount: AmountAttribute) -> tuple[IntArray, int]:
    """The amounts of each unit taken down to what it may have in all, and how many units that changes."""
    within = within_ends(units, amounts, amount.first, amount.last)
    return within, len(np.unique(units[within != amounts]))


def _cells_of(schema: Schema, whole: Schema, keys: IntArray) -> IntArray:
    """Leaf and cell in `schema` of each leaf and cell in `whole`, which has its attributes and perhaps more."""
    if schema.names == whole.names:
        return keys
    codes = whole.cell_codes()[:, [whole.names.index(name) for name in schema.names]]
    of_cell = np.ravel_multi_index(tuple(codes.T), schema.shape)
    return keys // whole.n_cells * schema.n_cells + of_cell[keys % whole.n_cells]
