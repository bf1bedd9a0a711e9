"""The periods of a series."""

from __future__ import annotations

import pytest

from features.years.series import Series, Step
from geography.errors import InputError

SERIES = Series("padron", "2031", "2033")


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


@pytest.mark.parametrize(
    ("period", "message"),
    [
        ("2034", "has 2031 to 2033; what comes after is another series"),
        ("2030", "has 2031 to 2033"),
        ("31", "found '31'; a year of series 'padron' is written as 2031"),
    ],
)
def test_other_periods_are_refused(period: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        SERIES.number(period)
    assert message in str(refused.value)


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
