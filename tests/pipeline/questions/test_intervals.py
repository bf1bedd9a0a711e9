"""Intervals of noisy numbers, compared with the exact tails of the sampler."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeline.privacy.budget import Mechanism, NoiseSpec
from pipeline.privacy.noise.sampler import tails
from pipeline.questions.intervals import half_width


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(2), Fraction(20), Fraction(500)])
def test_the_half_width_is_the_least_that_covers(mechanism: Mechanism, scale: Fraction) -> None:
    noise = NoiseSpec(mechanism, scale)
    table, half = tails(noise, 64), half_width(noise)
    one = 1 << table.bits
    assert 2 * table.upper[half + 1] <= one / 10 * (1 + 1e-9)
    assert half == 0 or 2 * table.lower[half] > one / 10 * (1 - 1e-9)
