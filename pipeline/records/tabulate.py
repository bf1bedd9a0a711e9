"""Records -> the histogram of every leaf, and of every geounit above it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Schema
from pipeline.records.cells import CHUNK_ROWS, open_cells
from pipeline.records.count_accumulator import CountAccumulator

_HASHED_AT_ONCE = 1 << 20


def tabulate(
    records: RecordSource, schema: Schema, spine: Spine, *, chunk_rows: int = CHUNK_ROWS
) -> sp.csr_array[np.int64]:
    """Count the records of each leaf by cell: all of them, or none and an error.

    Args:
        records: the spec's [input], checked against the schema when the spec was resolved.
        schema: the attributes; its cells are the columns of the result.
        spine: the geography; its leaves are the rows of the result.
        chunk_rows: rows of a Parquet file in memory at a time.

    Returns:
        `(n_leaves, n_cells)` int64 persons, canonical: sorted indices, no stored zeros.

    Raises:
        RecordsError: the file cannot be read, or some of its rows cannot be counted; all of them are reported at once.
        SpecError: the cells of the wide form do not fit the schema.
    """
    opened = open_cells(records, schema, spine, chunk_rows=chunk_rows)
    counts = CountAccumulator(spine.n_leaves, schema.n_cells)
    n_persons = 0
    for chunk in opened.chunks():
        counts.add(chunk.keys, chunk.persons)
        n_persons += chunk.n_persons
    opened.log.raise_if_any()
    if counts.total != n_persons:
        raise RuntimeError("not all records that were read have been counted")
    return counts.finish()


def update_with_counts(update: Callable[[bytes], object], counts: sp.csr_array[np.int64]) -> None:
    """Feed `counts` (n_rows, n_cells) to a hash in one canonical form, whatever file the records came from.

    The bytes are a tag, the shape, the number of nonzero cells, and then the row starts, columns and counts of the
    canonical CSR form, all as little-endian 64-bit integers: equal matrices give equal bytes, different ones different.
    """
    canonical = sp.csr_array(counts)
    if not canonical.has_canonical_format or (canonical.data == 0).any():
        canonical = canonical.copy()
        canonical.sum_duplicates()
        canonical.eliminate_zeros()
    update(b"spinewise counts 1\0")
    update(np.array([*canonical.shape, canonical.nnz], dtype="<i8").tobytes())
    for part in (canonical.indptr, canonical.indices, canonical.data):
        for start in range(0, part.size, _HASHED_AT_ONCE):
            update(part[start : start + _HASHED_AT_ONCE].astype("<i8").tobytes())
