"""Exact numbers are shown rounded to people, also those that no float can hold."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from pipeline.errors import InputError
from pipeline.privacy.budget import LARGEST_SCALE, NoiseSpec, rounded_text


def test_numbers_that_a_float_holds_are_as_it_shows_them() -> None:
    draw = random.Random(3)
    for _ in range(500):
        value = Fraction(draw.randrange(-(10**30), 10**30), draw.randrange(1, 10**30))
        assert rounded_text(value, 4) == f"{float(value):.4g}"
    assert rounded_text(Fraction(0), 4) == "0"


@pytest.mark.parametrize("power", [309, 400, 4_000])
def test_others_have_their_digits_and_power(power: int) -> None:
    assert rounded_text(Fraction(2, 3) * 10**power, 3) == f"6.67e+{power - 1}"
    assert rounded_text(Fraction(-2, 3) / 10 ** (power + 20), 3) == f"-6.67e-{power + 21}"


@pytest.mark.parametrize("mechanism", sorted(LARGEST_SCALE))
def test_a_scale_that_no_float_holds_is_refused_in_a_sentence(mechanism: str) -> None:
    with pytest.raises(InputError, match=r"noise scale: found .* = 1\.000e\+400; at most"):
        NoiseSpec(mechanism, Fraction(10) ** 400)  # type: ignore[arg-type]
