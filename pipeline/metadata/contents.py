"""What each column is in the files of a release that people use.

Every description of a release, and every export of its tables, is made from it; `pipeline.metadata.products` lists the
files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.model.labels import Labels
from pipeline.model.query import Query
from pipeline.model.source import VARIANCE
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.texts.message import marked
from pipeline.release.layout import RunDirectory, file_name
from pipeline.release.long_tables import ANSWERS, LONG_ENDS, is_long
from pipeline.release.long_tables import COUNT as LONG_COUNT
from pipeline.release.tables import HIGH_SUFFIX, INTERVAL_SUFFIXES, LOW_SUFFIX, MARGIN_SUFFIX

if TYPE_CHECKING:
    from pipeline.model.universe import Table, Universe
    from pipeline.spec.release_spec import ReleaseSpec

#: table: counts with intervals; counts: without; numbers: others, a row for each geounit as in these.
Kind = Literal["table", "counts", "numbers", "measurement", "positive", "selection", "microdata", "words"]
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
        return names[-1] in LONG_ENDS if self.wide is not None else any(n.endswith(INTERVAL_SUFFIXES) for n in names)

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

    Attributes:
        links: between the universes.
        texts: in the language of the report.
    """

    def __init__(self, spec: ReleaseSpec, universes: Sequence[Universe], run: RunDirectory) -> None:
        self.spec = spec
        self.universes = tuple(universes)
        self.links = spec.links(self.universes)
        self.run = run
        self.texts = texts_in(spec.report.language)

    def table(self, file: ProductFile) -> DataFile:
        """A table of a universe at a level."""
        universe, table, level = self.universe(file), file.subject, file.level
        labels = self.spec.labels(universe.name)
        heading = universe.measure.heading(self.texts, self.counted(universe, table))

        def with_columns(columns: Sequence[Column]) -> DataFile:
            return DataFile(
                f"{_prefix(universe)}{table.name}/{level}",
                "table",
                file.path,
                *(universe.name, table.name, level),
                *self.titles(heading, level),
                (self.geocode(level), *columns),
                axes=axes_of(table.query, labels, universe.name),
            )

        def wide() -> DataFile:
            answers = zip(table.query.answer_labels(), labels.answers(table.query), strict=True)
            return with_columns([one for name, title in answers for one in self.with_interval(name, "integer", title)])

        if not is_long(table.query.size):
            return wide()
        described = with_columns(self._long_columns(axes_of(table.query, labels, universe.name), heading))
        return replace(described, keys=(), wide=lambda: replace(wide(), widened=True))

    def _long_columns(self, axes: Sequence[Axis], heading: str) -> list[Column]:
        """The columns of a long table after the geocode."""
        texts, ends = self.texts, zip(LONG_ENDS, INTERVAL_SUFFIXES, strict=True)
        return [
            *(Column(axis.term, "string", axis.label, filled=False, values=axis.values) for axis in axes),
            Column(ANSWERS, "integer", texts("Answers that the row is of; without a category all others, zeros")),
            Column(LONG_COUNT, "integer", heading),
            *(
                Column(name, "number", f"{heading}: {texts(SUFFIX_WORDS[suffix])}", filled=False)
                for name, suffix in ends
                if self.spec.publish.margins
            ),
        ]

    def measurement(self, file: ProductFile) -> DataFile:
        """Noisy answers that the release or another one has measured, or what its respondents sent."""
        return self._measured(file, *self.universe(file).source.stored(file.level))

    def added(self, file: ProductFile) -> DataFile:
        """Noisy counts of an answer that a version was made with."""
        return self._measured(file, marked("{query}: noisy counts of the answer"))

    def positive(self, file: ProductFile) -> DataFile:
        """Noisy answers that were drawn where the released parent is positive; without a column for each."""
        query, texts = file.subject, self.texts
        what = marked("{query}: noisy answers where that of the area above is more than 0 in the release")
        return DataFile(
            self.run.name_of(file.path).removesuffix(".parquet"),
            "positive",
            file.path,
            *(file.universe, query.name, file.level),
            *self.titles(texts(what, query=query.name), file.level),
            (self.geocode(file.level), Column("variance", "number", texts(VARIANCE))),
            axes=axes_of(query, self.spec.labels(file.universe), file.universe),
        )

    def invariant(self, file: ProductFile) -> DataFile:
        """Exact answers."""
        _, what_varies = self.universe(file).source.stored(file.level)
        return self._measured(file, marked("{query}: exact answers as they were published"), what_varies)

    def _measured(self, file: ProductFile, what: str, what_varies: str = VARIANCE) -> DataFile:
        """A file of answers, with a column for each; in the file they are lists."""
        query, labels = file.subject, self.spec.labels(file.universe)
        variance = Column(variance_column(query.terms), "number", self.texts(what_varies))

        def wide() -> DataFile:
            names = query.answer_labels()
            answers = zip(names, labels.answers(query), strict=True)
            columns = [Column(name, "integer", title) for name, title in answers]
            return replace(described, columns=(geocode, *columns, replace(variance, name=variance_column(names))))

        geocode = self.geocode(file.level)
        described = DataFile(
            self.run.name_of(file.path).removesuffix(".parquet"),
            "measurement",
            file.path,
            *(file.universe, query.name, file.level),
            *self.titles(self.texts(what, query=query.name), file.level),
            (geocode, variance),
            axes=axes_of(query, labels, file.universe),
        )
        return replace(described, wide=wide) if is_long(query.n_asked) and query.n_asked == query.size else wide()

    def selection(self, file: ProductFile) -> DataFile:
        """Noisy answers of the detail that was chosen for each area, with the answers of each version."""
        texts, labels, one = self.texts, self.spec.labels(file.universe), file.subject
        answers = {
            query.name: tuple(
                Column(name, "integer", title)
                for name, title in zip(query.answer_labels(), labels.answers(query), strict=True)
            )
            for query in one.versions
        }
        columns = (
            self.geocode(one.level),
            Column("version", "string", texts("The query that was chosen for the area"), values=tuple(answers)),
            Column("variance", "number", texts(VARIANCE)),
        )
        heading = texts("{query}: noisy answers of the detail chosen for each area", query=one.name)
        return DataFile(
            self.run.name_of(file.path).removesuffix(".parquet"),
            "selection",
            file.path,
            *(file.universe, one.name, one.level),
            *self.titles(heading, one.level),
            columns,
            versions=answers,
        )

    def microdata(self, file: ProductFile) -> DataFile:
        """Microdata of a universe."""
        universe, texts = self.universe(file), self.texts
        labels = self.spec.labels(universe.name)
        linked = (one for link in self.links for one in link.numbers(universe.name))
        numbers = {one.name: one for one in (*universe.record_numbers, *linked)}.values()
        joined = [Column(one.name, "integer", texts(one.title, what=one.what), one.filled) for one in numbers]
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
            (self.geocode(file.level), *attributes, *joined),
            keys=tuple(one.name for one in numbers if one.is_key),
        )

    def universe(self, file: ProductFile) -> Universe:
        """Whose file it is."""
        return next(universe for universe in self.universes if universe.name == file.universe)

    def counted(self, universe: Universe, table: Table) -> str:
        """A table and what it counts, unless its title says so itself."""
        labels = self.spec.labels(universe.name)
        title, what = labels.table(table.name), labels.records or universe.name
        said = not what or what.casefold() in title.casefold()
        return title if said else self.texts("{table} of {what}", table=title, what=what)

    def titles(self, heading: str, level: str) -> tuple[str, str]:
        """A heading, and the title of it at a level."""
        return heading, self.texts("{what}, by {level}", what=heading, level=self.spec.labels().level(level))

    def geocode(self, level: str) -> Column:
        """The column of geocodes of a level."""
        return Column("geocode", "string", self.texts("Code of the {level}", level=self.spec.labels().level(level)))

    def with_interval(self, name: str, kind: Type, title: str, *, filled: bool = True) -> list[Column]:
        """A column and, where margins are published, those of its interval, which can be unknown."""
        ends = [
            Column(name + suffix, "number", f"{title}: {self.texts(SUFFIX_WORDS[suffix])}", filled=False)
            for suffix in INTERVAL_SUFFIXES
            if self.spec.publish.margins
        ]
        return [Column(name, kind, title, filled=filled), *ends]


def axes_of(query: Query, labels: Labels, universe: str) -> tuple[Axis, ...]:
    """The terms of a query on a universe with their values, in the order in which answers are counted."""
    stated = [values for values in query.labels if values]
    return tuple(
        Axis(universe, term, labels.attribute(term), values, tuple(labels.value(term, value) for value in values))
        for term, values in zip(query.terms, stated, strict=True)
    )


def variance_column(answers: Sequence[str]) -> str:
    """The column of variances: "variance", unless an answer is called so."""
    return "variance" if "variance" not in answers else "variance of the noise"


def _prefix(universe: Universe) -> str:
    return f"companions/{file_name('companion', universe.name)}/" if universe.name else ""
