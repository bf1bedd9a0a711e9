"""Records -> (leaf, cell) pairs, chunk by chunk, with everything that is wrong with them noted.

Of the wide form `expand_cells` says which columns add up to which cell.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geography.spine import Spine
from pipeline.errors import InputError, RecordsError, SpecError
from pipeline.model.memory_table import MemoryTable
from pipeline.model.record_source import KnownContent, RecordSource
from pipeline.model.schema import Attribute, Schema
from pipeline.records.columns import LEFT_OUT, AmountReader, AttributeReader, CountReader, Distinct, LeafReader
from pipeline.records.problems import MistakeLog, list_allowed, quote
from pipeline.records.record_files import RecordsFile, column_names, is_text_file, open_records
from postprocess.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    from pipeline.model.universe import Universe

#: Rows of a Parquet file read at a time; about 50 bytes each are held.
CHUNK_ROWS = 1_000_000
#: Values of a wide Parquet file read at a time.
CHUNK_VALUES = 16_000_000


@dataclass(frozen=True, eq=False)
class CellChunk:
    """What the rows of one chunk count.

    Attributes:
        first_row: number of rows before the chunk.
        n_rows: rows of the chunk.
        keys: `(n,)` int64, leaf * n_cells + cell, of the rows that can be counted.
        persons: `(n,)` int64, by default one each; of an amount, its units.
        rows: `(n,)` the row of each key, from 0 in the chunk; by default the chunk's rows one after the other.
        n_persons: of all rows, so that a lost row is noticed.
        units: `(n_rows,)` text, the unit of each row of the chunk; None where the records have no units.
        beside: of each of the amounts that are read beside, `(n,)` units of it.
    """

    first_row: int
    n_rows: int
    keys: IntArray
    persons: IntArray | None
    rows: IntArray | None
    n_persons: int
    units: pa.Array | None = None
    beside: tuple[IntArray, ...] = ()


@dataclass(frozen=True, eq=False)
class RecordCells:
    """A file of records that was found readable.

    Attributes:
        log: what is wrong with the rows; whole when the chunks have come to their end.
        chunks: reads the file, once.
    """

    log: MistakeLog
    chunks: Callable[[], Iterator[CellChunk]]


def open_cells(
    records: RecordSource,
    schema: Schema,
    spine: Spine | None,
    *,
    chunk_rows: int = CHUNK_ROWS,
    skip: Collection[str] = (),
) -> RecordCells:
    """Open the records.

    Args:
        records: the spec's [input], checked against the schema when the spec was resolved.
        schema: the attributes.
        spine: the geography; None to leave the geocodes unread, all rows then count in leaf 0.
        chunk_rows: rows of a Parquet file in memory at a time.
        skip: columns that are left unread, to look at the others where these are missing; not for the wide form.

    Raises:
        RecordsError: the file cannot be read, or lacks a column; also while the chunks are read.
        SpecError: the cells of the wide form do not fit the schema.
    """
    if records.form == "wide":
        return _open_wide(records, schema, spine, chunk_rows)
    return _open_rows(records, schema, None if records.geocode in skip else spine, chunk_rows, skip)


def needed_columns(records: RecordSource, schema: Schema) -> tuple[str, ...]:
    """The columns that records of a row a record, or a cell, need."""
    columns = [records.columns.get(name, name) for name in schema.names]
    count = [records.count or "count"] if records.form == "long" else []
    unit = [] if records.unit is None else [records.unit]
    amount = [one.name for one in (records.amount, *records.beside) if one is not None]
    return tuple(dict.fromkeys([records.geocode, *columns, *count, *records.rows, *unit, *amount]))


#: Forms of records with a column for each attribute.
_FORMS = ("microdata", "long")


def refuse_missing_columns(universes: Sequence[Universe]) -> None:
    """Look at the names of the columns alone; what cannot be read is told by whoever reads it.

    A column that the records do not have is said openly, and before anything is counted: its name is in the spec. Only
    the process that counts looks for it: the footer of a Parquet file holds least and greatest values, and the first
    block of a CSV file its first records. What a file has instead is shown of a table and of a Parquet file; the first
    line of a CSV file that lacks its header is a record.

    Raises:
        InputError: a file of records has not the columns that it needs.
    """
    for universe in universes:
        records = universe.require_input()
        if records.form not in _FORMS or not universe.source.has_truth:
            continue
        with suppress(RecordsError):
            present = column_names(records.file, text=records.text_format)
            missing = [name for name in needed_columns(records, universe.schema) if name not in present]
            if missing:
                named = ", ".join(map(quote, missing))
                raise InputError(f"{records.file}: no column {named}; {_instead(records.file, present)}")


def _instead(source: object, present: Sequence[str]) -> str:
    if isinstance(source, MemoryTable):
        return f"the table's columns are {list_allowed(present)}"
    if is_text_file(source):  # type: ignore[arg-type]
        return "the first line of the file names its columns; [input] says which of them is which"
    return f"the file's columns are {list_allowed(present)}"


def _open_rows(
    records: RecordSource, schema: Schema, spine: Spine | None, chunk_rows: int, skip: Collection[str]
) -> RecordCells:
    """Microdata and the long form: one cell a row, one person or a count of them."""
    attributes = [
        AttributeReader.make(
            attribute,
            records.columns.get(attribute.name, attribute.name),
            coded=records.coded and attribute.name not in records.further,
            values=records.values.get(attribute.name),
        )
        for attribute in schema.attributes
    ]
    text = records.text_format
    counter = _counter(records, skip)
    others = [AmountReader.of(amount) for amount in records.beside if amount.name not in skip]
    columns = [name for name in needed_columns(records, schema) if name not in skip]
    file = open_records(records.file, columns, chunk_rows, text=text)
    log = MistakeLog(records.file, file.find_lines)
    chosen = {name: frozenset(values) for name, values in records.rows.items() if name not in skip}
    once = records.form == "long" and records.repeated is None and spine is not None and not skip

    def chunks() -> Iterator[CellChunk]:
        cells = [reader for reader in attributes if reader.attribute.name not in records.further]
        repeats = _Repeats(records, schema, spine, cells, log) if once and spine is not None else None
        expected = _Expected(records, None if skip else spine)
        for first_row, chunk, leaves, _ in _with_leaves(file, records, spine, log):
            keys = leaves * schema.n_cells
            counted = _chosen(chunk, chosen) & (leaves != LEFT_OUT)
            usable = leaves >= 0
            stride = schema.n_cells
            places_of_attributes = []
            for reader in attributes:
                stride //= len(reader.attribute.values)
                if reader.column in skip:
                    continue
                codes, distinct = reader.read(chunk.column(reader.column), first_row, log, counted)
                if repeats is not None and reader in cells:
                    places_of_attributes.append(reader.places(distinct))
                keys += codes * stride
                usable &= codes >= 0
            persons = None
            if counter is not None:
                persons, right = counter.read_counted(chunk.column(counter.column), first_row, log, counted)
                usable &= right
            beside = []
            for reader in others:
                found, right = reader.read_counted(chunk.column(reader.column), first_row, log, counted)
                beside.append(found)
                usable &= right
            usable &= counted
            units = None if records.unit is None or records.unit in skip else chunk.column(records.unit)
            if units is not None:
                usable &= _with_unit(units, str(records.unit), counted, first_row, log)
            if repeats is not None:
                repeats.note(leaves, places_of_attributes, usable, first_row)
            n_persons = int(counted.sum() if persons is None else persons[counted].sum())
            expected.add(leaves[counted], n_persons if records.amount is None else int(counted.sum()))
            rows = None
            if not usable.all():
                rows = np.flatnonzero(usable)
                keys, persons = keys[rows], None if persons is None else persons[rows]
                beside = [found[rows] for found in beside]
            yield CellChunk(first_row, chunk.num_rows, keys, persons, rows, n_persons, units, tuple(beside))
        expected.check(log)

    return RecordCells(log, chunks)


def _with_leaves(
    file: RecordsFile, records: RecordSource, spine: Spine | None, log: MistakeLog
) -> Iterator[tuple[int, pa.RecordBatch, IntArray, Distinct | None]]:
    """Chunks with the number of their first row, the leaf of each row, 0 without a spine, and the geocodes."""
    reader = None if spine is None else LeafReader(spine, records.geocode, records.file)
    first_row = 0
    for chunk in file.chunks():
        if reader is None:
            yield first_row, chunk, np.zeros(chunk.num_rows, dtype=np.int64), None
        else:
            yield first_row, chunk, *reader.read(chunk.column(records.geocode), first_row, log)
        first_row += chunk.num_rows


class _Expected:
    """Counts what a file holds, and compares it with what it is known to hold."""

    def __init__(self, records: RecordSource, spine: Spine | None) -> None:
        self._file, self._expected = records.file, records.expect
        self._records = 0
        self._named = np.zeros(0 if spine is None else spine.n_leaves, dtype=np.bool_)

    def add(self, leaves: IntArray, n_records: int) -> None:
        """Note the leaves of some rows that are counted, and their records."""
        if isinstance(self._expected, KnownContent) and self._named.size:
            self._records += n_records
            self._named[leaves[leaves >= 0]] = True

    def check(self, log: MistakeLog) -> None:
        """At the end of the file.

        Raises:
            RecordsError: no row is wrong, and yet other records or areas were counted than are expected.
        """
        if not isinstance(self._expected, KnownContent) or not self._named.size or log.mistakes:
            return
        found = KnownContent(self._records, int(self._named.sum()))
        if found != self._expected:
            raise RecordsError(
                f"{self._file}: {_of(found)} were counted, and input.expect says {_of(self._expected)}: "
                f"{_difference(found.records - self._expected.records)} records, "
                f"{_difference(found.areas - self._expected.areas)} areas; correct the file, or what is expected"
            )


def _of(one: KnownContent) -> str:
    return f"{one.records:,} records in {one.areas:,} areas"


def _difference(number: int) -> str:
    return f"{abs(number):,} {'too few' if number < 0 else 'too many'}" if number else "as many"


def _counter(records: RecordSource, skip: Collection[str]) -> CountReader | AmountReader | None:
    """What reads how much each row counts; None where each counts one, or the column is left unread."""
    if records.amount is not None:
        return None if records.amount.name in skip else AmountReader.of(records.amount)
    column = records.count or "count"
    return CountReader(column) if records.form == "long" and column not in skip else None


def _chosen(chunk: pa.RecordBatch, chosen: Mapping[str, frozenset[str]]) -> BoolArray:
    """The rows that are counted, `(n_rows,)`: those with one of the values in each of the columns."""
    counted = np.ones(chunk.num_rows, dtype=bool)
    for name, values in chosen.items():
        distinct = Distinct.of(chunk.column(name))
        counted &= distinct.spread(np.array([text in values for text in distinct.texts], dtype=np.int64)) == 1
    return counted


def _with_unit(units: pa.Array, column: str, counted: BoolArray, first_row: int, log: MistakeLog) -> BoolArray:
    """The rows that have a unit, `(n_rows,)`; those without that are counted are noted."""
    distinct = Distinct.of(units)
    named = distinct.spread(np.array([text != "" for text in distinct.texts], dtype=np.int64)) == 1
    missing = np.flatnonzero(counted & ~named)
    log.add(f"column {column!r}", "a missing unit", first_row + missing + 1, (), "every record is of a unit")
    return named


class _Repeats:
    """Notes rows of the long form whose cell an earlier row has: a wrongly joined file counts people twice.

    A cell is identified by the values in the file. Values that the spec maps to one value may have a row each.
    """

    def __init__(
        self,
        records: RecordSource,
        schema: Schema,
        spine: Spine,
        attributes: Sequence[AttributeReader],
        log: MistakeLog,
    ) -> None:
        self.spine, self.log = spine, log
        self.sizes = [reader.numbers.n_found for reader in attributes]
        self.where = "columns " + ", ".join(repr(name) for name in needed_columns(records, schema)[:-1])
        self.seen = SeenKeys()

    def note(self, leaves: IntArray, places: Sequence[IntArray], usable: BoolArray, first_row: int) -> None:
        keys = cell_keys(leaves, places, self.sizes, self.spine.n_leaves)
        if keys is None:
            raise RecordsError(
                f"{self.log.file}: too many different cells to find out whether one stands in several rows; give "
                'repeated = "add" in [input] where that is allowed'
            )
        rows = np.flatnonzero(usable)
        again = rows[self.seen.again(keys[rows])]
        codes = self.spine.leaf_level.geocodes[leaves[again[:1000]]]
        self.log.add(
            self.where,
            "a cell that an earlier row has",
            first_row + again + 1,
            dict.fromkeys(map(str, codes)),
            'each cell may have one row; repeated = "add" in [input] adds its rows up',
        )


def _open_wide(records: RecordSource, schema: Schema, spine: Spine | None, chunk_rows: int) -> RecordCells:
    """The wide form: one leaf a row, one sum of columns a cell."""
    cells = expand_cells(records.cells, schema, coded=records.coded, values=records.values)
    text = records.text_format
    readers = {name: CountReader(name) for cell in cells for _, name in cell.terms}
    file = open_records(
        records.file,
        [records.geocode, *readers],
        max(1, min(chunk_rows, CHUNK_VALUES // (len(readers) + 1))),
        text=text,
    )
    log = MistakeLog(records.file, file.find_lines)

    def chunks() -> Iterator[CellChunk]:
        seen, expected = SeenKeys(), _Expected(records, spine)
        for first_row, chunk, leaves, geocodes in _with_leaves(file, records, spine, log):
            if geocodes is not None:
                placed = np.flatnonzero(leaves >= 0)
                repeated = placed[seen.again(leaves[placed])]
                log.add(
                    f"column {records.geocode!r}",
                    "a geocode that an earlier row has",
                    first_row + repeated + 1,
                    geocodes.first_found(repeated),
                    "each geocode may have one row",
                )
            columns = {name: reader.read(chunk.column(name), first_row, log) for name, reader in readers.items()}
            usable, inside = leaves >= 0, leaves != LEFT_OUT
            for values in columns.values():
                usable &= values >= 0
            n_persons = 0
            keys, persons, rows = [leaves[:0]], [leaves[:0]], [leaves[:0]]
            for cell in cells:
                counted = _sum_of_terms(cell.terms, columns, chunk.num_rows)
                n_persons += int(counted[inside].sum())
                negative = np.flatnonzero(usable & (counted < 0))
                sums = (str(number) for number in dict.fromkeys(counted[negative[:1000]].tolist()))
                where = f"columns {cell.text!r}"
                log.add(where, "a negative count", first_row + negative + 1, sums, "the sum must be 0 or more")
                present = np.flatnonzero(usable & (counted > 0))
                keys.append(leaves[present] * schema.n_cells + cell.cell)
                persons.append(counted[present])
                rows.append(present)
            expected.add(leaves, n_persons)
            yield CellChunk(
                first_row,
                chunk.num_rows,
                np.concatenate(keys),
                np.concatenate(persons),
                np.concatenate(rows),
                n_persons,
            )
        expected.check(log)

    return RecordCells(log, chunks)


def _sum_of_terms(terms: Sequence[tuple[int, str]], columns: Mapping[str, IntArray], n_rows: int) -> IntArray:
    total = np.zeros(n_rows, dtype=np.int64)
    for sign, name in terms:
        total += sign * columns[name]
    return total


# -- cells, or leaves, that occur in several rows of a file ----------------------------------------------------------


class SeenKeys:
    """The keys of the rows that have been read, in sorted runs, each at least twice as long as the next.

    8 bytes a row are held, as many again while runs are merged.
    """

    def __init__(self) -> None:
        self._runs: list[IntArray] = []

    def again(self, keys: IntArray) -> BoolArray:
        """Whether each of `keys` (n,) stood in an earlier row, of this chunk or of one before; takes note of them."""
        first = np.zeros(keys.size, dtype=np.bool_)
        distinct, at = np.unique(keys, return_index=True)
        first[at] = True
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, distinct), run.size - 1)
            first[at[run[place] == distinct]] = False
        self._add(distinct[first[at]])
        return ~first

    def _add(self, new: IntArray) -> None:
        """Keep sorted keys that were not there."""
        if not new.size:
            return
        self._runs.append(new)
        while len(self._runs) > 1 and self._runs[-2].size < 2 * self._runs[-1].size:
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate([before, last]), kind="stable"))


def cell_keys(leaves: IntArray, codes: Sequence[IntArray], sizes: Sequence[int], n_leaves: int) -> IntArray | None:
    """A number for each combination of a leaf and codes below `sizes`, `(n,)`; None where 64 bits do not hold them."""
    if max(n_leaves, 1) * math.prod(sizes) >= 2**63:
        return None
    keys = leaves.copy()
    for numbers, size in zip(codes, sizes, strict=True):
        keys = keys * size + numbers
    return keys


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_OPERATOR = re.compile(r"\s+([+-])\s+")


@dataclass(frozen=True)
class CellColumns:
    """One cell's count as a sum of columns: `terms` are (+1 or -1, column); no terms where the cell is always empty."""

    cell: int
    text: str
    terms: tuple[tuple[int, str], ...]


def expand_cells(
    entries: Sequence[Mapping[str, str]],
    schema: Schema,
    *,
    coded: bool = False,
    values: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[CellColumns, ...]:
    """The columns of every cell of the schema, in the order of the cells.

    Args:
        entries: each has `counts`, a template such as "pop_{race} - vap_{race}", and the value of every attribute that
            has no {placeholder} in it. `counts = "0"` states cells that are always empty.
        schema: whose cells the columns hold.
        coded: placeholders are filled with the values' numbers, from 0, not with their names.
        values: attribute -> what stands in the columns' names -> value of the schema.

    Raises:
        SpecError: an entry does not fit the schema, a cell has two entries or none.
    """
    if not entries:
        raise SpecError('input.cells: none given; the form "wide" needs at least one entry')
    by_cell: dict[int, CellColumns] = {}
    fillings = [_fillings(a, coded, (values or {}).get(a.name, {})) for a in schema.attributes]
    for number, entry in enumerate(entries):
        where = f"input.cells[{number}]"
        for cell in _expand_entry(where, entry, schema, fillings):
            if cell.cell in by_cell:
                raise SpecError(
                    f"{where}: {cell.text!r} counts the cell {_label(schema, cell.cell)}, which "
                    f"{by_cell[cell.cell].text!r} counts already; each cell may be counted once"
                )
            by_cell[cell.cell] = cell
    if missing := [cell for cell in range(schema.n_cells) if cell not in by_cell]:
        raise SpecError(
            f"input.cells: no entry counts the cell {_label(schema, missing[0])}"
            f"{f' and {len(missing) - 1:,} more' if len(missing) > 1 else ''}; each cell must be counted once "
            '(counts = "0" where it is always empty)'
        )
    return tuple(by_cell[cell] for cell in range(schema.n_cells))


def _label(schema: Schema, cell: int) -> str:
    return repr(schema.cell_labels()[cell])


def _fillings(attribute: Attribute, coded: bool, values: Mapping[str, str]) -> tuple[str, ...]:
    """What stands in the columns' names for each value of the attribute."""
    filled = [str(i) if coded else value for i, value in enumerate(attribute.values)]
    text_of: dict[str, str] = {}
    for text, value in values.items():
        if value in text_of:
            raise SpecError(
                f"input.values.{attribute.name}: {text_of[value]!r} and {text!r} both stand for {value!r}; in the form "
                '"wide" one name is allowed, which fills the columns\' names'
            )
        text_of[value] = text
        filled[attribute.values.index(value)] = text
    return tuple(filled)


def _expand_entry(
    where: str, entry: Mapping[str, str], schema: Schema, fillings: Sequence[tuple[str, ...]]
) -> Iterator[CellColumns]:
    template = entry.get("counts")
    if template is None:
        raise SpecError(f'{where}: "counts" is missing; it names the columns, such as counts = "pop_{{race}}"')
    choices = _choices(where, entry, schema)
    parts = [part.strip() for part in _OPERATOR.split(template)]
    if parts != ["0"]:
        _check_terms(where, template, parts[::2], entry, schema)
    signs = [1] + [1 if operator == "+" else -1 for operator in parts[1::2]]
    for codes in itertools.product(*choices):
        filled = {name: filling[code] for name, filling, code in zip(schema.names, fillings, codes, strict=True)}
        columns = [_fill(part, filled) for part in parts]
        terms = () if parts == ["0"] else tuple(zip(signs, columns[::2], strict=True))
        yield CellColumns(int(np.ravel_multi_index(codes, schema.shape)), " ".join(columns), terms)


def _fill(template: str, filled: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: filled[match[1]], template)


def _choices(where: str, entry: Mapping[str, str], schema: Schema) -> list[range]:
    """The value numbers of each attribute that the entry runs over."""
    allowed = (*schema.names, "counts")
    if unknown := [name for name in entry if name not in allowed]:
        raise SpecError(f"{where}: {unknown[0]!r} is not an attribute; allowed are {', '.join(allowed)}")
    choices: list[range] = []
    for attribute in schema.attributes:
        value = entry.get(attribute.name)
        if value is None:
            choices.append(range(len(attribute.values)))
        elif value in attribute.values:
            number = attribute.values.index(value)
            choices.append(range(number, number + 1))
        else:
            raise SpecError(
                f"{where}: {attribute.name} = {value!r} is not a value of the attribute; allowed are "
                f"{list_allowed(attribute.values)}"
            )
    return choices


def _check_terms(where: str, template: str, terms: Sequence[str], entry: Mapping[str, str], schema: Schema) -> None:
    """SpecError unless each term names one column for each of the cells that the entry runs over."""
    for term in terms:
        if not term:
            raise SpecError(f'{where}: {template!r} is not "a", "a + b" or "a - b" of columns')
        placeholders = _PLACEHOLDER.findall(term)
        if unknown := [name for name in placeholders if name not in schema.names]:
            raise SpecError(
                f"{where}: {{{unknown[0]}}} in {template!r} is not an attribute; allowed are {', '.join(schema.names)}"
            )
        for attribute in schema.attributes:
            if attribute.name not in entry and attribute.name not in placeholders:
                raise SpecError(
                    f"{where}: attribute {attribute.name!r} is neither given a value nor stands in {term!r}; write "
                    f'{attribute.name} = "{attribute.values[0]}" or {{{attribute.name}}}'
                )
