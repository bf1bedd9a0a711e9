"""Intervals of noisy numbers, compared with the exact tails of the sampler and with simulation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pipeline.privacy.budget import Mechanism, NoiseSpec
from pipeline.privacy.noise.tails import tails
from pipeline.questions.intervals import half_width, ratio_interval


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(2), Fraction(20), Fraction(500)])
def test_the_half_width_is_the_least_that_covers(mechanism: Mechanism, scale: Fraction) -> None:
    noise = NoiseSpec(mechanism, scale)
    table, half = tails(noise, 64), half_width(noise)
    one = 1 << table.bits
    assert 2 * table.upper[half + 1] <= one / 10 * (1 + 1e-9)
    assert half == 0 or 2 * table.lower[half] > one / 10 * (1 - 1e-9)


def test_the_interval_of_a_ratio_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    truth, size, sds = 3000.0, 200.0, (400.0, 30.0)
    draws = zip(rng.normal(truth, sds[0], 4000), rng.normal(size, sds[1], 4000), strict=True)
    ends = [ratio_interval(top, bottom, (sds[0] ** 2, sds[1] ** 2)) for top, bottom in draws]
    covered = np.mean([end is None or end[0] <= truth / size <= end[1] for end in ends])
    assert 0.885 <= covered <= 0.915
    without = np.mean([abs(end[1] - end[0]) / 2 for end in ends if end is not None])
    assert without > 1.6 * sds[0] / size  # the noise of the count counts


def test_a_ratio_to_what_may_be_zero_has_no_ends() -> None:
    assert ratio_interval(10, 5, (1, 100)) is None
    assert ratio_interval(10, -50, (1, 1)) is None
