"""What each column is in the files of a release that people use.

Every description of a release, and every export of its tables, is made from it; `pipeline.metadata.products` lists the
files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.model.household_table import NO_MARGINS, HouseholdTable
from pipeline.model.join import HOUSEHOLD, MEMBERS
from pipeline.model.labels import Labels
from pipeline.model.links.households import Households
from pipeline.model.links.link import links_of_kind
from pipeline.model.query import Query
from pipeline.model.source import VARIANCE
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.texts.message import marked
from pipeline.model.texts.sentences import sentence
from pipeline.release.joined.means import COUNT, MEAN, SUM
from pipeline.release.joined.sizes import AVERAGE, HOUSEHOLDS, PERSONS
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.long_tables import ANSWERS, LONG_ENDS, is_long
from pipeline.release.long_tables import COUNT as LONG_COUNT
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
        versions: of chosen detail: the answers of each version, in their order.
        axes: label of what a column's answer is of, its values in the order of columns: one for each term of the query.
        wide: of a long table, the same with a column for each answer; None where the file has these.
        widened: whether it is that of a long table.
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
    versions: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    wide: Callable[[], DataFile] | None = None
    widened: bool = False

    @property
    def with_intervals(self) -> bool:
        """Whether intervals stand beside the numbers."""
        names = [column.name for column in self.columns]
        return names[-1] in LONG_ENDS if self.wide is not None else any(map(_is_of_interval, names))

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


@dataclass(frozen=True, eq=False)
class ProductFile:
    """One published file.

    Attributes:
        universe: whose it is, its name; "" for the release's own, and for what is of all.
        level: of its geounits; "" for none.
        subject: what it holds: the table, the query, the source of a size, the selection; None where that is plain.
    """

    path: Path
    universe: str = ""
    level: str = ""
    subject: Any = None


class Contents:
    """What the columns of a release's files are, in the language of its report; nothing is read.

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
        self._texts = texts_in(spec.report.language)

    def table(self, file: ProductFile) -> DataFile:
        """A table of a universe at a level."""
        universe, table, level = self._universe(file), file.subject, file.level
        labels = self._spec.labels(universe.name)
        heading = universe.measure.heading(self._texts, self._counted(universe, table))

        def with_columns(columns: Sequence[Column]) -> DataFile:
            return DataFile(
                f"{_prefix(universe)}{table.name}/{level}",
                "table",
                file.path,
                *(universe.name, table.name, level),
                *self._titles(heading, level),
                (self._geocode(level), *columns),
                axes=axes_of(table.query, labels, universe.name),
            )

        def wide() -> DataFile:
            answers = zip(table.query.answer_labels(), labels.answers(table.query), strict=True)
            return with_columns([one for name, title in answers for one in self._with_interval(name, "integer", title)])

        if not is_long(table.query.size):
            return wide()
        described = with_columns(self._long_columns(axes_of(table.query, labels, universe.name), heading))
        return replace(described, keys=(), wide=lambda: replace(wide(), widened=True))

    def _long_columns(self, axes: Sequence[Axis], heading: str) -> list[Column]:
        """The columns of a long table after the geocode."""
        texts, ends = self._texts, zip(LONG_ENDS, INTERVAL_SUFFIXES, strict=True)
        return [
            *(Column(axis.term, "string", axis.label, filled=False, values=axis.values) for axis in axes),
            Column(ANSWERS, "integer", texts("Answers that the row is of; without a category all others, zeros")),
            Column(LONG_COUNT, "integer", heading),
            *(
                Column(name, "number", f"{heading}: {texts(SUFFIX_WORDS[suffix])}", filled=False)
                for name, suffix in ends
                if self._spec.publish.margins
            ),
        ]

    def household_size(self, file: ProductFile) -> DataFile:
        """Average household sizes of a joined companion at a level."""
        companion, level = file.universe, file.level
        named = self._spec.labels(companion).records or companion
        columns = [
            Column(PERSONS, "integer", self._texts("Persons in {what}", what=named)),
            Column(HOUSEHOLDS, "integer", named[:1].upper() + named[1:]),
            *self._with_interval(AVERAGE, "number", self._texts("Persons for each"), filled=False),
        ]
        return DataFile(
            f"household_sizes/{companion}/{level}",
            "household sizes",
            file.path,
            *(companion, companion, level),
            *self._titles(self._texts("Average size of {what}", what=named), level),
            (self._geocode(level), *columns),
        )

    def means(self, file: ProductFile) -> DataFile:
        """Sums and means of the companion of an amount, for one of its tables at a level."""
        universe, table, level = self._universe(file), file.subject, file.level
        labels, texts = self._spec.labels(universe.name), self._texts
        links = [link for link in self._links if link.of == universe.name and link.same_records]
        counted = any(link.records(table, level) is not None for link in links)
        columns: list[Column] = []
        for name, title in zip(table.query.answer_labels(), labels.answers(table.query), strict=True):
            columns += self._with_interval(name + SUM, "number", texts("{title}: sum", title=title))
            if counted:
                columns.append(Column(name + COUNT, "integer", texts("{title}: records", title=title)))
                mean = texts("{title}: mean", title=title)
                columns += self._with_interval(name + MEAN, "number", mean, filled=False)
        return DataFile(
            f"amounts/{universe.name}/{table.name}/{level}",
            "amounts",
            file.path,
            *(universe.name, table.name, level),
            *self._titles(texts("{what}: sums and means", what=self._counted(universe, table)), level),
            (self._geocode(level), *columns),
            axes=axes_of(table.query, labels, universe.name),
        )

    def household_table(self, file: ProductFile) -> DataFile:
        """A table of persons by what their households are, at a level."""
        own, table, level = self._spec.labels(), file.subject, file.level
        axes = (
            *axes_of(table.persons, own, ""),
            *axes_of(table.households, self._spec.labels(table.companion), table.companion),
        )
        titles = labels_of_household_table(table, own, self._spec.labels(table.companion))
        counts = [Column(name, "integer", title) for name, title in zip(table.labels, titles, strict=True)]
        return DataFile(
            f"household_tables/{table.name}/{level}",
            "household table",
            file.path,
            *("", table.name, level),
            *self._titles(own.table(table.name), level),
            (self._geocode(level), *counts),
            axes=axes,
            note=sentence(self._texts, NO_MARGINS),
        )

    def measurement(self, file: ProductFile) -> DataFile:
        """Noisy answers that the release or another one has measured, or what its respondents sent."""
        return self._measured(file, *self._universe(file).source.stored(file.level))

    def added(self, file: ProductFile) -> DataFile:
        """Noisy counts of an answer that a version was made with."""
        return self._measured(file, marked("{query}: noisy counts of the answer"))

    def invariant(self, file: ProductFile) -> DataFile:
        """Exact answers."""
        _, what_varies = self._universe(file).source.stored(file.level)
        return self._measured(file, marked("{query}: exact answers as they were published"), what_varies)

    def _measured(self, file: ProductFile, what: str, what_varies: str = VARIANCE) -> DataFile:
        """A file of answers, with a column for each; in the file they are lists."""
        query, labels = file.subject, self._spec.labels(file.universe)
        variance = Column(variance_column(query.terms), "number", self._texts(what_varies))

        def wide() -> DataFile:
            names = query.answer_labels()
            answers = zip(names, labels.answers(query), strict=True)
            columns = [Column(name, "integer", title) for name, title in answers]
            return replace(described, columns=(geocode, *columns, replace(variance, name=variance_column(names))))

        geocode = self._geocode(file.level)
        described = DataFile(
            self._run.name_of(file.path).removesuffix(".parquet"),
            "measurement",
            file.path,
            *(file.universe, query.name, file.level),
            *self._titles(self._texts(what, query=query.name), file.level),
            (geocode, variance),
            axes=axes_of(query, labels, file.universe),
        )
        return replace(described, wide=wide) if is_long(query.n_asked) and query.n_asked == query.size else wide()

    def selection(self, file: ProductFile) -> DataFile:
        """Noisy answers of the detail that was chosen for each area, with the answers of each version."""
        texts, labels, one = self._texts, self._spec.labels(file.universe), file.subject
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
            Column("variance", "number", texts(VARIANCE)),
        )
        heading = texts("{query}: noisy answers of the detail chosen for each area", query=one.name)
        return DataFile(
            self._run.name_of(file.path).removesuffix(".parquet"),
            "selection",
            file.path,
            *(file.universe, one.name, one.level),
            *self._titles(heading, one.level),
            columns,
            versions=answers,
        )

    def microdata(self, file: ProductFile) -> DataFile:
        """Microdata of a universe."""
        universe, texts = self._universe(file), self._texts
        households, labels = links_of_kind(self._links, Households), self._spec.labels(universe.name)
        companions = {link.by for link in households}
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
            for one in universe.record_attributes
        ]
        what = labels.records or universe.name or texts("persons")
        title = texts("Synthetic records of {what}; none is a real one", what=what)
        return DataFile(
            f"{_prefix(universe)}microdata",
            "microdata",
            file.path,
            *(universe.name, "", file.level),
            title,
            title,
            (self._geocode(file.level), *attributes, *joined),
            keys=(HOUSEHOLD,) if universe.name in companions else (),
        )

    def _universe(self, file: ProductFile) -> Universe:
        return next(universe for universe in self._universes if universe.name == file.universe)

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


def _is_of_interval(name: str) -> bool:
    return name.endswith(INTERVAL_SUFFIXES)


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
