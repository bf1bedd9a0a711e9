"""A device answers again and again, and shows no more than its permanent response."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from features.local.collect.bits import KeyedBytes
from features.local.collect.listed import DirectEncoding, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.rappor import Rappor
from features.local.collect.respondent import Respondent
from pipeline.errors import InputError

SECRET = bytes(range(32))
MEMOISED = DirectEncoding(12, Fraction(1, 4), memoised=True)
RAPPOR = Rappor(32, 2, 16, Fraction(1, 2), Fraction(1, 2), Fraction(3, 4))


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
    device = Respondent(RAPPOR, "browser", SECRET, KeyedBytes(SECRET))
    sent = [device.send("a word") for _ in range(3_000)]
    assert {one.cohort for one in sent} == {str(device.cohort)}
    means = RAPPOR.decode([one.report for one in sent], [one.cohort for one in sent]).reports[:, 1:].mean(axis=0)
    nearer = np.where(means > 0.625, 0.75, 0.5)
    assert np.abs(means - nearer).max() < 4.5 * np.sqrt(0.25 / 3_000)
    again = Respondent(RAPPOR, "browser", SECRET, KeyedBytes(b"other randomness"))
    later = [again.send("a word").report for _ in range(3_000)]
    rows = RAPPOR.decode(later, [str(again.cohort)] * 3_000).reports[:, 1:]
    assert np.array_equal(np.where(rows.mean(axis=0) > 0.625, 0.75, 0.5), nearer)


def test_cohorts_are_spread_and_kept() -> None:
    cohorts = [Respondent(RAPPOR, "browser", secret(one)).cohort for one in range(1_600)]
    assert stats.chisquare(np.bincount(cohorts, minlength=16)).pvalue > 1e-3
    assert Respondent(MEMOISED, "q", SECRET).cohort == 0


def test_the_secret_is_not_shown_and_has_its_length() -> None:
    device = Respondent(RAPPOR, "browser", b"secret of thirty-two bytes......")
    assert "thirty" not in repr(device)
    with pytest.raises(InputError, match="secret: found 5 bytes; 32 random ones are needed"):
        Respondent(MEMOISED, "q", b"short")


def test_values_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(InputError, match="value: rappor needs a text"):
        Respondent(RAPPOR, "q", SECRET).send(3)
    with pytest.raises(InputError, match="value: direct_encoding needs the number of a value"):
        Respondent(MEMOISED, "q", SECRET).send("asthma")
