"""What kinds of a spec foretell besides the errors of counts: amounts, joins, public shares, reports of respondents.

What there is to say is stated by what a feature adds to a spec (a link, keys, a public fact, a source); here is what it
is asked, and of what form the answers are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from pipeline.estimation.expectation import Expectation
from pipeline.model.source import OWN_NOISE
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec

#: Records that a mean is of, in the plan.
RECORDS: Final = (100, 1_000, 10_000)


@dataclass(frozen=True)
class AmountRow:
    """What to expect of a table of sums at one level.

    Attributes:
        sum_error: expected absolute error of a sum, in what the amount is in; None where nothing determines it.
        sum_margin: margin of error (90 %) of a sum.
        mean_margins: records -> margin of error (90 %) of a mean of so many; empty where no number of records is
            published.
    """

    companion: str
    level: str
    query: str
    sum_error: float | None
    sum_margin: float | None
    mean_margins: Mapping[int, float]


@dataclass(frozen=True)
class JoinedRow:
    """What to expect of a companion and the persons in it at one level: standard errors, means over the geounits.

    Attributes:
        persons: of the number of persons in households.
        households_apart: of the number of households, if they were released without the joins.
        households: of the number of households with what the persons say of them.
    """

    companion: str
    level: str
    geounits: int
    persons: float | None
    households_apart: float | None
    households: float | None


def words_of_joins(spec: ReleaseSpec) -> tuple[str, ...]:
    """What each join of a spec says; nothing where there are none."""
    return tuple(words for part in spec.of_features for words in part.joined_words())


@dataclass(frozen=True)
class SharedRow:
    """The answers of one share at one level.

    Attributes:
        geounits, answers: of the level, and how many of the query are shared.
        without: expected absolute error of an answer without shares, mean over answers and geounits, in persons; None
            where the measurements do not determine it.
        error: the same with shares, if they fit as in the earlier release.
        budget: of the release.
        needed_without: the budget that gives `error` without shares, at the same division; None where none does.
        enough: the budget that gives `without` with shares, if they fit so; 0 where public
            shares alone do; None where `without` is.
    """

    name: str
    level: str
    query: str
    geounits: int
    answers: int
    without: float | None
    error: float | None
    budget: float
    needed_without: float | None
    enough: float | None


def names_of_shares(universe: Universe) -> tuple[str, ...]:
    """The names of the shares that a universe uses."""
    return tuple(name for one in universe.facts for name in one.names)


#: Standard error of a share of the respondents that a plan finds the number of respondents for.
SHARE_ERROR = 0.05


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


def local_rows(expectation: Expectation) -> tuple[LocalRow, ...]:
    """Of each level, top first; empty where counts are not made from reports.

    Errors are those of linear estimates: debiased counts of the reports of an area, and central measurements that learn
    from each other. Where counts are small a release is closer to the truth than either.
    """
    universe, spine = expectation.universe, expectation.spine
    expected = universe.source.expected_reports
    if expected is None:
        return ()
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
