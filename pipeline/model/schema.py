"""The attributes of a record, their values and recodes, and the cells they span."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from pipeline.errors import SpecError
from pipeline.model.content import content_sha256
from postprocess.arrays import IntArray

#: Names that queries give a meaning of their own.
RESERVED_NAMES = frozenset({"total", "detailed"})
#: Units between the ends of an amount, and between these and 0.
MOST_STEPS = 100_000
#: Of the ends to which amounts are clipped; the values of a `ClippedAttribute`.
SIDES = ("below", "within", "above")


def _twice(names: tuple[str, ...]) -> str | None:
    """The first name that occurs in `names` more than once."""
    return next((name for name, n in Counter(names).items() if n > 1), None)


@dataclass(frozen=True)
class Attribute:
    """One attribute of a record and its values, in the order of the histogram."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise SpecError(f"schema: attribute {self.name!r} has no values; at least one is needed")
        if (value := _twice(self.values)) is not None:
            raise SpecError(f"schema: attribute {self.name!r} lists the value {value!r} twice; each once is allowed")


class OfAmounts(Attribute, ABC):
    """An attribute whose column holds amounts, of which each has one of the values.

    Attributes:
        missing: the amount that a record without one has; None where each must have one.
    """

    missing: Fraction | None

    @abstractmethod
    def number_of(self, amount: Fraction) -> int:
        """Number of the value that an amount has."""


@dataclass(frozen=True)
class AmountAttribute(OfAmounts):
    """An amount as an attribute: its values are the steps of a public grid, from `low` to `high`.

    An amount outside is clipped to the nearer end, then rounded to the nearest step; halfway, to the upper one.

    Attributes:
        low, high: the ends, whole multiples of `unit`.
        unit: the width of a step, above 0, exact.
        missing: the amount that a record without one has; None where each must have one.
        total: whether the ends are also those of all records of a unit together, in place of each record's alone.
    """

    low: Fraction
    high: Fraction
    unit: Fraction
    missing: Fraction | None = None
    total: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        low: Fraction,
        high: Fraction,
        unit: Fraction,
        missing: Fraction | None = None,
        *,
        total: bool = False,
    ) -> AmountAttribute:
        """The attribute of a grid.

        Raises:
            SpecError: the ends are no multiples of the unit, are not one below the other, or too many units apart; or
                those of a total do not have 0 between them.
        """
        if unit <= 0 or low >= high or (low / unit).denominator != 1 or (high / unit).denominator != 1:
            raise SpecError(
                f"amount {name!r}: found between {low} and {high} in units of {unit}; the lower end must be below the "
                "upper one, and both whole multiples of a unit above 0"
            )
        first, last = int(low / unit), int(high / unit)
        if last - first > MOST_STEPS or max(-first, last) > MOST_STEPS:
            raise SpecError(
                f"amount {name!r}: the ends are {max(last - first, -first, last):,} units from each other or from 0; "
                f"at most {MOST_STEPS:,} are allowed: take a larger unit"
            )
        if total and (first > 0 or last < 0):
            raise SpecError(
                f"amount {name!r}: found between {low} and {high} of a unit's total; 0 must be between them, since a "
                "record of a unit with more is taken down"
            )
        values = tuple(str(step * unit) for step in range(first, last + 1))
        return cls(name, values, low, high, unit, missing, total)

    @property
    def first(self) -> int:
        """The lower end, in units: value number n is `first` + n units."""
        return int(self.low / self.unit)

    @property
    def last(self) -> int:
        """The upper end, in units."""
        return int(self.high / self.unit)

    @property
    def content(self) -> list[str]:
        """Of which column, between which ends, in which unit, of a record without one, and whose ends; as JSON."""
        ends = ["total"] if self.total else []
        return [self.name, *map(str, (self.low, self.high, self.unit, self.missing)), *ends]

    def number_of(self, amount: Fraction) -> int:
        """Number of the value that an amount counts as: clipped, then rounded."""
        clipped = min(max(amount, self.low), self.high)
        return math.floor((clipped - self.low) / self.unit + Fraction(1, 2))


@dataclass(frozen=True)
class ClippedAttribute(OfAmounts):
    """Whether an amount is below the public ends to which it is clipped, within them or above; before any rounding.

    Attributes:
        low, high: the ends; an amount that is one of them is within.
        missing: the amount that a record without one has; None where each must have one.
        column: the public name of the amount, where the attribute is not called after it.
    """

    low: Fraction
    high: Fraction
    missing: Fraction | None = None
    column: str = ""

    @classmethod
    def of(
        cls, name: str, low: Fraction, high: Fraction, missing: Fraction | None = None, *, column: str = ""
    ) -> ClippedAttribute:
        """The attribute of two ends; SpecError where they are not one below the other."""
        if low >= high:
            raise SpecError(
                f"amount {name!r}: found between {low} and {high}; the lower end must be below the upper one"
            )
        return cls(name, SIDES, low, high, missing, column)

    @property
    def content(self) -> list[str]:
        """What its values do not say themselves, as JSON: of which amount, beyond which ends, and without one."""
        return [self.column, *map(str, (self.low, self.high, self.missing))]

    def number_of(self, amount: Fraction) -> int:
        """Number of the value that an amount has."""
        return 1 + int(amount > self.high) - int(amount < self.low)


@dataclass(frozen=True)
class ListedAttribute(OfAmounts):
    """Which of some listed ends an amount is cut off by first: its value is the least that it is not above.

    Attributes:
        ends: rising; what is above the last counts as it.
        missing: the amount that a record without one has; None where each must have one.
    """

    ends: tuple[Fraction, ...]
    missing: Fraction | None = None

    @classmethod
    def of(cls, name: str, ends: Sequence[Fraction], missing: Fraction | None = None) -> ListedAttribute:
        """The attribute of rising ends."""
        return cls(name, tuple(map(str, ends)), tuple(ends), missing)

    def number_of(self, amount: Fraction) -> int:
        """Number of the value that an amount has."""
        return min(bisect_left(self.ends, amount), len(self.ends) - 1)


@dataclass(frozen=True)
class ChosenEnd:
    """The upper end of an amount that a question chose from the records, for a cost of its own.

    Attributes:
        high: the end, as exact text.
        question: canonical text.
        answer: its name.
    """

    high: str
    question: str
    answer: str


@dataclass(frozen=True)
class NumberColumn:
    """A column of whole numbers that microdata have behind the attributes.

    Attributes:
        name: of the column.
        title: for people, a marked text that may name `{what}`.
        what: whose numbers they are.
        filled: whether every row has one.
        is_key: whether it tells rows apart.
    """

    name: str
    title: str
    what: str = ""
    filled: bool = True
    is_key: bool = False


@dataclass(frozen=True)
class Recode:
    """A partition of an attribute's values into named groups."""

    name: str
    attribute: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The groups' labels, in order."""
        return tuple(label for label, _ in self.groups)

    def group_of_value(self, attribute: Attribute) -> IntArray:
        """Group number of each value, `(n_values,)`; SpecError unless every value is in exactly one group."""
        group_of: dict[str, int] = {}
        for number, (label, values) in enumerate(self.groups):
            for value in values:
                if value not in attribute.values:
                    raise SpecError(
                        f"schema.recodes.{self.name}: group {label!r} names the value {value!r}, which attribute "
                        f"{attribute.name!r} does not have; its values are {', '.join(attribute.values)}"
                    )
                if value in group_of:
                    first = self.groups[group_of[value]][0]
                    raise SpecError(
                        f"schema.recodes.{self.name}: the value {value!r} is in the groups {first!r} and {label!r}; "
                        "each value must be in exactly one"
                    )
                group_of[value] = number
        if missing := [value for value in attribute.values if value not in group_of]:
            raise SpecError(
                f"schema.recodes.{self.name}: the values {', '.join(map(repr, missing))} of attribute "
                f"{attribute.name!r} are in no group; each value must be in exactly one"
            )
        return np.array([group_of[value] for value in attribute.values], dtype=np.int64)


@dataclass(frozen=True)
class Schema:
    """Attributes and recodes. A cell is one combination of values, numbered in C order over the attributes."""

    attributes: tuple[Attribute, ...]
    recodes: tuple[Recode, ...] = ()

    def __post_init__(self) -> None:
        names = tuple(a.name for a in self.attributes) + tuple(r.name for r in self.recodes)
        if not self.attributes:
            raise SpecError("schema.attributes: none given; at least one attribute is needed")
        if (name := _twice(names)) is not None:
            raise SpecError(f"schema: the name {name!r} is given to two attributes or recodes; names must differ")
        for name in names:
            if name in RESERVED_NAMES or not name.isidentifier():
                raise SpecError(
                    f"schema: {name!r} cannot name an attribute or recode; allowed are letters, digits and _, "
                    f"not {' or '.join(sorted(RESERVED_NAMES))}"
                )
        for recode in self.recodes:
            if recode.attribute not in self.names:
                raise SpecError(
                    f"schema.recodes.{recode.name}: attribute {recode.attribute!r} is not in the schema; "
                    f"its attributes are {', '.join(self.names)}"
                )
            if (label := _twice(recode.labels)) is not None:
                raise SpecError(f"schema.recodes.{recode.name}: the group {label!r} is given twice")
            recode.group_of_value(self.attribute(recode.attribute))

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def terms(self) -> Mapping[str, tuple[str, ...]]:
        """Attribute or recode -> its values, or the labels of its groups; what queries name, in order."""
        values = {attribute.name: attribute.values for attribute in self.attributes}
        return values | {recode.name: recode.labels for recode in self.recodes}

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each attribute, in order."""
        return tuple(len(attribute.values) for attribute in self.attributes)

    @property
    def n_cells(self) -> int:
        """The number of cells: the product of the numbers of values."""
        return math.prod(self.shape)

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name; KeyError where there is none."""
        return next(a for a in self.attributes if a.name == name)

    def recode(self, name: str) -> Recode | None:
        """The recode of that name; None where there is none."""
        return next((r for r in self.recodes if r.name == name), None)

    def cell_codes(self) -> IntArray:
        """The value number of each attribute in each cell, `(n_cells, n_attributes)`."""
        return np.stack(np.unravel_index(np.arange(self.n_cells), self.shape), axis=1).astype(np.int64)

    def cell_labels(self) -> tuple[str, ...]:
        """The values of each cell, joined by " * ", `(n_cells,)`."""
        codes = self.cell_codes()
        values = [attribute.values for attribute in self.attributes]
        return tuple(" * ".join(v[c] for v, c in zip(values, row, strict=True)) for row in codes)

    @cached_property
    def _fingerprint(self) -> str:
        return content_sha256([[a.name, *a.values] for a in self.attributes])

    def fingerprint(self) -> str:
        """SHA-256 of the attributes and values: what the numbering of the cells depends on."""
        return self._fingerprint
