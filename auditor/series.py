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
from itertools import combinations
from math import comb
from typing import Final

import numpy as np

from auditor.reading.findings import FormError, exact, understood
from auditor.reading.values import FloatArray, IntArray, Stated, as_decimal, exact_sum, zeros

#: Periods of which all pairs of histories are gone through whatever their spells: more than they lose is wrong, too.
_EXACT: Final = 4
#: Pairs of histories times ways to share answers that are gone through; the ways; pairs at once.
_CASES: Final = 10**9
_WAYS: Final = 10**6
_AT_ONCE: Final = 1 << 18
#: The sum of the numbers of G without their signs, of which all sums are below 2^62.
_LARGEST: Final = 2**44
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_A_YEAR: Final = {"year": 1, "quarter": 4, "month": 12}


@dataclass(frozen=True)
class Series:
    """What a spec says of the place of a release; of one by itself there are no periods.

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
    def row(self) -> tuple[int, ...]:
        """Of the release's own period; () if it is not mixed."""
        return self.design[self.number] if self.design else ()

    @property
    def content(self) -> list[object]:
        """What its noise depends on; nothing where there are no other periods."""
        if not self.periods:
            return []
        rows = [list(row) for row in self.design]
        whole = ["series", self.name, list(self.periods), self.spells, str(self.distance), rows]
        return [whole, ["period", self.number, self.predecessor]]

    @cached_property
    def counts(self) -> Fraction:
        """The variance of a count in that of what is drawn: by forward substitution, of unit vectors."""
        if not self.design:
            return Fraction(1)
        total = Fraction(0)
        for one in range(self.number + 1):
            solved: list[Fraction] = []
            for t, row in enumerate(self.design[: self.number + 1]):
                due = Fraction(int(t == one)) - exact_sum(row[s] * solved[s] for s in range(t))
                solved.append(due / row[t])
            total += solved[-1] ** 2
        return total

    @property
    def numbers(self) -> set[Decimal]:
        """What the words of its statements may hold beside their figures."""
        if not self.periods:
            return set()
        texts = _NUMBER.findall(" ".join((self.name, *self.periods)))
        found = {Decimal(text) for text in texts} | {Decimal(self.spells), Decimal(len(self.periods))}
        for spells, part in self.losses.items():
            context = Context(prec=3, rounding=ROUND_CEILING)
            found |= {Decimal(spells), as_decimal(part, context)}
        return found


#: The place of a release by itself.
ALONE: Final = Series("", (), 0, "first", 1, Fraction(1), {}, ())


def read_series(spec: Stated) -> Series:
    """The place that a public spec states; `ALONE` where it is of one release. FormError where it makes no sense."""
    if (stated := spec.get("series")) is None:
        return ALONE
    with understood("spec: its series"):
        periods = _periods(stated["from"], stated["to"], stated["step"])
        n, terms = len(periods), stated.get("terms")
        records = n if stated.get("records") is None else int(stated["records"])
        place = stated["name"], periods, periods.index(stated["period"]), str(stated["predecessor"])
        if (stated.get("noise") == "spells") != (terms is not None):
            raise FormError("spec: noise by spells has a design, and other noise has none")
        if not 1 <= records <= n or (terms is not None and records != n):
            raise FormError("spec: nobody has so many records in the series")
        if terms is None:
            numbers = {n} if records == n and "records" not in stated else {1, 2, 3, 5, records, n}
            losses = {k: Fraction(k, records) for k in numbers if k <= n}
            return Series(*place, records, Fraction(records), losses, ())
        rows = tuple(tuple(int(one) for one in row) for row in terms["design"])
        if [len(row) for row in rows] != list(range(1, n + 1)):
            raise FormError("spec: the design of the series is not of its periods")
        distance, losses = exact(terms["distance"]), {int(k): exact(part) for k, part, _ in terms["losses"]}
        if distance <= 0 or any(row[-1] < 1 for row in rows):
            raise FormError("spec: the design of the series is none")
        return Series(*place, int(stated["spells"]), distance, losses, rows)


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


def known_before(weights: Sequence[int], counts: Sequence[FloatArray]) -> IntArray:
    """What was taken off the numbers of a period: the mixed counts of those before, in their order, rounded."""
    total = np.zeros_like(counts[0])
    for weight, count in zip(weights, counts, strict=True):
        total = total + weight * count
    return np.rint(total).astype(np.int64)


def distance_problems(series: Series, moved: int) -> list[str]:
    """Whether histories are farther apart than the series says, and people lose more.

    Pairs of histories are gone through by their spells, with all ways to share answers. Where these are too many, a
    bound is worked out that no pair is above (proved in features/years/README.md): what is stated below it is not shown
    to be enough, and is named.
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
    if sum(sum(map(abs, row)) ** 2 for row in series.design) > _LARGEST:
        return ["numbers of the design are too large for this program: the distance of histories is not judged"]
    if not_judged := [k for k in series.losses if not 1 <= k <= n]:
        return [f"people with {k} spells are none in {n} periods: what they lose is not judged" for k in not_judged]
    matrix = zeros((n, n))
    for number, row in enumerate(series.design):
        matrix[number, : number + 1] = row
    gram = matrix.T @ matrix
    whole = series.distance * moved
    bounds = _bounds(gram, moved)
    problems = []
    for spells, part in series.losses.items():
        counted = _all_pairs(gram, spells, moved)
        most = bounds[spells - 1] if counted is None else Fraction(counted)
        if part * whole < most:
            lose = "lose" if counted is not None else "are not shown to lose less than"
            problems.append(f"people with {spells} spells {lose} {most / whole}, stated is {part}")
        elif n <= _EXACT and part * whole != most:
            problems.append(f"people with {spells} spells lose less than the part {part} that is stated")
    if series.losses.get(min(series.spells, n)) != 1:  # nobody has more spells than there are periods
        problems.append(f"people with {series.spells} spells do not lose the budget")
    return problems


def _bounds(gram: IntArray, moved: int) -> list[Fraction]:
    """With 1, 2 ... T spells: what the distance of no two histories is above.

    For every x >= 0 it is 4 times the largest sum, over disjoint intervals, of 1'Z 1 within the interval less x times
    that of its rows, and 2 x^2 times the sum of Z; for a history beside none it is the first at x = 0, once.
    """
    n = len(gram)
    above = np.triu(gram, 1).clip(min=0)
    above += above.T
    z = gram - above + np.diag(above.sum(axis=1))  # the Laplacian of the numbers above 0 is added
    corner = zeros((n + 1, n + 1))
    corner[1:, 1:] = z.cumsum(axis=0).cumsum(axis=1)
    own, rows = np.diag(corner), corner[:, -1]
    inside = own + own[:, None] - corner - corner.T
    outside = np.tril(np.ones((n + 1, n + 1), dtype=bool))  # no interval ends where it begins, or before
    found = []
    for x in range(33) if moved == 2 else (0,):  # in sixteenths
        values = np.where(outside, -(2**62), 512 * inside - 32 * x * (rows - rows[:, None]))
        best, sums = zeros(n + 1), []
        for _ in range(n):
            best = np.maximum.accumulate(np.maximum(best, (best[:, None] + values).max(axis=0)))
            sums.append(int(best[-1]) + x * x * int(z.sum()))
        found.append(sums)
    return [Fraction(min(sums), 128 if moved == 2 else 512) for sums in zip(*found, strict=True)]


def _all_pairs(gram: IntArray, spells: int, moved: int) -> int | None:
    """The largest distance of all pairs of histories with so many spells; None where these are too many."""
    n = len(gram)
    intervals = list(combinations(range(n + 1), 2))
    inner = np.array([[int(i <= t < j) for t in range(n)] for i, j in intervals], dtype=np.int64)
    products = inner @ gram @ inner.T
    pairs = [(k, other) for k in range(1, spells + 1) for other in (range(k + 1) if moved == 2 else (0,))]
    sizes = [1] + [sum(comb(k - 1, i) * comb(n + 1, 2 * k - i) for i in range(k)) for k in range(1, spells + 1)]
    ways = [_ways(k) for k in range(2 * spells + 1)]
    if max(ways[a + b] for a, b in pairs) > _WAYS or sum(sizes[a] * sizes[b] * ways[a + b] for a, b in pairs) > _CASES:
        return None
    histories: list[list[tuple[int, ...]]] = [[()]]
    for _ in range(spells):
        histories.append(
            [
                (*one, number)
                for one in histories[-1]
                for number, (first, _) in enumerate(intervals)
                if not one or first >= intervals[one[-1]][1]
            ]
        )
    found = 0
    for a, b in pairs:
        left = np.array(histories[a], dtype=np.int64).reshape(sizes[a], a)
        right = np.array(histories[b], dtype=np.int64).reshape(sizes[b], b)
        at_once = max(1, _AT_ONCE // len(right))
        for start in range(0, len(left), at_once):
            some = left[start : start + at_once]
            members = [*np.repeat(some, len(right), axis=0).T, *np.tile(right, (len(some), 1)).T]
            found = max(found, _farthest(products, members, [1] * a + [-1] * b))
    return found


def _farthest(products: IntArray, members: list[IntArray], signs: list[int]) -> int:
    """The largest distance of pairs of histories whose spells are the members, put into answers one after another."""
    alone = sum(products[one, one] for one in members)
    shared = {
        (i, j): 2 * signs[i] * signs[j] * products[members[i], members[j]]
        for j in range(len(members))
        for i in range(j)
    }

    def placed(number: int, answers: list[list[int]], distance: IntArray) -> int:
        if number == len(members):
            return int(distance.max())
        most = placed(number + 1, [*answers, [number]], distance)
        for place, those in enumerate(answers):
            now = sum((shared[i, number] for i in those), distance)
            most = max(most, placed(number + 1, [*answers[:place], [*those, number], *answers[place + 1 :]], now))
        return most

    return placed(0, [], np.asarray(alone))


def _ways(things: int) -> int:
    """To put things into answers: Bell's numbers."""
    found = [1]
    for n in range(things):
        found.append(sum(comb(n, k) * found[k] for k in range(n + 1)))
    return found[-1]
