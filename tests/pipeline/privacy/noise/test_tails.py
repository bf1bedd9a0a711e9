"""Tables hold the exact distribution: every enclosure and every boundary, against 110-digit sums of the definition."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from pipeline.privacy.budget import LEAST_SCALE, Mechanism, NoiseSpec
from pipeline.privacy.noise import sampler as tables
from pipeline.privacy.noise.sampler import boundaries, tails

ExactTails = Callable[[NoiseSpec], list[Decimal]]

SPECS = [
    NoiseSpec("discrete_gaussian", Fraction(s))
    for s in ("1/1000", "1/10", "1", "19/10", "100", "114921/586", "9999/7", "1/100")
] + [NoiseSpec("discrete_laplace", Fraction(b)) for b in ("1/1000", "1/4", "7/10", "1", "7", "542/19")]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("depth", [64, 128])
def test_tails_are_enclosed(spec: NoiseSpec, depth: int, exact_tails: ExactTails) -> None:
    table = tails(spec, depth)
    exact = exact_tails(spec)
    slack = Decimal("1e-98")  # of the decimal sums themselves
    with localcontext(Context(prec=110)):
        unit = Decimal(2) ** table.bits
        for k, (lower, upper) in enumerate(zip(table.lower, table.upper, strict=True)):
            tail = exact[k] if k < len(exact) else Decimal(0)
            assert lower / unit - slack <= tail <= upper / unit + slack
            assert upper - lower < 2 ** (table.bits - depth - 64)
    assert table.upper[-1] < 2 ** (table.bits - depth)
    assert table.lower == sorted(table.lower, reverse=True)
    assert table.upper == sorted(table.upper, reverse=True)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_boundaries_are_the_floors_of_the_exact_distribution(spec: NoiseSpec, exact_tails: ExactTails) -> None:
    found = boundaries(spec)
    half = found.size // 2
    exact = [*exact_tails(spec), Decimal(0)]
    with localcontext(Context(prec=110)):
        below = [int(2**64 * exact[k]) for k in range(half, 0, -1)]
        above = [int(2**64 * (1 - exact[k]) if exact[k] > Decimal("1e-80") else 2**64 - 1) for k in range(1, half + 1)]
    assert found.tolist() == below + above
    assert (below[0], above[-1]) == (0, 2**64 - 1)
    assert half == 1 or below[1] > 0


@pytest.mark.slow
def test_the_largest_tables_hold_the_exact_probabilities() -> None:
    """sigma = 1e4: T(k) - T(k + 1) = w(k) / Z at 300 outcomes; Z = sqrt(2 pi) sigma up to exp(-2 pi^2 sigma^2)."""
    table = tails(NoiseSpec("discrete_gaussian", Fraction(10**8)), 64)
    assert len(table.lower) > 140_000
    with localcontext(Context(prec=80)):
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899863")
        unit = Decimal(2) ** table.bits / ((2 * pi).sqrt() * 10**4)
        for k in range(0, len(table.lower) - 1, 499):
            exact = (-Decimal(k * k) / (2 * 10**8)).exp() * unit
            assert table.lower[k] - table.upper[k + 1] <= exact <= table.upper[k] - table.lower[k + 1]
            assert table.upper[k] - table.lower[k] < 2**64


@pytest.mark.parametrize("spec", [SPECS[2], SPECS[4], SPECS[-1]], ids=str)
@pytest.mark.parametrize("guard", [8, 40])
def test_boundaries_do_not_depend_on_the_precision(
    spec: NoiseSpec, guard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little precision is noticed and made up for."""
    wanted = boundaries(spec)
    assert tables._floors(tails(spec, 64)) is not None
    monkeypatch.setattr(tables, "_GUARD_BITS", guard)
    if guard == 8:
        assert tables._floors(tails(spec, 64)) is None
    assert np.array_equal(boundaries(spec), wanted)


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_a_vanishing_scale_has_a_table(mechanism: Mechanism) -> None:
    assert boundaries(NoiseSpec(mechanism, Fraction(1, 10**10))).tolist() == [0, 2**64 - 1]
    assert boundaries(NoiseSpec(mechanism, LEAST_SCALE[mechanism])).tolist() == [0, 2**64 - 1]
