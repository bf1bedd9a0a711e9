"""The errors to expect of sums of an amount, in what it is in, and of means by how many records they are of.

A higher end of the clip has more noise, in proportion, and cuts off less. What it cuts off is in the records alone:
it is told from a distribution that is public, or a guess.

A mean is S / n. With independent errors of the sum (standard error s) and of the number of records (c), its standard
error is about sqrt(s^2 + m^2 c^2) / n for a mean m. Neither n nor m is known before a run: the plan takes some round
numbers of records, and the middle of the clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from features.amounts.link import SumsOfCounts, reach_of
from pipeline.errors import SpecError
from pipeline.model.schema import AmountAttribute
from postprocess.statistics import NORMAL_QUANTILE

#: (level, terms) -> expected absolute error of a number, and margin; of each universe by its name.
Errors = Mapping[tuple[str, tuple[str, ...]], tuple[float | None, float | None]]
#: Upper ends that are compared, in parts of the spec's.
_ENDS: Final = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


def amount_rows(link: SumsOfCounts, errors: Mapping[str, Errors], records: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Of every published table at every level: the fields of `features.plan.amounts.AmountRow`.

    Args:
        link: of the sums.
        errors: what the plan expects of each universe.
        records: that means are of.
    """
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
                means = {n: NORMAL_QUANTILE * math.hypot(s, middle * c) / n for n in records}
            yield {
                "companion": universe.name,
                "level": level,
                "query": table.query.name,
                "sum_error": None if error is None else error * unit,
                "sum_margin": None if margin is None else margin * unit,
                "mean_margins": means,
            }


def end_rows(
    link: SumsOfCounts, errors: Mapping[str, float], areas: Mapping[str, int], held: Mapping[Fraction, Fraction]
) -> Iterator[dict[str, Any]]:
    """Of every upper end that is compared: the fields of `features.plan.amounts.EndRow`.

    Args:
        link: of the sums.
        errors: level -> expected absolute error of a sum of the coarsest query.
        areas: number of areas of each level.
        held: amount -> records that have it, or units that have it together: shares of them or numbers.
    """
    everything = sum((abs(amount) * holders for amount, holders in held.items()), Fraction(0))
    numbers = sum(held.values()) > 1 and all(holders.denominator == 1 for holders in held.values())
    own = reach_of(link.amount, link.sums.neighbours)
    for amount in _with_other_ends(link.amount):
        lost = sum(
            (abs(one - min(max(one, amount.low), amount.high)) * holders for one, holders in held.items()), Fraction(0)
        )
        reach = reach_of(amount, link.sums.neighbours)
        yield {
            "companion": link.of,
            "high": float(amount.high),
            "errors": {level: error * reach / own for level, error in errors.items()},
            "cut_off": float(lost / everything),
            "missing": {level: float(lost / areas[level]) for level in errors} if numbers else {},
        }


def _with_other_ends(amount: AmountAttribute) -> Iterator[AmountAttribute]:
    """The amount with each of the upper ends that are compared, where it can have them."""
    for high in sorted({(amount.high * part) // amount.unit * amount.unit for part in _ENDS}):
        try:
            yield AmountAttribute.of(amount.name, amount.low, high, amount.unit, amount.missing, total=amount.total)
        except SpecError:
            continue
