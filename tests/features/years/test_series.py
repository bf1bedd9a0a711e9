"""The periods of a series, and that only the next one of an unbroken chain can be released."""

from __future__ import annotations

from dataclasses import replace

import pytest

from features.years.design import independent
from features.years.series import Period, Released, Series, Step
from geography.errors import InputError

SERIES = Series("padron", "2031", "2033")
DESIGN = independent(3, 2, "change-one")
FIRST = Released("padron", "2031", "aa", "first", DESIGN)
SECOND = Released("padron", "2032", "bb", "aa", DESIGN)


@pytest.mark.parametrize(
    ("first", "last", "step", "periods"),
    [
        ("2031", "2033", "year", ["2031", "2032", "2033"]),
        ("2031-Q4", "2032-Q2", "quarter", ["2031-Q4", "2032-Q1", "2032-Q2"]),
        ("2031-11", "2032-01", "month", ["2031-11", "2031-12", "2032-01"]),
        ("2032-02-28", "2032-03-01", "day", ["2032-02-28", "2032-02-29", "2032-03-01"]),
        ("2031", "2031", "year", ["2031"]),
    ],
)
def test_periods(first: str, last: str, step: Step, periods: list[str]) -> None:
    series = Series("one", first, last, step)
    assert list(series.periods) == periods
    assert [series.number(period) for period in periods] == list(range(len(periods)))


def test_the_next_period_follows_the_release_before() -> None:
    assert SERIES.next("2031", [], DESIGN) == Period(0, "first")
    assert SERIES.next("2032", [FIRST], DESIGN) == Period(1, "aa")
    assert SERIES.next("2033", [SECOND, FIRST], DESIGN) == Period(2, "bb")


@pytest.mark.parametrize(
    ("period", "released", "message"),
    [
        ("2031", [FIRST], "period 2031 of series 'padron': released already, as aa"),
        ("2033", [FIRST], "2032 is not released; it comes first"),
        ("2033", [SECOND], "found a release of it, and none of 2031"),
        ("2032", [FIRST, replace(FIRST, hash="cc")], "found two releases of it"),
        ("2033", [FIRST, replace(SECOND, predecessor="cc")], "it follows cc, and the release before it is aa"),
        ("2032", [replace(FIRST, predecessor="cc")], "it follows cc, and the release before it is first"),
        ("2032", [replace(FIRST, series="other")], "found a release of series 'other'"),
        ("2032", [replace(FIRST, design=independent(3, 1, "change-one"))], "mixed by another design"),
        ("2034", [FIRST, SECOND], "has 2031 to 2033; what comes after is another series"),
        ("2030", [], "has 2031 to 2033"),
        ("31", [], "found '31'; a year of series 'padron' is written as 2031"),
    ],
)
def test_everything_else_is_refused(period: str, released: list[Released], message: str) -> None:
    with pytest.raises(InputError) as refused:
        SERIES.next(period, released, DESIGN)
    assert message in str(refused.value)


def test_a_design_of_another_horizon_is_refused() -> None:
    with pytest.raises(InputError, match="found a design of 4 periods; it has 3"):
        SERIES.next("2031", [], independent(4, 2, "change-one"))


@pytest.mark.parametrize(
    ("name", "first", "last", "step", "message"),
    [
        ("", "2031", "2032", "year", "found no name"),
        ("one", "2032", "2031", "year", "found 2031 as its last period, before 2032"),
        ("one", "2031-13", "2032-01", "month", "found '2031-13'; a month of series 'one' is written as 2031-01"),
        ("one", "2031-02-29", "2031-03-01", "day", "found '2031-02-29', which is no day"),
        ("one", "2031", "2032", "week", "found 'week'; allowed are year, quarter, month, day"),
    ],
)
def test_what_is_no_series_is_refused(name: str, first: str, last: str, step: Step, message: str) -> None:
    with pytest.raises(InputError) as refused:
        Series(name, first, last, step)
    assert message in str(refused.value)
