"""Texts of reports: what is sent is what is read, and nothing else is taken for a report."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from features.local.collect.bits import KeyedBytes
from features.local.collect.listed import DirectEncoding, ListedMechanism, OptimisedUnaryEncoding, RandomisedResponse
from features.local.collect.rappor import Rappor
from features.local.collect.reports import CHARACTER, COHORT, FAULTS, LENGTH, VALUE
from pipeline.errors import InputError

KEY = b"a key of the tests, thirty-two b"
HALF = Fraction(1, 2)
RAPPOR = Rappor(6, 2, 12, HALF, HALF, Fraction(3, 4))


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
    reports = RAPPOR.randomise([f"w{number % 7}" for number in range(300)], KeyedBytes(KEY))
    decoded = RAPPOR.decode(RAPPOR.encode(reports), [str(cohort) for cohort in reports[:, 0]])
    assert np.array_equal(decoded.reports, reports)
    with pytest.raises(InputError, match="cohorts: rappor needs one for each report"):
        RAPPOR.decode(RAPPOR.encode(reports))


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
    decoded = RAPPOR.decode(["80", "zz", "40", "04"], ["0", cohort, cohort, "11"])
    assert decoded.faults.tolist() == [0, CHARACTER, COHORT, 0]
    assert decoded.reports.tolist() == [[0, 1, 0, 0, 0, 0, 0], [11, 0, 0, 0, 0, 0, 1]]


def test_no_texts_are_no_reports() -> None:
    assert RAPPOR.decode([], []).reports.shape == (0, 7)
    assert DirectEncoding(12, HALF).decode([]).reports.shape == (0, 1)
    assert OptimisedUnaryEncoding(6, Fraction(1, 4)).decode(["x"]).reports.shape == (0, 6)
