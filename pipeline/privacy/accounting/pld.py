"""Epsilon of a whole run, from the distribution of its privacy loss and not only from its rho.

The privacy loss of a use of a mechanism is ln(P(o) / Q(o)) at the outcome o drawn from P, for neighbours with outcome
distributions P and Q; the losses of independent uses add up, and their distribution gives the least delta for every
epsilon. Neighbours that change one record move two numbers of each query by one each (one up, one down). These are two
uses of the mechanism, each with its own noise: the loss of a query is the sum of two univariate losses. It is not that
of one number with sensitivity sqrt 2, whose noise would stand on another lattice; `one_number_epsilon` and
`conversion.gaussian_epsilon` give what that would be, for comparison, and nothing here relies on them.

Pairs of neighbours that move fewer numbers are covered: leaving outcomes out is post-processing.

The distributions (`Mechanism.privacy_losses`) are those of dp-accounting (Google; Doroshenko, Ghazi, Kamath, Kumar and
Manurangsi 2022, arXiv 2207.04380, "connect the dots"), that of discrete Gaussian noise computed to the same bits
(`gaussian_losses`; a test compares them). They are discretised pessimistically: apart from the rounding of floats, the
epsilon found is an upper bound, whatever the interval. See `_allowance` for the rounding.

Losses are composed by Fourier transform (Koskela, Jälkö and Honkela 2020, arXiv 1906.03049) after they are tilted:
masses are multiplied by exp(theta l), with theta such that the sum is centred at about the epsilon that is asked for
(Esscher 1932). A transform errs by about 1e-16 of the largest number in it. Untilted that is a millionth of a delta of
1e-10: epsilon would differ between processors in its seventh digit, and now and then in the digits that are published.
Tilted it is some 1e-14 of delta itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.noise.mechanism import Losses, Mechanism, NoiseSpec
from pipeline.privacy.noise.mechanisms import NOISE

FloatArray = NDArray[np.float64]

#: Share of the tilted mass that may lie outside the window of the transform, on either side.
_OUTSIDE: Final = 1e-18
#: Error of a transform, of the largest number in it, at most; and which part of delta such errors may be.
_BLURRED: Final = 1e-15
_BLUR: Final = 1e-4
#: A sum of tilted masses below which the numbers beside the largest may have been too small for floats.
_LEAST: Final = 1e-200
#: Points, in standard deviations of the tilted sum, at which Chernoff's bound is taken.
_POINTS: Final = np.geomspace(1.0, 30.0, 30)


@dataclass(frozen=True, eq=False)
class _Tilted:
    """Losses as they are transformed: masses that add up to 1, the logarithm of what they were divided by, a count."""

    places: FloatArray
    masses: FloatArray
    log_scale: float
    times: int

    @classmethod
    def of(cls, losses: Losses, tilt: float, times: int) -> _Tilted:
        places = losses.first + np.arange(len(losses.masses), dtype=np.float64)
        exponents = tilt * places
        largest = float(exponents.max())
        masses = losses.masses * np.exp(exponents - largest)
        if math.fsum(masses) < _LEAST:
            largest, masses = _scaled(losses.masses, exponents)
        total = math.fsum(masses)
        return cls(places, masses / total, math.log(total) + largest, times)

    def cumulant(self, order: float) -> float:
        """ln E exp(order x) of one loss x."""
        exponents = order * self.places
        largest = float(exponents.max())
        found = float(self.masses @ np.exp(exponents - largest))
        if found < _LEAST:
            largest, masses = _scaled(self.masses, exponents)
            found = math.fsum(masses)
        return math.log(found) + largest


def _scaled(masses: FloatArray, exponents: FloatArray) -> tuple[float, FloatArray]:
    """The logarithm of the largest of masses exp(exponents), and all of them divided by it."""
    logs = exponents + np.log(masses, out=np.full(len(masses), -np.inf), where=masses > 0)
    largest = float(logs.max())
    return largest, np.exp(logs - largest)


def epsilon_of(uses: Sequence[tuple[Losses, int]], step: float, delta: float, near: float) -> float:
    """The least epsilon at which the losses of all uses together have at most this delta.

    Rounding changes what delta is by less than 1e-12 of it.

    Args:
        uses: losses on one grid, and how often each is met.
        step: of the grid.
        delta: above 0 and below 1.
        near: an epsilon that is expected; it decides how precise the result is, not what it is.

    Returns:
        Infinity where infinite losses alone have more than delta, or where rounding could be more than that: of a few
        numbers with hardly any noise, whose losses lie far apart, the tilt is about the wrong ones.
    """
    infinite = -math.expm1(math.fsum(times * math.log1p(-losses.infinite) for losses, times in uses))
    tilt = _tilt(uses, near / step)
    tilted = [_Tilted.of(losses, tilt, times) for losses, times in uses]
    first, size = _window(tilted)
    length = int(fft.next_fast_len(size, real=True))
    whole: FloatArray | None = None
    for one in tilted:
        on_circle = np.bincount(one.places.astype(np.int64) % length, one.masses, length)
        spectrum = fft.rfft(on_circle) ** one.times
        whole = spectrum if whole is None else whole * spectrum
    assert whole is not None, "no uses"
    sums = np.maximum(np.roll(fft.irfft(whole, length), -(first % length)), 0.0)
    places = first + np.arange(length, dtype=np.float64)
    log_scale = math.fsum(one.times * one.log_scale for one in tilted)
    weights = np.exp(np.minimum(log_scale - tilt * places, 700.0))
    # What is above the window counts as infinite: its tilted mass is at most that share, its weight at most the top's.
    infinite += _OUTSIDE * math.exp(log_scale - tilt * float(places[-1]))
    found = _least_epsilon(sums * weights, step * places, infinite, delta)
    blurred = _BLURRED * float(sums.max()) * float(weights[step * places > found].sum())
    return found if blurred <= _BLUR * delta else math.inf


def _tilt(uses: Sequence[tuple[Losses, int]], target: float) -> float:
    """The tilt, per step of the grid, that centres the sum at `target` steps if losses were normal; not below 0."""
    mean = variance = 0.0
    for losses, times in uses:
        places = losses.first + np.arange(len(losses.masses), dtype=np.float64)
        total = float(losses.masses.sum())
        centre = float(losses.masses @ places) / total
        mean += times * centre
        variance += times * float(losses.masses @ (places - centre) ** 2) / total
    return max(0.0, (target - mean) / variance) if variance > 0 else 0.0


def _window(tilted: Sequence[_Tilted]) -> tuple[int, int]:
    """The first place and the number of places outside of which, on each side, hardly any tilted mass lies.

    By Chernoff's bound, within what the sum can be at all.
    """
    least = sum(one.times * int(one.places[0]) for one in tilted)
    most = sum(one.times * int(one.places[-1]) for one in tilted)
    means = [float(one.masses @ one.places) for one in tilted]
    variance = sum(
        one.times * float(one.masses @ (one.places - mean) ** 2) for one, mean in zip(tilted, means, strict=True)
    )
    if variance == 0:
        return least, most - least + 1
    low, high = float(least), float(most)
    for order in (_POINTS / math.sqrt(variance)).tolist():
        above, below = (sum(one.times * one.cumulant(sign * order) for one in tilted) for sign in (1, -1))
        high = min(high, (above - math.log(_OUTSIDE)) / order)
        low = max(low, -(below - math.log(_OUTSIDE)) / order)
    first = max(least, math.floor(low))
    return first, min(most, math.ceil(high)) - first + 1


def _least_epsilon(masses: FloatArray, losses: FloatArray, infinite: float, delta: float) -> float:
    """The least epsilon, not below 0, at which infinite + sum of (1 - exp(epsilon - loss)) mass above it is delta.

    Between two losses of the grid delta is A - exp(epsilon) B, the sums A of masses and B of exp(-loss) mass above.
    Infinity where that is below all of these losses, or B is too large for floats before it is found.
    """
    if infinite > delta:
        return math.inf
    upper = infinite + np.cumsum(masses[::-1])
    top = float(losses[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        lower = np.cumsum((masses * np.exp(top - losses))[::-1])
    above = losses[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = np.where(upper > delta, np.log((upper - delta) / lower), -np.inf) + top
    # The first interval, from the top, in which delta is reached: no further loss is above the crossing.
    next_below = np.append(above[1:], -np.inf)
    known = np.isfinite(lower)
    reached = np.flatnonzero((upper > delta) & (crossing >= next_below) & known)
    found = float(crossing[reached[0]]) if len(reached) else -math.inf
    if found < losses[0] and (losses[0] > 0 or not known.all()):
        return math.inf
    return max(0.0, found)


LEAST_DELTA: Final = Fraction(1, 10**12)  # below it, the rounding of floats is not small beside delta
LARGEST_RHO: Final = 50  # epsilon is about 100: no statement needs more than a bound
_STEPS: Final = 10_000  # of the discretisation, from 0 to the epsilon of the whole


def pld_epsilon(uses: Iterable[tuple[Mechanism, int]], delta: Fraction) -> float | None:
    """An epsilon that holds at `delta` for all the uses together.

    Args:
        uses: mechanisms, and on how many numbers that move by one each (or geounits whose losses move) each is used.
        delta: above 0 and below 1.

    Returns:
        None where `delta` is below `LEAST_DELTA`, rho above `LARGEST_RHO`, where a mechanism has too many losses, or
        floats cannot say (`epsilon_of`); the bound from rho stands alone then.
    """
    counts = _counted(uses)
    rho = sum((use.rho(moved) for use, moved in counts), Fraction(0))
    if rho == 0:
        return 0.0
    if delta < LEAST_DELTA or rho > LARGEST_RHO:
        return None
    return _epsilon(counts, interval(rho, sum(moved for _, moved in counts), delta), delta, zcdp_epsilon(rho, delta))


def one_number_epsilon(uses: Sequence[tuple[Mechanism, int]], delta: Fraction) -> float | None:
    """What `pld_epsilon` would be if each query were one number moved by the root of the numbers moved.

    A discrete Gaussian has no sensitivity but whole numbers, so sensitivity sqrt m and sigma^2 become sensitivity 1 and
    sigma^2 / m: the same rho, but another distribution. For comparison only; the mechanism does not have this loss.
    None where some use is of another mechanism.
    """
    kind = NOISE["zcdp"]
    if not all(isinstance(use, kind) for use, _ in uses):
        return None
    return pld_epsilon([(kind(kind.scale_for(use.rho(moved), 1)), 1) for use, moved in uses], delta)


def interval(rho: Fraction, uses: int, delta: Fraction) -> float:
    """Step of the discretisation: at most 1 / the number of uses, and fine beside the epsilon to be found.

    A finer one is tighter, not sounder.
    """
    return min(1 / uses, zcdp_epsilon(rho, delta) / _STEPS)


def _counted(uses: Iterable[tuple[Mechanism, int]]) -> tuple[tuple[Mechanism, int], ...]:
    """Equal mechanisms together, in an order of their own, so that the same uses give the same float."""
    counts: Counter[Mechanism] = Counter()
    for use, moved in uses:
        if moved < 0:
            raise ValueError(f"privacy loss: found {moved} numbers moved; it must not be negative")
        counts[use] += moved
    return tuple(sorted(((u, n) for u, n in counts.items() if n), key=lambda item: (item[0].mechanism, item[0].scale)))


@lru_cache(maxsize=64)
def _epsilon(counts: tuple[tuple[Mechanism, int], ...], step: float, delta: Fraction, near: float) -> float | None:
    uses = [(losses, times) for use, times in counts if (losses := use.privacy_losses(step)) is not None]
    if len(uses) < len(counts):
        return None
    epsilon = epsilon_of(uses, step, _allowance(delta), near)
    # Of noise the truth is below the bound from rho: what is above it tells of the floats, not of the losses.
    if math.isinf(epsilon) or (epsilon > near and all(isinstance(use, NoiseSpec) for use, _ in counts)):
        return None
    return math.nextafter(epsilon * (1 + 1e-9), math.inf)


def _allowance(delta: Fraction) -> float:
    """A little less than `delta`: what is left after the rounding of floats.

    Discretising divides differences of delta by the step. Measured against exact convolution, this and the transform
    change delta by less than 1e-5 of it and 1e-15 (see the tests); 1e-3 of it and 1e-13 are set aside, which costs
    epsilon less than 0.001 at delta = 1e-10.
    """
    return float(delta) * (1 - 2.0**-10) - 1e-13
