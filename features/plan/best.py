"""The best division of the budget, compared with the spec's own and the equal one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from features.plan.division import (
    Goal,
    Objective,
    aimed_error,
    as_floats,
    check_objective,
    descend,
    known_divisions,
)
from features.plan.release_plan import UniversePlan, plan_universe
from features.plan.targets import Aim
from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation, Place
from pipeline.model.exact import exact_text
from pipeline.model.universe import Universe
from postprocess.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to divide the budget.

    Attributes:
        name: "found", "the spec's own" or "equal".
        budget_needed: the least that meets all targets with this division; None where weights were given.
        errors: of each aim, with `budget`; persons.
    """

    name: str
    budget: Fraction
    budget_needed: Fraction | None
    errors: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Best:
    """The best division.

    Attributes:
        objective: by which divisions are compared.
        universe: with the budget and the exact shares that were found.
        gap: the largest relative distance that the division can have from the best possible one.
        planned: what to expect of the universe with it.
        candidates: the division that was found, and two to compare it with.
    """

    objective: Objective
    universe: Universe
    gap: float
    planned: UniversePlan
    candidates: tuple[Candidate, ...]

    def data(self) -> dict[str, Any]:
        """The division as JSON-able values."""
        aims = self.objective.aims
        plain = "at_most" if self.objective.goal == "largest" else "weight"
        return {
            "universe": self.universe.name,
            "rho": exact_text(self.universe.budget),
            "least_possible_within": self.gap,
            "aims": [
                {
                    "level": aim.level,
                    "query": aim.query.name,
                    plain: aim.number,
                    "of": "number" if aim.each else "geounit",
                }
                for aim in aims
            ],
            "levels": [
                {
                    "level": level.level,
                    "share": exact_text(level.share),
                    "queries": {query.query.name: exact_text(query.share) for query in level.queries},
                }
                for level in self.universe.strategy.levels
            ],
            "compared": [
                {
                    "division": candidate.name,
                    "rho": exact_text(candidate.budget),
                    "rho_needed": None if candidate.budget_needed is None else exact_text(candidate.budget_needed),
                    "errors": {aim.name: error for aim, error in zip(aims, candidate.errors, strict=True)},
                }
                for candidate in self.candidates
            ],
            **{key: self.planned.data()[key] for key in ("privacy", "expected")},
        }


def find_best(
    expectation: Expectation,
    aims: tuple[Aim, ...],
    goal: Goal,
    budget: Fraction | None,
    least: float,
) -> Best:
    """The best division for the aims; without a `budget`, which "sum" needs, also the least one.

    Args:
        expectation: of the universe.
        aims: errors to be reached, or weights.
        goal: "largest" for targets, "sum" for weights.
        budget: that is divided.
        least: share that every measured query keeps.

    Raises:
        InputError: no division can be found for the aims; see `check_objective`.
    """
    if levels := expectation.universe.strategy.where_positive:
        raise InputError(
            f'strategy: where = "parent positive" (at {", ".join(levels)}): what such answers add depends on the '
            "release, so that no division is the best beforehand; find it without `where`, then set that again"
        )
    objective = Objective(expectation, aims, goal)
    check_objective(objective)
    division = descend(objective, least)
    shares = exact_shares(expectation, division.shares)
    universe = least_budget(objective, shares) if budget is None else expectation.divided(budget, shares)
    candidates = [
        _candidate(objective, name, expectation.divided(universe.budget, exact), exact)
        for name, exact in known_divisions(expectation).items()
    ]
    planned = plan_universe(replace(expectation, universe=universe))
    found = _candidate(objective, "found", universe, shares)
    return Best(objective, universe, division.gap, planned, (found, *candidates))


def _candidate(objective: Objective, name: str, universe: Universe, shares: Mapping[Place, Fraction]) -> Candidate:
    needed = None
    if objective.goal == "largest":
        needed = rounded_up(objective.value(objective.terms(as_floats(shares))[0]) ** 2)
    return Candidate(name, universe.budget, needed, tuple(aimed_errors(objective, universe)))


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
    least = objective.value(objective.terms(as_floats(shares))[0]) ** 2
    universe = expectation.divided(rounded_up(least), shares)
    # By the exact variances, which may be larger by a rounding error.
    while any(e > aim.number for e, aim in zip(aimed_errors(objective, universe), objective.aims, strict=True)):
        least = float(universe.budget) * 1.001
        universe = expectation.divided(rounded_up(least), shares)
    return universe


def aimed_errors(objective: Objective, universe: Universe) -> list[float]:
    """The error of each aim with the exact noise of `universe`: of a geounit, or of a number where it says `each`."""
    expectation = objective.expectation
    covariances = expectation.planned(universe)
    return [aimed_error(expectation, covariances, aim) / aim.numbers for aim in objective.aims]
