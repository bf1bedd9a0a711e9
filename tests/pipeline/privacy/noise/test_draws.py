"""What is drawn has exactly the distribution stated: one table of mechanisms and scales, each with its power arm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip
from pipeline.privacy.noise.sampler import sampler_for

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Choice = type[Exponential] | type[PermuteAndFlip]

KEY = MasterKey.from_text("insecure-test:1").stream_key(("input", "spine", "privacy"), "block", "total")
#: Draws of a test, and the level at which it rejects; a scale 5 % off has to be rejected at that level.
DRAWS, ALPHA = 300_000, 1e-6
OFF = (Fraction(95, 100), Fraction(105, 100))
NOISE = [NoiseSpec("discrete_gaussian", Fraction(s)) for s in ("1/10", "1", "19/10", "100", "10000")]
NOISE += [NoiseSpec("discrete_laplace", Fraction(b)) for b in ("1/4", "7/10", "1", "7", "70")]
LARGE = [NoiseSpec("discrete_gaussian", Fraction(10**8)), NoiseSpec("discrete_laplace", Fraction(7000))]
LOSSES = [[0, 1, 5, 9], [9, 0, 9, 0], [20, 0, 7], [2, 2, 2, 2, 2]]


def probabilities(spec: NoiseSpec, largest: int) -> Floats:
    """P(X = k) for |k| <= largest, `(2 * largest + 1,)`, from the definition in floats."""
    k = np.arange(-largest, largest + 1, dtype=np.float64)
    scale = float(spec.scale)
    weights = np.exp(-(k**2) / (2 * scale)) if spec.mechanism == "discrete_gaussian" else np.exp(-np.abs(k) / scale)
    return weights / weights.sum()


def sums(values: Floats | NDArray[np.integer[Any]], group: Ints) -> Floats:
    """Sums by group, without the groups that do not occur."""
    return np.bincount(group, weights=values)[np.unique(group)].astype(np.float64)


def pearson(found: Floats, wanted: Floats) -> float:
    assert len(wanted) > 1
    return float(stats.chi2.sf(((found - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


def rejected(draws: Ints, spec: NoiseSpec, expected: float = 100.0) -> bool:
    """Whether draws are told apart from the distribution; the smaller of two p values counts twice.

    Once over runs of neighbouring outcomes, each run expected about `expected` times or more; once over the remainders
    modulo 16, since a defect of the look-up would follow the low digits.
    """
    tail = 12 * float(spec.scale) ** 0.5 if spec.mechanism == "discrete_gaussian" else 45 * float(spec.scale)
    largest = max(int(tail), int(np.abs(draws).max())) + 1
    wanted = probabilities(spec, largest) * draws.size
    found = np.bincount(draws + largest, minlength=wanted.size)
    before = np.cumsum(wanted) - wanted
    group = (np.minimum(before, draws.size - before - wanted) // expected).astype(np.int64)
    group = np.where(np.arange(wanted.size) < largest, group, 2 * group.max() + 1 - group)  # rising from tail to tail
    results = [pearson(sums(found, group), sums(wanted, group))]
    residue = (np.arange(wanted.size) - largest) % 16
    if sums(wanted, residue).min() >= expected:
        results.append(pearson(sums(found, residue), sums(wanted, residue)))
    return 2 * min(results) < ALPHA


def rescaled(spec: NoiseSpec, factor: Fraction) -> NoiseSpec:
    """The same noise, its standard deviation times about `factor`."""
    return NoiseSpec(spec.mechanism, spec.scale * (factor**2 if spec.mechanism == "discrete_gaussian" else factor))


@pytest.mark.parametrize("spec", [*NOISE, *(pytest.param(one, marks=pytest.mark.slow) for one in LARGE)], ids=str)
def test_noise_follows_the_exact_distribution(spec: NoiseSpec) -> None:
    assert not rejected(sampler_for(spec).draw(KEY, 0, DRAWS), spec)
    for factor in OFF:
        assert rejected(sampler_for(rescaled(spec, factor)).draw(KEY, 0, DRAWS), spec)


def test_a_defect_of_the_low_digits_is_seen() -> None:
    """Every 16th outcome replaced by its neighbour: the spread is right, the distribution is not."""
    for spec in (NOISE[3], NOISE[4]):
        draws = sampler_for(spec).draw(KEY, 0, 2 * DRAWS)
        draws[draws % 16 == 0] += 1
        assert rejected(draws, spec)


def of_exponential(epsilon: Fraction, losses: Sequence[int]) -> Floats:
    weights = np.exp(-float(epsilon) / 2 * np.array(losses))
    return np.asarray(weights / weights.sum())


def of_permute_and_flip(epsilon: Fraction, losses: Sequence[int]) -> Floats:
    """The definition (McKenna and Sheldon 2020, algorithm 1): a coin after the other, for each order alike."""
    coins = np.exp(-float(epsilon) / 2 * (np.array(losses) - min(losses)))
    found, orders = np.zeros(len(losses)), list(itertools.permutations(range(len(losses))))
    for order in orders:
        left = 1.0
        for one in order:
            found[one] += left * coins[one] / len(orders)
            left *= 1 - coins[one]
    return found


CHOICES: dict[Choice, Callable[[Fraction, Sequence[int]], Floats]] = {
    Exponential: of_exponential,
    PermuteAndFlip: of_permute_and_flip,
}
EACH_CHOICE = pytest.mark.parametrize("choice", CHOICES, ids=lambda one: one.__name__)


def drawn(mechanism: Exponential | PermuteAndFlip, losses: Sequence[int]) -> Ints:
    return mechanism.draw(KEY, np.tile(np.array(losses, dtype=np.int64), (DRAWS // 2, 1)))


def p_value(chosen: Ints, expected: Floats) -> float:
    found = np.bincount(chosen, minlength=len(expected))
    return float(stats.chisquare(found, expected * chosen.size).pvalue)


@EACH_CHOICE
@pytest.mark.parametrize("losses", LOSSES, ids=str)
def test_choices_follow_the_exact_distribution(choice: Choice, losses: list[int]) -> None:
    """And those of an epsilon 5 % off do not pass, nor those of the other mechanism."""
    epsilon = Fraction(1, 3)
    expected = CHOICES[choice](epsilon, losses)
    assert p_value(drawn(choice(epsilon), losses), expected) > ALPHA
    if losses == LOSSES[0]:
        (other,) = CHOICES.keys() - {choice}
        for wrong in (*(choice(epsilon * factor) for factor in OFF), other(epsilon)):
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
        (np.zeros(3, dtype=np.int64), 0, "shape"),
        (np.zeros((3, 0), dtype=np.int64), 0, "shape"),
        (np.zeros((3, 2), dtype=np.int64), -1, "start"),
        (np.full((3, 2), 2**62), 0, "beyond"),
    ],
)
def test_senseless_losses_are_refused(choice: Choice, losses: Ints, start: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        choice(Fraction(1)).draw(KEY, losses, start)
