"""A device: what it shows over time, the texts of its reports, and the random numbers that they are made of."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from oracles.randomisers import Scripted
from scipy import stats

from features.local.collect.bits import KeyedBytes, events, uniform_below
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.rappor import Rappor
from features.local.collect.reports import CHARACTER, COHORT, FAULTS, LENGTH, VALUE
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


def test_the_secret_is_not_shown_and_has_its_length() -> None:
    device = Respondent(RAPPOR, "browser", b"secret of thirty-two bytes......")
    assert "thirty" not in repr(device)
    with pytest.raises(InputError, match="secret: found 5 bytes; 32 random ones are needed"):
        Respondent(MEMOISED, "q", b"short")


# -- texts of reports -------------------------------------------------------------------------------------------------


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
    assert decoded.faults.tolist() == [fault, 0]
    assert decoded.reports[-1].tolist() == [3]


@pytest.mark.parametrize("cohort", ["12", "-1", "01", "", "1.0", "a", "٣"])
def test_cohorts_that_are_none(cohort: str) -> None:
    decoded = SMALL.decode(["80", "zz", "40", "04"], ["0", cohort, cohort, "11"])
    assert decoded.faults.tolist() == [0, CHARACTER, COHORT, 0]
    assert decoded.reports.tolist() == [[0, 1, 0, 0, 0, 0, 0], [11, 0, 0, 0, 0, 0, 1]]


# -- random whole numbers ---------------------------------------------------------------------------------------------


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
