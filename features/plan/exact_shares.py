"""A division of the budget as exact fractions: decimals of four places that add up to 1."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np

from features.plan.division import Objective, aimed_error
from pipeline.estimation.expectation import Expectation, Place
from pipeline.model.universe import Universe
from postprocess.arrays import FloatArray

#: Level shares, and query shares of a level, are whole multiples of 1 / PARTS.
PARTS = 10_000
#: Significant digits of a budget that is computed.
DIGITS = 4


def in_parts(weights: Sequence[float] | FloatArray) -> list[Fraction]:
    """Whole multiples of 1 / PARTS in proportion to `weights`, each at least one, adding up to 1.

    >>> [str(share) for share in in_parts([2.0, 1.0, 0.0])]
    ['3333/5000', '3333/10000', '1/10000']
    """
    exact = np.asarray(weights, dtype=np.float64) / np.sum(weights) * PARTS
    parts = np.maximum(np.floor(exact), 1.0)
    for place in np.argsort(-(exact - parts), kind="stable")[: max(0, int(PARTS - parts.sum()))]:
        parts[place] += 1.0
    parts[int(np.argmax(parts))] += PARTS - parts.sum()
    return [Fraction(int(part), PARTS) for part in parts]


def exact_shares(expectation: Expectation, shares: FloatArray) -> dict[Place, Fraction]:
    """Shares of the whole as products of exact level and query shares, in the order of `expectation.measured`."""
    levels = [level for level in expectation.universe.strategy.levels if level.queries]
    ends = np.cumsum([0, *(len(level.queries) for level in levels)])
    of_level = [shares[first:last] for first, last in pairwise(ends)]
    out: dict[Place, Fraction] = {}
    for level, share, parts in zip(levels, in_parts([part.sum() for part in of_level]), of_level, strict=True):
        for query, part in zip(level.queries, in_parts(parts), strict=True):
            out[level.level, query.query.name] = share * part
    return out


def rounded_up(value: float) -> Fraction:
    """The least decimal of DIGITS significant digits that is not below `value`."""
    return Fraction(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(value)))


def least_budget(objective: Objective, shares: dict[Place, Fraction]) -> Universe:
    """The universe with these shares and the least budget, of a few digits, that meets all targets."""
    expectation = objective.expectation
    least = objective.value(objective.terms(np.array([float(share) for share in shares.values()]))[0]) ** 2
    universe = expectation.divided(rounded_up(least), shares)
    while largest_ratio(objective, universe) > 1.0:  # by the exact variances, which may be larger by a rounding error
        least = float(universe.budget) * 1.001
        universe = expectation.divided(rounded_up(least), shares)
    return universe


def aimed_errors(objective: Objective, universe: Universe) -> list[float]:
    """The error of each aim with the exact noise of `universe`: of a geounit, or of a number where it says `each`."""
    expectation = objective.expectation
    covariances = expectation.planned(universe)
    return [aimed_error(expectation, covariances, aim) / aim.numbers for aim in objective.aims]


def largest_ratio(objective: Objective, universe: Universe) -> float:
    """The largest ratio of an error to its target."""
    return max(e / aim.number for e, aim in zip(aimed_errors(objective, universe), objective.aims, strict=True))
