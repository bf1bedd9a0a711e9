"""Released tables: for one query at one level, one row for each geounit and one column for each answer.

Columns: geocode, then for each answer its count (int64) under the answer's label and, where margins of error are
published, three columns (float64, whole persons, NaN where unknown) right after it: "<label>:low90" and
"<label>:high90", the ends of an interval that covers the truth at 90 %, and "<label>:moe90", the larger of their
distances from the count. All geounits of the level have a row, empty ones too. Tables with many answers have another
form (`pipeline.release.long_tables`), and are read as these are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import InputError, ReleaseError
from pipeline.release.form import (
    REAL,
    TEXT,
    WHOLE,
    Form,
    FormFile,
    Values,
    check_complete,
    check_order,
    open_form,
)
from pipeline.release.long_tables import (
    LONG_COLUMNS,
    LONG_VALUES,
    Ends,
    Terms,
    dense_rows,
    is_long,
    labels_of_terms,
    long_columns,
    long_rows,
)
from pipeline.storage.files import rows_per_group
from pipeline.storage.paths import Readable
from postprocess.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from pipeline.model.query import Query
    from postprocess.statistics import Averages

#: Suffixes of the columns with the ends of the 90 % interval, and of the margin of error: the larger distance from the
#: count to an end. Persons.
LOW_SUFFIX, HIGH_SUFFIX, MARGIN_SUFFIX = ":low90", ":high90", ":moe90"
#: In the order of the columns after a count.
INTERVAL_SUFFIXES = (MARGIN_SUFFIX, LOW_SUFFIX, HIGH_SUFFIX)

#: More than elsewhere: with thousands of columns, many short row groups cost more than their content.
_VALUES_PER_ROW_GROUP = 1 << 24
#: Numbers in a small part.
_AT_ONCE = 1 << 17
#: More cells than a schema can have.
_MOST_ANSWERS = 100_000_000


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A table of one query at one level.

    Attributes:
        name: of the table.
        level: of the geounits.
        query: tabulated.
        geocodes: `(n,)` of str.
        labels: of the answers, `size` of them.
        counts: `(n, size)` int64, persons.
        lows, highs: `(n, size)` float64, persons, the ends of the 90 % intervals; NaN where unknown, None where none
            are published.
        terms: name and labels of each term of the query, where its file is long; else empty.
    """

    name: str
    level: str
    query: str
    geocodes: NDArray[np.str_]
    labels: tuple[str, ...]
    counts: IntArray
    lows: FloatArray | None = None
    highs: FloatArray | None = None
    terms: Terms = ()

    def __post_init__(self) -> None:
        shape = (len(self.geocodes), len(self.labels))
        if self.counts.shape != shape or self.counts.dtype != np.int64:
            raise ValueError(f"counts must be int64 of shape {shape}, got {self.counts.dtype} of {self.counts.shape}")
        if (self.lows is None) != (self.highs is None):
            raise ValueError("an interval has two ends")
        for ends in (self.lows, self.highs):
            if ends is not None and (ends.shape != shape or ends.dtype != np.float64):
                raise ValueError(f"intervals must be float64 of shape {shape}, got {ends.dtype} of {ends.shape}")
        if not self.terms:
            check_labels(f"tables.{self.name}", self.labels)

    @property
    def ends(self) -> Ends | None:
        """Both ends of the intervals; None where none are published."""
        return None if self.lows is None or self.highs is None else (self.lows, self.highs)

    @cached_property
    def margins(self) -> FloatArray | None:
        """Margins of error `(n, size)`: the larger distance from a count to an end of its interval."""
        return None if self.ends is None else margins_of(self.counts, *self.ends)

    def columns(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """The columns after the geocode, with their names."""
        for index, label in enumerate(self.labels):
            yield label, self.counts[:, index]
            if self.ends is not None and self.margins is not None:
                for suffix, values in zip(INTERVAL_SUFFIXES, (self.margins, *self.ends), strict=True):
                    yield label + suffix, values[:, index]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Geocodes, counts and, where there are intervals, both ends: what has a row for each geounit."""
        return (self.geocodes, self.counts, *(self.ends or ()))

    def of_arrays(self, arrays: Iterable[NDArray[Any]]) -> ReleasedTable:
        """The table with other rows, which are given as `arrays` has them."""
        geocodes, counts, *ends = arrays
        lows, highs = ends or (None, None)
        return replace(self, geocodes=geocodes, counts=counts, lows=lows, highs=highs)

    def rows(self, rows: slice | BoolArray) -> ReleasedTable:
        """Some of its geounits."""
        return self.of_arrays(values[rows] for values in self.arrays)


def margins_of(counts: IntArray, lows: FloatArray, highs: FloatArray) -> FloatArray:
    """Margins of error: the larger distance from a count to an end of its interval; all of one shape."""
    return np.maximum(counts - lows, highs - counts)


def is_count(name: str) -> bool:
    """Whether the column of that name holds counts: neither geocodes nor intervals."""
    return name != "geocode" and not name.endswith(INTERVAL_SUFFIXES)


def interval_columns(name: str, of: Averages) -> Iterator[tuple[str, FloatArray]]:
    """Values `(n,)` and, where they have intervals, the three columns of these, with the names of all."""
    yield name, of.values
    if of.lows is not None and of.highs is not None:
        margins = np.maximum(of.values - of.lows, of.highs - of.values)
        yield from zip((name + suffix for suffix in INTERVAL_SUFFIXES), (margins, of.lows, of.highs), strict=True)


def decimals_of(low: float | None, high: float | None) -> int:
    """Decimals with which people see the width of an interval, two of the last place at least: two, or up to six."""
    if low is None or high is None or low == high:
        return 2
    return next((places for places in range(2, 6) if high - low >= 2 * 10.0**-places), 6)


def check_labels(where: str, labels: Sequence[str]) -> None:
    """Refuse labels of a table or query that cannot be columns side by side.

    Raises:
        InputError: a label is "geocode", ends like a column of intervals, or occurs twice.
    """
    for label, times in Counter(labels).items():
        if not is_count(label) or times > 1:
            raise InputError(
                f"{where}: {label!r} cannot be the label of {'two answers' if times > 1 else 'an answer'}: "
                "labels become columns and must differ from each other and from 'geocode', and not end in "
                f"{', '.join(map(repr, INTERVAL_SUFFIXES))}"
            )


def long_terms(table: str, query: Query) -> Terms:
    """The terms of a query whose tables are long; none where they are not.

    Raises:
        InputError: a term is called as one of the columns beside the terms.
    """
    if not is_long(query.size):
        return ()
    for term in query.terms:
        if term in LONG_COLUMNS:
            raise InputError(
                f"tables.{table}: {term!r} cannot be a term of a table of {query.size:,} numbers an area: terms become "
                f"columns beside {', '.join(map(repr, LONG_COLUMNS))}; give it another name"
            )
    return tuple(zip(query.terms, (values for values in query.labels if values), strict=True))


def _form(table: ReleasedTable) -> Form:
    with_margins = table.ends is not None
    header = {
        "kind": "table", "name": table.name, "level": table.level, "query": table.query, "margins": with_margins,
    }  # fmt: skip
    what, ends = "a table of a release", INTERVAL_SUFFIXES if with_margins else ()
    if table.terms:
        header["terms"] = [[term, list(values)] for term, values in table.terms]
        columns = long_columns(table.terms, with_margins=with_margins)
        return Form(what, header, columns, nullable=[term for term, _ in table.terms])
    columns = {"geocode": TEXT}
    for label in table.labels:
        columns |= {label: WHOLE, **{label + suffix: REAL for suffix in ends}}
    return Form(what, header, columns, values=_VALUES_PER_ROW_GROUP)


def n_columns(answers: int, *, with_margins: bool) -> int:
    """The number of columns of a table with so many answers."""
    return 1 + answers * (1 + len(INTERVAL_SUFFIXES) * with_margins)


def rows_at_once(labels: Sequence[str], *, with_margins: bool, terms: Terms = ()) -> int:
    """Geounits in one part of a table, which is a row group unless the table is long."""
    if terms:
        return rows_per_group(len(labels), LONG_VALUES)
    return rows_per_group(n_columns(len(labels), with_margins=with_margins), _VALUES_PER_ROW_GROUP)


def write_table(target: Path, staging: Path, parts: Iterable[ReleasedTable]) -> None:
    """Write a table from its parts: successive geounits, `rows_at_once` of them in each but the last.

    Raises:
        ReleaseError: it cannot be written.
        ValueError: there is no part, or a part has the wrong size.
    """
    rest = iter(parts)
    first = next(rest, None)
    if first is None:
        raise ValueError("a table needs at least one part")
    step = rows_at_once(first.labels, with_margins=first.ends is not None, terms=first.terms)
    parts = _of_size(chain([first], rest), step)
    with _form(first).writer(target, staging) as out:
        for columns in _long_groups(parts) if first.terms else map(_wide_columns, parts):
            out.put(*columns)


def _wide_columns(part: ReleasedTable) -> list[Values]:
    return [part.geocodes, *(values for _, values in part.columns())]


def _of_size(parts: Iterable[ReleasedTable], rows: int) -> Iterator[ReleasedTable]:
    """The parts; ValueError where one has not as many geounits as it must."""
    last = rows
    for part in parts:
        if last != rows or len(part.geocodes) > rows:
            raise ValueError(f"a part of a table must have {rows} geounits, unless it is the last")
        last = len(part.geocodes)
        yield part


def _long_groups(parts: Iterable[ReleasedTable]) -> Iterator[list[pa.Array]]:
    """The row groups of a long table: of as many parts as fit one."""
    waiting: list[list[pa.Array]] = []
    for part in parts:
        rows = long_rows(part.terms, part.geocodes, part.counts, part.ends)
        if waiting and sum(len(each[0]) for each in waiting) + len(rows[0]) > LONG_VALUES:
            yield _joined(waiting)
            waiting = []
        waiting.append(rows)
    yield _joined(waiting)


def _joined(parts: list[list[pa.Array]]) -> list[pa.Array]:
    """The columns of several parts one after the other; each has its own geocodes in its dictionary."""
    columns = []
    for each in zip(*parts, strict=True):
        column = pa.chunked_array(each).unify_dictionaries().combine_chunks()
        columns.append(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)
    return columns


def read_table(path: Readable, rows: int | None = None, geocodes: NDArray[np.str_] | None = None) -> ReleasedTable:
    """The table written by `write_table`, of at most `rows` geounits; of just these `geocodes`, if they are given.

    Raises:
        ReleaseError: it is missing, damaged, longer or of another kind.
    """
    parts = list(read_table_parts(path, rows, geocodes))
    first = parts[0]
    found = np.concatenate([part.geocodes for part in parts])
    if len(unique := np.unique(found)) < len(found):
        twice = next(str(code) for code in unique if (found == code).sum() > 1)
        raise ReleaseError(f"{path} is damaged: it has several rows for the geocode {twice!r}")
    if len(parts) == 1:
        return first
    return first.of_arrays(map(np.concatenate, zip(*(part.arrays for part in parts), strict=True)))


def read_table_parts(
    path: Readable, rows: int | None = None, geocodes: NDArray[np.str_] | None = None
) -> Iterator[ReleasedTable]:
    """The same, some rows at a time, at least one part; for tables that do not fit into memory."""
    first = 0
    for part in _parts(path, len(geocodes) if rows is None and geocodes is not None else rows):
        if geocodes is not None:
            check_order(path, part.geocodes, geocodes, first)
        first += len(part.geocodes)
        yield part
    if geocodes is not None:
        check_complete(path, geocodes, first)


def _parts(path: Readable, rows: int | None) -> Iterator[ReleasedTable]:
    with open_form(path, lambda file: _form(_without_rows(file))) as file:
        facts = _without_rows(file)
        if rows is not None:
            file.file.at_most(rows * len(facts.labels) if facts.terms else rows)
        for columns in file.groups():
            yield from _dense_parts(columns, facts, path) if facts.terms else [_wide_part(columns, facts)]


def _wide_part(columns: Sequence[NDArray[Any]], facts: ReleasedTable) -> ReleasedTable:
    """A row group of a table with a column for each answer."""
    geocodes, *numbers = columns
    step = 1 if facts.lows is None else 1 + len(INTERVAL_SUFFIXES)

    def side_by_side(first: int, kind: type) -> NDArray[Any]:
        """Every so many columns, `(n, size)`: column by column in memory, as they are in the file."""
        return np.array(numbers[first::step], dtype=kind).reshape(len(facts.labels), len(geocodes)).T

    ends = () if facts.ends is None else (side_by_side(2, np.float64), side_by_side(3, np.float64))
    return facts.of_arrays((geocodes, side_by_side(0, np.int64), *ends))


def _dense_parts(columns: Sequence[Any], facts: ReleasedTable, path: Path) -> Iterator[ReleasedTable]:
    """A row group of a long table, so few geounits at a time that their numbers fit a part."""
    size, with_margins = len(facts.labels), facts.lows is not None
    geocodes, starts, answers, numbers = dense_rows(columns, facts.terms, path)
    step = rows_at_once(facts.labels, with_margins=with_margins, terms=facts.terms)
    for first in range(0, max(1, len(geocodes)), step):
        codes = geocodes[first : first + step]
        cut = slice(starts[first], starts[first + len(codes)])
        rows = np.repeat(np.arange(len(codes)), np.diff(starts[first : first + len(codes) + 1]))
        listed = answers[cut] >= 0
        places = rows[listed], answers[cut][listed]

        def dense(of_row: NDArray[Any], rows: IntArray = rows, cut: slice = cut, places: Any = places) -> Any:
            """`(n, size)` from the numbers of rows: what stands in the row of the zeros is of all others."""
            listed = answers[cut] >= 0
            of_zeros = np.zeros(int(rows.max(initial=-1)) + 1, dtype=of_row.dtype)
            of_zeros[rows[~listed]] = of_row[cut][~listed]
            out = np.repeat(of_zeros[:, None], size, axis=1)
            out[places] = of_row[cut][listed]
            return out

        yield facts.of_arrays((codes, *map(dense, numbers)))


def small_parts(parts: Iterable[ReleasedTable]) -> Iterator[ReleasedTable]:
    """The same rows, so few at a time that what is worked out from them stays in a processor's cache."""
    for part in parts:
        step = max(1, _AT_ONCE // len(part.labels))
        for start in range(0, max(1, len(part.counts)), step):
            yield part.rows(slice(start, start + step))


def _without_rows(file: FormFile) -> ReleasedTable:
    """The table that a file states in its header and the names of its columns."""
    header, names = file.header, file.file.schema_arrow.names
    terms, with_margins = _terms(header, file), bool(header.get("margins"))
    wide = names[1 :: 1 + len(INTERVAL_SUFFIXES) if with_margins else 1]
    labels = labels_of_terms(terms) if terms else tuple(wide)
    counts = np.empty((0, len(labels)), dtype=np.int64)
    ends = np.empty(counts.shape) if with_margins else None
    name, level, query = (str(header.get(key)) for key in ("name", "level", "query"))
    try:
        return ReleasedTable(name, level, query, np.empty(0, dtype=np.str_), labels, counts, ends, ends, terms)
    except InputError:
        raise file.damaged("its columns are not geocode and then a count for each answer") from None


def _terms(header: Mapping[str, Any], file: FormFile) -> Terms:
    """The terms that the header of a long table states; none of a wide one."""
    stated = header.get("terms", [])
    try:
        terms = tuple((str(name), tuple(map(str, values))) for name, values in stated)
    except (TypeError, ValueError):
        terms = ()
    size = math.prod(len(values) for _, values in terms)
    if stated and (not is_long(size) or size > _MOST_ANSWERS or any(len(set(own)) < len(own) for _, own in terms)):
        raise file.damaged("its header does not state the terms of a long table")
    return terms
