"""The content of a table's columns: distinct values, missing ones, whether they are numbers; in one pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from features.imports.tables.table_file import TableFile
from pipeline.records.columns import Distinct

#: Distinct values of a column that are kept; a column with more of them is not an attribute.
MOST_VALUES = 300_000
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


@dataclass
class Column:
    """A column.

    Attributes:
        name: in the file.
        n_rows: of the file.
        n_missing: rows without a value.
        values: the distinct values as text and the rows that have each; those met before there were too many.
        too_many: whether there are more distinct values than `values` holds.
    """

    name: str
    n_rows: int = 0
    n_missing: int = 0
    values: dict[str, int] = field(default_factory=dict)
    too_many: bool = False

    @property
    def n_distinct(self) -> int:
        """The number of distinct values."""
        return len(self.values)

    @cached_property
    def numbers(self) -> list[int] | None:
        """The values as whole numbers in order, None where one is not written as such."""
        if not self.values or not all(_WHOLE.fullmatch(text) for text in self.values):
            return None
        return sorted(map(int, self.values))

    @cached_property
    def digits(self) -> set[int]:
        """The lengths of the values, where all are digits; else empty."""
        if not self.values or not all(_DIGITS.fullmatch(text) for text in self.values):
            return set()
        return {len(text) for text in self.values}

    @cached_property
    def padded(self) -> bool:
        """Whether a value begins with a zero that a number would not have, as codes do."""
        return any(len(text) > 1 and text[0] == "0" and text.isdigit() for text in self.values)

    @property
    def unique(self) -> bool:
        """Whether each row has a value of its own; of long files, whether nearly each has."""
        if self.n_missing:
            return False
        return self.n_distinct == self.n_rows or (self.too_many and self.nearly_unique)

    @property
    def nearly_unique(self) -> bool:
        """Whether nearly every row has a value of its own, as an identifier has."""
        present = sum(self.values.values())
        return present > 20 and self.n_distinct > 0.9 * present

    @cached_property
    def numbers_rows(self) -> bool:
        """Whether the column only numbers the rows, from 0 or 1 on."""
        if self.n_missing or self.n_distinct != self.n_rows or self.n_rows < 3 or self.numbers is None:
            return False
        return self.numbers[0] in (0, 1) and self.numbers[-1] - self.numbers[0] + 1 == self.n_rows

    def add(self, texts: Sequence[str], counts: Sequence[int]) -> None:
        """Note texts with their numbers of rows; the empty text is a missing value."""
        for text, count in zip(texts, counts, strict=True):
            self.n_rows += count
            if text == "":
                self.n_missing += count
            elif text in self.values:
                self.values[text] += count
            elif len(self.values) < MOST_VALUES:
                self.values[text] = count
            else:
                self.too_many = True


def profile(file: TableFile) -> dict[str, Column]:
    """The columns of a table by name, in the file's order.

    Raises:
        RecordsError: the file cannot be read, or two columns have the same name.
    """
    names = file.names()
    columns = {name: Column(name) for name in names}
    for chunk in file.chunks(names):
        for name, column in columns.items():
            distinct = Distinct.of(chunk.column(name))
            counts = np.bincount(distinct.index, minlength=len(distinct.texts) + 1)
            present = np.flatnonzero(counts[:-1])
            column.add([distinct.texts[i] for i in present], counts[present].tolist())
            if counts[-1]:
                column.add([""], [int(counts[-1])])
    return columns
