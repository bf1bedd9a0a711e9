"""The errors to expect of sums of amounts, in what the amount is in, and of means by how many records they are of.

A higher end of the clip has more noise, in proportion, and cuts off less. What it cuts off is in the records alone:
it is told from a distribution that is public, or a guess.

A mean is S / n. With independent errors of the sum (standard error s) and of the number of records (c), its standard
error is about sqrt(s^2 + m^2 c^2) / n for a mean m. Neither n nor m is known before a run: the plan takes some round
numbers of records, and the middle of the clip.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, Final

from pipeline.errors import InputError, SpecError
from pipeline.model.exact import parse_exact
from pipeline.model.links.sums_of_counts import SumsOfCounts, links_with_counts
from pipeline.model.measure import Sums
from pipeline.model.schema import AmountAttribute
from pipeline.model.universe import Universe
from postprocess.statistics import NORMAL_QUANTILE

#: Records that a mean is of, in the plan.
RECORDS = (100, 1_000, 10_000)
#: Upper ends that are compared, in parts of the spec's.
_ENDS: Final = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
#: Amounts and holders that can be stated, at most.
_MOST: Final = 10**15
_HELD = re.compile(r"\s*(-?[0-9][^=+\s]*)(\+?)\s*=\s*(\S+)\s*", re.ASCII)


@dataclass(frozen=True)
class AmountRow:
    """What to expect of a table of sums at one level.

    Attributes:
        sum_error: expected absolute error of a sum, in what the amount is in; None where nothing determines it.
        sum_margin: margin of error (90 %) of a sum.
        mean_margins: records -> margin of error (90 %) of a mean of so many; empty where no number of records is
            published.
    """

    companion: str
    level: str
    query: str
    sum_error: float | None
    sum_margin: float | None
    mean_margins: Mapping[int, float]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


#: (level, terms) -> expected absolute error of a number, and margin; of each universe by its name.
Errors = Mapping[tuple[str, tuple[str, ...]], tuple[float | None, float | None]]


def amount_rows(universes: Sequence[Universe], errors: Mapping[str, Errors]) -> tuple[AmountRow, ...]:
    """Of every published table of every companion of an amount.

    Args:
        universes: of the spec, its own first.
        errors: what the plan expects of each.
    """
    return tuple(row for link in links_with_counts(universes) for row in _rows(link, errors))


def _rows(link: SumsOfCounts, errors: Mapping[str, Errors]) -> Iterator[AmountRow]:
    universe, amount = link.sums, link.amount
    unit, middle = float(amount.unit), float(amount.low + amount.high) / 2
    for level in universe.level_names:
        for table in (table for table in universe.tables if level in table.levels):
            error, margin = errors[universe.name].get((level, table.query.terms), (None, None))
            beside = link.records(table, level)
            _, counted = (None, None) if beside is None else errors[""].get((level, beside.query.terms), (None, None))
            means = {}
            if margin is not None and counted is not None:
                s, c = margin * unit / NORMAL_QUANTILE, counted / NORMAL_QUANTILE
                means = {n: NORMAL_QUANTILE * math.hypot(s, middle * c) / n for n in RECORDS}
            yield AmountRow(
                universe.name,
                level,
                table.query.name,
                None if error is None else error * unit,
                None if margin is None else margin * unit,
                means,
            )


@dataclass(frozen=True)
class AmountsHeld:
    """How many records have which amount; where the ends are of a unit's total, how many units have it together.

    Attributes:
        by_companion: companion -> amount -> records or units, shares of them or numbers; the last may stand for so much
            and more.
    """

    by_companion: Mapping[str, Mapping[Fraction, Fraction]]

    @classmethod
    def of(cls, stated: str) -> AmountsHeld:
        """From "wages: 10000 = 600, 30000 = 350, 90000+ = 50; tips: ..."; InputError where it is none."""
        found: dict[str, Mapping[Fraction, Fraction]] = {}
        for part in stated.split(";"):
            name, _, text = part.partition(":")
            if not text.strip() or name.strip() in found:
                raise _unreadable(part)
            found[name.strip()] = _held(text)
        return cls(found)


def _held(text: str) -> dict[Fraction, Fraction]:
    held: dict[Fraction, Fraction] = {}
    parts = text.split(",")
    for number, part in enumerate(parts):
        if (found := _HELD.fullmatch(part)) is None or (found[2] and number + 1 < len(parts)):
            raise _unreadable(part)
        try:
            amount, holders = parse_exact(found[1]), parse_exact(found[3])
        except ValueError:
            raise _unreadable(part) from None
        if holders < 0 or amount in held or max(abs(amount), holders) > _MOST:
            raise _unreadable(part)
        held[amount] = holders
    if not sum(abs(amount) * holders for amount, holders in held.items()):
        raise InputError("--amounts: found nobody with an amount that is not 0; some are needed")
    return held


def _unreadable(part: str) -> InputError:
    return InputError(
        f"--amounts: found {part.strip()!r}; allowed is of a companion, once, how many have which amount, each once: "
        '"wages: 10000 = 600, 30000 = 350, 90000+ = 50", with + at the last alone'
    )


@dataclass(frozen=True)
class EndRow:
    """What an upper end of an amount costs.

    Attributes:
        high: the end, in what the amount is in.
        errors: level -> expected absolute error of a sum of the coarsest query, from noise.
        cut_off: share of all amounts, taken without their signs, that both ends cut off.
        missing: level -> what is cut off in an area, on average; empty where shares of records alone are known.
    """

    companion: str
    high: float
    errors: Mapping[str, float]
    cut_off: float
    missing: Mapping[str, float]

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def end_rows(
    universes: Sequence[Universe], rows: Sequence[AmountRow], areas: Mapping[str, int], held: AmountsHeld | None
) -> tuple[EndRow, ...]:
    """What upper ends cost, that of the spec among them, of each companion of which something is known.

    Args:
        universes: of the spec.
        rows: what the plan expects of each.
        areas: number of areas of each level.
        held: how many have which amount.

    Raises:
        InputError: a companion is named that has no amount.
    """
    if held is None:
        return ()
    with_amounts = {universe.name: universe for universe in universes if universe.measure.amounts}
    if unknown := sorted(held.by_companion.keys() - with_amounts.keys()):
        known = ", ".join(with_amounts) or "none"
        raise InputError(f"--amounts: found {unknown[0]!r}; the companions of the spec with an amount: {known}")
    return tuple(
        row
        for name, of_each in held.by_companion.items()
        for row in _ends(with_amounts[name], [one for one in rows if one.companion == name], areas, of_each)
    )


def _ends(
    universe: Universe, rows: Sequence[AmountRow], areas: Mapping[str, int], held: Mapping[Fraction, Fraction]
) -> Iterator[EndRow]:
    errors: dict[str, float] = {}
    for row in rows:
        if row.sum_error is not None:
            errors.setdefault(row.level, row.sum_error)
    everything = sum((abs(amount) * holders for amount, holders in held.items()), Fraction(0))
    numbers = sum(held.values()) > 1 and all(holders.denominator == 1 for holders in held.values())
    for other in _with_other_ends(universe):
        (amount,) = other.measure.amounts
        lost = sum(
            (abs(one - min(max(one, amount.low), amount.high)) * holders for one, holders in held.items()), Fraction(0)
        )
        yield EndRow(
            universe.name,
            float(amount.high),
            {level: error * other.reach / universe.reach for level, error in errors.items()},
            float(lost / everything),
            {level: float(lost / areas[level]) for level in errors} if numbers else {},
        )


def _with_other_ends(universe: Universe) -> Iterator[Universe]:
    """The universe with each of the upper ends that are compared, where it can have them."""
    (amount,) = universe.measure.amounts
    for high in sorted({(amount.high * part) // amount.unit * amount.unit for part in _ENDS}):
        try:
            grid = AmountAttribute.of(amount.name, amount.low, high, amount.unit, amount.missing, total=amount.total)
        except SpecError:
            continue
        yield replace(universe, measure=Sums(grid))
