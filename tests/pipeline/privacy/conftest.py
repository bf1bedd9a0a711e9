"""Independent computations that the tests of the noise compare with: 110-digit decimals, and plain floats."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pipeline.privacy.budget import NoiseSpec

ALPHA = 1e-6
DIGITS = 110


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


def _probabilities(spec: NoiseSpec, largest: int) -> NDArray[np.float64]:
    """P(X = k) for |k| <= largest, `(2 * largest + 1,)`, from the definition in floats."""
    k = np.arange(-largest, largest + 1, dtype=np.float64)
    scale = float(spec.scale)
    weights = np.exp(-(k**2) / (2 * scale)) if spec.mechanism == "discrete_gaussian" else np.exp(-np.abs(k) / scale)
    return weights / weights.sum()


def _p_value(draws: NDArray[np.int64], spec: NoiseSpec, expected: float = 100.0) -> float:
    """Pearson p value of `draws` against `spec`, twice the smaller of two.

    Once over runs of neighbouring outcomes, each run expected about `expected` times or more; once over the remainders
    modulo 16, since a defect of the look-up would follow the low digits.
    """
    tail = 12 * float(spec.scale) ** 0.5 if spec.mechanism == "discrete_gaussian" else 45 * float(spec.scale)
    largest = max(int(tail), int(np.abs(draws).max())) + 1
    wanted = _probabilities(spec, largest) * draws.size
    found = np.bincount(draws + largest, minlength=wanted.size)
    before = np.cumsum(wanted) - wanted
    group = (np.minimum(before, draws.size - before - wanted) // expected).astype(np.int64)
    group = np.where(np.arange(wanted.size) < largest, group, 2 * group.max() + 1 - group)  # rising from tail to tail
    results = [_pearson(_sums(found, group), _sums(wanted, group))]
    residue = (np.arange(wanted.size) - largest) % 16
    if _sums(wanted, residue).min() >= expected:
        results.append(_pearson(_sums(found, residue), _sums(wanted, residue)))
    return min(1.0, 2 * min(results))


def _sums(values: NDArray[np.float64] | NDArray[np.integer[Any]], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums by group, without the groups that do not occur."""
    return np.bincount(group, weights=values)[np.unique(group)].astype(np.float64)


def _pearson(found: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    assert len(wanted) > 1
    return float(stats.chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


@pytest.fixture(scope="session")
def exact_tails() -> Callable[[NoiseSpec], list[Decimal]]:
    return _exact_tails


@pytest.fixture(scope="session")
def rejected() -> Callable[[NDArray[np.int64], NoiseSpec], bool]:
    """Whether draws are told apart from the distribution at level 1e-6."""
    return lambda draws, spec: _p_value(draws, spec) < ALPHA
