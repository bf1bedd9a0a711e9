"""Records -> the histogram of every leaf, and of every geounit above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.count_accumulator import CountAccumulator
from pipeline.record_columns import AttributeReader, CountReader
from pipeline.record_geocodes import LeafReader
from pipeline.record_problems import ProblemLog
from pipeline.records import open_records
from pipeline.schema import Schema
from pipeline.spec_input import InputSpec
from pipeline.wide_cells import expand_cells

#: Rows of a Parquet file read at a time; about 50 bytes each are held.
CHUNK_ROWS = 1_000_000
#: Values of a wide Parquet file read at a time.
CHUNK_VALUES = 16_000_000
_HASHED_AT_ONCE = 1 << 20


def tabulate(
    records: InputSpec, schema: Schema, spine: Spine, *, chunk_rows: int = CHUNK_ROWS
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
        RecordsError: the file cannot be read, or some of its rows cannot be counted; all of them are told at once.
        SpecError: the cells of the wide form do not fit the schema.
    """
    count = _count_wide if records.form == "wide" else _count_rows
    return count(records, schema, spine, chunk_rows)


def _count_rows(records: InputSpec, schema: Schema, spine: Spine, chunk_rows: int) -> sp.csr_array[np.int64]:
    """Microdata and the long form: one cell a row, one person or a count of them."""
    attributes = [
        AttributeReader.make(
            attribute,
            records.columns.get(attribute.name, attribute.name),
            coded=records.coded,
            values=records.values.get(attribute.name),
        )
        for attribute in schema.attributes
    ]
    counter = CountReader(records.count or "count") if records.form == "long" else None
    columns = [records.geocode, *(reader.column for reader in attributes), *([counter.column] if counter else [])]
    file = open_records(records.file, columns, chunk_rows)
    leaf_reader = LeafReader(spine, records.geocode, records.file)
    log = ProblemLog(records.file, file.find_lines)
    counts = CountAccumulator(spine.n_leaves, schema.n_cells)
    first_row = n_persons = 0
    for chunk in file.chunks():
        leaves, _ = leaf_reader.read(chunk.column(records.geocode), first_row, log)
        keys = leaves * schema.n_cells
        usable = leaves >= 0
        stride = schema.n_cells
        for reader in attributes:
            codes = reader.read(chunk.column(reader.column), first_row, log)
            stride //= len(reader.attribute.values)
            keys += codes * stride
            usable &= codes >= 0
        persons = None
        if counter is not None:
            persons = counter.read(chunk.column(counter.column), first_row, log)
            usable &= persons >= 0
        if usable.all():
            counts.add(keys, persons)
        first_row += chunk.num_rows
        n_persons += chunk.num_rows if persons is None else int(persons.sum())
    log.raise_if_any()
    return _finish(counts, n_persons)


def _count_wide(records: InputSpec, schema: Schema, spine: Spine, chunk_rows: int) -> sp.csr_array[np.int64]:
    """The wide form: one leaf a row, one sum of columns a cell."""
    cells = expand_cells(records.cells, schema, coded=records.coded, values=records.values)
    readers = {name: CountReader(name) for cell in cells for _, name in cell.terms}
    file = open_records(
        records.file, [records.geocode, *readers], max(1, min(chunk_rows, CHUNK_VALUES // (len(readers) + 1)))
    )
    leaf_reader = LeafReader(spine, records.geocode, records.file)
    log = ProblemLog(records.file, file.find_lines)
    counts = CountAccumulator(spine.n_leaves, schema.n_cells)
    seen = np.zeros(spine.n_leaves, dtype=bool)
    first_row = n_persons = 0
    for chunk in file.chunks():
        leaves, geocodes = leaf_reader.read(chunk.column(records.geocode), first_row, log)
        repeated = _repeated(leaves, seen)
        log.add(
            f"column {records.geocode!r}",
            "a geocode that an earlier row has",
            first_row + repeated + 1,
            geocodes.first_found(repeated),
            "each geocode may have one row",
        )
        columns = {name: reader.read(chunk.column(name), first_row, log) for name, reader in readers.items()}
        usable = leaves >= 0
        for values in columns.values():
            usable &= values >= 0
        keys, persons = [leaves[:0]], [leaves[:0]]
        for cell in cells:
            counted = _sum_of_terms(cell.terms, columns, chunk.num_rows)
            n_persons += int(counted.sum())
            negative = np.flatnonzero(usable & (counted < 0))
            sums = (str(number) for number in dict.fromkeys(counted[negative[:1000]].tolist()))
            where = f"columns {cell.text!r}"
            log.add(where, "a negative count", first_row + negative + 1, sums, "the sum must be 0 or more")
            present = np.flatnonzero(usable & (counted > 0))
            keys.append(leaves[present] * schema.n_cells + cell.cell)
            persons.append(counted[present])
        counts.add(np.concatenate(keys), np.concatenate(persons))
        first_row += chunk.num_rows
    log.raise_if_any()
    return _finish(counts, n_persons)


def _repeated(leaves: NDArray[np.int64], seen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The rows (from 0) of leaves that an earlier row has; marks the leaves in `seen` (n_leaves,)."""
    known = np.flatnonzero(leaves >= 0)
    again = np.ones(known.size, dtype=np.bool_)
    again[np.unique(leaves[known], return_index=True)[1]] = False
    again |= seen[leaves[known]]
    seen[leaves[known]] = True
    return known[again]


def _sum_of_terms(
    terms: Sequence[tuple[int, str]], columns: Mapping[str, NDArray[np.int64]], n_rows: int
) -> NDArray[np.int64]:
    total = np.zeros(n_rows, dtype=np.int64)
    for sign, name in terms:
        total += sign * columns[name]
    return total


def _finish(counts: CountAccumulator, n_persons: int) -> sp.csr_array[np.int64]:
    """The matrix; RuntimeError, a defect, where it does not hold everybody who was read."""
    if counts.total != n_persons:
        raise RuntimeError("not all records that were read have been counted")
    return counts.finish()


def roll_up(spine: Spine, leaf_counts: sp.csr_array[np.int64]) -> list[sp.csr_array[np.int64]]:
    """The histogram of every geounit: `(n_geounits, n_cells)` int64 for each level, the top first.

    Args:
        spine: the geography.
        leaf_counts: `(n_leaves, n_cells)`, canonical, as `tabulate` gives it; it is the last of the result.
    """
    levels = [leaf_counts]
    for level in range(spine.n_levels - 2, -1, -1):
        offsets = spine.child_offsets(level)
        n_children = levels[0].shape[0]
        children = sp.csr_array(
            (np.ones(n_children, dtype=np.int64), np.arange(n_children), offsets), shape=(offsets.size - 1, n_children)
        )
        counts = sp.csr_array(children @ levels[0])
        counts.sort_indices()
        levels.insert(0, counts)
    return levels


class Hasher(Protocol):
    """What takes bytes, such as `hashlib.sha256()` or an HMAC."""

    def update(self, data: bytes, /) -> object: ...


def update_with_counts(hasher: Hasher, counts: sp.csr_array[np.int64]) -> None:
    """Feed `counts` (n_rows, n_cells) to `hasher` in one canonical form, whatever file the records came from.

    The bytes are a tag, the shape, the number of nonzero cells, and then the row starts, columns and counts of the
    canonical CSR form, all as little-endian 64-bit integers: equal matrices give equal bytes, different ones different.
    """
    canonical = sp.csr_array(counts)
    if not canonical.has_canonical_format or (canonical.data == 0).any():
        canonical = canonical.copy()
        canonical.sum_duplicates()
        canonical.eliminate_zeros()
    hasher.update(b"spinewise counts 1\0")
    hasher.update(np.array([*canonical.shape, canonical.nnz], dtype="<i8").tobytes())
    for part in (canonical.indptr, canonical.indices, canonical.data):
        for start in range(0, part.size, _HASHED_AT_ONCE):
            hasher.update(part[start : start + _HASHED_AT_ONCE].astype("<i8").tobytes())
