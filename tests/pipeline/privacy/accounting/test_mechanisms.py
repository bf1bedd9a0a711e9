"""A mechanism's cost is true of what its own sampler draws, and would not be of a little less noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.privacy.accounting.mechanisms import MECHANISMS, DiscreteGaussian, DiscreteLaplace, mechanism
from pipeline.privacy.noise.sampler import tails

ORDERS = (1.1, 1.5, 2.0, 4.0, 16.0, 64.0)
GAUSSIANS = [DiscreteGaussian(Fraction(s)) for s in ("1/4", "1", "7/3", "25", "400")]
LAPLACES = [DiscreteLaplace(Fraction(b)) for b in ("1/3", "1", "5", "40")]

Noise = DiscreteGaussian | DiscreteLaplace


def log_probabilities(noise: Noise) -> NDArray[np.float64]:
    """ln P(k) for k = -K, ..., K, from the exact tails that the sampler's table is made of."""
    table = tails(noise.noise, 400)
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
def test_rho_bounds_the_renyi_divergence_of_what_is_drawn(noise: Noise) -> None:
    """At every order, for one number moved and for two; and the Gaussian's is nearly met where it is wide."""
    logs = log_probabilities(noise)
    for order in ORDERS:
        found = divergence(logs, order)
        for moved in (1, 2):
            assert moved * found <= order * float(noise.rho(moved)) * (1 + 1e-9)
        if isinstance(noise, DiscreteGaussian) and noise.scale >= 1 and order < 10:
            assert found > order * float(noise.rho(1)) * 0.99


@pytest.mark.parametrize("noise", GAUSSIANS[1:], ids=str)
def test_a_little_less_noise_would_break_the_claim(noise: DiscreteGaussian) -> None:
    less = DiscreteGaussian(noise.scale * Fraction(95, 100) ** 2)
    assert any(divergence(log_probabilities(less), a) > a * float(noise.rho(1)) for a in ORDERS)


@pytest.mark.parametrize("noise", LAPLACES, ids=str)
def test_epsilon_is_the_largest_ratio_of_what_is_drawn(noise: DiscreteLaplace) -> None:
    logs = log_probabilities(noise)
    largest = float(np.abs(np.diff(logs)).max())
    for moved in (1, 2):
        assert moved * largest == pytest.approx(float(noise.epsilon(moved)), rel=1e-9)
    less = log_probabilities(DiscreteLaplace(noise.scale * Fraction(95, 100)))
    assert float(np.abs(np.diff(less)).max()) > float(noise.epsilon(1)) * 1.01


def test_what_is_no_mechanism_is_refused() -> None:
    with pytest.raises(InputError, match="allowed are discrete_gaussian, discrete_laplace, exponential"):
        mechanism("gaussian", Fraction(1))
    for name in MECHANISMS:
        assert mechanism(name, Fraction(2)).name == name
        with pytest.raises(InputError, match="must be above 0"):
            mechanism(name, Fraction(0))
        with pytest.raises(TypeError):
            mechanism(name, 0.5)  # type: ignore[arg-type]
