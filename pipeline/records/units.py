"""Records of units, each of which may have several: counted, at most so many of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from geography.spine import Spine
from pipeline.errors import SpecError
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Schema
from pipeline.privacy.units import KeyedHash, kept_records
from pipeline.records.cells import CHUNK_ROWS, open_cells
from pipeline.records.count_accumulator import CountAccumulator


@dataclass(frozen=True)
class LeftOut:
    """What was not counted; confidential.

    Attributes:
        records: in all.
        units: that have more records than are counted.
    """

    records: int
    units: int


def tabulate_units(
    records: RecordSource, schema: Schema, spine: Spine, keyed: KeyedHash, *, chunk_rows: int = CHUNK_ROWS
) -> tuple[sp.csr_array[np.int64], LeftOut]:
    """Count the records of each leaf by cell, at most `records.at_most` of each unit.

    All records' units and cells are held at once.

    Args:
        records: microdata, with the column of units.
        schema: the attributes; its cells are the columns of the result.
        spine: the geography; its leaves are the rows of the result.
        keyed: decides which records of a unit are counted.
        chunk_rows: rows of a Parquet file read at a time.

    Returns:
        `(n_leaves, n_cells)` int64 records, canonical, and what was left out.

    Raises:
        RecordsError: as `tabulate.tabulate`.
    """
    if records.unit is None or records.at_most is None:
        raise SpecError("a column of units, and how many records of each are counted, are needed")
    opened = open_cells(records, schema, spine, chunk_rows=chunk_rows)
    keys, columns = [], []
    for chunk in opened.chunks():
        rows = np.arange(chunk.n_rows) if chunk.rows is None else chunk.rows
        keys.append(chunk.keys)
        columns.append(pc.cast(chunk.units, pa.string()).take(pa.array(rows)))
    opened.log.raise_if_any()
    encoded = pa.chunked_array(columns, pa.string()).combine_chunks().dictionary_encode()
    units = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    cells = np.concatenate(keys)
    kept = kept_records(units, cells, encoded.dictionary.to_pylist(), records.at_most, keyed)
    counts = CountAccumulator(spine.n_leaves, schema.n_cells)
    counts.add(cells[kept], None)
    of_unit = np.bincount(units, minlength=len(encoded.dictionary))
    return counts.finish(), LeftOut(int((~kept).sum()), int((of_unit > records.at_most).sum()))
