"""The plan of a release: what each universe promises and measures, and the errors to expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from features.plan.kinds import (
    RECORDS,
    AmountRow,
    JoinedRow,
    LocalRow,
    SharedRow,
    local_rows,
    names_of_shares,
    words_of_joins,
)
from features.plan.sizes import SizeRow, size_rows
from geography.spine import Spine
from pipeline.cost.limits import check_plan_size
from pipeline.cost.memory import Fitting, fitting
from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation
from pipeline.execution.settings import load_settings, memory_for_a_run
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statement_models import Statement, promise
from pipeline.privacy.limits import beyond_limits
from pipeline.release.area_sizes import SIZE_LABELS
from pipeline.release.privacy_statement import PrivacyStatement, privacy_statement
from pipeline.spec.release_spec import ReleaseSpec, as_spec
from postprocess.marginal import refines
from postprocess.statistics import NORMAL_QUANTILE

#: What determines a number: its measurements; those drawn where the released area above is positive, too; the shares
#: of its children, which completion knows; nothing.
GivenBy = Literal["measurements", "positive", "completion", "nothing"]
#: What stands in place of an error that is not known.
_UNKNOWN: Mapping[GivenBy, str] = {"positive": "in part", "completion": "completed", "nothing": "not determined"}
#: What the errors of a plan leave out.
REMARK = (
    "Errors are those of the linear estimate: exact from the noise, before counts are made whole and not negative. "
    "Where counts are small (below about three standard errors) the release is closer to the truth than that."
)


@dataclass(frozen=True)
class ExpectedRow:
    """One query at one level.

    Attributes:
        geounits, numbers: of the level, and of the query in each geounit.
        share: of the universe's whole budget, as exact text; "" where the query is not measured at the level.
        sigma: standard deviation of the noise on each number, persons; None where it is not measured.
        per_number: expected absolute error of a number, mean over numbers and geounits; None where the measurements do
            not determine it. Persons, as the next three.
        rmse: root of the expected squared error of a number, mean over numbers and geounits.
        per_geounit: the sum over the query's numbers, mean over geounits.
        margin90: half the width of a 90 % interval, mean over numbers and geounits.
        given_by: "measurements"; "positive" where measurements that are drawn only where the released area above is
            positive give it as far as they are drawn; "completion" where they determine it only at a level above, and
            its numbers there are divided by what is known of the children; "nothing" where they do not, or are divided
            evenly.
    """

    level: str
    query: str
    geounits: int
    numbers: int
    share: str
    sigma: float | None
    per_number: float | None
    rmse: float | None
    per_geounit: float | None
    margin90: float | None
    given_by: GivenBy


@dataclass(frozen=True, eq=False)
class UniversePlan:
    """What to expect of one universe."""

    expectation: Expectation
    statement: PrivacyStatement
    rows: tuple[ExpectedRow, ...]

    @property
    def universe(self) -> Universe:
        """The universe with its budget and strategy."""
        return self.expectation.universe

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "universe": self.universe.name,
            "privacy": self.statement.model_dump(mode="json", exclude={"universe"}),
            "estimator": self.expectation.estimator,
            "expected": [vars(row) for row in self.rows],
        }


@dataclass(frozen=True, eq=False)
class PlannedRelease:
    """What to expect of a release."""

    spec: ReleaseSpec
    spine: Spine
    universes: tuple[UniversePlan, ...]
    fitting: Fitting
    joint: Statement
    joined: tuple[JoinedRow, ...]
    shared: tuple[SharedRow, ...]
    local: tuple[LocalRow, ...]
    sizes: tuple[SizeRow, ...]

    @property
    def amounts(self) -> tuple[AmountRow, ...]:
        """What to expect of sums and means of amounts."""
        errors = {
            plan.universe.name: {
                (row.level, Query.parse(row.query, plan.universe.schema).terms): (row.per_number, row.margin90)
                for row in plan.rows
            }
            for plan in self.universes
        }
        return tuple(AmountRow(**row) for link in self._links for row in link.foretold(errors, RECORDS))

    @property
    def _links(self) -> tuple[Link, ...]:
        return self.spec.links([plan.universe for plan in self.universes])

    @property
    def unguessed_shares(self) -> tuple[str, ...]:
        """The names of the shares in use whose gain is not foretold, as no earlier release tells it."""
        told = {row.name for row in self.shared}
        return tuple(name for name in names_of_shares(self.universes[0].universe) if name not in told)

    @property
    def average_sizes(self) -> dict[str, tuple[str, ...]]:
        """Joined companion -> the levels at which its average household size is published."""
        levels = self.spine.level_names
        joined = [link for link in self._links if link.members]
        return {link.by: tuple(level for level in levels if link.average_size(level) is not None) for link in joined}

    @property
    def promise(self) -> str:
        """The release's one epsilon, and what it is about."""
        return promise(self.joint, self.universes[0].statement.delta)

    @property
    def undecided(self) -> str:
        """What a run decides from the records, in a sentence; "" where all is stated."""
        together = self.universes[0].universe.together
        return "" if together is None else together.undecided

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        joins = {
            "joins": list(words_of_joins(self.spec)),
            "joined": [vars(row) for row in self.joined],
            "average_household_sizes": {name: list(levels) for name, levels in self.average_sizes.items()},
        }
        shares = {
            "shares": [vars(row) for row in self.shared],
            "shares_without_a_guess": list(self.unguessed_shares),
        }
        return {
            "release": self.spec.name,
            "promise": self.promise,
            **({"undecided": self.undecided} if self.undecided else {}),
            "beyond_limits": list(beyond_limits([plan.universe for plan in self.universes])),
            "levels": [{"level": level.name, "geounits": len(level)} for level in self.spine.levels],
            "universes": [plan.data() for plan in self.universes],
            **(joins if joins["joins"] else {}),
            **({"local": [vars(row) for row in self.local]} if self.local else {}),
            **(shares if names_of_shares(self.universes[0].universe) else {}),
            **({"amounts": [vars(row) for row in self.amounts]} if self.amounts else {}),
            **({"by_size": [vars(row) | {"size": SIZE_LABELS[row.size]} for row in self.sizes]} if self.sizes else {}),
            "memory": vars(self.fitting.requested),
            "here": self.fitting.data(),
            "remark": REMARK,
        }


def levels_line(plan: PlannedRelease) -> str:
    """The levels by name and label, with how many geounits each has."""
    titles = plan.spec.labels().levels
    called = {name: f"{name} ({titles[name]})" if name in titles else name for name in plan.spine.level_names}
    return f"Plan of {plan.spec.name}: " + ", ".join(f"{called[one.name]} {len(one):,}" for one in plan.spine.levels)


def plan_release(stated: Path | ReleaseSpec, workers: int, like: Path | None = None) -> PlannedRelease:
    """The plan of a spec, or of a spec file. Reads the list of leaves and public counts, but no records.

    Args:
        stated: the spec, or its file.
        workers: processes that the run will have.
        like: an earlier release, for the sizes of areas and how well the same shares fitted; without it neither errors
            by size nor the gain of shares are foretold.

    Raises:
        InputError: something in the spec or its public files is wrong, or the spec is too large to plan.
        ReleaseError: the earlier release is damaged.
    """
    spec = as_spec(stated)
    spine = read_spine(spec.geography)
    check_plan_size(spec, spine)
    plans = []
    stated_universes = spec.universes()
    for universe in stated_universes:
        if reason := universe.source.refusal("plan"):  # of reports, nobody knows how many there will be
            raise InputError(reason)
        facilities = [read_facilities(bound, spine) for bound in universe.bounds]
        expectation = Expectation.of(universe, spine, facilities, spec.postprocess.estimator)
        plans.append(plan_universe(expectation, spec.postprocess.complete))
    expectations = [plan.expectation for plan in plans]
    fit = fitting(spec, spine, workers, memory_for_a_run(load_settings()))
    from pipeline.privacy.accounting.statements import (
        joint_statement,
        privacy_statements,  # these bring a large library
    )

    joint = joint_statement(stated_universes, [privacy_statements(universe) for universe in stated_universes])
    return PlannedRelease(
        spec,
        spine,
        tuple(plans),
        fit,
        joint,
        joined=tuple(JoinedRow(**row) for part in spec.of_features for row in part.joined_rows(spec, expectations)),
        shared=tuple(
            SharedRow(**row)
            for one in stated_universes[0].facts
            if like is not None
            for row in one.foretold(expectations[0], like)
        ),
        local=local_rows(expectations[0]),
        sizes=() if like is None else size_rows(expectations, like),
    )


def error_text(value: float | None, sign: str = "", given_by: GivenBy = "nothing") -> str:
    """An expected error as a plan shows it, or what is known of one that measurements do not determine."""
    if value is None:
        return _UNKNOWN[given_by]
    return "exact" if value == 0 else f"{sign}{value:,.2f}"


def plan_universe(expectation: Expectation, complete: str = "proportional") -> UniversePlan:
    """What to expect of one universe, for every measured and every published query at every level.

    Args:
        expectation: of the universe.
        complete: `[postprocess] complete`: what becomes of numbers that nothing measures.
    """
    universe = expectation.universe
    covariances, noise = expectation.planned(), expectation.noise()
    rows: list[ExpectedRow] = []
    known_above: set[tuple[str, ...]] = set()
    for level in universe.level_names:
        # What is measured at the level, what is measured elsewhere, and what is published at it; each once.
        strategy = universe.strategy.level(level)
        measured = [one.query for one in strategy.queries]
        shares = {one.query.terms: str(strategy.share * one.share) for one in strategy.queries}
        published = [table.query for table in universe.tables if level in table.levels]
        chosen: dict[tuple[str, ...], Query] = {}
        for query in (*measured, *universe.strategy.distinct_queries(), *published):
            chosen.setdefault(query.terms, query)
        for query in chosen.values():
            unknown: GivenBy = "completion" if complete == "proportional" and query.terms in known_above else "nothing"
            if any(refines(own.query, query) for own in strategy.where_positive):
                unknown = "positive"
            share = shares.get(query.terms, "")
            errors = expectation.errors(covariances, level, query)
            known = errors.per_geounit == errors.per_geounit
            rows.append(
                ExpectedRow(
                    level=level,
                    query=query.name,
                    geounits=len(expectation.spine.level(level)),
                    numbers=query.size,
                    share=share,
                    sigma=noise[level, query.name].variance ** 0.5 if share else None,
                    per_number=errors.per_number if known else None,
                    rmse=errors.rmse if known else None,
                    per_geounit=errors.per_geounit if known else None,
                    margin90=NORMAL_QUANTILE * errors.standard if known else None,
                    given_by="measurements" if known else unknown,
                )
            )
            if rows[-1].given_by in ("measurements", "positive"):
                known_above.add(query.terms)
    return UniversePlan(expectation, privacy_statement(universe), tuple(rows))
