"""Ranges of values, `"0..4"`, so that no spec must list 91 ages; those of numbers: `pipeline.model.number_ranges`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from pipeline.errors import SpecError
from pipeline.model.number_ranges import BETWEEN

_SHOWN = 12


def expand_values(members: Sequence[str], values: Sequence[str], where: str) -> tuple[str, ...]:
    """The values that a group names, `first..last` standing for all from the first to the last in `values`' order.

    A text that is itself a value is that value, whatever it contains.

    Raises:
        SpecError: a range begins or ends with something that is not a value, or ends before it begins.
    """
    expanded: list[str] = []
    for text in members:
        first, between, last = (part.strip() for part in text.partition(BETWEEN))
        if text in values or not between:
            expanded.append(text)
            continue
        for end in (first, last):
            if end not in values:
                raise SpecError(f"{where}: the range {text!r}: {end!r} is not a value; the values are {_some(values)}")
        start, stop = values.index(first), values.index(last)
        if stop < start:
            raise SpecError(f"{where}: the range {text!r}: {last!r} comes before {first!r} among the values")
        expanded += values[start : stop + 1]
    return tuple(expanded)


def _some(values: Sequence[str]) -> str:
    return ", ".join(values) if len(values) <= _SHOWN else f"{', '.join(values[:_SHOWN])}, ... {values[-1]}"


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 4 and str(int(text)) == text


def collapse_numbers(mapped: Mapping[str, str]) -> dict[str, str]:
    """The table with runs of whole numbers of one value as ranges; `number_ranges.expand_numbers` gives them back."""
    numbers = sorted(int(text) for text in mapped if _is_whole(text))
    collapsed: dict[str, str] = {}
    runs = groupby(enumerate(numbers), key=lambda at: (at[1] - at[0], mapped[str(at[1])]))
    for (_, value), run in runs:
        members = [number for _, number in run]
        name = str(members[0]) if len(members) == 1 else f"{members[0]}{BETWEEN}{members[-1]}"
        collapsed[name] = value
    return {**collapsed, **{text: value for text, value in mapped.items() if not _is_whole(text)}}
