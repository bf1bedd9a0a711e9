"""Bins of an amount: ranges of whole numbers whose ends the spec states, and the attribute that they make.

`[marginals.amounts]` says of a column what `[schema.attributes]` and `[input.values]` could say by hand: the bins are
the attribute's values, and a number in the file has the bin that it is in. So an amount is counted, measured and
released as any attribute is; what is more, the microdata have a number drawn inside each record's bin (`drawn.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from geography.errors import InputError
from pipeline.model.number_ranges import RANGE_ALLOWED, NumberRange, number_range
from pipeline.model.schema import NumberColumn
from pipeline.model.texts.message import marked
from pipeline.spec.problems import Problems, dotted

__all__ = ["Bins", "with_amounts"]

#: Of the column of drawn numbers, after the attribute's name.
SUFFIX: Final = "_drawn"
_TITLE: Final = marked("{what}: a whole number drawn at random inside the record's bin; it says nothing beyond the bin")


@dataclass(frozen=True)
class Bins:
    """The bins of one amount.

    Attributes:
        name: of the amount, an attribute.
        ranges: rising, each beginning where the one before it ends.
    """

    name: str
    ranges: tuple[NumberRange, ...]

    @classmethod
    def of(cls, name: str, texts: Sequence[str]) -> Bins:
        """Those that a spec states; InputError for a text that is no bin, a gap, and bins that overlap."""
        ranges = tuple(map(_bin, texts))
        for before, bin_ in pairwise(ranges):
            if bin_.first > before.last + 1:
                raise InputError(
                    f"found {bin_.text!r} after {before.text!r}, a gap: {before.last + 1} would be in no bin; each bin "
                    "begins where the one before it ends"
                )
            if bin_.last < before.first:
                raise InputError(f"found {bin_.text!r} after {before.text!r}; the lower bin comes first")
            if bin_.first <= before.last:
                raise InputError(
                    f"found {bin_.text!r} after {before.text!r}, which overlap: {max(bin_.first, before.first)} would "
                    "be in both; each number is in one bin"
                )
        return cls(name, ranges)

    @property
    def values(self) -> tuple[str, ...]:
        """Of the attribute."""
        return tuple(one.text for one in self.ranges)

    @property
    def column(self) -> NumberColumn:
        """The column of drawn numbers."""
        return NumberColumn(self.name + SUFFIX, _TITLE, self.name)


def _bin(text: str) -> NumberRange:
    found = number_range(text)
    if found is None:
        raise InputError(f"found {text!r}; {RANGE_ALLOWED}: both ends of a bin are public, numbers are drawn inside")
    return found


def with_amounts(
    content: Mapping[str, Any], amounts: Mapping[str, Sequence[str]], problems: Problems
) -> dict[str, Any]:
    """A spec's tables with the attributes that its amounts make, behind the others, and how they are read.

    What `[input.values]` says of an amount itself goes before: of a missing number, or of those beyond the bins.

    Args:
        content: tables that are right by themselves.
        amounts: of its section, which is, too.
        problems: takes what does not go with amounts.
    """
    schema, given = content["schema"], content.get("input")
    attributes: dict[str, Sequence[str]] = dict(schema["attributes"])
    bins = [Bins.of(name, texts) for name, texts in amounts.items()]
    for one in bins:
        key = dotted(["marginals", "amounts", one.name])
        if one.name in attributes:
            problems.add(key, "found in [schema.attributes], too; state it in one of the two")
        if one.column.name in (*attributes, *amounts):
            problems.add(
                key,
                f"its drawn numbers are called {one.column.name!r} in the microdata; give the attribute of that name "
                "another one",
            )
    if bins and isinstance(given, Mapping) and given.get("coded"):
        problems.add("marginals.amounts", "not with coded = true in [input], where columns hold the values' numbers")
    attributes |= {one.name: list(one.values) for one in bins}
    found = {**content, "schema": {**schema, "attributes": attributes}}
    if isinstance(given, Mapping) and not given.get("coded"):
        values = given.get("values", {})
        read = {one.name: {**{text: text for text in one.values}, **values.get(one.name, {})} for one in bins}
        found["input"] = {**given, "values": {**values, **read}}
    return found
