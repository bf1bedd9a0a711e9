"""An independent computation that the tests of the noise compare with: 110-digit decimals."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cache

import pytest

from pipeline.privacy.budget import NoiseSpec

DIGITS = 110


@cache
def _exact_tails(spec: NoiseSpec) -> list[Decimal]:
    """T(k) = P(X >= k) for k = 0, 1, ... to 1e-100, summed from the definition, one exponential a term."""
    with localcontext(Context(prec=DIGITS)):
        scale = Decimal(spec.scale.numerator) / Decimal(spec.scale.denominator)
        gaussian = spec.mechanism == "discrete_gaussian"
        weights: list[Decimal] = []
        while not weights or weights[-1] > Decimal("1e-105"):
            k = Decimal(len(weights))
            weights.append((-(k * k) / (2 * scale) if gaussian else -k / scale).exp())
        total = 2 * sum(weights) - 1
        tails = [Decimal(0)]
        for weight in reversed(weights):
            tails.append(tails[-1] + weight / total)
        return tails[:0:-1]


@pytest.fixture(scope="session")
def exact_tails() -> Callable[[NoiseSpec], list[Decimal]]:
    return _exact_tails
