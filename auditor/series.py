"""A release that is one of a series: its place, what a history costs, and the numbers in which periods are mixed.

Written down a second time from docs/privacy.md; nothing is taken from the program that makes series.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from auditor.reading.errors import FormError

#: Periods of which all pairs of histories are gone through.
_MOST: Final = 4
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_A_YEAR: Final = {"year": 1, "quarter": 4, "month": 12}


@dataclass(frozen=True)
class Series:
    """What a spec says of the place of a release.

    Attributes:
        name: of the series; `periods`: the names of all periods, of which the release's is number `number` from 0.
        predecessor: hash of the release before, or "first".
        spells: of people who lose no more than the budget; or their records, where these are stated.
        distance: of two histories, squared, in that of two that differ in one record of one period.
        losses: spells -> the part of the budget that is lost.
        design: row t has by how much each of the first periods is multiplied in the numbers of period t; () if none is.
    """

    name: str
    periods: tuple[str, ...]
    number: int
    predecessor: str
    spells: int
    distance: Fraction
    losses: Mapping[int, Fraction]
    design: tuple[tuple[int, ...], ...]

    @property
    def opens(self) -> bool:
        """Whether the whole series is charged with the release."""
        return self.number == 0

    @property
    def row(self) -> tuple[int, ...]:
        """Of the release's own period; () if it is not mixed."""
        return self.design[self.number] if self.design else ()

    @property
    def content(self) -> list[object]:
        """What its noise depends on."""
        rows = [list(row) for row in self.design]
        whole = ["series", self.name, list(self.periods), self.spells, str(self.distance), rows]
        return [whole, ["period", self.number, self.predecessor]]

    @property
    def suffix(self) -> str:
        """What its charges end with."""
        return f" ({self.distance} times over a series)"

    @cached_property
    def counts(self) -> Fraction:
        """The variance of a count in that of what is drawn: by forward substitution, of unit vectors."""
        if not self.design:
            return Fraction(1)
        total = Fraction(0)
        for one in range(self.number + 1):
            solved: list[Fraction] = []
            for t, row in enumerate(self.design[: self.number + 1]):
                due = Fraction(int(t == one)) - sum((row[s] * solved[s] for s in range(t)), Fraction(0))
                solved.append(due / row[t])
            total += solved[-1] ** 2
        return total

    @property
    def numbers(self) -> set[Decimal]:
        """What the words of its statements may hold beside their figures."""
        texts = _NUMBER.findall(" ".join((self.name, *self.periods)))
        found = {Decimal(text) for text in texts} | {Decimal(self.spells), Decimal(len(self.periods))}
        for spells, part in self.losses.items():
            context = Context(prec=3, rounding=ROUND_CEILING)
            found |= {Decimal(spells), context.divide(Decimal(part.numerator), Decimal(part.denominator))}
        return found


def read_series(spec: Mapping[str, Any]) -> Series | None:
    """The place that a public spec states; None where it is of one release. FormError where it cannot be understood."""
    if (stated := spec.get("series")) is None:
        return None
    try:
        periods = _periods(stated["from"], stated["to"], stated["step"])
        terms = stated.get("terms")
        rows = () if terms is None else tuple(tuple(int(one) for one in row) for row in terms["design"])
        n = len(periods)
        records = n if stated.get("records") is None else int(stated["records"])
        if not 1 <= records <= n or (terms is not None and records != n):
            raise FormError("spec: nobody has so many records in the series")
        numbers = {n} if records == n and "records" not in stated else {1, 2, 3, 5, records, n}
        losses = {k: Fraction(k, records) for k in numbers if k <= n}
        losses = losses if terms is None else {int(k): Fraction(part) for k, part, _ in terms["losses"]}
        distance = Fraction(records) if terms is None else Fraction(terms["distance"])
        if (stated.get("noise") == "spells") != (terms is not None):
            raise FormError("spec: noise by spells has a design, and other noise has none")
        if terms is not None and [len(row) for row in rows] != list(range(1, n + 1)):
            raise FormError("spec: the design of the series is not of its periods")
        if distance <= 0 or any(row[-1] < 1 for row in rows):
            raise FormError("spec: the design of the series is none")
        spells = records if terms is None else int(stated["spells"])
        place = (periods.index(stated["period"]), str(stated["predecessor"]))
        return Series(stated["name"], periods, *place, spells, distance, losses, rows)
    except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
        raise FormError(f"spec: its series cannot be understood ({error!r})") from None


def _periods(first: str, last: str, step: str) -> tuple[str, ...]:
    if step == "day":
        begun, ended = date.fromisoformat(first), date.fromisoformat(last)
        return tuple(str(begun + timedelta(days=n)) for n in range((ended - begun).days + 1))
    times = _A_YEAR[step]

    def place(text: str) -> int:
        return int(text[:4]) * times + (int(text[5:].replace("Q", "")) - 1 if times > 1 else 0)

    def named(number: int) -> str:
        year, part = divmod(number, times)
        return f"{year:04d}" + {1: "", 4: f"-Q{part + 1}", 12: f"-{part + 1:02d}"}[times]

    return tuple(named(number) for number in range(place(first), place(last) + 1))


def known_before(weights: Sequence[int], counts: Sequence[NDArray[np.float64]]) -> NDArray[np.int64]:
    """What was taken off the numbers of a period: the mixed counts of those before, in their order, rounded."""
    total = np.zeros_like(counts[0])
    for weight, count in zip(weights, counts, strict=True):
        total = total + weight * count
    return np.rint(total).astype(np.int64)


def distance_problems(series: Series, moved: int) -> list[str]:
    """Whether histories are farther apart than the series says, and people lose more.

    Of up to four periods all pairs of histories are gone through. Of more, it is known that they are at least as far
    apart as two that never share an answer.
    """
    n = len(series.periods)
    if not series.design:  # with noise of its own in each period, everybody loses as much in each
        due = {k: Fraction(k) / series.distance for k in sorted({*series.losses, min(series.spells, n), n})}
        problems = [] if series.distance == series.spells else ["is not as far as so many independent periods"]
        return problems + [
            f"people with {k} records lose {part}, stated is {series.losses.get(k, 'nothing')}"
            for k, part in due.items()
            if series.losses.get(k) != part
        ]
    matrix = np.zeros((n, n), dtype=np.int64)
    for number, row in enumerate(series.design):
        matrix[number, : number + 1] = row
    gram = matrix.T @ matrix
    whole = series.distance * moved
    least = _all_pairs(gram, moved) if n <= _MOST else _never_together(gram, moved)
    problems = []
    for spells, part in series.losses.items():
        if part * whole < least[spells - 1]:
            problems.append(f"people with {spells} spells lose {Fraction(least[spells - 1]) / whole}, stated is {part}")
        elif n <= _MOST and part * whole != least[spells - 1]:
            problems.append(f"people with {spells} spells lose less than the part {part} that is stated")
    if series.losses.get(min(series.spells, n)) != 1:  # nobody has more spells than there are periods
        problems.append(f"people with {series.spells} spells do not lose the budget")
    return problems


def _never_together(gram: NDArray[np.int64], moved: int) -> list[int]:
    """With 1, 2 ... T spells: the largest sum over disjoint intervals of 1'G 1, for each of the histories that move."""
    n = len(gram)
    inside = np.zeros((n, n + 1), dtype=np.int64)
    for first in range(n):
        for stop in range(first + 1, n + 1):
            inside[first, stop] = gram[first:stop, first:stop].sum()
    best = [[0] * (n + 1)]  # with so many spells, within the first periods
    for _ in range(n):
        last = best[-1]
        now = [0] * (n + 1)
        for stop in range(1, n + 1):
            now[stop] = max([now[stop - 1], *(last[first] + int(inside[first, stop]) for first in range(stop))])
        best.append(now)
    return [moved * one[n] for one in best[1:]]


def _all_pairs(gram: NDArray[np.int64], moved: int) -> list[int]:
    """With 1, 2 ... T spells: the largest distance of all pairs of histories, answers named as they first occur."""
    n = len(gram)
    found = [0] * n

    def spells_of(history: Sequence[int]) -> int:
        return sum(one >= 0 and (t == 0 or history[t - 1] != one) for t, one in enumerate(history))

    histories = _histories(n, 0)
    if moved == 1:
        pairs = [(one, (-1,) * n) for one in histories]
    else:
        pairs = [(one, other) for one in histories for other in _histories(n, max(one) + 1)]
    for one, other in pairs:
        spells = max(spells_of(one), spells_of(other))
        if spells:
            found[spells - 1] = max(found[spells - 1], _distance(gram, one, other))
    return list(np.maximum.accumulate(found).tolist())


def _histories(n: int, known: int) -> list[tuple[int, ...]]:
    """All histories of n periods in answers, of which `known` are told apart; -1 is in none."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(n):
        found = [(*one, answer) for one in found for answer in range(-1, max((known - 1, *one)) + 2)]
    return found


def _distance(gram: NDArray[np.int64], one: Sequence[int], other: Sequence[int]) -> int:
    total = 0
    for answer in {*one, *other} - {-1}:
        signs = [(a == answer) - (b == answer) for a, b in zip(one, other, strict=True)]
        places = [t for t, sign in enumerate(signs) if sign]
        total += sum(signs[s] * signs[t] * int(gram[s, t]) for s in places for t in places)
    return total
