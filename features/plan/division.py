"""The best division of a budget: a convex programme over the shares of all measured queries at all levels.

With rho of zCDP, the precision of a measurement is proportional to its share, and the inverse of the variance of any
linear answer is concave in the precisions. So each standard deviation, and each expected absolute error, is convex in
the shares, and all errors fall with the square root of the whole budget. What is minimised over the simplex is

    the largest of  error_k / goal_k    (targets: its square is the least budget that meets them all), or
    the sum of      weight_k error_k    (weights).

`descend` minimises it by sequential quadratic programming with exact gradients, on spines of any size. A linear
programme over the gradients at all visited points, stated in cvxpy, bounds what any division could reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import cvxpy as cp
import numpy as np
import scipy.optimize

from features.plan.targets import Aim
from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation, Place
from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.linear.covariances import LevelCovariances, error_by_final, gradient

#: Share of the whole budget that every measured query keeps by default.
LEAST_SHARE = 0.001
#: Relative distance from the bound that is good enough.
TOLERANCE = 1e-3
_ITERATIONS = 300

Goal = Literal["largest", "sum"]
#: Shares -> the terms of the objective and their gradients.
Terms = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def aimed_error(expectation: Expectation, planned: Sequence[LevelCovariances], aim: Aim) -> float:
    """The error that an aim is about, of the query's numbers in a geounit together; persons."""
    return expectation.errors(planned, aim.level, aim.query).per_geounit


@dataclass(frozen=True, eq=False)
class Objective:
    """The criterion by which divisions are compared, for a whole budget of 1.

    Attributes:
        expectation: of the universe; framework zcdp.
        aims: the errors that count.
        goal: "largest": the largest ratio of an error to its aim; "sum": the sum of the errors times their weights.
    """

    expectation: Expectation
    aims: tuple[Aim, ...]
    goal: Goal

    @property
    def factors(self) -> FloatArray:
        """What each geounit's error is multiplied by, `(n_aims,)`."""
        numbers = np.array([aim.number for aim in self.aims])
        return (1.0 / numbers if self.goal == "largest" else numbers) / np.array([aim.numbers for aim in self.aims])

    @property
    def precision_of_share(self) -> float:
        """1 / variance of a measurement that gets all that selections leave of the budget of 1: 2 rho / D."""
        universe = self.expectation.universe
        left = float(universe.strategy_budget / universe.budget)
        return left if universe.neighbours == "change-one" else 2.0 * left

    def terms(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The errors times their factors `(n_aims,)`, and their gradients `(n_aims, n_shares)`."""
        expectation = self.expectation
        covariances = expectation.covariances(self.precision_of_share * shares)
        values, gradients = [], []
        for aim, factor in zip(self.aims, self.factors, strict=True):
            number = expectation.spine.index_of(aim.level)
            values.append(factor * aimed_error(expectation, covariances, aim))
            by_final = [np.zeros_like(covariance.final) for covariance in covariances]
            by_final[number] = error_by_final(
                expectation.basis, expectation.classes[number], covariances[number], aim.query
            )
            by_own = gradient(expectation.classes, covariances, by_final, expectation.estimator)
            gradients.append(
                [
                    factor * self.precision_of_share * float((by_own[level] * unit).sum())
                    for level, unit in expectation.unit_precisions
                ]
            )
        return np.array(values), np.array(gradients)

    def value(self, terms: FloatArray) -> float:
        """The objective of the terms of a division."""
        return float(terms.max() if self.goal == "largest" else terms.sum())


@dataclass(frozen=True, eq=False)
class Division:
    """A division of the budget.

    Attributes:
        shares: `(n_measured,)` of the whole, in the order of `Expectation.measured`; they add up to 1.
        value: of the objective, for a whole budget of 1.
        bound: no division has a lower value.
    """

    shares: FloatArray
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """How far the value is above the bound, relative to it; 0 is the best possible."""
        return max(0.0, self.value / self.bound - 1.0)


def check_objective(objective: Objective) -> None:
    """Refuse aims for which no division can be found.

    Raises:
        InputError: the framework is not zcdp, geounits are bypassed, or an aim's numbers are exact or not determined
            by the measurements.
    """
    universe = objective.expectation.universe
    if universe.framework != "zcdp":
        raise InputError(
            f'privacy.framework: found "{universe.framework}"; a budget can be divided for targets with framework '
            '"zcdp" only, where the errors are convex in the shares'
        )
    if universe.bypass:
        raise InputError(
            "geography.bypass: found true, with which the errors are not convex in the shares: a geounit without "
            "siblings gets the shares of several levels; find the division with bypass = false, then set it again"
        )
    values, _ = objective.terms(as_floats(known_divisions(objective.expectation)["equal"]))
    for aim, value in zip(objective.aims, values, strict=True):
        if np.isnan(value):
            raise InputError(
                f"{aim.name}: the measurements of the spec do not determine these numbers; measure a query that does"
            )
        if not value > 0:
            raise InputError(f"{aim.name}: these numbers are exact, whatever the budget; leave the entry out")


def known_divisions(expectation: Expectation) -> dict[str, dict[Place, Fraction]]:
    """The spec's own division, and the equal one: between the measured levels, and each level's between its queries."""
    levels = [level for level in expectation.universe.strategy.levels if level.queries]
    places = [(level, query) for level in levels for query in level.queries]
    return {
        "the spec's own": {(level.level, query.query.name): level.share * query.share for level, query in places},
        "equal": {
            (level.level, query.query.name): Fraction(1, len(levels) * len(level.queries)) for level, query in places
        },
    }


def as_floats(shares: Mapping[Place, Fraction]) -> FloatArray:
    """Shares of the whole, `(n_measured,)`."""
    return np.array([float(share) for share in shares.values()])


def descend(objective: Objective, least: float = LEAST_SHARE) -> Division:
    """The best division, by descent, with a bound that shows how good it is.

    Args:
        objective: the criterion.
        least: share that every measured query keeps.

    Raises:
        InputError: the least shares alone add up to more than the whole.
        SolverError: the descent ends further than ten times `TOLERANCE` from the bound, which is a defect.
    """
    n = len(objective.expectation.measured)
    if not least * n < 1:
        raise InputError(f"--least: {n} measured queries cannot have {least:g} of the budget each; at most {1 / n:.3g}")
    seen: list[tuple[FloatArray, FloatArray, FloatArray]] = []

    def terms(moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """At `moved`, the shares above the least ones, as parts of what is to be divided."""
        shares = least + (1.0 - n * least) * np.maximum(moved, 0.0)
        if seen and np.array_equal(seen[-1][0], shares):
            return seen[-1][1], seen[-1][2]
        values, gradients = objective.terms(shares)
        seen.append((shares, values, gradients))
        return values, gradients

    scale = 1.0 - n * least
    # The spec's own or the equal division, whichever is better, with the least shares kept.
    known = [least + scale * as_floats(one) for one in known_divisions(objective.expectation).values()]
    start = min(known, key=lambda one: objective.value(objective.terms(one)[0]))
    best = _minimise(objective, terms, (start - least) / scale, scale)
    shares = least + scale * np.maximum(best, 0.0)
    shares = shares / shares.sum()
    value = objective.value(objective.terms(shares)[0])
    candidates = [
        (candidate, objective.value(values)) for candidate, values, _ in seen if abs(candidate.sum() - 1.0) < 1e-9
    ]
    shares, value = min([(shares, value), *candidates], key=lambda pair: pair[1])
    division = Division(shares, value, _bound(objective, seen, least))
    if division.gap > 10 * TOLERANCE:
        raise SolverError(f"the division of the budget was not found: {division.gap:.1%} from its bound")
    return division


def _minimise(objective: Objective, terms: Terms, start: FloatArray, scale: float) -> FloatArray:
    """Sequential quadratic programming over the simplex, with the largest term as a variable of its own."""
    n = len(start)
    largest = objective.goal == "largest"
    first = objective.value(terms(start)[0])
    point = np.append(start, 1.0)

    def worth(x: FloatArray) -> tuple[float, FloatArray]:
        if largest:
            return float(x[n]), np.append(np.zeros(n), 1.0)
        values, gradients = terms(x[:n])
        return float(values.sum() / first), np.append(scale * gradients.sum(axis=0) / first, 0.0)

    constraints: list[dict[str, object]] = [
        {
            "type": "eq",
            "fun": lambda x: x[:n].sum() - 1.0,
            "jac": lambda _: np.append(np.ones(n), 0.0),
        }
    ]
    if largest:
        constraints.append(
            {
                "type": "ineq",
                "fun": lambda x: x[n] - terms(x[:n])[0] / first,
                "jac": lambda x: np.hstack([-scale * terms(x[:n])[1] / first, np.ones((len(objective.aims), 1))]),
            }
        )
    bounds = [(0.0, 1.0)] * n + [(0.0, None)]
    solution = scipy.optimize.minimize(
        worth,
        point,
        jac=True,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": _ITERATIONS, "ftol": 1e-10},
    )
    return np.asarray(solution.x[:n] / max(solution.x[:n].sum(), 1e-300))


def _bound(objective: Objective, seen: Sequence[tuple[FloatArray, FloatArray, FloatArray]], least: float) -> float:
    """A value that no division is below: convex functions lie above all their tangents."""
    n = len(objective.expectation.measured)
    shares, heights = cp.Variable(n), cp.Variable(len(objective.aims))
    scale = min(objective.value(values) for _, values, _ in seen)
    limits = [cp.sum(shares) == 1, shares >= least]
    for point, values, gradients in seen:
        limits.append(heights >= (values - gradients @ point) / scale + (gradients / scale) @ shares)
    goal = cp.max(heights) if objective.goal == "largest" else cp.sum(heights)
    programme = cp.Problem(cp.Minimize(goal), limits)
    programme.solve(solver=cp.CLARABEL, max_threads=1)
    if programme.status != cp.OPTIMAL:
        raise SolverError(f"the bound of the division was not found: {programme.status}")
    return float(programme.value) * scale * (1.0 - 1e-7)
