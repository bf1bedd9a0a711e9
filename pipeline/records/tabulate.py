"""Records -> the histogram of every leaf, and of every geounit above it.

Records of units, each of which may have several, are counted, or their amounts added up, at most so many of each.
(leaf, cell) pairs come in chunks and are added up in memory bounded by the nonzero cells and one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
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
from postprocess.arrays import IntArray

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


class CountAccumulator:
    """Sums counts by key, the key of (row, column) being `row * n_columns + column`.

    Sums are kept in runs of sorted keys, each at least twice as long as the next, merged as they come: every entry is
    moved about log2(chunks) times.
    """

    def __init__(self, n_rows: int, n_columns: int) -> None:
        if n_rows * n_columns >= 2**63:
            raise OverflowError(f"{n_rows:,} x {n_columns:,} cells cannot be numbered in 64 bits")
        self.shape = (n_rows, n_columns)
        self.total = 0
        self._runs: list[tuple[IntArray, IntArray]] = []

    def add(self, keys: IntArray, counts: IntArray | None = None) -> None:
        """Add `counts` (n,), by default one each, at `keys` (n,); keys may repeat."""
        if not keys.size:
            return
        if counts is None:
            self.total += int(keys.size)
            run = _count_equal(np.sort(keys))
        else:
            self.total += int(counts.sum())
            order = np.argsort(keys, kind="stable")
            run = _sum_equal(keys[order], counts[order])
        self._runs.append(run)
        while len(self._runs) > 1 and self._runs[-2][0].size < 2 * self._runs[-1][0].size:
            self._merge_last()

    def _merge_last(self) -> None:
        (keys, counts), (more_keys, more_counts) = self._runs.pop(-2), self._runs.pop(-1)
        keys = np.concatenate([keys, more_keys])
        order = np.argsort(keys, kind="stable")  # two sorted runs: one linear merge
        self._runs.append(_sum_equal(keys[order], np.concatenate([counts, more_counts])[order]))

    def finish(self) -> sp.csr_array[np.int64]:
        """The sums as a canonical `(n_rows, n_columns)` int64 matrix: sorted indices, no stored zeros.

        Raises:
            RuntimeError: the sums do not add up to what was added, a defect of this class.
        """
        while len(self._runs) > 1:
            self._merge_last()
        empty = np.zeros(0, dtype=np.int64)
        keys, counts = self._runs.pop() if self._runs else (empty, empty)
        if (zero := counts == 0).any():
            keys, counts = keys[~zero], counts[~zero]
        if int(counts.sum()) != self.total:
            raise RuntimeError("the tabulated counts do not add up to the records that were read")
        n_rows, n_columns = self.shape
        rows, columns = np.divmod(keys, n_columns)
        indptr = np.searchsorted(rows, np.arange(n_rows + 1))
        small = max(keys.size, n_columns, n_rows) < 2**31
        index_type = np.int32 if small else np.int64
        matrix = sp.csr_array((counts, columns.astype(index_type), indptr.astype(index_type)), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix


def _starts(keys: IntArray) -> IntArray:
    """Where each distinct key begins in the sorted `keys`, which are not empty."""
    return np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])


def _count_equal(keys: IntArray) -> tuple[IntArray, IntArray]:
    starts = _starts(keys)
    return keys[starts], np.diff(np.append(starts, keys.size))


def _sum_equal(keys: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    starts = _starts(keys)
    return keys[starts], np.add.reduceat(counts, starts)


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
    """The records with their units; errors as `tabulate`."""
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
        RecordsError: as `tabulate`.
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
