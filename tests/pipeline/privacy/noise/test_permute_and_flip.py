"""Permute-and-flip chooses with exactly the probabilities of its definition, and keeps its guarantee."""

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

from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise import permute_and_flip
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip

KEY = MasterKey.from_text("insecure-test:1").stream_key(("input", "spine", "privacy"), "tract", "quantile")

LOSSES = st.lists(st.integers(0, 30), min_size=1, max_size=5)
EPSILONS = st.fractions(Fraction(1, 50), Fraction(3), max_denominator=1000)


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


# The distribution


@settings(max_examples=40)
@given(epsilon=EPSILONS, losses=LOSSES, shift=st.integers(-1000, 1000))
def test_probabilities_are_those_of_the_definition(epsilon: Fraction, losses: list[int], shift: int) -> None:
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


def choose(
    monkeypatch: pytest.MonkeyPatch, losses: list[int], epsilon: Fraction, words: dict[int, tuple[int, ...]]
) -> int:
    """The choice at position 0 with these words of each number, all others being the middle."""
    given = {(number, place): word for number, drawn in words.items() for place, word in enumerate(drawn)}
    monkeypatch.setattr(permute_and_flip, "Stream", type("Words", (_Words,), {"given": given}))
    monkeypatch.setattr(permute_and_flip, "draws_key", lambda _: b"draws")
    monkeypatch.setattr(permute_and_flip, "refinement_key", lambda _: b"refinement")
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
            found = choose(monkeypatch, [0, loss], epsilon, {1: (5,), 2: coin, 3: (4,)})
            assert found == expected, (bits, expected)


@pytest.mark.parametrize("word", [0, 7, LAST])
def test_turns_that_are_the_same_take_further_words(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Fraction(1, 3)
    for more, chosen in (((1, 2), 0), ((2, 1), 1), ((9, 9, 3, 4), 0), ((9, 9, 4, 3), 1)):
        turns = {1: (word, *more[0::2]), 3: (word, *more[1::2])}
        assert choose(monkeypatch, [0, 0], one, turns) == chosen
        # A third candidate, whose coin shows tails, has had the least turn.
        assert choose(monkeypatch, [0, 0, 3], one, turns | {4: (LAST,), 5: (0,)}) == chosen
    assert choose(monkeypatch, [0, 0, 3], one, {1: (word, 5), 3: (word, 6), 4: (0,), 5: (word, 4)}) == 2


def test_a_last_word_is_a_turn_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate without loss is chosen though its turn is the last of all, where the other's coin shows tails."""
    assert choose(monkeypatch, [3, 0], Fraction(1, 3), {0: (LAST,), 1: (0,), 3: (LAST,)}) == 1
    assert choose(monkeypatch, [3, 0], Fraction(1, 3), {0: (0,), 1: (LAST, 1), 3: (LAST, 2)}) == 0


def test_streams_that_never_decide_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="left a choice undecided"):
        choose(monkeypatch, [0, 0], Fraction(1, 3), {})
    with localcontext(prec=1600):
        boundary = int((-Decimal(1) / 6).exp() * 2 ** (64 * 80))
    words = tuple(boundary >> (64 * (79 - i)) & LAST for i in range(80))
    with pytest.raises(RuntimeError, match="left a coin undecided"):
        choose(monkeypatch, [0, 1], Fraction(1, 3), {2: words})


# The guarantee: with coins of (1 / base)^loss all probabilities are fractions, and exp(epsilon / 2) is the base.


def exactly(base: Fraction, losses: list[int]) -> list[Fraction]:
    return by_integral([base ** (min(losses) - loss) for loss in losses])


@settings(max_examples=60)
@given(
    base=st.sampled_from([Fraction(2), Fraction(11, 10), Fraction(9)]),
    moves=st.lists(st.tuples(st.integers(0, 12), st.integers(-3, 3)), min_size=1, max_size=5),
)
def test_a_choice_moves_by_the_range_of_what_losses_move_by(base: Fraction, moves: list[tuple[int, int]]) -> None:
    """In exact fractions: p / q <= exp(e (max d - min d) / 2), so that moves up and down by 1 cost e."""
    before, after = [loss for loss, _ in moves], [loss + move for loss, move in moves]
    range_of = max(move for _, move in moves) - min(move for _, move in moves)
    for p, q in zip(exactly(base, before), exactly(base, after), strict=True):
        assert q / base**range_of <= p <= q * base**range_of


def test_the_guarantee_is_not_better_than_stated() -> None:
    """Two candidates, of which one is far: as good as e; with an e of 19 / 20 of that it would not hold."""
    p, q = exactly(Fraction(2), [0, 30]), exactly(Fraction(2), [1, 29])
    assert 4 >= q[1] / p[1] > 4 ** Fraction(19, 20)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
@pytest.mark.parametrize("losses", [[0, 0, 0], [0, 4, 9], [0, 1], [7, 0, 3, 3], [0, 40, 40]], ids=str)
def test_epsilon_and_rho_hold_for_all_moves_by_one(epsilon: str, losses: list[int]) -> None:
    mechanism = PermuteAndFlip(Fraction(epsilon))
    p = np.array(mechanism.probabilities(losses))
    for moves in itertools.product((-1, 0, 1), repeat=len(losses)):
        q = np.array(mechanism.probabilities([a + b for a, b in zip(losses, moves, strict=True)]))
        assert np.abs(np.log(p / q)).max() <= float(mechanism.epsilon(1)) * (1 + 1e-9)
        for order in (1.01, 2.0, 8.0, 64.0):
            total = math.fsum(np.exp(order * np.log(p) + (1 - order) * np.log(q)))
            assert math.log(total) / (order - 1) <= order * float(mechanism.rho(1)) * (1 + 1e-6)


def test_the_rho_of_the_exponential_mechanism_does_not_hold() -> None:
    """Of two candidates alike: the loss has a range of nearly 2 e, and rho is nearly e^2 / 2, four times that other."""
    mechanism = PermuteAndFlip(Fraction(1, 10))
    p, q = (np.array(mechanism.probabilities(losses)) for losses in ([0, 0], [1, -1]))
    assert np.ptp(np.log(p / q)) > 1.9 * float(mechanism.scale)
    divergence = math.log(math.fsum(p**2 / q)) / 2
    assert 0.9 * float(mechanism.rho(1)) < divergence <= float(mechanism.rho(1))
    assert divergence > 3.6 * float(Exponential(mechanism.scale).rho(1))
