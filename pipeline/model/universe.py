"""What a release measures, resolved: every name looked up, every share exact, every default filled in.

What public numbers of a feature say of a universe, as a value; no noise depends on it.

What is made of a fact, the feature that states it answers: estimation, the page and a plan ask all facts alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from geography.spine import Spine
from pipeline.errors import SpecError
from pipeline.model.content import content_sha256
from pipeline.model.draw import Draw
from pipeline.model.measure import COUNTS, ONE_RECORD, Measure, ProtectedUnit
from pipeline.model.promise import MechanismUse, Promise
from pipeline.model.query import Query
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Attribute, NumberColumn, Schema
from pipeline.model.selection import Selection, StatedSelection
from pipeline.model.series import SeriesPeriod
from pipeline.model.source import OWN_NOISE, Source
from pipeline.model.strategy import AddedAnswer, Earlier, Strategy
from pipeline.model.together import Together
from pipeline.privacy.budget import Framework, Neighbours, budget_of_one
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for
from postprocess.arrays import BoolArray, IntArray


class PublicFact:
    """A fact of one universe, which says nothing but for what its kind says otherwise.

    It is pickled, and holds no numbers.

    Attributes:
        template: of a fact that the report shows, where it says how numbers are estimated: the package and the name of
            a template with the macro `estimated(view, level_title)`; the latter is what a level is called for people.
    """

    template: tuple[str, str] = ("", "")

    def distinguished(self) -> tuple[Query, ...]:
        """The queries, beside the measured ones, that estimates must tell apart."""
        return ()

    def knowledge(self, job: Any, universe: Universe, results: Any) -> Any | None:  # noqa: ARG002
        """What estimation knows by it, a `pipeline.estimation.constraints.Knowledge`; None for nothing.

        Args:
            job: the run.
            universe: with the fact.
            results: its intermediate results.
        """
        return None

    def view(self, facts: Any) -> object | None:  # noqa: ARG002
        """What the macro is given, by the `ReleaseFacts` of a report; None where the report does not show it."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the shares in use, by which persons are shared among the areas of a parent."""
        return ()

    def foretold(self, expectation: Any, like: Path) -> Sequence[Mapping[str, Any]]:  # noqa: ARG002
        """The fields of a `features.plan.kinds.SharedRow` of each share that an earlier release used, at its levels.

        Args:
            expectation: of the universe with the shares; their public files are read.
            like: the earlier release.

        Raises:
            InputError: a public file cannot be read, or does not fit.
            ReleaseError: the earlier release is damaged.
        """
        return ()


class TableFact(ABC):
    """What keys of a feature state of a published table, whose numbers stand in files of the feature, as others.

    It is pickled, and holds no numbers. The files are written by the steps of `pipeline.spec.kind.Kind.table_steps`.
    """

    @abstractmethod
    def tabulated(self, table: Table) -> tuple[Table, ...]:
        """The tables, of other names than published ones, whose numbers stand in files of the feature with margins."""

    @abstractmethod
    def query(self, table: Table) -> Query:
        """That of the file: the table's, with the labels that the file has."""

    @abstractmethod
    def file(self, files: Any, table: Table, level: str) -> Path:
        """The file at a level, in the form of a table; `files` is the `UniverseDirectory` of the universe."""

    @abstractmethod
    def answers_in_file(self, table: Table) -> Iterator[tuple[Query, IntArray]]:
        """The queries whose answers it has, and for each answer the number of its column; -1 where it has none."""


@dataclass(frozen=True, eq=False)
class Table:
    """A published table: the answers of a query, for the geounits of some levels.

    Attributes:
        median: whether its one attribute has values in order, of which readers are shown the one with the median.
        facts: what features state of it.
    """

    name: str
    query: Query
    levels: tuple[str, ...]
    median: bool = False
    facts: tuple[TableFact, ...] = ()


@dataclass(frozen=True, eq=False)
class Bound:
    """In each geounit, an answer counts `lower` to `upper` persons for each facility.

    Attributes:
        file: CSV or Parquet with one row a geounit of `level`.
        geocode: the file's column of geocodes.
        lower, upper: persons per facility; an answer is 0 where there is no facility.
        columns: number of the query's answer -> the file's column with the number of facilities.
    """

    name: str
    level: str
    file: Path
    geocode: str
    query: Query
    lower: int
    upper: int
    columns: Mapping[int, str]


@dataclass(frozen=True, eq=False)
class Universe:
    """One histogram that is measured: persons, or a companion such as housing units.

    Attributes:
        name: "" for the release's own, else the companion's.
        budget: rho (framework "zcdp") or epsilon ("pure"), exact: what the change of one person costs, added answers
            and what was drawn before included; with framework "local" the epsilon of one report, which its sender has
            spent; 0 where nobody is promised anything (`promises`).
        delta: of the (epsilon, delta) statement; 0 with the frameworks "pure" and "local", unless a zero-concentrated
            central release is used beside reports.
        invariants: (level, query) whose answers are released exactly.
        structural_zeros: `(n_cells,)`, True where a cell is impossible.
        passes: queries whose answers are fixed first, in this order.
        input: the confidential records; None where the spec names none.
        preset: the preset that the strategy was made from, "" if none.
        dataset: the ledger's name for what the records are about, "" if the run is not charged to a ledger.
        stated_selections: tables whose detail is chosen privately; their shares of the budget are not the strategy's.
        population: about how many records there are, where that is public; for the limit on delta alone.
        bypass: a geounit without siblings is not measured; its budget goes to the one above, see `draw`.
        facts: what public numbers of features say of it; no noise depends on them.
        source: where the noisy numbers come from: by default the run draws noise on true counts.
        measure: what each record adds to its cell.
        unit: whose change is protected.
        added: answers of questions that are used beside the measurements; their budget is not the strategy's.
        series: its place in a series, whose whole budget is then the universe's; None of a release that is alone.
        together: what it is estimated together with; None where it is estimated alone.
        earlier: what was drawn from the same records before; its budget is not the strategy's.
    """

    name: str
    schema: Schema
    strategy: Strategy
    framework: Framework
    budget: Fraction
    delta: Fraction
    neighbours: Neighbours
    invariants: tuple[tuple[str, Query], ...]
    structural_zeros: BoolArray
    bounds: tuple[Bound, ...]
    tables: tuple[Table, ...]
    passes: tuple[Query, ...]
    input: RecordSource | None
    preset: str = ""
    dataset: str = ""
    bypass: bool = False
    stated_selections: tuple[StatedSelection, ...] = ()
    population: int | None = None
    facts: tuple[PublicFact, ...] = ()
    source: Source = OWN_NOISE
    measure: Measure = COUNTS
    unit: ProtectedUnit = ONE_RECORD
    added: tuple[AddedAnswer, ...] = ()
    series: SeriesPeriod | None = None
    together: Together | None = None
    earlier: Earlier | None = None

    @property
    def tabulated(self) -> tuple[Table, ...]:
        """All whose numbers are published with margins: the tables, and what features publish beside them."""
        beside = (one for table in self.tables for fact in table.facts for one in fact.tabulated(table))
        return (*self.tables, *beside)

    @property
    def own_budget(self) -> Fraction:
        """The budget without what was drawn apart, before or since, exact: what was spent when it was measured."""
        return self.budget - self._before - sum((answer.cost for answer in self.added), Fraction(0))

    @property
    def charged(self) -> Fraction:
        """What a ledger is charged for it, exact: nothing, where the series that it is of was opened before."""
        return self.own_budget + self._before if self.series is None or self.series.opens else Fraction(0)

    @property
    def _before(self) -> Fraction:
        """What was drawn before it was measured, exact."""
        return Fraction(0) if self.earlier is None else self.earlier.cost

    @property
    def own_record_budget(self) -> Fraction:
        """What the change of one record cost when the universe was measured, exact."""
        return budget_of_one(self.framework, self.own_budget, self.unit.records)

    @cached_property
    def selections(self) -> tuple[Selection, ...]:
        """The tables whose detail is chosen privately, with what the budget buys of them.

        Raises:
            ValueError: records move numbers by more than one, for which no choice has a price.
        """
        if self.stated_selections and self.reach != 1:
            raise ValueError(f"detail is chosen for counts; a record of {self.name!r} moves numbers by {self.reach}")
        return tuple(
            stated.bought(self.framework, self.own_record_budget, self.neighbours) for stated in self.stated_selections
        )

    @property
    def record_budget(self) -> Fraction:
        """What the change of one record costs, exact."""
        return budget_of_one(self.framework, self.budget, self.unit.records)

    @property
    def reach(self) -> int:
        """How far one record's change moves numbers: as if each that moves did so by this much; 1 for counts.

        Where the total of a unit is bounded, that of all its records.
        """
        return self.measure.reach(self.neighbours)

    @property
    def unit_budget(self) -> Fraction:
        """What a change costs that moves numbers by one each in one release, for which the noise is made; exact."""
        budget = budget_of_one(self.framework, self.own_record_budget, self.reach)
        return budget if self.series is None else budget / self.series.terms.distance

    @property
    def strategy_budget(self) -> Fraction:
        """What the strategy's level shares are shares of: `unit_budget` without that of selections, exact."""
        return self.unit_budget * (1 - sum((stated.share for stated in self.stated_selections), Fraction(0)))

    def draws(self, spine: Spine | None = None, sizes: IntArray | None = None) -> tuple[Draw, ...]:
        """All that is published of its records with noise, top level first: by the public spec and spine alone.

        Args:
            spine: the geography; without one, as if no geounit stood for others.
            sizes: see `source.Source.sizes`; without them noise is as the spec expects it.

        Raises:
            InputError: there is no noise for a part of the budget.
        """
        return self._draws if spine is None and sizes is None else self.source.draws(self, spine, sizes)

    @cached_property
    def _draws(self) -> tuple[Draw, ...]:
        return self.source.draws(self, None, None)

    @cached_property
    def promise(self) -> Promise:
        """What its people are promised."""
        distance = Fraction(1) if self.series is None else self.series.terms.distance
        return Promise(self.framework, self.neighbours, self.budget, self.unit.records, self.reach, distance)

    @property
    def promises(self) -> tuple[Promise, ...]:
        """The promise, of a universe that makes one: there is none where others published all of its numbers."""
        return () if self.source.received else (self.promise,)

    @cached_property
    def uses(self) -> tuple[MechanismUse, ...]:
        """Every mechanism that it uses on its records: of draws, of answers, of private choices and what they choose.

        Nothing of what was drawn before (`earlier`), nor of what others drew. With bypassing, costs are those of
        geounits that stand for no other.

        Raises:
            InputError: there is no noise for a part of the budget.
        """
        promise, uses = self.promise, []
        for draw in self.draws():
            query, told = draw.query, self.told_by(draw.query)
            if draw.asked is not None:
                noise, cost = draw.asked.noise, draw.asked.cost
                uses.append(MechanismUse(draw.level, query.name, told, query.n_asked, noise, cost))
            elif draw.drawn:
                (noise,) = draw.drawn
                uses.append(MechanismUse(draw.level, query.name, told, query.n_asked, noise, promise.cost(noise)))
        for one in self.selections:
            level, select, finest = one.level, one.select, one.versions[-1]
            for name, told, size, mechanism in (
                (select.stream_name, frozenset[str](), 1, select.mechanism),
                (select.measured_name, self.told_by(finest), finest.size, one.noise),
            ):
                uses.append(MechanismUse(level, name, told, size, mechanism, promise.cost(mechanism), chosen=True))
        return tuple(uses)

    @property
    def drawn_before(self) -> tuple[MechanismUse, ...]:
        """What was drawn of its records before, for an account.

        Raises:
            ValueError: changes of the universe are others than of one record, one number each.
        """
        if self.earlier is None:
            return ()
        if self.bypass or self.invariants or self.reach > 1 or self.series is not None:
            raise ValueError("what was drawn before has no price beside invariants, bypassing, amounts or a series")
        return self.earlier.uses

    def told_by(self, query: Query) -> frozenset[str]:
        """The attributes that a query does not sum out."""
        groupings = zip(self.schema.names, query.groups, strict=True)
        return frozenset(name for name, groups in groupings if any(group != groups[0] for group in groups))

    def noise_at(self, level_share: Fraction, share: Fraction) -> NoiseSpec:
        """The noise on a query that gets `share` of a level's share; InputError where there is none."""
        return noise_for(self.framework, self.strategy_budget, level_share, share, self.neighbours)

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels' names, top first."""
        return self.strategy.level_names

    @property
    def own_records(self) -> bool:
        """Whether it is a companion of the release's own records."""
        return bool(self.name) and (self.measure.own_records or self.together is not None)

    @property
    def record_attributes(self) -> tuple[Attribute, ...]:
        """The attributes of its microdata; none where it has no such file."""
        if self.together is not None:
            return self.together.record_attributes(self.name)
        return self.schema.attributes if self.measure.counts else ()

    @property
    def record_numbers(self) -> tuple[NumberColumn, ...]:
        """The columns of numbers of its microdata; those of links, `Link.numbers`, are besides."""
        return () if self.together is None else self.together.record_numbers(self.name)

    def key(self, name: str) -> str:
        """Where `name` of this universe stands in the spec: "input", or "companions.units.input"."""
        return f"companions.{self.name}.{name}" if self.name else name

    def require_input(self) -> RecordSource:
        """The records; SpecError where the spec names none."""
        if self.input is None:
            raise SpecError(f"{self.key('input')}: missing; a run needs the records: file, form and geocode")
        return self.input

    def privacy_fingerprint(self) -> str:
        """SHA-256 in hexadecimal over all that the distribution of the noise depends on.

        That is the universe's name, framework, budget, neighbours, attributes and values, and for each level its share
        and queries (names, groups and shares), whether geounits without siblings are bypassed, the selections, how many
        records one person's change alters, what the measure adds, the answers that were added, and the place in
        a series. The order of a level's queries does not matter.
        """
        own = [] if self.series is None else [self.series.own]
        return content_sha256([*self._privacy_content(), *own])

    @cached_property
    def series_fingerprint(self) -> str:
        """The same over what all releases of its series have in common."""
        return content_sha256(self._privacy_content())

    def _privacy_content(self) -> list[object]:
        levels = [
            [
                level.level,
                str(level.share),
                sorted([m.query.name, str(m.share), [g.tolist() for g in m.query.groups]] for m in level.queries),
            ]
            for level in self.strategy.levels
        ]
        attributes = [[a.name, *a.values] for a in self.schema.attributes]
        head: list[object] = ["universe", 1, self.name, self.framework, str(self.budget), self.neighbours]
        content = [*head, attributes, levels]
        if self.bypass:
            content.append("bypass")
        if self.selections:
            content.append(["select", *(_selection_content(selection) for selection in self.selections)])
        if self.unit.records > 1:
            content.append(["records per person", self.unit.records])
        content += self.measure.content()
        if self.added:
            content.append(["added", *(answer.sha256 for answer in self.added)])
        if self.series is not None:
            content.append(self.series.whole)
        return content


def _selection_content(selection: Selection) -> list[object]:
    """All that the distribution of a selection's choices and noise depends on, as JSON."""
    versions = [
        [query.name, least, [group.tolist() for group in query.groups]]
        for query, (_, least) in zip(selection.versions, selection.select.versions, strict=True)
    ]
    return [
        selection.name,
        selection.level,
        versions,
        str(selection.share),
        str(selection.select.epsilon),
        str(selection.noise.scale),
    ]


def promised(universes: Iterable[Universe]) -> tuple[Universe, ...]:
    """Those whose people are promised something; none of a release from numbers that others published."""
    return tuple(universe for universe in universes if universe.promises)
