"""90 % intervals of noisy numbers, from the noise alone."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

from pipeline.privacy.budget import NoiseSpec

__all__ = ["SHARE", "half_width", "ratio_interval"]

#: Of repetitions in which an interval covers the true number.
SHARE: Final = 0.9
_Z: Final = 1.6448536269514722
_WIDE: Final = 1e4  # from this sigma^2 on, sums and the normal distribution agree to a hundredth of a person


def half_width(noise: NoiseSpec, share: float = SHARE) -> int:
    """The least whole h such that the noise is from -h to h with a probability of at least `share`."""
    scale = float(noise.scale)
    if noise.mechanism == "discrete_laplace":
        # P(|X| > h) = 2 a^(h + 1) / (1 + a), a = exp(-1 / b).
        ratio = math.exp(-1 / scale)
        return max(0, math.ceil(-scale * math.log((1 - share) * (1 + ratio) / 2) - 1 - 1e-9))
    if scale >= _WIDE:
        z = _Z if share == SHARE else NormalDist().inv_cdf((1 + share) / 2)
        return math.ceil(z * math.sqrt(scale) - 0.5)
    last = math.ceil(12 * math.sqrt(scale)) + 2
    weights = [math.exp(-k * k / (2 * scale)) for k in range(last)]
    total, inside, half = 2 * math.fsum(weights) - 1, 1.0, 0
    while inside < share * total:
        half += 1
        inside += 2 * weights[half]
    return half


def ratio_interval(
    top: float, bottom: float, variances: tuple[float, float], z: float = _Z
) -> tuple[float, float] | None:
    """The interval of a ratio of two numbers with independent, about normal errors; None where it has no ends.

    All r for which top - r bottom is within z of its standard deviations (Fieller 1954, "Some problems in interval
    estimation"). Where the bottom itself is not surely other than 0, there are ratios of any size.

    Args:
        top, bottom: with their errors.
        variances: of the two errors.
        z: quantile of the normal distribution.
    """
    of_top, of_bottom = variances
    lead = bottom * bottom - z * z * of_bottom
    if bottom <= 0 or lead <= 0:
        return None
    root = z * math.sqrt(of_top * lead + of_bottom * top * top)
    return (top * bottom - root) / lead, (top * bottom + root) / lead
