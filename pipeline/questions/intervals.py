"""90 % intervals of noisy numbers, from the noise alone."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

from pipeline.privacy.budget import NoiseSpec
from postprocess.statistics import COVERAGE, NORMAL_QUANTILE

_WIDE: Final = 1e4  # from this sigma^2 on, sums and the normal distribution agree to a hundredth of a person


def half_width(noise: NoiseSpec, share: float = COVERAGE) -> int:
    """The least whole h such that the noise is from -h to h with a probability of at least `share`."""
    scale = float(noise.scale)
    if noise.mechanism == "discrete_laplace":
        # P(|X| > h) = 2 a^(h + 1) / (1 + a), a = exp(-1 / b).
        ratio = math.exp(-1 / scale)
        return max(0, math.ceil(-scale * math.log((1 - share) * (1 + ratio) / 2) - 1 - 1e-9))
    if scale >= _WIDE:
        z = NORMAL_QUANTILE if share == COVERAGE else NormalDist().inv_cdf((1 + share) / 2)
        return math.ceil(z * math.sqrt(scale) - 0.5)
    last = math.ceil(12 * math.sqrt(scale)) + 2
    weights = [math.exp(-k * k / (2 * scale)) for k in range(last)]
    total, inside, half = 2 * math.fsum(weights) - 1, 1.0, 0
    while inside < share * total:
        half += 1
        inside += 2 * weights[half]
    return half
