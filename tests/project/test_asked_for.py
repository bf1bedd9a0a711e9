"""What users asked for is there: the program's number is the textbook's, which a few lines give."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import SupportsFloat

import pytest

from pipeline.privacy.accounting.conversion import (
    advanced_composition,
    basic_epsilon,
    zcdp_epsilon,
    zcdp_epsilon_textbook,
)
from pipeline.privacy.noise.mechanisms import noise_for
from spinewise.collect import Rappor

ONE, HALF, DELTA = Fraction(1), Fraction(1, 2), Fraction(1, 100)
OF_RAPPOR = Rappor(bits=32, hashes=2, cohorts=4, f=HALF, p=HALF, q=Fraction(3, 4))

#: What was asked for, the program's number, and the textbook's.
NUMBERS: dict[str, tuple[SupportsFloat | None, float]] = {
    "Laplace: b = 1 / epsilon": (noise_for("pure", HALF, ONE, ONE, "add-remove").scale, 2),
    "Gaussian: sigma^2 = 1 / (2 rho)": (noise_for("zcdp", HALF, ONE, ONE, "add-remove").scale, 1),
    "sequential composition": (basic_epsilon([HALF] * 3, DELTA), 3 * zcdp_epsilon(HALF, DELTA / 3)),
    "advanced composition": (
        advanced_composition([0.1] * 1000, DELTA),
        1000 * 0.1 * (math.exp(0.1) - 1) / (math.exp(0.1) + 1) + math.sqrt(2 * math.log(100) * 1000 * 0.1**2),
    ),
    "moments (Renyi)": (
        zcdp_epsilon_textbook(HALF, DELTA),
        min(order * 0.5 + math.log(100) / (order - 1) for order in (1 + k / 1000 for k in range(1, 10_000))),
    ),
    "RAPPOR: ((1 - f/2) / (f/2))^(2h) for ever": (OF_RAPPOR.for_ever.ratio if OF_RAPPOR.for_ever else None, 3**4),
    "RAPPOR: one report": (OF_RAPPOR.bound.ratio, (11 / 16 * (1 - 9 / 16) / (9 / 16 * (1 - 11 / 16))) ** 2),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_it_has_the_number_of_the_textbook(what: str) -> None:
    found, textbook = NUMBERS[what]
    assert found is not None
    assert float(found) == pytest.approx(textbook, rel=1e-6)
