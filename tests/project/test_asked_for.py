"""What users asked for is there: the program's number is the textbook's, which a few lines give."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import SupportsFloat

import pytest

from pipeline.privacy.accounting.conversion import advanced_composition, basic_epsilon, moments_epsilon, zcdp_epsilon
from pipeline.privacy.accounting.pld import pld_epsilon
from pipeline.privacy.budget import NoiseSpec, noise_for
from pipeline.privacy.noise.choices import Exponential
from spinewise.collect import OptimisedUnaryEncoding, RandomisedResponse, Rappor

ONE, HALF, DELTA = Fraction(1), Fraction(1, 2), Fraction(1, 100)
E, Q = math.e, math.exp(-1)
RHO_OF_PERSONS = Fraction(293_764, 114_921)  # of the 2020 redistricting data, United States
OF_RAPPOR = Rappor(bits=32, hashes=2, cohorts=4, f=HALF, p=HALF, q=Fraction(3, 4))

#: What was asked for, the program's number, and the textbook's.
NUMBERS: dict[str, tuple[SupportsFloat | None, float]] = {
    "Laplace: b = 1 / epsilon": (noise_for("pure", HALF, ONE, ONE, "add-remove").scale, 2),
    "Laplace: epsilon = 1 / b": (NoiseSpec("discrete_laplace", Fraction(2)).epsilon(1), 1 / 2),
    "Laplace: variance": (NoiseSpec("discrete_laplace", ONE).variance, 2 * Q / (1 - Q) ** 2),
    "Gaussian: sigma^2 = 1 / (2 rho)": (noise_for("zcdp", HALF, ONE, ONE, "add-remove").scale, 1),
    "Gaussian: rho = 1 / (2 sigma^2)": (NoiseSpec("discrete_gaussian", Fraction(4)).rho(1), 1 / 8),
    "exponential mechanism: odds exp(epsilon / 2) a loss": (Exponential(ONE).probabilities([0, 2])[0], E / (E + 1)),
    "sequential composition": (basic_epsilon([HALF] * 3, DELTA), 3 * zcdp_epsilon(HALF, DELTA / 3)),
    "advanced composition": (
        advanced_composition([0.1] * 1000, DELTA),
        1000 * 0.1 * (math.exp(0.1) - 1) / (math.exp(0.1) + 1) + math.sqrt(2 * math.log(100) * 1000 * 0.1**2),
    ),
    "moments (Renyi)": (
        moments_epsilon(HALF, DELTA),
        min(order * 0.5 + math.log(100) / (order - 1) for order in (1 + k / 1000 for k in range(1, 10_000))),
    ),
    "privacy loss distributions: delta = (1 - exp(epsilon - 1)) / (1 + q)": (
        pld_epsilon([(NoiseSpec("discrete_laplace", ONE), 1)], DELTA),
        1 + math.log(1 - float(DELTA) * (1 + Q)),
    ),
    "randomised response": (RandomisedResponse.for_epsilon(ONE).p, E / (E + 1)),
    "unary encoding": (OptimisedUnaryEncoding.for_epsilon(10, ONE).q, 1 / (E + 1)),
    "RAPPOR: ((1 - f/2) / (f/2))^(2h) for ever": (OF_RAPPOR.for_ever.ratio if OF_RAPPOR.for_ever else None, 3**4),
    "RAPPOR: one report": (OF_RAPPOR.bound.ratio, (11 / 16 * (1 - 9 / 16) / (9 / 16 * (1 - 11 / 16))) ** 2),
    "Census of 2020: its epsilon": (round(zcdp_epsilon(RHO_OF_PERSONS, Fraction(1, 10**10)), 2), 17.14),
}  # fmt: skip


@pytest.mark.parametrize("what", NUMBERS)
def test_it_has_the_number_of_the_textbook(what: str) -> None:
    found, textbook = NUMBERS[what]
    assert found is not None
    assert float(found) == pytest.approx(textbook, rel=1e-3 if "loss dist" in what else 1e-6)
