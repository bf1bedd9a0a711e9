"""Noise parameters follow the published formulas exactly, and impossible budgets are refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.privacy.budget import (
    LARGEST_SCALE,
    LEAST_SCALE,
    Framework,
    Mechanism,
    Neighbours,
    NoiseSpec,
    farthest,
    noise_for,
)

ExactTails = Callable[[NoiseSpec], list[Decimal]]


@pytest.mark.parametrize(
    ("framework", "neighbours", "mechanism", "scale"),
    [
        ("zcdp", "change-one", "discrete_gaussian", Fraction(100)),  # 2 / (2 rho)
        ("zcdp", "add-remove", "discrete_gaussian", Fraction(50)),  # 1 / (2 rho)
        ("pure", "change-one", "discrete_laplace", Fraction(200)),  # 2 / epsilon
        ("pure", "add-remove", "discrete_laplace", Fraction(100)),  # 1 / epsilon
    ],
)
def test_noise_of_a_hundredth(
    framework: Framework, neighbours: Neighbours, mechanism: Mechanism, scale: Fraction
) -> None:
    found = noise_for(framework, Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), neighbours)
    assert found == NoiseSpec(mechanism, scale)


def test_the_farthest_of_very_many_numbers_is_known() -> None:
    """Tails below the last bit of 1: a normal one at x is about exp(-x^2 / 2) / (x sqrt(2 pi))."""
    for numbers in (10**15, 10**17, 10**30):
        x, tail = farthest("zcdp", numbers, 0.1), 0.05 / numbers
        lower = (1 / x - 1 / x**3) * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        assert lower < tail < lower / (1 - 1 / x**2)


def test_shares_are_exact_and_add_up() -> None:
    """The rhos of all queries, recovered from their noise, sum to the total without a rounding error."""
    total = Fraction(293764, 114921)
    levels = [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    queries = [Fraction(1, 3), Fraction(543, 1000), 1 - Fraction(1, 3) - Fraction(543, 1000)]
    noises = [noise_for("zcdp", total, a, b, "change-one") for a, b in itertools.product(levels, queries)]
    assert sum(1 / noise.scale for noise in noises) == total


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("zCDP", Fraction(1), Fraction(1), Fraction(1), "change-one"), r"framework: found 'zCDP'.*zcdp, pure"),
        (("zcdp", Fraction(1), Fraction(1), Fraction(1), "swap"), r"neighbours: found 'swap'.*change-one, add-remove"),
        (("zcdp", Fraction(0), Fraction(1), Fraction(1), "change-one"), "total budget: found 0;"),
        (("zcdp", Fraction(-1), Fraction(1), Fraction(1), "change-one"), "total budget: found -1;"),
        (("zcdp", Fraction(1), Fraction(0), Fraction(1), "change-one"), "level share: found 0;"),
        (("zcdp", Fraction(1), Fraction(6, 5), Fraction(1), "change-one"), "level share: found 6/5;"),
        (("pure", Fraction(1), Fraction(1), Fraction(11, 10), "change-one"), "query share: found 11/10;"),
        (("zcdp", Fraction(1, 10**11), Fraction(1), Fraction(1), "change-one"), r"1e\+11; at most 10000000000"),
        (("pure", Fraction(1, 10**11), Fraction(1), Fraction(1), "change-one"), r"b = 2e\+11; at most 20000"),
    ],
)
def test_bad_budgets_are_refused_by_name(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        noise_for(*arguments)


@pytest.mark.parametrize("value", [0.5, True, "1/2", None])
def test_inexact_numbers_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="total budget"):
        noise_for("zcdp", value, Fraction(1), Fraction(1), "change-one")


def test_specs_are_checked_and_compare_by_value() -> None:
    assert NoiseSpec("discrete_gaussian", Fraction(2, 4)) == NoiseSpec("discrete_gaussian", Fraction(1, 2))
    assert str(NoiseSpec("discrete_gaussian", Fraction(2, 4))) == "discrete gaussian, sigma^2 = 1/2"
    with pytest.raises(InputError, match="must be above 0"):
        NoiseSpec("discrete_laplace", Fraction(0))
    with pytest.raises(InputError, match="found 'gaussian'"):
        NoiseSpec("gaussian", Fraction(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", ["1/15", "1/10", "1/2", "1", "19/10", "99/10", "10", "101/10", "100"])
def test_variance_is_that_of_the_discrete_distribution(
    mechanism: Mechanism, scale: str, exact_tails: ExactTails
) -> None:
    """Against the definition in decimals: Var = 2 sum over k >= 1 of (2k - 1) T(k)."""
    spec = NoiseSpec(mechanism, Fraction(scale))
    with localcontext(Context(prec=60)):
        exact = 2 * sum((2 * k - 1) * tail for k, tail in enumerate(exact_tails(spec)) if k)
        assert abs(Decimal(spec.variance) / exact - 1) < Decimal("1e-14")


def test_variance_never_underflows() -> None:
    huge = [noise_for(f, Fraction(10**9), Fraction(1), Fraction(1), "change-one") for f in ("zcdp", "pure")]
    assert huge[0].variance == pytest.approx(1e-15)  # a millionth of sigma^2 = 1e-9
    assert huge[1].variance == pytest.approx(8e-24)  # a millionth of 2 b^2, b = 2e-9
    mechanisms: tuple[Mechanism, ...] = ("discrete_gaussian", "discrete_laplace")
    assert set(mechanisms) == set(LARGEST_SCALE) == set(LEAST_SCALE)
    for mechanism in mechanisms:
        least = LEAST_SCALE[mechanism]
        assert 1e-107 < NoiseSpec(mechanism, least).variance < 1e-100  # its square is no float's underflow
        with pytest.raises(InputError, match=r"noise scale: found .*; at least 1e-.* is needed: a budget so large"):
            NoiseSpec(mechanism, least / 2)
        steps = [NoiseSpec(mechanism, Fraction(2) ** i / 1000).variance for i in range(20)]
        assert all(math.isfinite(v) for v in steps)
        assert steps == sorted(steps)
