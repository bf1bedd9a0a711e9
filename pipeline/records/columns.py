"""Turns a chunk's columns into numbers: values of attributes, and counts.

Each distinct value of a chunk is examined once. A null, a NaN and an empty text are the same: a missing value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.model.number_ranges import FileNumbers
from pipeline.model.schema import AmountAttribute, Attribute, OfAmounts
from pipeline.records.problems import SHOWN, MistakeLog, list_allowed
from postprocess.arrays import BoolArray, IntArray

#: Largest count that one row may hold: more than there are people, and far from the end of int64 when summed.
LARGEST_COUNT = 10**10

MISSING, OUTSIDE = -1, -2
#: A geocode that the spine leaves out on purpose.
LEFT_OUT = -3
NEGATIVE, FRACTIONAL, NOT_A_NUMBER, TOO_LARGE = -2, -3, -4, -5

_COUNT_PROBLEMS = {
    MISSING: "a missing count",
    NEGATIVE: "a negative count",
    FRACTIONAL: "a fractional count",
    NOT_A_NUMBER: "a count that is not a number",
    TOO_LARGE: "a count that is too large",
}
_WHOLE = re.compile(r"([+-]?)([0-9]+)(\.0*)?")
_DECIMAL = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Distinct:
    """A column as its distinct values, and where they occur in it.

    Attributes:
        values: the distinct values.
        index: `(n_rows,)` int64, the value of each row; where it is null, `len(values)`.
    """

    values: pa.Array
    index: IntArray

    @classmethod
    def of(cls, column: pa.Array) -> Distinct:
        """The distinct texts of a column, and the place of each row's text among them."""
        encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
        index = pc.fill_null(encoded.indices.cast(pa.int64()), len(encoded.dictionary))
        return cls(encoded.dictionary, index.to_numpy(zero_copy_only=False))

    def spread(self, numbers: IntArray) -> IntArray:
        """The number of each row, `(n_rows,)`, from the number of each value; MISSING where the row is null."""
        return np.append(numbers, MISSING)[self.index]

    @cached_property
    def texts(self) -> list[str]:
        """The values as text, the way a CSV file shows them; null and NaN as the empty text."""
        return [_as_text(value) for value in self.values.to_pylist()]

    def first_found(self, rows: IntArray) -> list[str]:
        """The first distinct values in `rows` (from 0), at most SHOWN + 1, as text."""
        index, position = np.unique(self.index[rows], return_index=True)
        first = index[np.argsort(position)][: SHOWN + 1]
        return [_as_text(self.values[int(i)].as_py()) for i in first if i < len(self.values)]


def _as_text(value: object) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return str(value)


@dataclass(frozen=True)
class AttributeReader:
    """Reads one attribute's column: the value in the file -> the value's number in the schema."""

    attribute: Attribute
    column: str
    numbers: FileNumbers | AmountNumbers

    @classmethod
    def make(
        cls, attribute: Attribute, column: str, *, coded: bool = False, values: Mapping[str, str] | None = None
    ) -> AttributeReader:
        """`coded`: the file holds the numbers of the values, from 0; `values` are further values in the file."""
        if isinstance(attribute, OfAmounts):
            return cls(attribute, column, AmountNumbers(attribute))
        names = attribute.values
        numbers = {str(i) if coded else name: i for i, name in enumerate(names)}
        stated = {text: names.index(name) for text, name in (values or {}).items()}
        return cls(attribute, column, FileNumbers(numbers, stated))

    @property
    def where(self) -> str:
        """What messages call the column: its name, and the attribute's if they differ."""
        if self.column == self.attribute.name:
            return f"column {self.column!r}"
        return f"column {self.column!r} (attribute {self.attribute.name!r})"

    def read(self, column: pa.Array, first_row: int, log: MistakeLog, counted: BoolArray) -> tuple[IntArray, Distinct]:
        """Number of each row's value, `(n_rows,)`, negative where it is noted in `log` as wrong; and what was read.

        Rows that are not `counted` are not examined; they have the number 0.
        """
        distinct = Distinct.of(column)
        no_value = self.numbers.get("", MISSING)
        codes = [self.numbers.get(text, OUTSIDE) if text else no_value for text in distinct.texts]
        read = np.where(counted, np.append(np.array(codes, dtype=np.int64), no_value)[distinct.index], 0)
        if read.size and read.min() < 0:
            allowed = f"allowed are {list_allowed(tuple(self.numbers))}"
            outside, missing = np.flatnonzero(read == OUTSIDE), np.flatnonzero(read == MISSING)
            log.add(
                self.where,
                "a value outside the schema",
                first_row + outside + 1,
                () if isinstance(self.attribute, OfAmounts) else distinct.first_found(outside),
                allowed,
            )
            log.add(self.where, "a missing value", first_row + missing + 1, (), allowed)
        return read, distinct

    def places(self, distinct: Distinct) -> IntArray:
        """The number of what stands in the file, `(n_rows,)` from 0 to `n_found`: several can mean the same value."""
        places = [self.numbers.place(text) for text in distinct.texts]
        return np.append(np.array(places, dtype=np.int64), self.numbers.place(""))[distinct.index]


@dataclass(frozen=True)
class AmountReader(AttributeReader):
    """Reads a column of amounts: the units that each row counts as, clipped and rounded."""

    first: int = 0

    @classmethod
    def of(cls, amount: AmountAttribute) -> AmountReader:
        """`amount` is named as its column."""
        return cls(amount, amount.name, AmountNumbers(amount), amount.first)

    def read_counted(
        self, column: pa.Array, first_row: int, log: MistakeLog, counted: BoolArray
    ) -> tuple[IntArray, BoolArray]:
        """Units of each row `(n_rows,)`, and which rows are right; the others are noted in `log`, or not `counted`."""
        numbers, _ = self.read(column, first_row, log, counted)
        return numbers + self.first, counted & (numbers >= 0)


@dataclass(frozen=True)
class CountReader:
    """Reads a column of counts, each a whole number of persons from 0 to LARGEST_COUNT."""

    column: str

    def read(self, column: pa.Array, first_row: int, log: MistakeLog) -> IntArray:
        """Count of each row, `(n_rows,)`, negative where it is noted in `log` as wrong."""
        distinct = Distinct.of(column)
        counts = distinct.spread(np.array([parse_count(v) for v in distinct.values.to_pylist()], dtype=np.int64))
        if counts.size and counts.min() < 0:
            for problem, description in _COUNT_PROBLEMS.items():
                rows = np.flatnonzero(counts == problem)
                texts = () if problem == MISSING else distinct.first_found(rows)
                allowed = f"allowed are whole numbers from 0 to {LARGEST_COUNT:,}"
                log.add(f"column {self.column!r}", description, first_row + rows + 1, texts, allowed)
        return counts

    def read_counted(
        self,
        column: pa.Array,
        first_row: int,
        log: MistakeLog,
        counted: BoolArray,
    ) -> tuple[IntArray, BoolArray]:
        """As `read`, whichever rows are counted, and which of these are right."""
        counts = self.read(column, first_row, log)
        return counts, counted & (counts >= 0)


def parse_count(value: object) -> int:
    """The whole number that `value` states, or which problem it has (a negative constant of this module).

    12, 12.0, "12" and "12.0" state the same number: programs that know missing values write counts as 12.0.
    """
    if isinstance(value, bool):
        return NOT_A_NUMBER
    if isinstance(value, int):
        return _in_range(value)
    text = _as_text(value) if not isinstance(value, Decimal) else format(value, "f")
    if text == "":
        return MISSING
    if (match := _WHOLE.fullmatch(text)) is not None:
        digits = match[2].lstrip("0") or "0"
        size = int(digits) if len(digits) <= 18 else LARGEST_COUNT + 1
        return _in_range(-size if match[1] == "-" else size)
    if (match := _DECIMAL.fullmatch(text)) is not None:
        return NEGATIVE if match[1] == "-" else FRACTIONAL
    return NOT_A_NUMBER


def _in_range(number: int) -> int:
    if number < 0:
        return NEGATIVE
    return number if number <= LARGEST_COUNT else TOO_LARGE


# -- amounts: the step of the public grid, or where among ends --------------------------------------------------------


# No number of more digits is written; and Fraction would take an exponent of any size, for hours.
_AMOUNT: Final = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?", re.ASCII)


class AmountNumbers(Mapping[str, int]):
    """The text of an amount -> the number of its value; what is no amount has none.

    Clip and rounding happen here, before anything is counted, so that no record counts more than the grid allows.
    """

    n_found = 1  # amounts do not tell cells apart

    def __init__(self, attribute: OfAmounts) -> None:
        self._attribute = attribute

    def place(self, text: str) -> int:  # noqa: ARG002
        """See `FileNumbers.place`: any amount is the same."""
        return 0

    def __getitem__(self, text: str) -> int:
        if not text:
            if self._attribute.missing is None:
                raise KeyError(text)
            return self._attribute.number_of(self._attribute.missing)
        if _AMOUNT.fullmatch(text) is None:
            raise KeyError(text)
        return self._attribute.number_of(Fraction(text))

    def __iter__(self) -> Iterator[str]:
        """What messages show as allowed."""
        yield "a number such as 1200 or 0.5"

    def __len__(self) -> int:
        return 1
