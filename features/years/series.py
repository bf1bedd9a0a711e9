"""A series: its name and its periods, by years, quarters, months or days."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Final, Literal

from geography.errors import InputError

__all__ = ["STEPS", "Series", "Step"]

Step = Literal["year", "quarter", "month", "day"]
#: Of each step the form of its periods, as SDMX writes them in TIME_PERIOD.
STEPS: Final[dict[Step, tuple[str, str]]] = {
    "year": (r"[0-9]{4}", "2031"),
    "quarter": (r"[0-9]{4}-Q[1-4]", "2031-Q1"),
    "month": (r"[0-9]{4}-(0[1-9]|1[0-2])", "2031-01"),
    "day": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "2031-01-01"),
}
_A_YEAR: Final[dict[Step, int]] = {"year": 1, "quarter": 4, "month": 12}


@dataclass(frozen=True)
class Series:
    """The periods of a series, all of which are paid for when it is opened.

    Attributes:
        name: of the series.
        first, last: periods in the form of the step, such as "2031", "2031-Q1", "2031-01" or "2031-01-01".
        step: from one period to the next.

    Raises:
        InputError: a period is none of the step's, or the last is before the first.

    >>> Series("padron", "2031-Q3", "2032-Q1", "quarter").periods
    ('2031-Q3', '2031-Q4', '2032-Q1')
    """

    name: str
    first: str
    last: str
    step: Step = "year"

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("series: found no name")
        if self.step not in STEPS:
            raise InputError(f"step of series {self.name!r}: found {self.step!r}; allowed are {', '.join(STEPS)}")
        begun, ended = (self._ordinal(period) for period in (self.first, self.last))
        if ended < begun:
            raise InputError(f"series {self.name!r}: found {self.last} as its last period, before {self.first}")

    @cached_property
    def periods(self) -> tuple[str, ...]:
        """All of them, first to last."""
        begun, ended = self._ordinal(self.first), self._ordinal(self.last)
        return tuple(self._label(ordinal) for ordinal in range(begun, ended + 1))

    def number(self, period: str) -> int:
        """Which period that is, from 0.

        Raises:
            InputError: the series has no such period.
        """
        ordinal = self._ordinal(period) - self._ordinal(self.first)
        if not 0 <= ordinal < len(self.periods):
            raise InputError(
                f"period {period}: series {self.name!r} has {self.first} to {self.last}; "
                "what comes after is another series with a budget of its own"
            )
        return ordinal

    def days(self, period: str) -> tuple[str, str]:
        """First and last day of a period.

        >>> Series("padron", "2031-Q1", "2031-Q4", "quarter").days("2031-Q2")
        ('2031-04-01', '2031-06-30')
        """
        ordinal = self._ordinal(period)
        if self.step == "day":
            return period, period
        months = 12 // _A_YEAR[self.step]
        year, part = divmod(ordinal, _A_YEAR[self.step])
        first, last = part * months + 1, (part + 1) * months
        return f"{year:04d}-{first:02d}-01", f"{year:04d}-{last:02d}-{monthrange(year, last)[1]}"

    def _ordinal(self, period: str) -> int:
        form, example = STEPS[self.step]
        allowed = f"a {self.step} of series {self.name!r} is written as {example}"
        if re.fullmatch(form, period, re.ASCII) is None:
            raise InputError(f"period: found {period!r}; {allowed}")
        if self.step == "day":
            try:
                return date.fromisoformat(period).toordinal()
            except ValueError:
                raise InputError(f"period: found {period!r}, which is no day; {allowed}") from None
        year, part = int(period[:4]), int(period[5:].lstrip("Q") or 1)
        return year * _A_YEAR[self.step] + part - 1

    def _label(self, ordinal: int) -> str:
        if self.step == "day":
            return (date.min + timedelta(days=ordinal - 1)).isoformat()
        year, part = divmod(ordinal, _A_YEAR[self.step])
        return f"{year:04d}" + {"year": "", "quarter": f"-Q{part + 1}", "month": f"-{part + 1:02d}"}[self.step]
