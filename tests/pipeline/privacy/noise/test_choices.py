"""Choices have exactly the probabilities of their definitions and so keep their guarantees; `select` uses one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import choices, streams
from pipeline.privacy.noise.choices import Exponential, PermuteAndFlip, Select, cumulative

KEY = MasterKey.from_text("insecure-test:1").stream_key(("input", "spine", "privacy"), "tract", "select detail")
DETAIL = Select("detail", (("total", 0), ("age", 50), ("age by race", 500)), Fraction(1, 10))

LOSSES = st.lists(st.integers(0, 60), min_size=1, max_size=6)
EPSILONS = st.fractions(Fraction(1, 50), Fraction(3))


def exact(epsilon: Fraction, losses: list[int], digits: int = 60) -> list[Decimal]:
    """The probabilities of the exponential mechanism from the definition."""
    with localcontext(prec=digits):
        rate = Decimal(epsilon.numerator) / Decimal(epsilon.denominator) / 2
        weights = [(-rate * loss).exp() for loss in losses]
        return [weight / sum(weights) for weight in weights]


# The exponential mechanism


@given(epsilon=EPSILONS, losses=LOSSES, shift=st.integers(-1000, 1000))
def test_exponential_probabilities_are_those_of_the_definition(
    epsilon: Fraction, losses: list[int], shift: int
) -> None:
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
        probabilities = exact(epsilon, reduced, 120)
        for j, (low, high) in enumerate(found):
            value = sum(probabilities[: j + 1]) * 2**bits
            assert low <= value <= high
            assert high - low < 2**16


class _Given:
    """A stream that gives chosen words: the first ones, or the further ones of position 0."""

    first: list[int]
    further: list[int]

    def __init__(self, key: bytes) -> None:
        self._words = self.first if key == b"draws" else self.further

    def words(self, start: int, count: int) -> NDArray[np.uint64]:
        return np.array(self._words[start : start + count], dtype=np.uint64)


def give(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """Let choices be drawn from streams of this kind."""
    for module in (choices, streams):
        monkeypatch.setattr(module, "Stream", kind)
    monkeypatch.setattr(choices, "draws_key", lambda _: b"draws")
    monkeypatch.setattr(streams, "refinement_key", lambda _: b"refinement")


def choose(monkeypatch: pytest.MonkeyPatch, losses: list[int], epsilon: Fraction, *words: int) -> int:
    """The choice at the uniform that these words begin."""
    give(monkeypatch, type("Words", (_Given,), {"first": [words[0]], "further": [*words[1:], *[0] * 5]}))
    return int(Exponential(epsilon).draw(KEY, np.array([losses]))[0])


@pytest.mark.parametrize("losses", [[0, 3, 8], [5, 0, 1], [2, 2, 0, 0], [0, 100], [100, 0]], ids=str)
def test_words_that_do_not_decide_take_further_ones(losses: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """On either side of every boundary, told apart at 64, 128 and 192 bits."""
    epsilon = Fraction(1, 3)
    with localcontext(prec=120):
        probabilities = exact(epsilon, losses, 120)
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


def heads(epsilon: Fraction, losses: list[int]) -> list[Fraction]:
    """The probabilities of the coins to 60 digits, from then on taken as exact."""
    with localcontext(prec=60):
        rate = Decimal(epsilon.numerator) / Decimal(epsilon.denominator) / 2
        return [Fraction((-rate * (loss - min(losses))).exp()) for loss in losses]


def in_all_orders(coins: list[Fraction]) -> list[Fraction]:
    """The definition (McKenna and Sheldon 2020, algorithm 1): a coin after the other, for each order alike."""
    found, orders = [Fraction(0)] * len(coins), list(itertools.permutations(range(len(coins))))
    for order in orders:
        left = Fraction(1)
        for one in order:
            found[one] += left * coins[one] / len(orders)
            left *= 1 - coins[one]
    return found


def by_integral(coins: list[Fraction]) -> list[Fraction]:
    """w_j times the integral of the product of 1 - s w_i over the others, as polynomials in s."""
    found = []
    for j, own in enumerate(coins):
        polynomial = [Fraction(1)]
        for other in (*coins[:j], *coins[j + 1 :]):
            shifted = [Fraction(0), *polynomial]
            polynomial = [a - other * b for a, b in zip([*polynomial, Fraction(0)], shifted, strict=True)]
        found.append(own * sum(term / (power + 1) for power, term in enumerate(polynomial)))
    return found


# Permute-and-flip


@settings(max_examples=40)
@given(
    epsilon=st.fractions(Fraction(1, 50), Fraction(3), max_denominator=1000),
    losses=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    shift=st.integers(-1000, 1000),
)
def test_probabilities_of_permute_and_flip_are_by_definition(epsilon: Fraction, losses: list[int], shift: int) -> None:
    """The integral is the sum over all orders, exactly; and what the program computes is either."""
    coins = heads(epsilon, losses)
    right = in_all_orders(coins)
    assert by_integral(coins) == right
    assert sum(right) == 1
    found = PermuteAndFlip(epsilon).probabilities([loss + shift for loss in losses])
    assert found == pytest.approx([float(p) for p in right], rel=1e-11)


def test_what_is_drawn_together_is_what_is_drawn_one_by_one() -> None:
    """By the path that takes as many words as it needs."""
    mechanism, losses = PermuteAndFlip(Fraction(1, 2)), np.random.default_rng(1).integers(0, 9, (300, 3))
    above = (losses - losses.min(axis=1, keepdims=True)).tolist()
    slow = [mechanism._one_by_one(KEY, row, 6 * position) for position, row in enumerate(above)]
    assert mechanism.draw(KEY, losses).tolist() == slow


class _Words:
    """A stream whose words are given by number: the first ones, or the further ones of each."""

    given: dict[tuple[int, int], int]

    def __init__(self, key: bytes) -> None:
        self._further = key == b"refinement"

    def words(self, start: int, count: int) -> NDArray[np.uint64]:
        return np.array([self._one(start + i) for i in range(count)], dtype=np.uint64)

    def _one(self, number: int) -> int:
        word, further = divmod(number, 2**65) if self._further else (number, -1)
        return self.given.get((word, further + 1), 2**63)


def flip(
    monkeypatch: pytest.MonkeyPatch, losses: list[int], epsilon: Fraction, words: dict[int, tuple[int, ...]]
) -> int:
    """The choice at position 0 with these words of each number, all others being the middle."""
    drawn = {(number, place): word for number, these in words.items() for place, word in enumerate(these)}
    give(monkeypatch, type("Words", (_Words,), {"given": drawn}))
    return int(PermuteAndFlip(epsilon).draw(KEY, np.array([losses]))[0])


LAST = 2**64 - 1


@pytest.mark.parametrize("loss", [1, 3, 8, 100, 500])
def test_coins_that_a_word_does_not_decide_take_further_ones(loss: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On either side of the probability, told apart at 64, 128 and 192 bits; the turn of the candidate is the first."""
    epsilon = Fraction(1, 3)
    with localcontext(prec=200):
        boundary = int((-Decimal(loss) / 6).exp() * 2**192)
    for bits in (64, 128, 192):
        at = boundary >> (192 - bits)
        for digits, expected in ((at - 1, 1), (at + 1, 0)):
            if digits < 0:
                continue
            words = [digits >> (bits - 64 * (i + 1)) & LAST for i in range(bits // 64)]
            coin = (*words, *[LAST if expected else 0] * 3)
            found = flip(monkeypatch, [0, loss], epsilon, {1: (5,), 2: coin, 3: (4,)})
            assert found == expected, (bits, expected)


@pytest.mark.parametrize("word", [0, 7, LAST])
def test_turns_that_are_the_same_take_further_words(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Fraction(1, 3)
    for more, chosen in (((1, 2), 0), ((2, 1), 1), ((9, 9, 3, 4), 0), ((9, 9, 4, 3), 1)):
        turns = {1: (word, *more[0::2]), 3: (word, *more[1::2])}
        assert flip(monkeypatch, [0, 0], one, turns) == chosen
        # A third candidate, whose coin shows tails, has had the least turn.
        assert flip(monkeypatch, [0, 0, 3], one, turns | {4: (LAST,), 5: (0,)}) == chosen
    assert flip(monkeypatch, [0, 0, 3], one, {1: (word, 5), 3: (word, 6), 4: (0,), 5: (word, 4)}) == 2


def test_a_last_word_is_a_turn_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate without loss is chosen though its turn is the last of all, where the other's coin shows tails."""
    assert flip(monkeypatch, [3, 0], Fraction(1, 3), {0: (LAST,), 1: (0,), 3: (LAST,)}) == 1
    assert flip(monkeypatch, [3, 0], Fraction(1, 3), {0: (0,), 1: (LAST, 1), 3: (LAST, 2)}) == 0


def test_streams_that_never_decide_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="left a choice undecided"):
        flip(monkeypatch, [0, 0], Fraction(1, 3), {})
    with localcontext(prec=1600):
        boundary = int((-Decimal(1) / 6).exp() * 2 ** (64 * 80))
    words = tuple(boundary >> (64 * (79 - i)) & LAST for i in range(80))
    with pytest.raises(RuntimeError, match="left a coin undecided"):
        flip(monkeypatch, [0, 1], Fraction(1, 3), {2: words})


# The guarantees


@pytest.mark.parametrize("choice", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
@pytest.mark.parametrize("losses", [[0, 0, 0], [0, 4, 9], [0, 1], [7, 0, 3, 3], [0, 40, 40]], ids=str)
def test_neighbours_are_as_close_as_claimed(
    choice: type[Exponential] | type[PermuteAndFlip], epsilon: str, losses: list[int]
) -> None:
    """epsilon and rho hold for every way to move the losses by one; were a loss to move by two, neither would."""
    mechanism = choice(Fraction(epsilon))
    p = np.array(mechanism.probabilities(losses))
    for move in (1, 2):
        ratio = divergence = 0.0
        for moves in itertools.product((-move, 0, move), repeat=len(losses)):
            q = np.array(mechanism.probabilities([a + b for a, b in zip(losses, moves, strict=True)]))
            ratio = max(ratio, float(np.abs(np.log(p / q)).max()))
            for order in (1.01, 2.0, 8.0, 64.0):
                total = math.fsum(np.exp(order * np.log(p) + (1 - order) * np.log(q)))
                divergence = max(divergence, math.log(total) / (order - 1) / order)
        if move == 1:
            assert ratio <= float(mechanism.epsilon(1)) * (1 + 1e-9)
            assert divergence <= float(mechanism.rho(1)) * (1 + 1e-6)
        elif choice is Exponential:
            assert ratio > float(mechanism.epsilon(1))
            assert divergence > float(mechanism.rho(1)) or losses != [0, 0, 0]


# Select


def test_the_losses_are_the_distance_to_the_populations_that_a_version_is_meant_for() -> None:
    found = DETAIL.losses(np.array([0, 49, 50, 499, 500, 10**7]))
    assert found.tolist() == [
        [0, 50, 500], [0, 1, 451], [1, 0, 450], [450, 0, 1], [451, 1, 0], [9999951, 9999501, 0],
    ]  # fmt: skip
    every = DETAIL.losses(np.arange(2000))
    assert np.abs(np.diff(every, axis=0)).max() == 1, "one person more or less moves a loss by one at most"
    assert (every.min(axis=1) == 0).all()


def test_a_negative_population_is_an_error_that_does_not_show_it() -> None:
    with pytest.raises(ValueError, match=r"found a negative population$"):
        DETAIL.choose(KEY, np.array([5, -3]))


# What is drawn: each with its power arm

Choice = type[Exponential] | type[PermuteAndFlip]
#: Draws of a test, and the level at which it rejects; an epsilon 5 % off has to be rejected at that level.
DRAWS, ALPHA = 150_000, 1e-6
ROWS = [[0, 1, 5, 9], [9, 0, 9, 0], [20, 0, 7], [2, 2, 2, 2, 2]]
CHOICES: dict[Choice, Callable[[Fraction, list[int]], NDArray[np.float64]]] = {
    Exponential: lambda epsilon, losses: np.array([*map(float, exact(epsilon, losses))]),
    PermuteAndFlip: lambda epsilon, losses: np.array([*map(float, in_all_orders(heads(epsilon, losses)))]),
}
EACH_CHOICE = pytest.mark.parametrize("choice", CHOICES, ids=lambda one: one.__name__)


def drawn(mechanism: Exponential | PermuteAndFlip, losses: list[int]) -> NDArray[np.int64]:
    return mechanism.draw(KEY, np.tile(np.array(losses, dtype=np.int64), (DRAWS, 1)))


def p_value(chosen: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    found = np.bincount(chosen, minlength=len(expected))
    return float(stats.chisquare(found, expected * chosen.size).pvalue)


@EACH_CHOICE
@pytest.mark.parametrize("losses", ROWS, ids=str)
def test_choices_follow_the_exact_distribution(choice: Choice, losses: list[int]) -> None:
    """And those of an epsilon 5 % off do not pass, nor those of the other mechanism."""
    epsilon = Fraction(1, 3)
    expected = CHOICES[choice](epsilon, losses)
    assert p_value(drawn(choice(epsilon), losses), expected) > ALPHA
    if losses == ROWS[0]:
        (other,) = CHOICES.keys() - {choice}
        for wrong in (
            *(choice(epsilon * factor) for factor in (Fraction(95, 100), Fraction(105, 100))),
            other(epsilon),
        ):
            assert p_value(drawn(wrong, losses), expected) < ALPHA


@EACH_CHOICE
def test_choices_at_different_positions_are_independent(choice: Choice) -> None:
    """Pairs of choices one after the other have the product of their probabilities."""
    epsilon, losses = Fraction(1, 2), [0, 2, 3]
    pairs = drawn(choice(epsilon), losses).reshape(-1, 2)
    one = CHOICES[choice](epsilon, losses)
    assert p_value(3 * pairs[:, 0] + pairs[:, 1], np.outer(one, one).ravel()) > ALPHA


@EACH_CHOICE
def test_a_choice_depends_on_key_position_and_losses_only(choice: Choice) -> None:
    mechanism = choice(Fraction(1, 4))
    losses = np.random.default_rng(0).integers(0, 12, (1000, 4))
    whole = mechanism.draw(KEY, losses)
    for size in (1, 37, 999):
        pieces = [mechanism.draw(KEY, losses[i : i + size], i) for i in range(0, 1000, size)]
        assert np.array_equal(whole, np.concatenate(pieces))
    assert np.array_equal(whole, mechanism.draw(KEY, losses + 5))
    assert not np.array_equal(whole, mechanism.draw(bytes(32), losses))
    assert mechanism.draw(KEY, losses[:0]).shape == (0,)
    assert np.array_equal(mechanism.draw(KEY, losses[:, :1]), np.zeros(1000, dtype=np.int64))


@EACH_CHOICE
@pytest.mark.parametrize(
    ("losses", "start", "match"),
    [
        (np.zeros((3, 0), dtype=np.int64), 0, "shape"),
        (np.zeros((3, 2), dtype=np.int64), -1, "start"),
        (np.full((3, 2), 2**62), 0, "beyond"),
    ],
)
def test_senseless_losses_are_refused(choice: Choice, losses: NDArray[np.int64], start: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        choice(Fraction(1)).draw(KEY, losses, start)
