"""What reports give in the local model, beside what true records would give in the central one for the same epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from rich.console import Console
from rich.table import Table

from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation
from pipeline.model.source import OWN_NOISE
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy
from pipeline.model.universe import Universe

#: Standard error of a share of the respondents that a plan finds the number of respondents for.
SHARE_ERROR = 0.05


@runtime_checkable
class FromReports(Protocol):
    """A source of noisy numbers that are made of randomised reports."""

    @property
    def expected_reports(self) -> int | None:
        """Of a leaf; None where the spec does not say."""

    @property
    def variance_of_report(self) -> float:
        """Of one answer's count, for one report, mean over the answers."""


@dataclass(frozen=True)
class LocalRow:
    """One level.

    Attributes:
        geounits: of the level.
        reports: that are expected in one of them, mean over them.
        local, central: standard error of the number of respondents with one answer, mean over answers and areas: from
            reports, and from true answers with noise of the same epsilon, divided evenly over the levels.
        needed, needed_centrally: respondents of an area for a standard error of `SHARE_ERROR` of its respondents.
    """

    level: str
    geounits: int
    reports: float
    local: float
    central: float
    needed: int
    needed_centrally: int

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return vars(self)


def check_expected(universe: Universe) -> None:
    """Raises InputError where a plan of reports does not know how many there will be."""
    if reason := universe.source.refusal("plan"):
        raise InputError(reason)


def local_rows(expectation: Expectation) -> tuple[LocalRow, ...]:
    """Of each level, top first; empty where counts are not made from reports.

    Errors are those of linear estimates: debiased counts of the reports of an area, and central measurements that learn
    from each other. Where counts are small a release is closer to the truth than either.
    """
    universe, spine = expectation.universe, expectation.spine
    if not isinstance(universe.source, FromReports) or universe.source.expected_reports is None:
        return ()
    expected = universe.source.expected_reports
    central = Expectation.of(_central(universe), spine, [], "full")
    planned, planned_centrally = expectation.planned(), central.planned()
    (measured,) = universe.strategy.levels[-1].queries
    rows = []
    # Of one report, for a number: the error of n reports is its root of n times, that of a share 1 / root of n times.
    one = universe.source.variance_of_report
    for level in spine.levels:
        own = expectation.errors(planned, level.name, measured.query).standard
        other = central.errors(planned_centrally, level.name, measured.query).standard
        rows.append(
            LocalRow(
                level=level.name,
                geounits=len(level),
                reports=expected * spine.n_leaves / len(level),
                local=own,
                central=other,
                needed=math.ceil(one / SHARE_ERROR**2),
                needed_centrally=math.ceil(other / SHARE_ERROR),
            )
        )
    return tuple(rows)


def _central(universe: Universe) -> Universe:
    """The same question asked of true records: discrete Laplace noise of the same epsilon, all levels alike."""
    levels = universe.strategy.levels
    (measured,) = levels[-1].queries
    share, queries = Fraction(1, len(levels)), (MeasuredQuery(measured.query, Fraction(1)),)
    strategy = Strategy(tuple(LevelStrategy(level.level, share, queries) for level in levels))
    return replace(universe, framework="pure", strategy=strategy, source=OWN_NOISE)


def show_local(rows: tuple[LocalRow, ...], console: Console) -> None:
    """The rows on the terminal."""
    error = f"{100 * SHARE_ERROR:g} %"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("level", no_wrap=True)
    for title in (
        "reports of an area",
        "standard error, local",
        "central",
        f"respondents needed for {error}, local",
        "central",
    ):
        table.add_column(title, justify="right")
    for row in rows:
        errors = (f"{row.reports:,.0f}", f"{row.local:,.1f}", f"{row.central:,.1f}")
        table.add_row(row.level, *errors, f"{row.needed:,}", f"{row.needed_centrally:,}")
    console.print(table)
    console.print(
        "Local: every answer is randomised before it is sent. Central: true answers are collected, and protected with "
        "the same epsilon when they are published, divided evenly over the levels. Standard errors of the number of "
        "respondents with one answer, in an area; then how many respondents an area needs for a standard error of "
        f"{error} of them. The local error grows with the square root of the respondents, the central one "
        "does not grow.",
        soft_wrap=True,
    )
