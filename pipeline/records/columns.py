"""Turns a chunk's columns into numbers: values of attributes, counts, amounts, and geocodes into leaves of the spine.

Each distinct value of a chunk is examined once. A null, a NaN and an empty text are the same: a missing value.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.errors import RecordsError
from pipeline.model.memory_table import Source
from pipeline.model.number_ranges import FileNumbers
from pipeline.model.schema import AmountAttribute, Attribute, OfAmounts
from pipeline.records.problems import SHOWN, MistakeLog, list_allowed, quote
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
class NumberReader(ABC):
    """Reads a column of numbers that are not negative; a negative one says what is wrong.

    Attributes:
        column: its name.
        problems: what is wrong with each of the negative numbers that `parse` gives.
        allowed: for messages.
    """

    column: str
    problems: ClassVar[Mapping[int, str]]
    allowed: ClassVar[str]

    @abstractmethod
    def parse(self, value: object) -> float:
        """The number that a value states, or which problem it has; whole where all are."""

    def where(self, rows: IntArray) -> str:  # noqa: ARG002
        """What messages call the column, given the rows of a chunk that they are about."""
        return f"column {self.column!r}"

    def read(self, column: pa.Array, first_row: int, log: MistakeLog) -> NDArray[Any]:
        """Number of each row, `(n_rows,)`, negative where it is noted in `log` as wrong."""
        distinct = Distinct.of(column)
        numbers = np.array([*map(self.parse, distinct.values.to_pylist()), MISSING])[distinct.index]
        if numbers.size and numbers.min() < 0:
            for problem, description in self.problems.items():
                rows = np.flatnonzero(numbers == problem)
                texts = () if problem == MISSING else distinct.first_found(rows)
                log.add(self.where(rows), description, first_row + rows + 1, texts, self.allowed)
        return numbers


class CountReader(NumberReader):
    """Reads a column of counts, each a whole number of persons from 0 to LARGEST_COUNT."""

    problems = _COUNT_PROBLEMS
    allowed = f"allowed are whole numbers from 0 to {LARGEST_COUNT:,}"

    def parse(self, value: object) -> int:
        """See `parse_count`."""
        return parse_count(value)

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


class LeafReader:
    """Reads the column of geocodes: geocode -> the leaf's number in the spine.

    Geocodes are text. A column of whole numbers is taken only if every leaf of the spine is known by its number: all
    geocodes are digits, and no two are the same number, so that leading zeros can be put back in one way.
    """

    def __init__(self, spine: Spine, column: str, path: Source) -> None:
        self.spine = spine
        self.column = column
        self.path = path

    def read(self, column: pa.Array, first_row: int, log: MistakeLog) -> tuple[IntArray, Distinct]:
        """Number of each row's leaf, `(n_rows,)`, and the geocodes.

        It is `LEFT_OUT` where the spine leaves the leaf out, and else negative where it is noted in `log` as wrong.

        Raises:
            RecordsError: the column is neither text nor numbers that stand for geocodes.
        """
        distinct = Distinct.of(column)
        kind = distinct.values.type
        if pa.types.is_integer(kind):
            leaf_of_value = self._leaves_of_numbers(distinct.values)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            leaf_of_value = self._leaves_of_texts(distinct.values)
        elif pa.types.is_null(kind):
            leaf_of_value = np.full(len(distinct.values), MISSING, dtype=np.int64)
        else:
            raise RecordsError(
                f"{self.path}, column {self.column!r}: the geocodes are of type {kind}; write them as text, with "
                "their leading zeros"
            )
        leaves = distinct.spread(leaf_of_value)
        if leaves.size and leaves.min() < 0:
            outside, missing = np.flatnonzero(leaves == OUTSIDE), np.flatnonzero(leaves == MISSING)
            codes = distinct.first_found(outside)
            where = f"column {self.column!r}"
            log.add(
                where,
                "a geocode that is not a leaf of the spine",
                first_row + outside + 1,
                codes,
                lambda: self._allowed() + self._hint(codes),
            )
            log.add(where, "a missing geocode", first_row + missing + 1, (), self._allowed)
        return leaves, distinct

    def _leaves_of_texts(self, values: pa.Array) -> IntArray:
        codes = text_array(values)
        leaves = np.asarray(self.spine.find_leaves(codes), dtype=np.int64)
        found = np.where(leaves >= 0, leaves, np.where(codes == "", MISSING, OUTSIDE))
        texts = values.cast(pa.string()) if pa.types.is_string_view(values.type) else values
        with_nul = pc.fill_null(pc.match_substring(texts, "\0"), False).to_numpy(zero_copy_only=False)
        if with_nul.any():  # no geocode has one, and numpy has dropped those at the end
            found, codes = np.where(with_nul, OUTSIDE, found), np.where(with_nul, "", codes)
        if self.spine.left_out is not None and (unknown := np.flatnonzero(found == OUTSIDE)).size:
            there = self.spine.left_out.has(self.spine.n_levels - 1, codes[unknown])
            found[unknown[there]] = LEFT_OUT
        return found

    def _leaves_of_numbers(self, values: pa.Array) -> IntArray:
        numbers, leaf_of_number = self._numbered_leaves
        sought = pc.fill_null(values.cast(pa.int64(), safe=False), -1).to_numpy(zero_copy_only=False)
        place = np.minimum(np.searchsorted(numbers, sought), numbers.size - 1)
        missing = values.is_null().to_numpy(zero_copy_only=False)
        unknown = np.where(missing, MISSING, OUTSIDE)
        found = np.where(numbers[place] == sought, leaf_of_number[place], unknown)
        if self.spine.left_out is not None and self.spine.left_out.codes is None:
            found[found == OUTSIDE] = LEFT_OUT
        return found

    @cached_property
    def _numbered_leaves(self) -> tuple[IntArray, IntArray]:
        """The leaves' geocodes as whole numbers in order, and the leaf of each; those that are left out with them."""
        codes, left_out = self.spine.leaf_level.geocodes, self.spine.left_out
        if left_out is not None and left_out.codes is not None:
            codes = np.concatenate([codes, left_out.codes[-1]])
        start = f"{self.path}, column {self.column!r}: the geocodes are numbers, without their leading zeros, and the"
        digits = np.char.isdecimal(codes) & (np.char.str_len(codes) <= 18)
        if not digits.all():
            raise RecordsError(
                f"{start} geocode {quote(str(codes[~digits][0]))} of the spine cannot be distinguished from "
                "a number; write the column as text"
            )
        numbers = codes.astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        if (twin := np.flatnonzero(numbers[1:] == numbers[:-1])).size:
            code, other = (str(codes[order[twin[0] + i]]) for i in (0, 1))
            raise RecordsError(
                f"{start} geocodes {code!r} and {other!r} of the spine are the same number; write the column as text"
            )
        return numbers, np.where(order < self.spine.n_leaves, order, LEFT_OUT)

    def _allowed(self) -> str:
        codes = self.spine.leaf_level.geocodes
        some = ", ".join(quote(str(code)) for code in codes[:2])
        return f"allowed are the {codes.size:,} geocodes of level {self.spine.leaf_level.name!r}, such as {some}"

    def _hint(self, codes: Sequence[str]) -> str:
        """A hint where leading zeros seem to be missing, as spreadsheets drop them."""
        length = int(np.char.str_len(self.spine.leaf_level.geocodes).max())
        padded = np.array([code.zfill(length) for code in codes if "\0" not in code], dtype=np.str_)
        matches = np.flatnonzero(self.spine.find_leaves(padded) >= 0)
        if not matches.size:
            return ""
        return f" ({str(padded[matches[0]])!r} is one: were leading zeros lost?)"


def text_array(values: pa.Array) -> NDArray[np.str_]:
    """A text column as numpy text; null as the empty text."""
    if len(values) == 0:
        return np.zeros(0, dtype="<U1")
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if values.null_count == 0:
        wide = pa.types.is_large_string(values.type)
        _, offsets_buffer, text_buffer = values.buffers()
        offsets = np.frombuffer(offsets_buffer, dtype=np.int64 if wide else np.int32)
        offsets = offsets[values.offset : values.offset + len(values) + 1]
        length = int(offsets[1] - offsets[0])
        if length and np.all(np.diff(offsets) == length):
            text = np.frombuffer(text_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
            if text.max() < 128 and text.min() > 0:  # ASCII of one length, the common case: no detour over objects
                return text.view(f"S{length}").astype(f"U{length}")
    return np.array([value or "" for value in values.to_pylist()], dtype=np.str_)
