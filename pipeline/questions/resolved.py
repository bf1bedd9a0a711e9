"""A question with all its names looked up: which records count where, and for how much."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np
import scipy.sparse as sp

from pipeline.model.schema import AmountAttribute, Attribute, ClippedAttribute, ListedAttribute, Schema
from pipeline.questions.quantiles import RANKS, Rank, rank_of
from postprocess.arrays import BoolArray, IntArray

#: What units are counted by, in place of an attribute: how many records each has that the conditions leave.
RECORDS: Final = "records_per_unit"
#: What of a unit one number is about: each of its records, all of them in total, or whether it has any.
OfUnit = Literal["record", "total", "unit"]

#: What a question without a level is asked of, in place of a level's name.
EVERYWHERE = "everywhere"


@dataclass(frozen=True)
class Part:
    """Numbers that are measured together, one for each group of each place.

    A record that is counted adds one whole number from `low` to `high` to the number of its own place and group, and
    nothing to any other; a record that is not counted adds nothing. All that its noise and cost depend on is this.

    Attributes:
        name: "count" or "sum"; "windows" for the numbers around a quantile, which a record moves as if it
            moved `MOVED` of them by `high` each.
        low, high: whole; both 1 for a count, units of the amount less `centre` for a sum.
        centre: units that are taken off each record's amount before it is added.
        of: "record"; or "total" where `low` and `high` bound what all records of a unit add together, see
            `units.within_ends`; or "unit" where a unit is counted once in each number that it has a record in.
    """

    name: str
    low: int
    high: int
    centre: int = 0
    of: OfUnit = "record"


#: Which windows are counted around a quantile; other windows must not meet the same noise.
AROUND: Final = "windows 2"


@dataclass(frozen=True, eq=False)
class QuestionAxis:
    """One attribute of the records that the question looks at.

    Attributes:
        attribute: with its values.
        keep: `(n_values,)` whether records with the value are counted.
        group: `(n_values,)` the group of each value; zeros where it is summed out.
        term: what the groups are called; "" where it is summed out.
        labels: of the groups.
    """

    attribute: Attribute
    keep: BoolArray
    group: IntArray
    term: str = ""
    labels: tuple[str, ...] = ()


def records_of_unit(at_most: int) -> Attribute:
    """How many records a unit has, as an attribute: 1, 2, ... of each at most so many are counted where records are."""
    last = max(20, 2 * at_most)
    return Attribute(RECORDS, (*map(str, range(1, last)), f"{last}+"))


def parts_of(statistic: str, ends: tuple[int, int] | None, *, total: bool = False) -> tuple[Part, ...]:
    """What is measured: of a mean a sum and a count, each with half of the budget; of the most common values a count.

    The sum of a mean is that of the amounts less the middle of the grid, which no record can move as far; not where the
    ends are those of a unit's total, as the middle counts once for each of its records.

    Args:
        statistic: count, count units, sum, mean or most common.
        ends: of the amount's grid, in units; None where none is summed.
        total: whether they are those of a unit's total.
    """
    count = Part("count", 1, 1, of="unit" if statistic == "count units" else "record")
    if ends is None:
        return (count,)
    first, last = ends
    centre = (first + last) // 2 if statistic == "mean" and not total else 0
    summed = Part("sum", first - centre, last - centre, centre, "total" if total else "record")
    return (summed, count) if statistic == "mean" else (summed,)


@dataclass(frozen=True, eq=False)
class Resolved:
    """What a question asks, by numbers.

    Attributes:
        text: canonical.
        statistic: one of `text.STATISTICS`.
        level: the places that are told apart; None for everywhere together.
        axes: the attributes that it looks at.
        order: the numbers of those axes whose groups are told apart, as in the question's `by`; the attribute of the
            most common values is the last.
        amount: what is summed, or a quantile is of.
        number: of the most common values how many, or a quantile's fraction.
        least: the least count of a group that is listed; None where all are.
        ends: that a clip is chosen among.
    """

    text: str
    statistic: str
    level: str | None
    axes: tuple[QuestionAxis, ...]
    order: tuple[int, ...]
    amount: AmountAttribute | None
    number: Fraction | None
    least: int | None
    ends: ListedAttribute | None

    @cached_property
    def schema(self) -> Schema:
        """The attributes; the records are counted by their cells."""
        return Schema(tuple(axis.attribute for axis in self.axes))

    @property
    def place(self) -> str:
        """The level's name, or `EVERYWHERE`."""
        return self.level or EVERYWHERE

    @property
    def terms(self) -> tuple[str, ...]:
        """What the groups are called, in the order of the question."""
        return tuple(self.axes[number].term for number in self.order)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups of each term."""
        return tuple(len(self.axes[number].labels) for number in self.order)

    @property
    def size(self) -> int:
        """Number of groups in each place."""
        return math.prod(self.sizes)

    def labels(self) -> list[tuple[str, ...]]:
        """The values of each group's terms, in the order of the numbers."""
        return list(itertools.product(*(self.axes[number].labels for number in self.order)))

    @property
    def rank(self) -> Rank | None:
        """What is chosen by rank, for a median, a quantile or an extreme; None for other statistics."""
        if self.statistic not in RANKS:
            return None
        first = 0 if self.amount is None else self.amount.first + int(self.candidates[0])
        return rank_of(self.statistic, self.number, len(self.candidates), first)

    @cached_property
    def candidates(self) -> IntArray:
        """The numbers of the amount's values that the conditions leave, or of the ends, in order; none of a count."""
        if (of := self.ends or self.amount) is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.axes[self.schema.names.index(of.name)].keep)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What is measured; nothing where it is chosen by rank."""
        if self.rank is not None:
            return ()
        if self.amount is None:
            return parts_of(self.statistic, None)
        return parts_of(self.statistic, (self.amount.first, self.amount.last), total=self.amount.total)

    @property
    def of(self) -> OfUnit:
        """What of a unit its numbers are about."""
        return self.parts[0].of if self.parts else "record"

    @property
    def by_records(self) -> Attribute | None:
        """The number of a unit's records, where the question looks at it; the last of the axes."""
        last = self.axes[-1].attribute
        return last if self.of == "unit" and last.name == RECORDS else None

    @property
    def read(self) -> Schema:
        """The attributes that records have: `schema` without the number of a unit's records."""
        return Schema(self.schema.attributes[:-1]) if self.by_records is not None else self.schema

    def numbers_of_unit(self, n_places: int) -> int:
        """In how many numbers a unit can be, of all places; the number of its records is the same in all of them."""
        sizes = [len(self.axes[n].labels) for n in self.order if self.axes[n].attribute is not self.by_records]
        return n_places * math.prod(sizes)

    def unit_of(self, name: str) -> Fraction:
        """What the numbers of a part, or those that are chosen, are in; one of a count."""
        return self.amount.unit if self.amount is not None and name in ("sum", "quantile") else Fraction(1)

    def weights(self, part: Part, value: IntArray) -> IntArray:
        """What records with these numbers of the amount's values add to a part's number, `(n,)`."""
        if part.name == "count" or self.amount is None:
            return np.ones(len(value), dtype=np.int64)
        return value + (self.amount.first - part.centre)

    def answers(self, counts: sp.csr_array[np.int64], places: IntArray, n_places: int) -> dict[str, IntArray]:
        """The true numbers of each part, `(n_places, size)` int64. Confidential where the counts are.

        Args:
            counts: `(n_leaves, n_cells)` records by leaf and cell of `schema`.
            places: `(n_leaves,)` the place of each leaf.
            n_places: number of places.
        """
        at, value, records = self._counted(counts, places)
        answers = {}
        for part in self.parts:
            numbers = np.zeros(n_places * self.size, dtype=np.int64)
            np.add.at(numbers, at, records * self.weights(part, value))
            answers[part.name] = numbers.reshape(n_places, self.size)
        return answers

    def histograms(self, counts: sp.csr_array[np.int64], places: IntArray, n_places: int) -> IntArray:
        """The true numbers of records by candidate, `(n_places * size, n_candidates)`; otherwise as `answers`."""
        at, value, records = self._counted(counts, places)
        found = np.zeros((n_places * self.size, len(self.candidates)), dtype=np.int64)
        np.add.at(found, (at, np.searchsorted(self.candidates, value)), records)
        return found

    def _counted(self, counts: sp.csr_array[np.int64], places: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Of each leaf and cell that counts: place and group, number of the amount's value, and how many records."""
        leaf = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        counted, at, value = self.placed(leaf, counts.indices.astype(np.int64), places)
        if self.of == "total":
            # The conditions were looked at before the amounts were taken down.
            counted = np.ones(len(leaf), dtype=bool)
        return at[counted], value[counted], counts.data[counted]

    def placed(
        self, leaf: IntArray, cell: IntArray, places: IntArray, *, records: bool = True
    ) -> tuple[BoolArray, IntArray, IntArray]:
        """Of leaves and cells of `schema`, `(n,)`: whether they count, place and group, number of the amount's value.

        Without `records` conditions on the number of a unit's records are left out.
        """
        codes = np.unravel_index(cell, self.schema.shape)
        counted = np.ones(len(leaf), dtype=bool)
        for axis, code in zip(self.axes, codes, strict=True):
            if records or axis.attribute is not self.by_records:
                counted &= axis.keep[code]
        group = np.zeros(len(leaf), dtype=np.int64)
        for number in self.order:
            axis = self.axes[number]
            group = group * len(axis.labels) + axis.group[codes[number]]
        value = np.zeros(len(leaf), dtype=np.int64)
        if (of := self.ends or self.amount) is not None:
            value = codes[self.schema.names.index(of.name)]
        return counted, places[leaf] * self.size + group, value

    def step_of(self, attribute: Attribute) -> int:
        """How far the numbers of cells are apart that differ by one in the number of an attribute's value."""
        return math.prod(self.schema.shape[self.schema.names.index(attribute.name) + 1 :])

    def layout(self) -> list[object]:
        """By which attributes the records are counted, as JSON; how these are read, `RecordSource.reading` says."""
        return [[axis.attribute.name, *axis.attribute.values, *further_of(axis.attribute)] for axis in self.axes]

    def content(self) -> list[object]:
        """All that the numbers, and so what is to be protected, depend on, as JSON."""
        axes = [
            [*self.layout()[number], axis.keep.tolist(), axis.group.tolist(), axis.term, *axis.labels]  # type: ignore[misc]
            for number, axis in enumerate(self.axes)
        ]
        parts: list[list[object]] = [
            [part.name, part.low, part.high, part.centre, *([] if part.of == "record" else [part.of])]
            for part in self.parts
        ]
        if self.rank is not None:
            parts.append([self.rank.name, str(self.rank.quantile), self.rank.candidates, self.rank.first, AROUND])
        return ["question", 2, self.text, self.statistic, self.place, axes, list(self.order), parts]

    def fingerprint(self, *context: str) -> str:
        """SHA-256 over `content` and the context.

        Args:
            context: how the records are read, budget, framework, neighbours and whatever else the noise depends on.
        """
        return hashlib.sha256(json.dumps([*self.content(), *context]).encode()).hexdigest()


def further_of(attribute: Attribute) -> list[object]:
    """What the values of an attribute do not say themselves, and what records without an amount count as."""
    if isinstance(attribute, ListedAttribute):
        return [str(attribute.missing)]
    if not isinstance(attribute, AmountAttribute | ClippedAttribute):
        return []
    ends = [str(attribute.low), str(attribute.high)] if isinstance(attribute, ClippedAttribute) else []
    # A list of its own, which no value is: grids without it have the noise that they ever had.
    return [*ends, *([] if attribute.missing is None else [["missing", str(attribute.missing)]])]
