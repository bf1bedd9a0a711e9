"""The files of a release that people use, and what each of their columns is.

It is the one list that every description of a release, and every export of its tables, is made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipeline.model.household_table import NO_MARGINS, HouseholdTable
from pipeline.model.join import HOUSEHOLD, MEMBERS
from pipeline.model.labels import Labels
from pipeline.model.links.households import Households, size_sources
from pipeline.model.links.link import links_of_kind
from pipeline.model.links.sums_of_counts import SumsOfCounts
from pipeline.model.query import Query
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.texts.message import marked
from pipeline.model.texts.sentences import sentence
from pipeline.release.joined.means import COUNT, MEAN, SUM
from pipeline.release.joined.sizes import AVERAGE, HOUSEHOLDS, PERSONS
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.tables import HIGH_SUFFIX, INTERVAL_SUFFIXES, LOW_SUFFIX, MARGIN_SUFFIX

if TYPE_CHECKING:
    from pipeline.model.universe import Table, Universe
    from pipeline.spec.release_spec import ReleaseSpec

Kind = Literal[
    "table", "household sizes", "household table", "amounts", "measurement", "selection", "microdata", "words"
]
Type = Literal["string", "integer", "number", "any"]

#: What each column of an interval is.
SUFFIX_WORDS = {
    MARGIN_SUFFIX: marked("margin of error (90 %)"),
    LOW_SUFFIX: marked("lower end of the 90 % interval"),
    HIGH_SUFFIX: marked("upper end of the 90 % interval"),
}
_VARIANCE = marked("Variance of the noise on each")


@dataclass(frozen=True)
class Column:
    """A column of a file.

    Attributes:
        title: for people.
        filled: whether every row has a value.
        values: all that it can have; () for numbers and codes.
    """

    name: str
    type: Type
    title: str
    filled: bool = True
    values: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class DataFile:
    """One published file of rows.

    Attributes:
        path: below the folder of an export, without a suffix, with slashes.
        source: the file under public/.
        universe, table: "" where it is of none; of a measurement, the query's name.
        level: of its geounits.
        heading: what it has, for people.
        title: the same, and by which areas.
        columns: in their order.
        keys: the columns that name a row; () where rows have no name.
        axes: label of what a column's answer is of, its values in the order of columns: one for each term of the query.
    """

    path: str
    kind: Kind
    source: Path
    universe: str
    table: str
    level: str
    heading: str
    title: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ("geocode",)
    axes: tuple[Axis, ...] = ()
    note: str = ""

    def with_names(self, column: str, title: str) -> DataFile:
        """The file with a column of areas' names after the geocodes."""
        geocode, *rest = self.columns
        return replace(self, columns=(geocode, Column(column, "string", title), *rest))


@dataclass(frozen=True)
class Axis:
    """One of the terms whose values make the answers of a table, the last one fastest.

    Attributes:
        universe: whose records it is of.
        term: attribute or recode.
        label: of it, for people.
        values, labels: of its values.
    """

    universe: str
    term: str
    label: str
    values: tuple[str, ...]
    labels: tuple[str, ...]


class Contents:
    """The files of a release, of each kind, in the language of its report; nothing is read.

    Args:
        spec: of the release.
        universes: as the spec resolves to.
        run: whose files they are.
    """

    def __init__(self, spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> None:
        self._spec = spec
        self._universes = tuple(universes)
        self._links = spec.links(self._universes)
        self._run = run
        self._levels = spec.geography.level_names
        self._texts = texts_in(spec.report.language)

    def tables(self) -> Iterator[DataFile]:
        """Tables of every universe, level by level."""
        for universe in self._universes:
            labels = self._spec.labels(universe.name)
            for table in universe.tables:
                for level in table.levels:
                    yield self._table(universe, table, level, labels)

    def household_sizes(self) -> Iterator[DataFile]:
        """Average household sizes of joined companions."""
        for level in self._levels:
            for source in size_sources(self._links, level):
                companion = source.residents.companion
                named = self._spec.labels(companion).records or companion
                columns = [
                    Column(PERSONS, "integer", self._texts("Persons in {what}", what=named)),
                    Column(HOUSEHOLDS, "integer", named[:1].upper() + named[1:]),
                    *self._with_interval(AVERAGE, "number", self._texts("Persons for each"), filled=False),
                ]
                yield DataFile(
                    f"household_sizes/{companion}/{level}",
                    "household sizes",
                    self._run.household_sizes(companion, level),
                    *(companion, companion, level),
                    *self._titles(self._texts("Average size of {what}", what=named), level),
                    (self._geocode(level), *columns),
                )

    def amounts(self) -> Iterator[DataFile]:
        """Sums and means of the companions of amounts, for each of their tables."""
        texts = self._texts
        for link in links_of_kind(self._links, SumsOfCounts):
            universe, labels = link.sums, self._spec.labels(link.of)
            for table in universe.tables:
                answers = list(zip(table.query.answer_labels(), labels.answers(table.query), strict=True))
                for level in table.levels:
                    columns: list[Column] = []
                    for name, title in answers:
                        columns += self._with_interval(name + SUM, "number", texts("{title}: sum", title=title))
                        if link.records(table, level) is not None:
                            columns.append(Column(name + COUNT, "integer", texts("{title}: records", title=title)))
                            mean = texts("{title}: mean", title=title)
                            columns += self._with_interval(name + MEAN, "number", mean, filled=False)
                    yield DataFile(
                        f"amounts/{universe.name}/{table.name}/{level}",
                        "amounts",
                        self._run.means(universe.name, table.name, level),
                        *(universe.name, table.name, level),
                        *self._titles(texts("{what}: sums and means", what=self._counted(universe, table)), level),
                        (self._geocode(level), *columns),
                        axes=axes_of(table.query, labels, universe.name),
                    )

    def household_tables(self) -> Iterator[DataFile]:
        """Tables of persons by what their households are."""
        own = self._spec.labels()
        for table in self._spec.tables_of_households():
            axes = (
                *axes_of(table.persons, own, ""),
                *axes_of(table.households, self._spec.labels(table.companion), table.companion),
            )
            titles = labels_of_household_table(table, own, self._spec.labels(table.companion))
            counts = [Column(name, "integer", title) for name, title in zip(table.labels, titles, strict=True)]
            for level in table.levels:
                yield DataFile(
                    f"household_tables/{table.name}/{level}",
                    "household table",
                    self._run.household_table(table.name, level),
                    *("", table.name, level),
                    *self._titles(own.table(table.name), level),
                    (self._geocode(level), *counts),
                    axes=axes,
                    note=sentence(self._texts, NO_MARGINS),
                )

    def measurements(self) -> Iterator[DataFile]:
        """Noisy answers and invariants, with a column for each answer; in the files they are lists."""
        texts = self._texts
        for universe in self._universes:
            labels, folder = self._spec.labels(universe.name), self._run.universe(universe.name)
            for allocated in universe.strategy.levels:
                level, measured = allocated.level, allocated.queries
                kind, what_varies = marked("{query}: noisy answers as they were published"), _VARIANCE
                if universe.collected is not None:
                    kind = marked("{query}: totals of randomised reports as they were published")
                    what_varies = marked("Variance of each count that is made from them")
                if universe.central is not None and level in universe.central.shares:
                    kind, what_varies = marked("{query}: noisy answers of another release"), _VARIANCE
                    measured = universe.strategy.levels[-1].queries
                noisy = [(folder.measurement(level, one.query.name), one.query, kind) for one in measured]
                exact = [
                    (
                        folder.invariant(level, query.name),
                        query,
                        marked("{query}: exact answers as they were published"),
                    )
                    for name, query in universe.invariants
                    if name == level
                ]
                of_answer = marked("{query}: noisy counts of the answer")
                answers = [
                    (folder.measurement(level, one.query.name), one.query, of_answer)
                    for one in universe.added_at(level)
                ]
                for source, query, what in (*noisy, *answers, *exact):
                    yield DataFile(
                        self._run.name_of(source).removesuffix(".parquet"),
                        "measurement",
                        source,
                        *(universe.name, query.name, level),
                        *self._titles(texts(what, query=query.name), level),
                        (
                            self._geocode(level),
                            *(
                                Column(name, "integer", title)
                                for name, title in zip(query.answer_labels(), labels.answers(query), strict=True)
                            ),
                            Column(variance_column(query.answer_labels()), "number", texts(what_varies)),
                        ),
                        axes=axes_of(query, labels, universe.name),
                    )

    def selections(self) -> Iterator[tuple[DataFile, Mapping[str, tuple[Column, ...]]]]:
        """Noisy answers of the detail that was chosen for each area; and the answers of each version."""
        texts = self._texts
        for universe in self._universes:
            labels, folder = self._spec.labels(universe.name), self._run.universe(universe.name)
            for one in universe.selections:
                source = folder.selected(one.name, one.level)
                answers = {
                    query.name: tuple(
                        Column(name, "integer", title)
                        for name, title in zip(query.answer_labels(), labels.answers(query), strict=True)
                    )
                    for query in one.versions
                }
                columns = (
                    self._geocode(one.level),
                    Column("version", "string", texts("The query that was chosen for the area"), values=tuple(answers)),
                    Column("variance", "number", texts(_VARIANCE)),
                )
                heading = texts("{query}: noisy answers of the detail chosen for each area", query=one.name)
                titles, place = self._titles(heading, one.level), (universe.name, one.name, one.level)
                path = self._run.name_of(source).removesuffix(".parquet")
                yield DataFile(path, "selection", source, *place, *titles, columns), answers

    def microdata(self) -> Iterator[DataFile]:
        """Microdata of every universe, if they are published."""
        if not self._spec.publish.microdata:
            return
        leaf, texts, households = self._levels[-1], self._texts, links_of_kind(self._links, Households)
        companions = {link.by for link in households}
        for universe in (each for each in self._universes if each.amount is None):
            labels = self._spec.labels(universe.name)
            joined: list[Column] = []
            if universe.name in companions:
                joined = [
                    Column(HOUSEHOLD, "integer", texts("Number of the household")),
                    Column(MEMBERS, "integer", texts("Persons in the household")),
                ]
            else:
                joined = [
                    Column(link.column, "integer", texts("Number among {what}", what=link.by), filled=False)
                    for link in households
                    if link.of == universe.name
                ]
            attributes = [
                Column(one.name, "string", labels.attribute(one.name), values=one.values)
                for one in universe.schema.attributes
            ]
            what = labels.records or universe.name or texts("persons")
            title = texts("Synthetic records of {what}; none is a real one", what=what)
            yield DataFile(
                f"{_prefix(universe)}microdata",
                "microdata",
                self._run.universe(universe.name).microdata,
                *(universe.name, "", leaf),
                title,
                title,
                (self._geocode(leaf), *attributes, *joined),
                keys=(HOUSEHOLD,) if universe.name in companions else (),
            )

    def _table(self, universe: Universe, table: Table, level: str, labels: Labels) -> DataFile:
        answers = zip(table.query.answer_labels(), labels.answers(table.query), strict=True)
        counts = [column for name, title in answers for column in self._with_interval(name, "integer", title)]
        heading = self._counted(universe, table)
        if universe.amount is not None:
            heading = self._texts("{what} in units of {unit}", what=heading, unit=str(universe.amount.unit))
        return DataFile(
            f"{_prefix(universe)}{table.name}/{level}",
            "table",
            self._run.universe(universe.name).table(table.name, level),
            *(universe.name, table.name, level),
            *self._titles(heading, level),
            (self._geocode(level), *counts),
            axes=axes_of(table.query, labels, universe.name),
        )

    def _counted(self, universe: Universe, table: Table) -> str:
        """A table and what it counts, unless its title says so itself."""
        labels = self._spec.labels(universe.name)
        title, what = labels.table(table.name), labels.records or universe.name
        said = not what or what.casefold() in title.casefold()
        return title if said else self._texts("{table} of {what}", table=title, what=what)

    def _titles(self, heading: str, level: str) -> tuple[str, str]:
        """A heading, and the title of it at a level."""
        return heading, self._texts("{what}, by {level}", what=heading, level=self._spec.labels().level(level))

    def _geocode(self, level: str) -> Column:
        """The column of geocodes of a level."""
        return Column("geocode", "string", self._texts("Code of the {level}", level=self._spec.labels().level(level)))

    def _with_interval(self, name: str, kind: Type, title: str, *, filled: bool = True) -> list[Column]:
        """A column and, where margins are published, those of its interval, which can be unknown."""
        ends = [
            Column(name + suffix, "number", f"{title}: {self._texts(SUFFIX_WORDS[suffix])}", filled=False)
            for suffix in INTERVAL_SUFFIXES
            if self._spec.publish.margins
        ]
        return [Column(name, kind, title, filled=filled), *ends]


def axes_of(query: Query, labels: Labels, universe: str) -> tuple[Axis, ...]:
    """The terms of a query on a universe with their values, in the order in which answers are counted."""
    stated = [values for values in query.labels if values]
    return tuple(
        Axis(universe, term, labels.attribute(term), values, tuple(labels.value(term, value) for value in values))
        for term, values in zip(query.terms, stated, strict=True)
    )


def labels_of_household_table(table: HouseholdTable, persons: Labels, households: Labels) -> tuple[str, ...]:
    """A label for each column of the table, as `HouseholdTable.labels` has the names."""
    theirs = households.answers(table.households)
    if not table.persons.terms:
        return theirs
    own = persons.answers(table.persons)
    return tuple(f"{one} * {home}" for one in own for home in theirs) if table.households.terms else own


def variance_column(answers: Sequence[str]) -> str:
    """The column of variances: "variance", unless an answer is called so."""
    return "variance" if "variance" not in answers else "variance of the noise"


def _prefix(universe: Universe) -> str:
    return f"companions/{file_name('companion', universe.name)}/" if universe.name else ""
