"""The exponential mechanism chooses with exactly its probabilities and so keeps its guarantee; `select` uses it."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import exponential
from pipeline.privacy.noise.exponential import Exponential, cumulative
from pipeline.privacy.noise.select import Select

KEY = MasterKey.from_text("insecure-test:1").stream_key(("input", "spine", "privacy"), "tract", "select detail")
DETAIL = Select("detail", (("total", 0), ("age", 50), ("age by race", 500)), Fraction(1, 10))

LOSSES = st.lists(st.integers(0, 60), min_size=1, max_size=6)
EPSILONS = st.fractions(Fraction(1, 50), Fraction(3))


def exact(epsilon: Fraction, losses: list[int]) -> list[Decimal]:
    """The probabilities from the definition, to 60 digits."""
    with localcontext(prec=60):
        rate = Decimal(epsilon.numerator) / Decimal(epsilon.denominator) / 2
        weights = [(-rate * loss).exp() for loss in losses]
        return [weight / sum(weights) for weight in weights]


# The distribution


@given(epsilon=EPSILONS, losses=LOSSES, shift=st.integers(-1000, 1000))
def test_probabilities_are_those_of_the_definition(epsilon: Fraction, losses: list[int], shift: int) -> None:
    """Whatever is added to all losses alike."""
    found = Exponential(epsilon).probabilities([loss + shift for loss in losses])
    for p, q in zip(found, exact(epsilon, losses), strict=True):
        assert p == pytest.approx(float(q), rel=1e-12, abs=1e-30)


@settings(max_examples=40)
@given(epsilon=EPSILONS, losses=LOSSES, bits=st.integers(64, 300))
def test_enclosures_hold_the_cumulative_probabilities_and_are_tight(
    epsilon: Fraction, losses: list[int], bits: int
) -> None:
    reduced = [loss - min(losses) for loss in losses]
    found = cumulative(epsilon, reduced, bits)
    with localcontext(prec=120):
        rate = Decimal(epsilon.numerator) / Decimal(epsilon.denominator) / 2
        weights = [(-rate * loss).exp() for loss in reduced]
        for j, (low, high) in enumerate(found):
            value = sum(weights[: j + 1]) / sum(weights) * 2**bits
            assert low <= value <= high
            assert high - low < 2**16


class _Words:
    """A stream that gives chosen words: the first ones, or the further ones of position 0."""

    first: list[int]
    further: list[int]

    def __init__(self, key: bytes) -> None:
        self._words = self.first if key == b"draws" else self.further

    def words(self, start: int, count: int) -> NDArray[np.uint64]:
        return np.array(self._words[start : start + count], dtype=np.uint64)


def choose(monkeypatch: pytest.MonkeyPatch, losses: list[int], epsilon: Fraction, *words: int) -> int:
    """The choice at the uniform that these words begin."""
    kind = type("Words", (_Words,), {"first": [words[0]], "further": [*words[1:], *[0] * 5]})
    monkeypatch.setattr(exponential, "Stream", kind)
    monkeypatch.setattr(exponential, "draws_key", lambda _: b"draws")
    monkeypatch.setattr(exponential, "refinement_key", lambda _: b"refinement")
    return int(Exponential(epsilon).draw(KEY, np.array([losses]))[0])


@pytest.mark.parametrize("losses", [[0, 3, 8], [5, 0, 1], [2, 2, 0, 0], [0, 100], [100, 0]], ids=str)
def test_words_that_do_not_decide_take_further_ones(losses: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """On either side of every boundary, told apart at 64, 128 and 192 bits."""
    epsilon = Fraction(1, 3)
    with localcontext(prec=120):
        probabilities = exact_wide(epsilon, losses)
        for j in range(len(losses) - 1):
            boundary = int(sum(probabilities[: j + 1]) * 2**192)
            for bits in (64, 128, 192):
                at = boundary >> (192 - bits)
                for digits, expected in ((at - 1, j), (at + 1, j + 1)):
                    if not 0 <= digits < 1 << bits:
                        continue
                    words = [digits >> (bits - 64 * (i + 1)) & (2**64 - 1) for i in range(bits // 64)]
                    below = words + [2**64 - 1] * 3 if expected == j else words
                    assert choose(monkeypatch, losses, epsilon, *below) == expected, (j, bits)


def exact_wide(epsilon: Fraction, losses: list[int]) -> list[Decimal]:
    rate = Decimal(epsilon.numerator) / Decimal(epsilon.denominator) / 2
    weights = [(-rate * loss).exp() for loss in losses]
    return [weight / sum(weights) for weight in weights]


def test_a_boundary_at_an_exact_half_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """No precision separates an enclosure from its own middle; further words separate the uniform from it."""
    for losses, half in (([0, 5, 0, 5], 1), ([0, 0], 0)):
        assert choose(monkeypatch, losses, Fraction(1, 3), 2**63 - 1, 2**64 - 1, 5) == half
        assert choose(monkeypatch, losses, Fraction(1, 3), 2**63, 0, 5) == half + 1
        assert choose(monkeypatch, losses, Fraction(1, 3), 2**63, 7) == half + 1


def test_a_stream_that_never_decides_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    boundary = cumulative(Fraction(1, 3), [0, 3], 64 * 80)[0][0]
    words = [boundary >> (64 * (79 - i)) & (2**64 - 1) for i in range(80)]
    with pytest.raises(RuntimeError, match="left a choice undecided"):
        choose(monkeypatch, [0, 3], Fraction(1, 3), *words)


# The guarantee


def worst(epsilon: Fraction, losses: list[int], move: int) -> tuple[float, float]:
    """The largest log ratio, and the largest Renyi divergence over its order, over all moves of each loss by `move`."""
    mechanism, ratio, divergence = Exponential(epsilon), 0.0, 0.0
    p = np.array(mechanism.probabilities(losses))
    for moves in itertools.product((-move, 0, move), repeat=len(losses)):
        q = np.array(mechanism.probabilities([a + b for a, b in zip(losses, moves, strict=True)]))
        ratio = max(ratio, float(np.abs(np.log(p / q)).max()))
        for order in (1.01, 2.0, 8.0, 64.0):
            total = math.fsum(np.exp(order * np.log(p) + (1 - order) * np.log(q)))
            divergence = max(divergence, math.log(total) / (order - 1) / order)
    return ratio, divergence


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
@pytest.mark.parametrize("losses", [[0, 0, 0], [0, 4, 9], [0, 1], [7, 0, 3, 3]], ids=str)
def test_neighbours_are_as_close_as_claimed_and_no_closer_than_half(epsilon: str, losses: list[int]) -> None:
    """epsilon and rho hold for every way to move the losses by one; were a loss to move by two, neither would."""
    mechanism = Exponential(Fraction(epsilon))
    ratio, divergence = worst(mechanism.scale, losses, 1)
    assert ratio <= float(mechanism.epsilon(1)) * (1 + 1e-9)
    assert divergence <= float(mechanism.rho(1)) * (1 + 1e-6)
    ratio, divergence = worst(mechanism.scale, losses, 2)
    assert ratio > float(mechanism.epsilon(1))
    if losses == [0, 0, 0]:
        assert divergence > float(mechanism.rho(1))


# Select


def test_the_losses_are_the_distance_to_the_populations_that_a_version_is_meant_for() -> None:
    found = DETAIL.losses(np.array([0, 49, 50, 499, 500, 10**7]))
    assert found.tolist() == [
        [0, 50, 500], [0, 1, 451], [1, 0, 450], [450, 0, 1], [451, 1, 0], [9999951, 9999501, 0],
    ]  # fmt: skip
    every = DETAIL.losses(np.arange(2000))
    assert np.abs(np.diff(every, axis=0)).max() == 1, "one person more or less moves a loss by one at most"
    assert (every.min(axis=1) == 0).all()


def test_versions_far_from_the_population_are_as_rare_as_stated() -> None:
    """At most k exp(-epsilon t / 2) for a loss of t or more; and near a threshold both neighbours do get chosen."""
    population = np.full(200_000, 400)
    chosen = DETAIL.choose(KEY, population)
    counts = np.bincount(chosen, minlength=3)
    assert counts[1] > 198_000
    assert counts[2] <= 200_000 * 3 * math.exp(-0.1 * 100 / 2)
    near = np.bincount(DETAIL.choose(KEY, np.full(10_000, 499)), minlength=3)
    assert min(near[1:]) > 4000
    assert DETAIL.names(chosen[:1]) == ["age"]


@pytest.mark.parametrize(
    ("name", "versions", "epsilon", "match"),
    [
        ("a b", (("x", 0),), 1, "cannot name a choice"),
        ("a", (), 1, "at least one"),
        ("a", (("x", 0), ("x", 5)), 1, "each once"),
        ("a", (("x", 1),), 1, "must rise from 0"),
        ("a", (("x", 0), ("y", 0)), 1, "must rise from 0"),
        ("a", (("x", 0),), 0, "must be above 0"),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused(
    name: str, versions: tuple[tuple[str, int], ...], epsilon: int, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        Select(name, versions, Fraction(epsilon))


def test_a_negative_population_is_an_error_that_does_not_show_it() -> None:
    with pytest.raises(ValueError, match=r"found a negative population$"):
        DETAIL.choose(KEY, np.array([5, -3]))
