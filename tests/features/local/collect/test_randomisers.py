"""What is drawn has the stated probabilities; the same tests reject probabilities that are 5 % off."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from features.local.collect.bits import KeyedBytes
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.mechanism import Mechanism
from features.local.collect.rappor import Rappor, positions
from pipeline.errors import InputError

KEY = b"a key of the tests, thirty-two b"
SIZE = 150_000
#: Least p-value of a right sampler, of a fixed key; and most of one that is 5 % off.
RIGHT, WRONG = 1e-3, 1e-6
OFF = Fraction(21, 20)


def goodness(mechanism: ListedMechanism, expected: ListedMechanism, value: int) -> float:
    """The p-value of Pearson's test of each output, together, of reports of one value against stated probabilities."""
    reports = mechanism.randomise(np.full(SIZE, value), KeyedBytes(KEY, (mechanism.name, str(value))))
    ones = mechanism.totals(reports, np.zeros(SIZE, dtype=np.int64), 1)[0]
    p, q = (float(chance) for chance in expected.chances)
    chances = np.where(np.arange(expected.values) == value, p, q)
    if mechanism.name == "unary_encoding":
        squares = (ones - SIZE * chances) ** 2 / (SIZE * chances * (1 - chances))
        return float(stats.chi2.sf(squares.sum(), len(ones)))
    return float(stats.chisquare(ones, SIZE * chances).pvalue)


RIGHT_AND_OFF: list[tuple[ListedMechanism, ListedMechanism]] = [
    (RandomisedResponse(Fraction(7, 10)), RandomisedResponse(Fraction(7, 10) * OFF)),
    (RandomisedResponse(Fraction(3, 5)), RandomisedResponse(Fraction(3, 5) / OFF)),
    (DirectEncoding(12, Fraction(1, 5)), DirectEncoding(12, Fraction(1, 5) * OFF)),
    (DirectEncoding(4, Fraction(1, 2)), DirectEncoding(4, Fraction(1, 2) / OFF)),
    (OptimisedUnaryEncoding(12, Fraction(27, 100)), OptimisedUnaryEncoding(12, Fraction(27, 100) * OFF)),
    (OptimisedUnaryEncoding(5, Fraction(2, 5)), OptimisedUnaryEncoding(5, Fraction(2, 5) / OFF)),
]


@pytest.mark.parametrize(("right", "off"), RIGHT_AND_OFF, ids=lambda one: f"{one.name} {one.parameters()}")
def test_outputs_have_their_probabilities(right: ListedMechanism, off: ListedMechanism) -> None:
    for value in (0, right.values - 1):
        assert goodness(right, right, value) > RIGHT
        assert goodness(off, right, value) < WRONG


def rappor_goodness(mechanism: Rappor, expected: Rappor) -> float:
    """Of the bits that a text sets and of the others, in two cohorts."""
    reports = mechanism.randomise(["a word"] * 20_000, KeyedBytes(KEY, ("rappor",)))
    squares, terms = 0.0, 0
    for cohort in range(mechanism.cohorts):
        rows = reports[reports[:, 0] == cohort, 1:]
        chances = np.full(mechanism.bits, float(expected.p_star))
        chances[list(positions("a word", cohort, mechanism.bits, mechanism.hashes))] = float(expected.q_star)
        squares += (((rows.sum(axis=0) - len(rows) * chances) ** 2) / (len(rows) * chances * (1 - chances))).sum()
        terms += mechanism.bits
    return float(stats.chi2.sf(squares, terms))


def test_bits_of_rappor_have_their_probabilities() -> None:
    right = Rappor(16, 2, 2, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))
    assert rappor_goodness(right, right) > RIGHT
    for p, q in ((right.p * OFF, right.q), (right.p, right.q / OFF)):
        assert rappor_goodness(Rappor(16, 2, 2, right.f, p, q), right) < WRONG
    swapped = Rappor(16, 2, 2, Fraction(1, 2), Fraction(1, 4), Fraction(1, 2))  # ones and zeros exchanged
    assert rappor_goodness(swapped, right) < WRONG


def permanent_goodness(mechanism: Rappor, expected: Fraction) -> float:
    """Of the zeros among the bits that a text sets, and the ones among the others, of 20,000 permanent responses."""
    cohorts = np.zeros(20_000, dtype=np.int64)
    reports = mechanism.permanent(["a word"] * len(cohorts), cohorts, KeyedBytes(KEY))[:, 1:] > 0
    filtered = np.zeros(mechanism.bits, dtype=bool)
    filtered[list(positions("a word", 0, mechanism.bits, mechanism.hashes))] = True
    lies = (reports != filtered).sum(axis=0)
    mean = len(cohorts) * float(expected) / 2
    return float(stats.chi2.sf(((lies - mean) ** 2 / (mean * (1 - float(expected) / 2))).sum(), mechanism.bits))


def test_permanent_responses_have_their_probabilities() -> None:
    half = Fraction(1, 2)
    right = Rappor(16, 2, 1, half, half, Fraction(3, 4))
    assert permanent_goodness(right, half) > RIGHT
    assert permanent_goodness(Rappor(16, 2, 1, half * OFF, half, Fraction(3, 4)), half) < WRONG


def test_cohorts_are_even_and_bits_independent() -> None:
    mechanism = Rappor(8, 2, 8, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))
    reports = mechanism.randomise(["x"] * 40_000, KeyedBytes(KEY))
    assert stats.chisquare(np.bincount(reports[:, 0], minlength=8)).pvalue > RIGHT
    unary = OptimisedUnaryEncoding(4, Fraction(1, 4)).randomise(np.zeros(40_000, dtype=np.int64), KeyedBytes(KEY))
    correlations = np.corrcoef(unary.T.astype(float))[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(40_000)


@pytest.mark.parametrize(
    "mechanism",
    [RandomisedResponse(Fraction(3, 4)), DirectEncoding(3, Fraction(1, 2)), OptimisedUnaryEncoding(3, Fraction(1, 4))],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("values", [[3], [-1], [0.5], [[0]], ["0"]], ids=str)
def test_values_that_are_none_are_refused(mechanism: Mechanism, values: Any) -> None:
    with pytest.raises(InputError, match="values: ") as refused:
        mechanism.randomise(np.array(values), KeyedBytes(KEY))
    assert "3" not in str(refused.value).replace("0 to 2", "")
