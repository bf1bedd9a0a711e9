"""Randomisers, devices and texts of reports: bounds, probabilities and variances by enumeration of all draws."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from features.local.collect.bits import KeyedBytes, events, uniform_below
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.mechanism import LocalMechanism, epsilon_of, exp_below
from features.local.collect.rappor import Rappor, positions
from features.local.collect.reports import CHARACTER, COHORT, FAULTS, LENGTH, VALUE
from features.local.collect.respondent import PARAMETERS, Respondent, mechanism_of
from pipeline.errors import InputError

Report = tuple[int, ...]
Distribution = Mapping[Report, Fraction]


class Scripted:
    """A source that gives stated bytes, and no others."""

    def __init__(self, given: bytes, *, allow_short: bool = False) -> None:
        self._given = given
        self._allow_short = allow_short

    def take(self, count: int) -> bytes:
        if self._allow_short and count < len(self._given):
            count = len(self._given)
        assert count <= len(self._given), "more bytes than were stated are taken"
        taken, self._given = self._given[:count], self._given[count:]
        return taken


def distribution(mechanism: Any, value: Any, draws: Iterable[tuple[int, int]]) -> Distribution:
    """The probability of each report of a value.

    Args:
        mechanism: of what is reported.
        value: a number or a text.
        draws: for one report in order, (how many numbers, below which power of two): each is one byte.
    """
    places = [bound for count, bound in draws for _ in range(count)]
    combinations = np.array(list(itertools.product(*(range(bound) for bound in places))), dtype=np.int64)
    n_all = len(combinations)
    script, first = b"", 0
    for count, bound in draws:
        part = combinations[:, first : first + count].reshape(-1)
        first += count
        if bound > 1:
            script += (part << (8 - (bound - 1).bit_length())).astype(np.uint8).tobytes()
    values = [value] * n_all if isinstance(value, str) else np.full(n_all, value)
    reports = mechanism.randomise(values, Scripted(script))
    counted = Counter(tuple(row) for row in reports.tolist())
    return {report: Fraction(times, n_all) for report, times in counted.items()}


def largest_ratio(distributions: Iterable[Distribution]) -> Fraction:
    """Of the probabilities of any report under any two of them."""
    every = list(distributions)
    reports = {report for one in every for report in one}
    return max(one[report] / other[report] for one in every for other in every for report in reports)


def exp_at_least(exponent: Fraction, floor: Fraction) -> bool:
    """Whether e^exponent >= floor, decided in fractions: partial sums are below it, with a last term above it."""
    term = total = Fraction(1)
    step = 0
    while True:
        if total >= floor:
            return True
        step += 1
        term = term * exponent / step
        total += term
        if step > 2 * exponent and total + term < floor:
            return False


def moments(distribution: Distribution, outputs: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """Mean and covariance of the outputs of one report, from its exact distribution.

    Args:
        distribution: of the reports.
        outputs: (n_reports, n_outputs) of the reports, in the order of the distribution.
    """
    chances = np.array([float(chance) for chance in distribution.values()])
    mean = chances @ outputs
    return mean, (outputs * chances[:, None]).T @ outputs - np.outer(mean, mean)


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


def outputs(mechanism: ListedMechanism, reports: Distribution) -> Any:
    """The totals of each report alone, as the mechanism counts them."""
    rows = np.array(list(reports), dtype=np.uint16)
    return mechanism.totals(rows, np.arange(len(rows)), len(rows))


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


@pytest.mark.parametrize(("mechanism", "draws"), LISTED, ids=[f"{one.name} {one.values}" for one, _ in LISTED])
def test_bounds_probabilities_means_and_variances(mechanism: ListedMechanism, draws: list[tuple[int, int]]) -> None:
    """The bound is the largest ratio of the enumerated reports; means give every value back exactly once."""
    reports_of = [distribution(mechanism, value, draws) for value in range(mechanism.values)]
    assert mechanism.ratio == largest_ratio(reports_of)
    p, q = (float(chance) for chance in mechanism.chances)
    k = mechanism.values
    shares = np.arange(1, k + 1) / sum(range(1, k + 1))
    total = np.zeros(k)
    for value, reports in enumerate(reports_of):
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
    other = next(text for text in "bcdefgh" if positions(text, 0, 4, 1) != positions("a", 0, 4, 1))
    found = largest_ratio(distribution(permanent, text, [(4, 4)]) for text in ("a", other))
    assert permanent.for_ever is not None
    assert found == permanent.for_ever.ratio == 9
    assert permanent.for_ever.ratio > permanent.ratio


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


RATIOS = [Fraction(n, d) for n, d in ((3, 1), (3, 2), (9, 1), (81, 1), (1001, 1000), (10**12 + 1, 10**12), (7, 3))]
RATIOS += [Fraction(k * k + k + 1, k * k) for k in range(1, 60)]


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
def test_epsilon_bounds_the_ratio_and_no_more(ratio: Fraction) -> None:
    epsilon = epsilon_of(ratio)
    assert exp_at_least(Fraction(epsilon), ratio)
    assert not exp_at_least(Fraction(epsilon) - Fraction(2, 10**10), ratio)


def test_rounding_to_the_nearest_would_be_noticed() -> None:
    """The seeded fault: the logarithm as a float, rounded as usual, understates about half of them."""
    understated = [ratio for ratio in RATIOS if not exp_at_least(Fraction(str(round(math.log(ratio), 10))), ratio)]
    assert len(understated) > 15


@pytest.mark.parametrize(
    "exponent", [Fraction(0), Fraction(1, 100), Fraction(1), Fraction(5, 2), Fraction(20)], ids=str
)
def test_the_exponential_is_approached_from_below(exponent: Fraction) -> None:
    below = exp_below(exponent)
    assert exp_at_least(exponent, below)
    assert exponent == 0 or not exp_at_least(exponent, below * (1 + Fraction(1, 10**15)))
    with pytest.raises(ValueError, match="0 to 40"):
        exp_below(Fraction(41))


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(10)], ids=str)
def test_mechanisms_of_an_epsilon_keep_it_and_use_it(epsilon: Fraction) -> None:
    small = Fraction(1, 10**12)
    response = RandomisedResponse.for_epsilon(epsilon)
    direct = DirectEncoding.for_epsilon(12, epsilon)
    unary = OptimisedUnaryEncoding.for_epsilon(12, epsilon)
    for mechanism, beyond in (
        (response, RandomisedResponse(response.p + small)),
        (direct, DirectEncoding(12, direct.p + small)),
        (unary, OptimisedUnaryEncoding(12, unary.q - small)),
    ):
        assert exp_at_least(epsilon, mechanism.ratio)
        assert not exp_at_least(epsilon, beyond.ratio)


KEY = b"a key of the tests, thirty-two b"


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomisedResponse(Fraction(3, 4)),
        DirectEncoding(12, Fraction(1, 3)),
        OptimisedUnaryEncoding(12, Fraction(1, 4)),
    ],
    ids=lambda one: one.name,
)
def test_errors_of_many_reports_are_those_of_theory(mechanism: ListedMechanism) -> None:
    """Reports of an area do not depend on each other, which those that are enumerated alone cannot show."""
    areas, people, k = 1_500, 200, mechanism.values
    values = np.random.default_rng(7).choice(k, (areas, people), p=[0.6, *[0.4 / (k - 1)] * (k - 1)])
    reports = mechanism.randomise(values.ravel(), KeyedBytes(KEY, (mechanism.name,)))
    totals = mechanism.totals(reports, np.repeat(np.arange(areas), people), areas)
    true = (values[:, :, None] == np.arange(k)).sum(axis=1)
    theory = np.sqrt(people * mechanism.unit_variances(true.sum(axis=0)))
    errors = (mechanism.debias(totals, np.full(areas, people)) - true) / theory
    assert 0.97 < np.sqrt((errors**2).mean()) < 1.03
    assert np.abs(errors.mean(axis=0)).max() * np.sqrt(areas) < 4


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(4)], ids=str)
def test_variances_of_rare_values_are_the_published_ones(epsilon: Fraction) -> None:
    """Wang et al. 2017, for n = 1: (d - 2 + e^eps) / (e^eps - 1)^2, of unary encoding 4 e^eps / (e^eps - 1)^2."""
    rare = np.array([0.0] * 11 + [1.0])
    power = float(np.exp(float(epsilon)))
    direct = DirectEncoding.for_epsilon(12, epsilon).unit_variances(rare)[0]
    unary = OptimisedUnaryEncoding.for_epsilon(12, epsilon).unit_variances(rare)[0]
    assert direct == pytest.approx((10 + power) / (power - 1) ** 2, rel=1e-9)
    assert unary == pytest.approx(4 * power / (power - 1) ** 2, rel=1e-9)
    assert (unary < direct) == (3 * power + 2 < 12)


#: Least p-value of a right sampler, of a fixed key; and most of one that is 5 % off.
RIGHT, WRONG = 1e-3, 1e-6
OFF = Fraction(21, 20)


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
def test_values_that_are_none_are_refused(mechanism: LocalMechanism, values: Any) -> None:
    with pytest.raises(InputError, match="values: ") as refused:
        mechanism.randomise(np.array(values), KeyedBytes(KEY))
    assert "3" not in str(refused.value).replace("0 to 2", "")


PAPER = {"bits": "32", "hashes": "2", "cohorts": "64", "f": "1/2", "p": "1/2", "q": "3/4"}
STATED = [
    ("randomised_response", {"p": "3/4"}),
    ("randomised_response", {"epsilon": "1", "memoised": "yes"}),
    ("direct_encoding", {"values": "12", "p": "0.25", "memoised": "no"}),
    ("direct_encoding", {"values": "12", "epsilon": "2"}),
    ("unary_encoding", {"values": "12", "q": "1/4", "memoised": "yes"}),
    ("unary_encoding", {"values": "12", "epsilon": "1/2"}),
    ("rappor", PAPER),
    ("rappor", {**PAPER, "f": "0"}),
]


@pytest.mark.parametrize(("name", "parameters"), STATED, ids=str)
def test_parameters_are_exact_there_and_back(name: str, parameters: dict[str, str]) -> None:
    mechanism = mechanism_of(name, parameters)
    assert mechanism.name == name
    assert mechanism_of(name, mechanism.parameters()) == mechanism
    assert (mechanism.for_ever is not None) == (parameters.get("memoised") == "yes" or parameters.get("f") == "1/2")
    assert set(mechanism.parameters()) <= {key for entry in PARAMETERS[name] for key in entry.split(" or ")}


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("laplace", {}, "mechanism: found 'laplace'; allowed: randomised_response, direct_encoding, unary_encoding, "),
        ("unary_encoding", {"values": "12"}, "q or epsilon: unary_encoding needs it; its parameters: values, q or"),
        ("unary_encoding", {"values": "12", "q": "1/4", "epsilon": "1"}, "q and epsilon: unary_encoding takes one of"),
        ("unary_encoding", {"values": "12", "p": "1/4"}, "p: unary_encoding has no such parameter; allowed: values, q"),
        ("unary_encoding", {"values": "1", "q": "1/4"}, "values: found 1; a whole number from 2 to 60000 is needed"),
        ("unary_encoding", {"values": "12", "q": "1/2"}, "q: found 1/2; a probability of more than 0 and less"),
        ("unary_encoding", {"values": "12", "q": "0"}, "q: found 0; a probability of more than 0"),
        ("direct_encoding", {"values": "4", "p": "1/4"}, "p: found 1/4; a probability of more than 1/4 and"),
        ("direct_encoding", {"values": "4", "p": "1"}, "p: found 1; a probability"),
        ("direct_encoding", {"values": "7/2", "p": "1"}, "values: found 7/2; a whole number is needed"),
        ("randomised_response", {"p": "1e-1"}, "p: found '1e-1'; an exact number is needed, such as \"3/4\""),
        ("randomised_response", {"p": "3/0"}, "p: found '3/0'; the denominator is 0"),
        ("randomised_response", {"p": "-3/4"}, "p: found '-3/4'; an exact number"),
        ("randomised_response", {"p": "0.7000000000001"}, "a denominator of at most 1000000000000 is needed"),
        ("randomised_response", {"p": "3/4", "memoised": "true"}, "memoised: found 'true'; allowed: yes, no"),
        ("randomised_response", {"epsilon": "0"}, "epsilon: found '0'; more than 0 and at most 20 is needed"),
        ("randomised_response", {"epsilon": "21"}, "epsilon: found '21'; more than 0 and at most 20 is needed"),
        ("rappor", {**PAPER, "f": "1"}, "f: found 1; less than 1 is needed"),
        ("rappor", {**PAPER, "q": "1/2"}, "q: found 1/2; more than p, which is 1/2, is needed"),
        ("rappor", {**PAPER, "bits": "3"}, "bits: found 3; a whole number from 4 to 4096 is needed"),
        ("rappor", {**PAPER, "f": "0", "p": "0"}, "f: found 0; more than 0 is needed where p is 0 or q is 1"),
        ("rappor", {**PAPER, "q": "3/2"}, "q: found 3/2; a probability from 0 to 1 is needed"),
        ("rappor", {**PAPER, "memoised": "yes"}, "memoised: rappor has no such parameter"),
    ],
)
def test_mistakes_are_named(name: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        mechanism_of(name, parameters)
    assert message in str(refused.value)


MECHANISM = Rappor(32, 3, 5, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))


def test_positions_are_those_of_the_stated_hash() -> None:
    """As another language would compute it: no code of the project."""
    digest = hashlib.sha256(b"spinewise bloom 1\x003\x000\x00asthma").digest()
    numbers = [int.from_bytes(digest[8 * place : 8 * place + 8], "big") % 128 for place in range(4)]
    assert len(set(numbers)) == 4
    assert positions("asthma", 3, 128, 4) == tuple(sorted(numbers))
    small = replace(MECHANISM, bits=16, hashes=2, cohorts=2)
    used = np.bincount(small.filters(tuple(map(str, range(2_000)))).reshape(-1), minlength=16)
    assert np.abs(used / used.mean() - 1).max() < 0.15


SECRET = bytes(range(32))
MEMOISED = DirectEncoding(12, Fraction(1, 4), memoised=True)
OF_DEVICES = Rappor(32, 2, 16, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))


def secret(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_a_memoised_answer_is_always_the_same() -> None:
    for mechanism in (MEMOISED, OptimisedUnaryEncoding(12, Fraction(1, 4), memoised=True)):
        assert len({Respondent(mechanism, "health", SECRET).send(3) for _ in range(20)}) == 1
    once = RandomisedResponse(Fraction(3, 5))
    assert len({Respondent(once, "health", SECRET).send(1) for _ in range(60)}) == 2


def test_answers_to_other_questions_values_and_devices_are_drawn_anew() -> None:
    wide = OptimisedUnaryEncoding(64, Fraction(2, 5), memoised=True)
    devices = [Respondent(wide, question, secret(one)) for question in "ab" for one in (1, 2)]
    assert len({device.send(value).report for device in devices for value in (0, 1)}) == 8


def test_permanent_responses_over_devices_have_the_probabilities_of_the_mechanism() -> None:
    """The power arm: they do not have those of a p that is 20 % higher."""
    n = 6_000
    reports = Counter(int(Respondent(MEMOISED, "q", secret(one)).send(5).report) for one in range(n))
    counted = np.array([reports[value] for value in range(12)])

    def goodness(mechanism: DirectEncoding) -> float:
        return float(stats.chisquare(counted, n * np.where(np.arange(12) == 5, *map(float, mechanism.chances))).pvalue)

    assert goodness(MEMOISED) > 1e-3
    assert goodness(DirectEncoding(12, Fraction(3, 10))) < 1e-6


def test_many_reports_of_a_device_show_its_permanent_response_and_no_more() -> None:
    """The means of 3,000 reports are p or q for each bit, as its permanent response says."""
    device = Respondent(OF_DEVICES, "browser", SECRET, KeyedBytes(SECRET))
    sent = [device.send("a word") for _ in range(3_000)]
    assert {one.cohort for one in sent} == {str(device.cohort)}
    means = OF_DEVICES.decode([one.report for one in sent], [one.cohort for one in sent]).reports[:, 1:].mean(axis=0)
    nearer = np.where(means > 0.625, 0.75, 0.5)
    assert np.abs(means - nearer).max() < 4.5 * np.sqrt(0.25 / 3_000)
    again = Respondent(OF_DEVICES, "browser", SECRET, KeyedBytes(b"other randomness"))
    later = [again.send("a word").report for _ in range(3_000)]
    rows = OF_DEVICES.decode(later, [str(again.cohort)] * 3_000).reports[:, 1:]
    assert np.array_equal(np.where(rows.mean(axis=0) > 0.625, 0.75, 0.5), nearer)


def test_the_secret_is_not_shown_and_has_its_length() -> None:
    device = Respondent(OF_DEVICES, "browser", b"secret of thirty-two bytes......")
    assert "thirty" not in repr(device)
    with pytest.raises(InputError, match="secret: found 5 bytes; 32 random ones are needed"):
        Respondent(MEMOISED, "q", b"short")


HALF = Fraction(1, 2)
SMALL = Rappor(6, 2, 12, HALF, HALF, Fraction(3, 4))


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomisedResponse(Fraction(3, 4)),
        DirectEncoding(10, HALF),
        DirectEncoding(11, HALF),
        DirectEncoding(60_000, HALF),
        OptimisedUnaryEncoding(2, Fraction(1, 4)),
        OptimisedUnaryEncoding(12, Fraction(1, 4)),
        OptimisedUnaryEncoding(13, Fraction(1, 4)),
    ],
    ids=lambda one: f"{one.name} {one.values}",
)
def test_reports_arrive_as_they_were_sent(mechanism: ListedMechanism) -> None:
    values = np.arange(400) % (mechanism.values)
    reports = mechanism.randomise(values, KeyedBytes(KEY))
    texts = mechanism.encode(reports)
    assert {len(text) for text in texts} == {mechanism.report_length}
    decoded = mechanism.decode(texts)
    assert np.array_equal(decoded.reports, reports)
    assert decoded.reports.dtype == np.uint16
    assert not decoded.faults.any()


def test_reports_with_cohorts_arrive_as_they_were_sent() -> None:
    reports = SMALL.randomise([f"w{number % 7}" for number in range(300)], KeyedBytes(KEY))
    decoded = SMALL.decode(SMALL.encode(reports), [str(cohort) for cohort in reports[:, 0]])
    assert np.array_equal(decoded.reports, reports)
    with pytest.raises(InputError, match="cohorts: rappor needs one for each report"):
        SMALL.decode(SMALL.encode(reports))


def test_the_form_is_the_stated_one() -> None:
    """Hand-made, so that another program can write it."""
    assert OptimisedUnaryEncoding(6, Fraction(1, 4)).encode(np.array([[1, 0, 0, 0, 1, 1]], dtype=np.uint16)) == ["8c"]
    assert DirectEncoding(12, HALF).encode(np.array([[7]], dtype=np.uint16)) == ["07"]
    assert RandomisedResponse(Fraction(3, 4)).encode(np.array([[1], [0]], dtype=np.uint16)) == ["1", "0"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("8c", 0),
        ("", LENGTH),
        ("8", LENGTH),
        ("8c0", LENGTH),
        ("8c\0", LENGTH),
        ("8\0", CHARACTER),
        ("8C", CHARACTER),
        ("-1", CHARACTER),
        ("8 ", CHARACTER),
        ("٣٤", CHARACTER),
        ("𝟑𝟒", CHARACTER),
        ("8d", VALUE),
        ("ff", VALUE),
    ],
)
def test_texts_that_are_no_bits(text: str, fault: int) -> None:
    decoded = OptimisedUnaryEncoding(6, Fraction(1, 4)).decode(["00", text, "04"])
    assert decoded.faults.tolist() == [0, fault, 0], FAULTS[fault]
    assert decoded.reports[0].tolist() == [0] * 6
    assert decoded.reports[-1].tolist() == [0, 0, 0, 0, 0, 1]
    assert len(decoded.reports) == 3 - (fault > 0)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("11", 0), ("12", VALUE), ("99", VALUE), ("1", LENGTH), ("011", LENGTH), ("1a", CHARACTER), ("+1", CHARACTER)],
)
def test_texts_that_are_no_numbers(text: str, fault: int) -> None:
    decoded = DirectEncoding(12, HALF).decode([text, "03"])
    assert decoded.faults.tolist() == [fault, 0], FAULTS[fault]
    assert decoded.reports[-1].tolist() == [3]


@pytest.mark.parametrize("cohort", ["12", "-1", "01", "", "1.0", "a", "٣"])
def test_cohorts_that_are_none(cohort: str) -> None:
    decoded = SMALL.decode(["80", "zz", "40", "04"], ["0", cohort, cohort, "11"])
    assert decoded.faults.tolist() == [0, CHARACTER, COHORT, 0]
    assert decoded.reports.tolist() == [[0, 1, 0, 0, 0, 0, 0], [11, 0, 0, 0, 0, 0, 1]]


@pytest.mark.parametrize("bound", [2, 3, 5, 7, 100, 255, 256])
def test_every_number_comes_from_as_many_bytes(bound: int) -> None:
    """All 256 bytes, once each: what is not rejected is spread evenly. A remainder would not be."""
    every = bytes(range(256))
    width = (bound - 1).bit_length()
    kept = sum(byte >> (8 - width) < bound for byte in every)
    drawn = uniform_below(bound, kept, Scripted(every, allow_short=True))
    assert set(Counter(drawn.tolist()).values()) == {256 // 2**width}
    assert sorted(set(drawn.tolist())) == list(range(bound))
    remainder = Counter(byte % bound for byte in every)
    assert (len(set(remainder.values())) == 1) == (256 % bound == 0)


def test_wide_numbers_use_all_their_bits() -> None:
    assert uniform_below(2**32, 1, Scripted(b"\x01\x02\x03\x04")).tolist() == [0x01020304]
    assert uniform_below(2**62, 1, Scripted(b"\xff" * 8)).tolist() == [2**62 - 1]
    assert uniform_below(3 * 2**40, 1, Scripted(b"\xff" * 8 + b"\x80" + b"\0" * 7)).tolist() == [2**41]
    assert uniform_below(1, 3, Scripted(b"")).tolist() == [0, 0, 0]


def test_a_keyed_stream_does_not_depend_on_how_it_is_taken() -> None:
    whole = KeyedBytes(SECRET, ("a",)).take(200_000)
    pieces = KeyedBytes(SECRET, ("a",))
    assert b"".join(pieces.take(size) for size in (1, 65_535, 65_537, 68_927)) == whole
    assert len({whole[start : start + 32] for start in range(0, len(whole), 32)}) == len(whole) // 32


def test_streams_of_other_keys_and_contexts_are_others() -> None:
    contexts: list[tuple[str, ...]] = [(), ("",), ("ab", "c"), ("a", "bc"), ("abc",), ("a", "b", "c")]
    taken = [KeyedBytes(SECRET, context).take(32) for context in contexts]
    taken += [KeyedBytes(SECRET + b"\0").take(32), KeyedBytes(SECRET[:-1]).take(32)]
    assert len(set(taken)) == len(taken)
    with pytest.raises(ValueError, match="16 bytes"):
        KeyedBytes(b"short")


@pytest.mark.parametrize(
    "chance", [Fraction(n, d) for n, d in ((0, 1), (1, 1), (1, 2), (1, 3), (7, 10**12), (255, 257))]
)
def test_events_have_exactly_their_probability(chance: Fraction) -> None:
    """Of all first digits, of all second ones where the first decides nothing, and so on: their shares add up.

    What is left undecided after ten digits is less than 256^-9, and the sum differs from the probability by no more.
    """
    happened, weight, before = Fraction(0), Fraction(1), b""
    for _ in range(10):
        undecided = None
        for digit in range(256):
            try:
                happens = events(np.ones(1, dtype=bool), chance, Fraction(0), Scripted(before + bytes([digit])))
            except AssertionError:
                assert undecided is None, "one digit at most decides nothing"
                undecided = digit
            else:
                happened += weight / 256 * int(happens[0])
        weight /= 256
        if undecided is None:
            assert happened == chance
            return
        before += bytes([undecided])
    assert happened <= chance < happened + weight


def test_events_of_two_probabilities_are_kept_apart() -> None:
    likely = np.random.default_rng(1).random((400, 500)) < 0.3
    happens = events(likely, Fraction(9, 10), Fraction(1, 7), KeyedBytes(SECRET))
    for chance, where in ((0.9, likely), (1 / 7, ~likely)):
        error = np.sqrt(chance * (1 - chance) / where.sum())
        assert abs(happens[where].mean() - chance) < 4 * error < 0.05 * chance
