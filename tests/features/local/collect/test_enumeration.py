"""Bounds, probabilities and variances by enumerating every number that a randomiser can draw."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracles.randomisers import Distribution, distribution, largest_ratio, moments

from features.local.collect.bits import events
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.rappor import Rappor, positions

#: A mechanism of listed values, and what one report draws: how many numbers, below what.
LISTED: list[tuple[ListedMechanism, list[tuple[int, int]]]] = [
    (RandomisedResponse(Fraction(3, 4)), [(1, 4)]),
    (RandomisedResponse(Fraction(9, 16)), [(1, 16)]),
    (DirectEncoding(3, Fraction(1, 2)), [(1, 4)]),
    (DirectEncoding(5, Fraction(5, 16)), [(1, 64)]),
    (DirectEncoding(9, Fraction(3, 4)), [(1, 32)]),
    (OptimisedUnaryEncoding(2, Fraction(1, 4)), [(2, 4)]),
    (OptimisedUnaryEncoding(3, Fraction(3, 8)), [(3, 8)]),
    (OptimisedUnaryEncoding(4, Fraction(1, 4)), [(4, 4)]),
]
NAMES = [f"{mechanism.name} {mechanism.values}" for mechanism, _ in LISTED]


def all_of(mechanism: ListedMechanism, draws: list[tuple[int, int]]) -> list[Distribution]:
    return [distribution(mechanism, value, draws) for value in range(mechanism.values)]


def outputs(mechanism: ListedMechanism, reports: Distribution) -> Any:
    """The totals of each report alone, as the mechanism counts them."""
    rows = np.array(list(reports), dtype=np.uint16)
    return mechanism.totals(rows, np.arange(len(rows)), len(rows))


@pytest.mark.parametrize(("mechanism", "draws"), LISTED, ids=NAMES)
def test_the_bound_is_the_largest_ratio(mechanism: ListedMechanism, draws: list[tuple[int, int]]) -> None:
    assert mechanism.ratio == largest_ratio(all_of(mechanism, draws))


class Swapped(OptimisedUnaryEncoding):
    """A seeded fault: the bit of the true value is drawn with q, the others with 1/2."""

    def randomise(self, values: Any, source: Any) -> Any:
        bits = np.arange(self.values) == np.asarray(values)[:, None]
        return events(bits, self.q, Fraction(1, 2), source).astype(np.uint16)


class Leaky(OptimisedUnaryEncoding):
    """A seeded fault: another bit depends on what was drawn for the true value."""

    def randomise(self, values: Any, source: Any) -> Any:
        reports = super().randomise(values, source)
        rows = np.arange(len(reports))
        reports[rows, (values + 1) % self.values] |= reports[rows, values]
        return reports


def test_seeded_faults_are_noticed() -> None:
    """Swapped probabilities keep the bound and are seen in the means; a leak has the means of its own, and no bound."""
    right, draws = OptimisedUnaryEncoding(3, Fraction(1, 4)), [(3, 4)]
    swapped = [distribution(Swapped(3, Fraction(1, 4)), value, draws) for value in range(3)]
    assert largest_ratio(swapped) == right.ratio
    mean, _ = moments(swapped[0], outputs(right, swapped[0]))
    assert mean.tolist() == [0.25, 0.5, 0.5]
    leaky = [distribution(Leaky(3, Fraction(1, 4)), value, draws) for value in range(3)]
    shared = set.intersection(*(set(one) for one in leaky))
    assert any(set(one) != shared for one in leaky)  # a report that one value never gives: the ratio is infinite


@pytest.mark.parametrize(("mechanism", "draws"), LISTED, ids=NAMES)
def test_probabilities_means_and_variances(mechanism: ListedMechanism, draws: list[tuple[int, int]]) -> None:
    """Means give every value back exactly once; variances at any shares are those of the enumerated reports."""
    p, q = (float(chance) for chance in mechanism.chances)
    k = mechanism.values
    shares = np.arange(1, k + 1) / sum(range(1, k + 1))
    total = np.zeros(k)
    for value, reports in enumerate(all_of(mechanism, draws)):
        mean, covariance = moments(reports, outputs(mechanism, reports))
        assert np.allclose(mean, np.where(np.arange(k) == value, p, q), atol=1e-15)
        assert np.allclose(mechanism.debias(mean[None], np.array([1])), np.eye(k)[value], atol=1e-12)
        # Exactly one output is 1, or all are independent.
        assert np.allclose(covariance.sum(axis=1), 0 if mechanism.exclusive else np.diag(covariance))
        total += shares[value] * np.diag(covariance) / (p - q) ** 2
    assert np.allclose(mechanism.unit_variances(shares), total, atol=1e-12)
    # Randomised response is as noisy for yes as for no.
    even = mechanism.unit_variances(np.ones(k))
    assert (mechanism.name == "randomised_response") == np.allclose(even, total, rtol=1e-3)


RAPPOR = Rappor(bits=4, hashes=1, cohorts=1, f=Fraction(1, 2), p=Fraction(1, 2), q=Fraction(3, 4))


def texts_apart() -> tuple[str, str]:
    """Two texts that set different bits."""
    first = "a"
    return first, next(text for text in "bcdefgh" if positions(text, 0, 4, 1) != positions(first, 0, 4, 1))


def test_the_bits_of_rappor_have_the_probabilities_of_the_paper() -> None:
    """Of a filter of two bits, on all 256 draws: q* of the bit that is set, p* of the other."""
    small = Rappor(bits=2, hashes=1, cohorts=1, f=Fraction(1, 2), p=Fraction(1, 2), q=Fraction(3, 4))
    draws = [(1, 1), (2, 4), (2, 4)]
    texts = [next(text for text in "abcdefgh" if positions(text, 0, 2, 1) == (place,)) for place in (0, 1)]
    reports = [distribution(small, text, draws) for text in texts]
    assert largest_ratio(reports) == small.ratio
    for place, one in enumerate(reports):
        ones = [sum(chance for report, chance in one.items() if report[1 + bit]) for bit in (0, 1)]
        assert ones[place] == small.q_star == Fraction(11, 16)
        assert ones[1 - place] == small.p_star == Fraction(9, 16)


def test_the_permanent_response_bounds_all_reports() -> None:
    """Its own distribution by enumeration: whatever is drawn from it later cannot show more."""

    class Permanent(Rappor):
        def randomise(self, values: Any, source: Any) -> Any:
            return self.permanent(values, np.zeros(len(values), dtype=np.int64), source)

    permanent = Permanent(bits=4, hashes=1, cohorts=1, f=Fraction(1, 2), p=Fraction(1, 2), q=Fraction(3, 4))
    found = largest_ratio(distribution(permanent, text, [(4, 4)]) for text in texts_apart())
    assert RAPPOR.for_ever is not None
    assert found == RAPPOR.for_ever.ratio == 9
    assert RAPPOR.for_ever.ratio > RAPPOR.ratio


def test_two_hashes_bound_as_the_formulas_say() -> None:
    """Independent bits: the largest ratio is the product of that of each bit in which two filters differ."""
    mechanism = Rappor(bits=8, hashes=2, cohorts=2, f=Fraction(1, 2), p=Fraction(1, 2), q=Fraction(3, 4))
    q, p = Fraction(11, 16), Fraction(9, 16)
    of_a_bit = {(1, 0): max(q / p, (1 - q) / (1 - p)), (0, 1): max(p / q, (1 - p) / (1 - q))}
    assert mechanism.ratio == of_a_bit[1, 0] ** 2 * of_a_bit[0, 1] ** 2
    assert mechanism.for_ever is not None
    assert mechanism.for_ever.ratio == 3**4


def test_several_reports_keep_the_bound_of_their_number() -> None:
    """Of one bit, by enumeration: all sequences of up to 12 reports that share a permanent response."""
    for f, p, q in ((Fraction(1, 2), Fraction(1, 2), Fraction(3, 4)), (Fraction(1, 8), Fraction(0), Fraction(9, 10))):
        mechanism = Rappor(bits=4, hashes=1, cohorts=1, f=f, p=p, q=q)
        assert mechanism.for_ever is not None
        for n_reports in (1, 2, 3, 5, 12):
            shown: dict[str, list[Fraction]] = {"set": [], "unset": []}
            for ones in range(n_reports + 1):
                of_one = q**ones * (1 - q) ** (n_reports - ones)
                of_zero = p**ones * (1 - p) ** (n_reports - ones)
                shown["set"].append((1 - f / 2) * of_one + f / 2 * of_zero)
                shown["unset"].append(f / 2 * of_one + (1 - f / 2) * of_zero)
            # A bit that only the first text sets, and one that only the second sets.
            pairs = list(zip(shown["set"], shown["unset"], strict=True))
            largest = max(a / b for a, b in pairs) * max(b / a for a, b in pairs)
            bound = mechanism.bound_of(n_reports)
            assert largest <= bound.ratio <= mechanism.for_ever.ratio
            assert n_reports > 1 or largest == bound.ratio
        assert mechanism.bound_of(10**3) == mechanism.for_ever
    once = RandomisedResponse(Fraction(3, 4))
    assert once.bound_of(3).ratio == 27
    assert RandomisedResponse(Fraction(3, 4), memoised=True).bound_of(3).ratio == 3
