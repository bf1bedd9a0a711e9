"""Noise follows from budgets by the published formulas exactly, and costs what is said of it; figures are literals.

A square that is left out, or a figure rounded down, is seen here, as is a cost that is not true of what is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.model.exact import decimal_text, epsilon_text
from pipeline.model.promise import Promise
from pipeline.privacy.accounting.statement_models import odds
from pipeline.privacy.budget import Framework, Neighbours, rounded_text
from pipeline.privacy.ledger.dataset import cost_of
from pipeline.privacy.ledger.events import Group, Moved
from pipeline.privacy.ledger.ledger import amount_text
from pipeline.privacy.ledger.report import _text as _in_report
from pipeline.privacy.noise import mechanisms
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import MechanismName, noise_for
from pipeline.questions.resolved import Part
from pipeline.questions.sensitivity import measured

ExactTails = Callable[[NoiseSpec], list[Decimal]]


def test_the_farthest_of_very_many_numbers_is_known() -> None:
    """Tails below the last bit of 1: a normal one at x is about exp(-x^2 / 2) / (x sqrt(2 pi))."""
    for numbers in (10**15, 10**17, 10**30):
        x, tail = DiscreteGaussian.farthest(numbers, 0.1), 0.05 / numbers
        lower = (1 / x - 1 / x**3) * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        assert lower < tail < lower / (1 - 1 / x**2)


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", ["1/15", "1/10", "1/2", "1", "19/10", "99/10", "10", "101/10", "100"])
def test_variance_is_that_of_the_discrete_distribution(mechanism: str, scale: str, exact_tails: ExactTails) -> None:
    """Against the definition in decimals: Var = 2 sum over k >= 1 of (2k - 1) T(k)."""
    spec = mechanisms.NOISES[mechanism](Fraction(scale))
    with localcontext(Context(prec=60)):
        exact = 2 * sum((2 * k - 1) * tail for k, tail in enumerate(exact_tails(spec)) if k)
        assert abs(Decimal(spec.variance) / exact - 1) < Decimal("1e-14")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (("zcdp", 0, 1, "change-one"), "total budget: found 0;"),
        (("zcdp", 1, Fraction(6, 5), "change-one"), "level share: found 6/5;"),
        (("zcdp", Fraction(1, 10**11), 1, "change-one"), r"1e\+11; at most 10000000000"),
        (("zCDP", 1, 1, "change-one"), "framework: found 'zCDP'"),
        (("zcdp", 1, 1, "swap"), "neighbours: found 'swap'"),
    ],
)
def test_bad_budgets_are_refused_by_name(found: Any, message: str) -> None:
    framework, total, share, neighbours = found
    with pytest.raises(InputError, match=message):
        noise_for(framework, total, share, Fraction(1), neighbours)
    with pytest.raises(TypeError, match="total budget"):
        noise_for("zcdp", 0.5, Fraction(1), Fraction(1), "change-one")  # type: ignore[arg-type]


def test_variance_never_underflows() -> None:
    huge = [noise_for(f, Fraction(10**9), Fraction(1), Fraction(1), "change-one") for f in ("zcdp", "pure")]
    assert huge[0].variance == pytest.approx(1e-15)  # a millionth of sigma^2 = 1e-9
    assert huge[1].variance == pytest.approx(8e-24)  # a millionth of 2 b^2, b = 2e-9
    for kind in mechanisms.NOISES.values():
        least = kind.least
        assert 1e-107 < kind(least).variance < 1e-100  # its square is no float's underflow
        with pytest.raises(InputError, match=r"noise scale: found .*; at least 1e-.* is needed: a budget so large"):
            kind(least / 2)
        steps = [kind(Fraction(2) ** i / 1000).variance for i in range(20)]
        assert all(math.isfinite(v) for v in steps)
        assert steps == sorted(steps)


# Costs by hand


@pytest.mark.parametrize(
    ("part", "framework", "neighbours", "people", "scale"),
    [
        (Part("sum", 0, 600), "zcdp", "change-one", (1, 1), 360_000),
        (Part("sum", 0, 600), "zcdp", "add-remove", (1, 1), 180_000),
        (Part("sum", 0, 600), "zcdp", "change-one", (3, 1), 3_240_000),
        (Part("sum", -300, 300), "zcdp", "change-one", (1, 1), 425**2),
        (Part("sum", 0, 600), "pure", "change-one", (3, 1), 3600),
        (Part("sum", -100, 500, 0, "total"), "zcdp", "change-one", (3, 1), 360_000),
        (Part("count", 1, 1), "zcdp", "change-one", (3, 1), 9),
        (Part("count", 1, 1, 0, "unit"), "zcdp", "change-one", (3, 3), 3),
        (Part("count", 1, 1, 0, "unit"), "pure", "add-remove", (3, 2), 2),
    ],
)
def test_the_scale_of_noise_has_the_square_of_what_a_person_moves(
    part: Part, framework: Framework, neighbours: Neighbours, people: tuple[int, int], scale: int
) -> None:
    """For a budget of 1: sigma^2 = m R^2 k^2 / 2, b = m R k; of units n in place of k^2 and of k."""
    records, numbers = people
    for budget, due in ((1, scale), (scale, 1)):
        promise = Promise(framework, neighbours, Fraction(budget), records)
        assert measured((part,), promise, numbers)[0].mechanism.scale == due


@pytest.mark.parametrize(
    ("framework", "mechanism", "moved", "scale", "costs"),
    [
        ("zcdp", "discrete_gaussian", Moved(), "7/3", ("3/7", "3/14")),
        ("zcdp", "discrete_laplace", Moved(), "10", ("1/100", "1/200")),
        ("zcdp", "exponential", Moved(), "1/5", ("1/100", "1/200")),
        ("zcdp", "permute_and_flip", Moved(), "1/5", ("1/25", "1/50")),
        ("pure", "discrete_laplace", Moved(), "10", ("1/5", "1/10")),
        ("pure", "exponential", Moved(), "1/5", ("2/5", "1/5")),
        ("pure", "permute_and_flip", Moved(), "1/5", ("2/5", "1/5")),
        ("zcdp", "discrete_gaussian", Moved(), "9", ("1/9", "1/18")),
        ("zcdp", "discrete_gaussian", Moved.by(records=3), "9", ("1", "1/2")),
        ("zcdp", "discrete_gaussian", Moved.by(reach=600), "360000", ("1", "1/2")),
        ("zcdp", "discrete_gaussian", Moved.by(reach=600, records=3), "3240000", ("1", "1/2")),
        ("zcdp", "discrete_gaussian", Moved.by(numbers=3), "3", ("1", "1/2")),
    ],
)
def test_the_ledger_counts_the_same_squares(
    framework: Framework, mechanism: MechanismName, moved: Moved, scale: str, costs: tuple[str, str]
) -> None:
    """Where one record is changed, and where one is added or removed; Gaussian noise has no cost in epsilon."""
    group = Group("county", "total", mechanism, Fraction(scale), 2, moved)
    found = [cost_of(group, framework, neighbours) for neighbours in ("change-one", "add-remove")]
    assert found == [Fraction(cost) for cost in costs]
    if mechanism == "discrete_gaussian":
        with pytest.raises(InputError, match="has no pure guarantee"):
            cost_of(group, "pure", "change-one")


@pytest.mark.parametrize(
    ("mechanism", "scale", "neighbours", "records", "cost"),
    [
        ("discrete_gaussian", "9", "change-one", 1, Fraction(1, 9)),
        ("discrete_gaussian", "9", "change-one", 3, Fraction(1)),
        ("discrete_gaussian", "9", "add-remove", 3, Fraction(1, 2)),
        ("discrete_gaussian", "8", "change-one", 2, Fraction(1, 2)),
        ("discrete_laplace", "6", "change-one", 3, Fraction(1)),
        ("discrete_laplace", "6", "add-remove", 3, Fraction(1, 2)),
    ],
)
def test_an_answer_of_a_version_costs_the_square_of_its_records_per_person(
    mechanism: str, scale: str, neighbours: Neighbours, records: int, cost: Fraction
) -> None:
    framework: Framework = "zcdp" if mechanism == "discrete_gaussian" else "pure"
    promise = Promise(framework, neighbours, Fraction(0), records)
    assert promise.cost(mechanisms.NOISES[mechanism](Fraction(scale))) == cost


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(10_001, 100_000), Fraction(1, 10**9), 0.1, 1.00001, 2.0])
def test_what_is_stated_is_never_less_than_what_is_so(value: float | Fraction) -> None:
    stated = Fraction(epsilon_text(value))
    assert Fraction(value) <= stated < Fraction(value) + max(Fraction(1, 10_000), Fraction(value) / 1000)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (epsilon_text(16.4802), "16.49"),
        (epsilon_text(Fraction("1.00001")), "1.001"),
        (odds("1.5"), "4.5"),
        (odds("1"), "2.8"),
        (odds("1000"), "10^435"),
        (decimal_text(Fraction(1, 3)), "0.333333333334"),
        (decimal_text(Fraction(2, 3)), "0.666666666667"),
        (amount_text(Fraction(1, 3), up=True), "0.333334 (1/3)"),
        (amount_text(Fraction(2, 3)), "0.666666 (2/3)"),
        (rounded_text(Fraction(200, 3), 3), "66.7"),
        (rounded_text(Fraction(10) ** 400, 3), "1.00e+400"),
        (rounded_text(Fraction(1, 10**400), 3), "1.00e-400"),
    ],
)
def test_figures_for_people_are_rounded_to_the_side_that_promises_less(stated: str, said: str) -> None:
    """Epsilons, odds and what is spent up, what is left down, also of what no float holds; by hand."""
    assert stated == said


@pytest.mark.parametrize(("rounding", "last"), [(ROUND_CEILING, "4"), (ROUND_FLOOR, "3")])
def test_a_fraction_too_long_to_read_is_rounded_as_it_is_told(rounding: str, last: str) -> None:
    """The ledger's report: what is spent up, what is left down; exact as long as the fraction is short."""
    long = Fraction(1, 3) + Fraction(1, 7**500)
    assert _in_report(long, rounding) == "0." + 39 * "3" + last
    assert _in_report(Fraction(1, 3), rounding) == "1/3"


# What is drawn, by its Renyi divergence

ORDERS = (1.1, 1.5, 2.0, 4.0, 16.0, 64.0)
GAUSSIANS = [DiscreteGaussian(Fraction(s)) for s in ("1/4", "1", "7/3", "25", "400")]
LAPLACES = [DiscreteLaplace(Fraction(b)) for b in ("1/3", "1", "5", "40")]


def log_probabilities(noise: NoiseSpec) -> NDArray[np.float64]:
    """ln P(k) for k = -K, ..., K, from the exact tails that the sampler's table is made of."""
    table = noise.tails(400)
    exact = [a - b for a, b in zip(table.lower[:-1], table.lower[1:], strict=True)]  # P(X = k), in units of 2^-bits
    exact = exact[: next((i for i, p in enumerate(exact) if p.bit_length() < table.bits - 320), len(exact))]
    logs = [math.log(p) - table.bits * math.log(2) for p in exact]
    return np.array(logs[:0:-1] + logs)


def divergence(logs: NDArray[np.float64], order: float) -> float:
    """Renyi divergence of one number from the same moved by one."""
    p, q = logs[1:], logs[:-1]
    exponent = order * p + (1 - order) * q
    top = float(exponent.max())
    return (top + math.log(math.fsum(np.exp(exponent - top)))) / (order - 1)


@pytest.mark.parametrize("noise", [*GAUSSIANS, *LAPLACES], ids=str)
def test_rho_bounds_the_renyi_divergence_of_what_is_drawn(noise: NoiseSpec) -> None:
    """At every order, for one number moved and for two; and the Gaussian's is nearly met where it is wide."""
    logs = log_probabilities(noise)
    for order in ORDERS:
        found = divergence(logs, order)
        for moved in (1, 2):
            assert moved * found <= order * float(noise.rho(moved)) * (1 + 1e-9)
        if noise.mechanism == "discrete_gaussian" and noise.scale >= 1 and order < 10:
            assert found > order * float(noise.rho(1)) * 0.99


@pytest.mark.parametrize("noise", GAUSSIANS[1:], ids=str)
def test_a_little_less_noise_would_break_the_claim(noise: NoiseSpec) -> None:
    less = DiscreteGaussian(noise.scale * Fraction(95, 100) ** 2)
    assert any(divergence(log_probabilities(less), a) > a * float(noise.rho(1)) for a in ORDERS)


@pytest.mark.parametrize("noise", LAPLACES, ids=str)
def test_epsilon_is_the_largest_ratio_of_what_is_drawn(noise: NoiseSpec) -> None:
    logs = log_probabilities(noise)
    largest = float(np.abs(np.diff(logs)).max())
    for moved in (1, 2):
        assert moved * largest == pytest.approx(float(noise.epsilon(moved) or 0), rel=1e-9)
    less = log_probabilities(DiscreteLaplace(noise.scale * Fraction(95, 100)))
    assert float(np.abs(np.diff(less)).max()) > float(noise.epsilon(1) or 0) * 1.01
