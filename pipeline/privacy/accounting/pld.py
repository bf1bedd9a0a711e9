"""Epsilon of a whole run, from the distribution of its privacy loss and not only from its rho.

The privacy loss of a use of a mechanism is ln(P(o) / Q(o)) at the outcome o drawn from P, for neighbours with outcome
distributions P and Q; the losses of independent uses add up, and their distribution gives the least delta for every
epsilon. Neighbours that change one record move two numbers of each query by one each (one up, one down). These are two
uses of the mechanism, each with its own noise: the loss of a query is the sum of two univariate losses. It is not that
of one number with sensitivity sqrt 2, whose noise would stand on another lattice; `one_number_epsilon` and
`composition.gaussian_epsilon` give what that would be, for comparison, and nothing here relies on them.

Pairs of neighbours that move fewer numbers are covered: leaving outcomes out is post-processing.

The distributions are those of dp-accounting (Google; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, arXiv
2207.04380, "connect the dots"), that of discrete Gaussian noise computed here to the same bits
(`losses.gaussian_losses`; a test compares them). They are discretised pessimistically: apart from the rounding of
floats, the epsilon found is an upper bound, whatever the interval. See `_allowance` for the rounding.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.accounting.losses import Losses, epsilon_of, gaussian_losses
from pipeline.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["LARGEST_RHO", "LARGEST_SIGMA2", "LEAST_DELTA", "Use", "interval", "one_number_epsilon", "pld_epsilon"]

Use = DiscreteGaussian | DiscreteLaplace | Exponential | PermuteAndFlip

LEAST_DELTA: Final = Fraction(1, 10**12)  # below it, the rounding of floats is not small beside delta
LARGEST_RHO: Final = 50  # epsilon is about 100: no statement needs more than a bound
LARGEST_SIGMA2: Final = 10**8  # sums over more outcomes take seconds and lose digits
_STEPS: Final = 10_000  # of the discretisation, from 0 to the epsilon of the whole


def pld_epsilon(uses: Iterable[tuple[Use, int]], delta: Fraction) -> float | None:
    """An epsilon that holds at `delta` for all the uses together.

    Args:
        uses: mechanisms, and on how many numbers that move by one each (or geounits whose losses move) each is used.
        delta: above 0 and below 1.

    Returns:
        None where `delta` is below `LEAST_DELTA`, rho above `LARGEST_RHO` or a sigma^2 above `LARGEST_SIGMA2`, or where
        floats cannot say (`losses.epsilon_of`); the bound from rho stands alone then.
    """
    counts = _counted(uses)
    rho = sum((use.rho(moved) for use, moved in counts), Fraction(0))
    if rho == 0:
        return 0.0
    if delta < LEAST_DELTA or rho > LARGEST_RHO:
        return None
    if any(isinstance(use, DiscreteGaussian) and use.scale > LARGEST_SIGMA2 for use, _ in counts):
        return None
    return _epsilon(counts, interval(rho, sum(moved for _, moved in counts), delta), delta, zcdp_epsilon(rho, delta))


def one_number_epsilon(uses: Iterable[tuple[DiscreteGaussian, int]], delta: Fraction) -> float | None:
    """What `pld_epsilon` would be if each query were one number moved by the root of the numbers moved.

    A discrete Gaussian has no sensitivity but whole numbers, so sensitivity sqrt m and sigma^2 become sensitivity 1 and
    sigma^2 / m: the same rho, but another distribution. For comparison only; the mechanism does not have this loss.
    """
    return pld_epsilon([(DiscreteGaussian(use.scale / moved), 1) for use, moved in uses if moved], delta)


def interval(rho: Fraction, uses: int, delta: Fraction) -> float:
    """Step of the discretisation: at most 1 / the number of uses, and fine beside the epsilon to be found.

    A finer one is tighter, not sounder.
    """
    return min(1 / uses, zcdp_epsilon(rho, delta) / _STEPS)


def _counted(uses: Iterable[tuple[Use, int]]) -> tuple[tuple[Use, int], ...]:
    """Equal mechanisms together, in an order of their own, so that the same uses give the same float."""
    counts: Counter[Use] = Counter()
    for use, moved in uses:
        if moved < 0:
            raise ValueError(f"privacy loss: found {moved} numbers moved; it must not be negative")
        counts[use] += moved
    return tuple(sorted(((u, n) for u, n in counts.items() if n), key=lambda item: (item[0].name, item[0].scale)))


@lru_cache(maxsize=64)
def _epsilon(counts: tuple[tuple[Use, int], ...], step: float, delta: Fraction, near: float) -> float | None:
    epsilon = epsilon_of([(_losses(use, step), times) for use, times in counts], step, _allowance(delta), near)
    # Of Gaussian noise the truth is below the bound from rho: what is above it tells of the floats, not of the losses.
    if math.isinf(epsilon) or (epsilon > near and all(isinstance(use, DiscreteGaussian) for use, _ in counts)):
        return None
    return math.nextafter(epsilon * (1 + 1e-9), math.inf)


def _losses(use: Use, step: float) -> Losses:
    """The losses of one use on the grid; those of the opposite neighbours have the same distribution."""
    if isinstance(use, DiscreteGaussian):
        # A smaller sigma has the larger loss.
        return gaussian_losses(math.nextafter(math.sqrt(use.scale), 0.0), step)
    found = _loss(use, step)
    assert found._symmetric, "two distributions"
    masses = found._pmf_remove.to_dense_pmf()
    return Losses(masses._lower_loss, masses._probs, masses._infinity_mass)


def _allowance(delta: Fraction) -> float:
    """A little less than `delta`: what is left after the rounding of floats.

    Discretising divides differences of delta by the step. Measured against exact convolution, this and the transform
    change delta by less than 1e-5 of it and 1e-15 (see the tests); 1e-3 of it and 1e-13 are set aside, which costs
    epsilon less than 0.001 at delta = 1e-10.
    """
    return float(delta) * (1 - 2.0**-10) - 1e-13


def _loss(use: DiscreteLaplace | Exponential | PermuteAndFlip, step: float) -> PrivacyLossDistribution:
    """Distribution of the loss of one use of another mechanism, never better than the truth."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as losses

    if isinstance(use, DiscreteLaplace):
        parameter = math.nextafter(float(1 / use.scale), math.inf)
        return losses.from_discrete_laplace_mechanism(
            parameter, value_discretization_interval=step, use_connect_dots=True
        )
    # Any epsilon-private mechanism is a post-processing of randomised response (Kairouz, Oh and Viswanath 2015).
    epsilon = math.nextafter(float(use.scale), math.inf)
    return losses.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0), step)
