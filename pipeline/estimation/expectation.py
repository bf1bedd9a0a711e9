"""What to expect of a universe, from the spec and the spine alone: no records are read, nothing is measured.

Which published numbers the measurements do not determine, from the spec and the spine alone.

A number is determined where what is measured of its area, and exact facts, give it. A release has some number there all
the same, but nothing holds it to the truth, and it has no margin. A table of which a whole level is such is left out
there, unless the spec names the levels of that table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from geography.spine import Spine
from pipeline.estimation.around_estimates import MeasuredSums
from pipeline.estimation.constraints import published_facilities
from pipeline.estimation.problem import invariants_of, sizes_in, unmeasured_problem
from pipeline.model.draw import Draw, Noise, by_level, everywhere
from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.strategy import LevelStrategy, MeasuredQuery, Strategy
from pipeline.model.universe import Table, Universe
from pipeline.release.published_files import UniverseFiles
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.spec.sections import SchemaSection, TableSection, UniverseSections
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.covariances import (
    ExpectedErrors,
    LevelClasses,
    LevelCovariances,
    covariances,
    expected_errors,
    geounit_classes,
    of_level,
)
from postprocess.linear.information import fixed_answers
from postprocess.linear.upward import basis_of
from postprocess.marginal import Marginal, refines

#: A level and a query, both by name.
Place = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Expectation:
    """One universe's errors as a function of its budget and the division of it.

    Attributes:
        universe: with the queries that may be measured; all of them keep a part of the budget.
        spine: the geography.
        estimator: "full" or "topdown".
        basis, classes: of its geounits.
        sizes: `(n_leaves,)` how many records stand behind each leaf, where the noise depends on it and this is known.
    """

    universe: Universe
    spine: Spine
    estimator: str
    basis: Basis
    classes: tuple[LevelClasses, ...]
    sizes: IntArray | None = None

    @classmethod
    def of(
        cls,
        universe: Universe,
        spine: Spine,
        facilities: Iterable[IntArray],
        estimator: str,
        invariants: Mapping[Place, IntArray] | None = None,
    ) -> Expectation:
        """The expectation of a universe.

        Args:
            facilities: of each of its bounds, `(n_geounits, n_columns)`.
            estimator: "full" or "topdown".
            invariants: (level, query) -> published answers, of a finished release; what a count of 0 forces is then
                known as well.
        """
        problem = unmeasured_problem(universe, spine, facilities, estimator, invariants)
        basis = basis_of(problem)
        return cls(universe, spine, estimator, basis, geounit_classes(problem, basis), sizes_in(universe, invariants))

    @classmethod
    def of_published(cls, universe: Universe, files: UniverseFiles, spine: Spine, estimator: str) -> Expectation:
        """The expectation of a universe whose public inputs and invariants are published in `files`.

        Raises:
            ReleaseError: a file is missing or damaged, or is not what the spec says.
        """
        facilities = published_facilities(files, universe, spine)
        return cls.of(universe, spine, facilities, estimator, invariants_of(files, universe, spine))

    @cached_property
    def measured(self) -> tuple[Place, ...]:
        """Every measured (level, query), top level first; without those that are drawn where the parent is positive."""
        return tuple((draw.level, draw.query.name) for draw in self._draws)

    @cached_property
    def _draws(self) -> tuple[Draw, ...]:
        return tuple(draw for draw in everywhere(self.universe.draws()) if draw.own)

    @cached_property
    def unit_precisions(self) -> tuple[tuple[int, FloatArray], ...]:
        """For each of `measured`: the number of its level, and the precision that a variance of 1 gives."""
        return tuple(
            (
                self.spine.index_of(draw.level),
                self.basis.precision([(self.universe.source.measured(draw.query), 1.0)]),
            )
            for draw in self._draws
        )

    def noise(self, universe: Universe | None = None) -> Mapping[Place, Noise]:
        """The noise on every measured query; InputError where there is none for its part of the budget."""
        return {
            (draw.level, draw.query.name): draw.noises[0] for draw in (universe or self.universe).draws() if draw.own
        }

    def covariances(self, precisions: Sequence[float] | FloatArray) -> tuple[LevelCovariances, ...]:
        """The covariances of every level, for a precision (1 / variance) on each of `measured`."""
        own = [np.zeros((1, *self.basis.precision([]).shape)) for _ in self.spine.levels]
        for precision, (level, unit) in zip(precisions, self.unit_precisions, strict=True):
            own[level] = own[level] + precision * unit
        return covariances(self.classes, own, self.estimator)

    def planned(self, universe: Universe | None = None) -> tuple[LevelCovariances, ...]:
        """The covariances with the exact variances of the noise that `universe` (by default its own) puts."""
        measured = universe or self.universe
        own = []
        for level in by_level(everywhere(measured.draws(self.spine, self.sizes)), self.spine.level_names):
            pairs = [(measured.source.measured(draw.query), draw.noises) for draw in level]
            of_kinds = [
                self.basis.precision([(marginal, noises[kind].variance) for marginal, noises in pairs])
                for kind in range(max((len(draw.noises) for draw in level), default=1))
            ]
            own.append(np.stack(of_kinds))
        return covariances(self.classes, own, self.estimator)

    def errors(self, planned: Sequence[LevelCovariances], level: str, query: Query) -> ExpectedErrors:
        """The expected errors of a query at a level, by the covariances of every level."""
        number = self.spine.index_of(level)
        return expected_errors(self.basis, self.classes[number], planned[number], query)

    def exact(self, level: int, marginal: Marginal) -> tuple[BoolArray, IntArray]:
        """Which answers zeros and invariants fix, `(n_classes, size)`, and the class of each geounit of a level."""
        classes = self.classes[level]
        return fixed_answers(self.basis, classes.fixed, marginal), classes.downward

    def divided(self, budget: Fraction, shares: Mapping[Place, Fraction]) -> Universe:
        """The universe with another budget, and other shares of it on `measured`; they add up to 1."""
        levels = []
        for level in self.universe.strategy.levels:
            parts = {query.query.name: shares[level.level, query.query.name] for query in level.queries}
            share = sum(parts.values(), Fraction(0))
            queries = tuple(MeasuredQuery(query.query, parts[query.query.name] / share) for query in level.queries)
            levels.append(LevelStrategy(level.level, share, queries))
        return replace(self.universe, budget=budget, strategy=Strategy(tuple(levels)))


@dataclass(frozen=True, eq=False)
class Determined:
    """What the measurements of one universe determine.

    Attributes:
        facilities: of each of its bounds, `(n_geounits, n_columns)`.
        estimator: "full" or "topdown".
        complete: "proportional" or "even", as in the spec.
    """

    universe: Universe
    spine: Spine
    facilities: Sequence[IntArray]
    estimator: str
    complete: str

    def unknown_share(self, query: Query, level: str) -> float:
        """The share that is not determined, of a query's numbers at a level that no exact fact fixes."""
        if self._is_measured(query, level):
            return 0.0
        number = self.spine.index_of(level)
        expectation, planned = self._planned
        classes = expectation.classes[number]
        variances = of_level(classes, planned[number]).of_classes(expectation.basis, query)
        free = float(classes.sizes @ (variances != 0).sum(axis=1))
        return float(classes.sizes @ np.isnan(variances).sum(axis=1)) / free if free else 0.0

    def completed_from(self, query: Query, level: str) -> str | None:
        """The lowest level above that determines all of a query, from which it is completed; None for no such level."""
        above = self.universe.level_names[: self.spine.index_of(level)]
        return next((name for name in reversed(above) if self.unknown_share(query, name) == 0), None)

    def _is_measured(self, query: Query, level: str) -> bool:
        """Whether a query that refines this one is surely measured in every geounit of the level, or below each."""
        number = self.spine.index_of(level)
        levels = self.universe.strategy.levels
        refined = [any(refines(own.query, query) for own in measured.queries) for measured in levels]
        if self.universe.bypass:  # which of several levels a geounit is measured at depends on the spine
            return all(there for there, measured in zip(refined, levels, strict=True) if measured.queries)
        if refined[number] or self.estimator != "full":
            return refined[number]
        # What is drawn where the released parent is positive is used at its own level.
        below = (own.query for each in levels[number + 1 :] for own in each.queries if not own.where_positive)
        return any(refines(fine, query) for fine in below)

    @cached_property
    def _planned(self) -> tuple[Expectation, tuple[LevelCovariances, ...]]:
        expectation = Expectation.of(self.universe, self.spine, self.facilities, self.estimator)
        return expectation, expectation.planned()


def published_tables(
    spec: ReleaseSpec,
    universes: Sequence[Universe],
    spine: Spine,
    facilities: Mapping[str, Sequence[IntArray]],
) -> tuple[ReleaseSpec, tuple[Universe, ...], tuple[str, ...]]:
    """The spec and its universes without tables of which nothing is determined, and a sentence for each of them.

    A table with `levels` of its own keeps them; its sentence says what has no margin. Where a table of the release
    itself is left out, so are those of companions whose intervals would have rested on it.
    """
    kept: list[Universe] = []
    sentences: list[str] = []
    for universe in universes:
        sections: UniverseSections = spec.companions[universe.name] if universe.name else spec
        settings = spec.postprocess
        determined = Determined(universe, spine, facilities[universe.name], settings.estimator, settings.complete)
        tables = [_kept_levels(determined, table, sections, sentences) for table in universe.tables]
        if spec.publish.margins:
            links = [link for link in spec.links((*kept, universe)) if link.of == universe.name]
            tables = [_levels_with_intervals(table, universe, links, sentences) for table in tables]
            for table in tables:
                sentences += _of_long_sums(table, universe, spine, settings.estimator)
        kept.append(replace(universe, tables=tuple(table for table in tables if table.levels)))
    for universe, before in zip(kept, universes, strict=True):
        if [(one.name, one.levels) for one in universe.tables] != [(one.name, one.levels) for one in before.tables]:
            spec = _with_tables(spec, universe)
    return spec, tuple(kept), tuple(sentences)


def _kept_levels(determined: Determined, table: Table, sections: UniverseSections, sentences: list[str]) -> Table:
    """The table at the levels at which it is published."""
    stated = (sections.tables or {}).get(table.name)
    insists = stated is not None and stated.levels is not None
    levels = []
    key = determined.universe.key(f"tables.{table.name}")
    for level in table.levels:
        unknown = determined.unknown_share(table.query, level)
        if unknown < 1 or insists:
            levels.append(level)
        if unknown == 1:
            done = "published without margins, as the spec names its levels" if insists else "left out there"
            if insists and (source := determined.completed_from(table.query, level)) is not None:
                how = "in proportion to what is measured" if determined.complete == "proportional" else "evenly"
                done += f": the numbers of level {source!r} are divided {how}"
            sentences.append(
                f"{key}: nothing that is measured determines {table.query.name!r} at level {level!r}; it is {done}"
            )
        elif unknown:
            percent = f"{100 * unknown:.1f} %" if unknown >= 0.001 else "less than 0.1 %"
            sentences.append(
                f"{key}: nothing that is measured determines {percent} of the numbers of "
                f"{table.query.name!r} that are not exact at level {level!r}; they are published without a margin"
            )
    return replace(table, levels=tuple(levels))


def _levels_with_intervals(table: Table, universe: Universe, links: Sequence[Link], sentences: list[str]) -> Table:
    """A table at the levels at which what its intervals need of other universes is published."""
    levels = []
    for level in table.levels:
        reasons = [reason for link in links if (reason := link.left_out(table, level))]
        sentences += [f"{universe.key(f'tables.{table.name}')}: {reason}" for reason in reasons]
        levels += [] if reasons else [level]
    return replace(table, levels=tuple(levels))


def _of_long_sums(table: Table, universe: Universe, spine: Spine, estimator: str) -> list[str]:
    """A sentence where the numbers of a table are sums of many measured answers, with what they are the sums of."""
    sums, places = MeasuredSums(universe, estimator), [spine.index_of(level) for level in table.levels]
    within = {
        spine.level_names[place]: sums.within(table.query, place)
        for place in places
        if sums.are_long(table.query, place)
    }
    if not within:
        return []
    levels, most = ", ".join(map(repr, within)), max(within.values())
    return [
        f"{universe.key(f'tables.{table.name}')}: its numbers are sums of up to {most} measured answers at level "
        f"{levels}; their intervals are around unbiased estimates, and wide: for shorter ones measure "
        f"{table.query.name!r}"
    ]


def _with_tables(spec: ReleaseSpec, universe: Universe) -> ReleaseSpec:
    """The spec with the universe's tables written out."""
    tables = {
        table.name: TableSection(query=table.query.name, levels=table.levels, median=table.median)
        for table in universe.tables
    }
    sections: UniverseSections = spec.companions[universe.name] if universe.name else spec
    update = {"tables": tables, "schema_section": _with_labels_of(sections.schema_section, tables)}
    if not universe.name:
        return spec.model_copy(update=update)
    companion = spec.companions[universe.name].model_copy(update=update)
    return spec.model_copy(update={"companions": {**spec.companions, universe.name: companion}})


def _with_labels_of(schema: SchemaSection, tables: Collection[str]) -> SchemaSection:
    """The schema without the titles of tables that are left out."""
    if schema.labels is None or not schema.labels.tables:
        return schema
    kept = {name: title for name, title in schema.labels.tables.items() if name in tables} or None
    return schema.model_copy(update={"labels": schema.labels.model_copy(update={"tables": kept})})
