"""Tables that others published and protected number by number, as the section `published` of a spec states them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from auditor.reading.findings import exact
from auditor.reading.values import Stated

#: Digits after the point that variances have which are worked out from probabilities.
_DIGITS = 10**9


def received(spec: Stated, levels: Sequence[str]) -> Iterator[tuple[str, str, Fraction | None]]:
    """Level, query and variance of the errors of each table that was published, top level first; None where exact.

    Args:
        spec: of a manifest; nothing where it has no such section.
        levels: top first.

    Raises:
        ValueError, KeyError or TypeError: the section makes no sense.
    """
    section = spec.get("published")
    if section is None:
        return
    files, other = dict(section["files"]), dict(section["other"])
    for level in levels:
        for table, own in spec["tables"] if level in files else ():
            places = (f"{level}.{table}", table, level)
            if any(place in section["absent"] for place in places):
                continue
            stated = next((other[place] for place in places if place in other), section)
            unprotected = any(place in section["exact"] for place in places)
            yield level, own["query"], None if unprotected else _variance(stated)


def _variance(stated: Stated) -> Fraction:
    """Of the error of a number, persons squared, whatever was published."""
    method = stated["method"]
    if method == "random-rounding":
        return Fraction(int(stated["base"]) ** 2 - 1, 6)
    if method == "rounding":
        return Fraction(int(stated["base"]) ** 2 - 1, 12)
    if method == "suppression":  # all numbers from 1 to t - 1 alike
        return Fraction((int(stated["under"]) - 1) ** 2 - 1, 12)
    if method == "gaussian":
        return exact(stated["sd"]) ** 2
    if method != "cell-keys":
        raise ValueError(f"{method!r:.60} is no method")
    if "ptable" in stated:  # the last row, of all large counts
        errors, shares = stated["ptable"][-1]
        found = sum(float(share) * int(error) ** 2 for error, share in zip(errors, shares, strict=True))
        return Fraction(round(found * _DIGITS), _DIGITS)
    # The variance that is stated, unless errors from -D to D that are all alike have less.
    most = int(stated["most"])
    least = min(exact(stated["variance"]), Fraction(most * (most + 1), 3))
    return min(exact(stated["variance"]), Fraction(round(least * _DIGITS), _DIGITS))
