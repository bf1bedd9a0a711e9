"""Margins of error come from public things alone, and the same ones from any number of workers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pipeline.estimation.margins import PublicNoise
from pipeline.privacy.budget import NoiseSpec


def test_simulated_noise_is_the_distribution_drawn_from_the_public_seed() -> None:
    spec = NoiseSpec("discrete_gaussian", Fraction(25))
    noise = PublicNoise(3, "", (((spec,), (spec,)),), (None,))
    drawn = noise.draw(0, 0, 0, 0, (400, 50))
    assert np.array_equal(drawn, noise.draw(0, 0, 0, 0, (400, 50)))
    assert drawn.std() == pytest.approx(5, rel=0.03)
    others = [noise.draw(1, 0, 0, 0, (400, 50)), noise.draw(0, 0, 1, 0, (400, 50))]
    others += [
        PublicNoise(s, u, (((spec,),),), (None,)).draw(0, 0, 0, 0, (400, 50)) for s, u in ((4, ""), (3, "units"))
    ]
    for other in others:
        assert abs(np.corrcoef(drawn.ravel(), other.ravel())[0, 1]) < 0.04


def test_simulated_noise_follows_the_kinds_of_geounits() -> None:
    kinds = np.array([0, 1, -1, 1] * 100, dtype=np.int8)
    specs = (NoiseSpec("discrete_gaussian", Fraction(25)), NoiseSpec("discrete_gaussian", Fraction(4)))
    drawn = PublicNoise(3, "", ((specs,),), (kinds,)).draw(0, 0, 0, 0, (400, 50))
    assert drawn[kinds == 0].std() == pytest.approx(5, rel=0.04)
    assert drawn[kinds == 1].std() == pytest.approx(2, rel=0.04)


@pytest.mark.parametrize("kinds", [None, np.array([0, 1, -1, 1] * 100, dtype=np.int8)])
def test_simulated_noise_does_not_depend_on_how_much_is_drawn_at_a_time(kinds: np.ndarray | None) -> None:
    specs = (NoiseSpec("discrete_gaussian", Fraction(25)), NoiseSpec("discrete_gaussian", Fraction(4)))
    noise = PublicNoise(3, "", ((specs,),), (kinds,))
    whole = noise.draw(0, 0, 0, 0, (400, 7))
    parts = [noise.draw(0, 0, 0, first, (min(33, 400 - first), 7)) for first in range(0, 400, 33)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert not np.array_equal(parts[0], parts[1])
