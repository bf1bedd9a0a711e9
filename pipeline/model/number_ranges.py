"""Ranges of whole numbers, "0..4", by which the numbers of a file have values of the schema.

A range is never written out to look a number up: an amount has millions of numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from geography.errors import InputError

T = TypeVar("T")

BETWEEN: Final = ".."
#: Digits of an end: numbers and widths are far from the end of int64, and exact in programs that have floats alone.
MOST_DIGITS: Final = 15
#: Digits of ends that are written out where readings are compared, as they were when no others were ranges.
_WRITTEN_OUT: Final = 4

_END: Final = re.compile(rf"[+-]?0*[0-9]{{1,{MOST_DIGITS}}}", re.ASCII)
#: What an end of a range is written with, and of nothing that is only a text with dots in it.
_OF_ENDS: Final = re.compile(r"[0-9+.,\s-]*", re.ASCII)
#: What messages say is allowed.
RANGE_ALLOWED: Final = (
    f'a range is "FIRST..LAST", two whole numbers of at most {MOST_DIGITS} digits, the lower one first, such as "0..4"'
)
_WHOLE: Final = re.compile(r"([+-]?)0*([0-9]{1,18})(\.0*)?", re.ASCII)


@dataclass(frozen=True)
class NumberRange:
    """The whole numbers from `first` to `last`."""

    first: int
    last: int

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.first}{BETWEEN}{self.last}"

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return self.last - self.first + 1


def number_range(text: str) -> NumberRange | None:
    """The range that a text states; None of a text that is not written like one.

    Raises:
        InputError: it is written like one and is none: an end is missing or no whole number, or the last is lower than
            the first. Looked up as a text, it would be ignored.

    >>> number_range("0..4"), number_range("a..b")
    (NumberRange(first=0, last=4), None)
    """
    first, between, last = (part.strip() for part in text.partition(BETWEEN))
    if not between or not _OF_ENDS.fullmatch(first + last) or not re.search("[0-9]", first + last):
        return None
    if not (_END.fullmatch(first) and _END.fullmatch(last)):
        raise InputError(f"found {text!r}; {RANGE_ALLOWED}")
    if int(last) < int(first):
        raise InputError(f"found {text!r}, whose last number is before its first; {RANGE_ALLOWED}")
    return NumberRange(int(first), int(last))


def ranges_at_odds(stated: Mapping[str, T]) -> tuple[str, str, int] | None:
    """Two ranges of a table that have a number in common and mean different things, and that number; None for none.

    Only the first would count. InputError for a text that is written like a range and is none.
    """
    ranges = [(one, text) for text in stated if (one := number_range(text)) is not None]
    ranges.sort(key=lambda pair: (pair[0].first, pair[0].last))
    reach: list[tuple[NumberRange, str]] = []
    for one, text in ranges:
        reach = [(other, named) for other, named in reach if other.last >= one.first]
        for _, named in reach:
            if stated[named] != stated[text]:
                earlier = [key for key in stated if key in (named, text)]
                return earlier[0], earlier[1], one.first
        reach.append((one, text))
    return None


def whole_number(text: str) -> int | None:
    """The whole number that a text states: 12, +12, 012 and 12.0 state the same; None where it states none."""
    match = _WHOLE.fullmatch(text)
    return None if match is None else int(match[1] + match[2])


def expand_numbers(mapped: Mapping[str, str]) -> dict[str, str]:
    """A table from the texts of a file to values with the numbers of short ranges written out, ends to 9999.

    So readings of the same table are the same. Numbers that have an entry of their own keep it. Ranges whose ends are
    written with a sign or with zeros before them are left as they are.
    """
    expanded = dict(mapped)
    for text, value in mapped.items():
        found = number_range(text)
        plain = found is not None and found.text == "".join(text.split())
        if found is not None and plain and found.first >= 0 and len(str(found.last)) <= _WRITTEN_OUT:
            for number in range(found.first, found.last + 1):
                expanded.setdefault(str(number), value)
    return expanded


class FileNumbers(Mapping[str, int]):
    """What stands in a file -> the number of its value in the schema.

    Of several things that a text may be, it is the first: one that is stated; a number of a range that is stated, of
    the first that has it; the name of a value; such a number, written otherwise.

    Args:
        names: name of a value -> its number.
        stated: further texts and ranges -> number of a value.

    Attributes:
        n_found: how many things the file may say: the texts, and the numbers of all ranges.
    """

    def __init__(self, names: Mapping[str, int], stated: Mapping[str, int]) -> None:
        self._names, self._stated = dict(names), dict(stated)
        self._texts = {text: at for at, text in enumerate({**names, **stated})}
        ranges = [(one, value) for text, value in stated.items() if (one := number_range(text)) is not None]
        # Parts of ranges that begin at rising numbers, no two with a number in common: value, and numbers before it.
        self._starts = sorted({cut for one, _ in ranges for cut in (one.first, one.last + 1)})
        self._values: list[int | None] = []
        self._before: list[int] = []
        n_before = 0
        for start, stop in zip(self._starts, [*self._starts[1:], *self._starts[-1:]], strict=True):
            value = next((value for one, value in ranges if one.first <= start <= one.last), None)
            self._values.append(value)
            self._before.append(n_before)
            n_before += 0 if value is None else stop - start
        self.n_found = len(self._texts) + n_before

    def __getitem__(self, text: str) -> int:
        if text in self._stated:
            return self._stated[text]
        found = self._in_ranges(text)
        if found is not None:
            return found[2]
        return self._names[text]

    def _in_ranges(self, text: str) -> tuple[int, int, int] | None:
        """The part of ranges that has the number which a text states, the number and its value; None where none has."""
        if not self._starts or (number := whole_number(text)) is None or number < self._starts[0]:
            return None
        part = bisect_right(self._starts, number) - 1
        value = self._values[part]
        if value is None or (text in self._names and text != str(number)):
            return None
        return part, number, value

    def place(self, text: str) -> int:
        """Number of what a text says, from 0 to `n_found`; texts that say the same number have the same. 0 for none."""
        if text not in self._stated and (found := self._in_ranges(text)) is not None:
            part, number, _ = found
            return len(self._texts) + self._before[part] + number - self._starts[part]
        return self._texts.get(text, 0)

    def __iter__(self) -> Iterator[str]:
        """The texts, ranges as they are stated; what messages show as allowed."""
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
