"""A finished release, opened: its tables as frames, and sums of any of its cells with their margins of error."""

from __future__ import annotations

import html
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.codes import counted, first_few
from pipeline.errors import InputError, ReleaseError
from pipeline.model.about import About
from pipeline.model.labels import Labels, beside, listed
from pipeline.model.links.link import LinkedTable, counted_by, tables_of
from pipeline.model.query import Query, terms_of
from pipeline.model.schema import Schema
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.universe import Table, Universe
from pipeline.privacy.accounting.statement_models import promise
from pipeline.published import PublishedRelease, open_finished
from pipeline.reading.areas import AreaIndex
from pipeline.reading.draws import Function, interval_of
from pipeline.reading.margins import Ends, Groups, HalfWidths, columns_of, provider
from pipeline.reading.numbers import Numbers
from pipeline.reading.question import Question
from pipeline.release.draws import read_draws
from pipeline.release.layout import UniverseDirectory
from pipeline.release.published_files import UniverseFiles
from pipeline.release.reliability import CLASSES, classes_in
from pipeline.release.tables import ReleasedTable, read_table


def open_release(folder: Path | str) -> Release:
    """The finished release in `folder`: a run's directory, or the public/ folder of one. Only public files are read.

    Each file is compared with its hash in the manifest before it is read.

    Raises:
        InputError: there is no finished release; ReleaseError: it is damaged, or a file is not what the manifest says.
    """
    release = open_finished(Path(folder), check_hashes=False)
    return Release(release, release.universes[0])


@runtime_checkable
class HasMeans(Protocol):
    """A link of a companion of which sums and means are published."""

    def means(
        self, release: PublishedRelease, table: str, level: str, geocodes: NDArray[np.str_]
    ) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """The columns of a table at a level, by their names; NaN for what is null in the file.

        Args:
            release: whose file is read.
            table: of the companion, published at the level.
            level: of the spine.
            geocodes: of its geounits.

        Raises:
            ReleaseError: the file is missing, damaged or changed, or is of other geounits.
        """


@runtime_checkable
class TabulatedOtherwise(Protocol):
    """What a feature states of a table whose numbers are published in a file of their own, as others."""

    def query(self, table: Table) -> Query:
        """That of the file: the table's, with the labels that the file has."""

    def file(self, files: UniverseDirectory, table: Table, level: str) -> Path:
        """The file at a level, in the form of a table."""

    def answers_in_file(self, table: Table) -> Iterator[tuple[Query, NDArray[np.int64]]]:
        """The queries whose answers it has, and for each answer the number of its column; -1 where it has none."""


def _index(geocodes: Any) -> pd.Index[str]:
    return pd.Index(geocodes.astype(object), name="geocode")


class AverageSizes(Protocol):
    """Average sizes of the households of a companion, each with its interval."""

    @property
    def companion(self) -> str:
        """Whose records are the households."""

    def at(self, level: str) -> pd.DataFrame:
        """Of every geounit of a level; see `Release.household_sizes`."""

    def over(self, areas: Sequence[str] | Mapping[str, Sequence[str]], households: Numbers) -> pd.DataFrame:
        """Of areas; see `Release.household_sizes_over`. `households` are the numbers of the companion."""


@runtime_checkable
class HasSizes(Protocol):
    """A link by which the households of a companion have an average size."""

    @property
    def by(self) -> str:
        """See `Link.by`: the companion."""

    def sizes_of(self, release: PublishedRelease, of: Numbers) -> AverageSizes:
        """Of a release, with the numbers of the persons; InputError where the link does not tell who lives in them."""


class Release:
    """One universe of a finished release; `open_release` gives the release's own, `companion` the others.

    Attributes:
        run: where its files are.
        manifest, spec, spine: of the release.
        universe: whose tables these are.
    """

    def __init__(self, release: PublishedRelease, universe: Universe) -> None:
        self.run = release.run
        self.manifest = release.manifest
        self.spec = release.spec
        self.spine = release.spine
        self._release = release
        self.universe = universe
        self._histograms: dict[str, sp.csr_array] = {}

    @property
    def name(self) -> str:
        """The release's name, and the companion's."""
        return self.manifest.release + (f", {self.universe.name}" if self.universe.name else "")

    @property
    def directory(self) -> Path:
        """The directory of the whole release."""
        return self.run.root

    @property
    def report(self) -> Path:
        """The report for readers, a page for any browser."""
        return self.run.report

    @property
    def schema(self) -> Schema:
        """The universe's attributes and their values."""
        return self.universe.schema

    @property
    def files(self) -> UniverseFiles:
        """The universe's files."""
        return self._release.files_of(self.universe.name)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels' names, top first."""
        return self.spine.level_names

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the published tables."""
        return tuple(table.name for table in self.universe.tables)

    @property
    def companions(self) -> tuple[str, ...]:
        """The names of the release's companions."""
        return tuple(self.spec.companions)

    @property
    def promise(self) -> str:
        """What is guaranteed of the universe, in words; ReleaseError where a damaged manifest does not say it."""
        if words := [one.words for one in self.manifest.privacy if one.universe == self.universe.name]:
            return words[0]
        raise ReleaseError(f"{self.run.manifest}: privacy: has no statement of {self.universe.name or 'the release'}")

    def companion(self, name: str) -> Release:
        """The companion of that name; InputError where there is none."""
        for universe in self._release.universes[1:]:
            if universe.name == name:
                return Release(self._release, universe)
        raise InputError(f"{self.name}: no companion {name!r}; there are {', '.join(self.companions) or 'none'}")

    @property
    def counted(self) -> str:
        """The name of the universe that has the number of the records: of sums that of their counts, else its own."""
        return counted_by(self.universe.name, self._release.links)

    def table(self, name: str, level: str = "", *, tidy: bool = False, cumulative: bool = False) -> pd.DataFrame:
        """A published table: one row a geounit, and beside each count its 90 % interval.

        The interval's ends are in "<label>:low90" and "<label>:high90", the larger distance to them in "<label>:moe90".

        Args:
            name: of the table.
            level: of the geounits.
            tidy: one row a number instead: geocode, what each term of the query is, value (whole), low and high (the
                ends of the 90 % interval, NaN where unknown), reliability ("good", "care", "sum", as in the report).
            cumulative: its cumulative numbers instead, "up to <value>", each with an interval of its own.

        Raises:
            InputError: there is no such table, or it is not published at the level; the levels are named. Or it is not
                published cumulatively.
        """
        if (home := self.holding(table=name)) is not self:
            return home.table(name, level, tidy=tidy, cumulative=cumulative)
        table = self._table(name)
        self._check_published(table, level)
        path, query = self.files.table(name, level), table.query
        if cumulative:
            fact = next((fact for fact in table.facts if isinstance(fact, TabulatedOtherwise)), None)
            if fact is None:
                raise InputError(
                    f"{self.name}: table {name!r} is not published cumulatively; its spec would say cumulative = true"
                )
            path, query = fact.file(self.files, table, level), fact.query(table)
        published = read_table(self._release.unchanged(path), geocodes=self.spine.level(level).geocodes)
        if tidy:
            return tidy_table(published, query)
        return pd.DataFrame(dict(published.columns()), index=_index(published.geocodes))

    def draws(self, name: str, level: str) -> pd.DataFrame:
        """Joint draws of what a published table's numbers may truly be: a row for each (draw, geocode).

        They are linear: real numbers, some negative. Numbers of one draw belong together, across tables and levels.

        Raises:
            InputError: the release has no draws, no such table, or not at the level.
        """
        table, geounits = self._table(name), self.spine.levels[self.index_of(level)]
        if not self.spec.publish.draws:
            raise InputError(f"{self.name}: it was published without draws; publish.draws is 0 in its spec")
        self._check_published(table, level)
        path = self._release.unchanged(self.files.draws(name, level))
        return read_draws(path, table, geounits.geocodes, self.spec.publish.draws)

    def interval(self, function: Function, tables: str | Sequence[str], level: str, share: float = 0.9) -> pd.DataFrame:
        """The interval of any function of the true numbers, by the draws: columns median, low90, high90.

        Args:
            function: called with one draw of each table, in the form of `table` without margins; returns a number, or a
                pandas Series or DataFrame of numbers.
            tables: name of the table, or names.
            level: of the tables.
            share: probability of the interval; 0.9 needs 19 draws at least.

        Raises:
            InputError: as in `draws`, or there are too few draws, or the function's values differ in their form.
        """
        names = [tables] if isinstance(tables, str) else list(tables)
        return interval_of(function, [self.draws(name, level) for name in names], share)

    @property
    def linked_tables(self) -> tuple[LinkedTable, ...]:
        """The published tables of its records and those of others together."""
        return tables_of(link for link in self._release.links if link.of == self.universe.name)

    @property
    def household_tables(self) -> tuple[str, ...]:
        """The names of the published tables of persons by their households."""
        return tuple(table.name for table in self.linked_tables)

    def household_table(self, name: str, level: str) -> pd.DataFrame:
        """A published table of persons by what their households are: one row a geounit, without margins.

        Raises:
            InputError: there is no such table, or it is not published at the level.
        """
        number = self.index_of(level)
        found = next((table for table in self.linked_tables if table.name == name), None)
        if found is None:
            tables = ", ".join(self.household_tables) or "none"
            raise InputError(f"{self.name}: no table {name!r} of persons by their households; there are {tables}")
        if level not in found.levels:
            raise InputError(
                f"{self.name}: table {name!r} is published for {', '.join(found.levels)}, not for {level!r}"
            )
        path = self._release.unchanged(found.file(self.run.public, level))
        published = read_table(path, geocodes=self.spine.levels[number].geocodes)
        return pd.DataFrame(dict(published.columns()), index=_index(published.geocodes))

    def means(self, name: str, level: str) -> pd.DataFrame:
        """Sums and means of an amount, of a companion that holds one: one row a geounit, with intervals.

        What is null in the file is missing, and no number.

        Raises:
            InputError: this holds no amount, or has no such table at the level.
        """
        number, universe = self.index_of(level), self.universe
        links = [link for link in self._release.links if isinstance(link, HasMeans) and link.of == universe.name]
        if not links:
            raise InputError(
                f"{self.name}: means: {universe.name or 'the release itself'} holds counts and no amounts; name a "
                "companion of an amount"
            )
        published = {table.name: table.levels for table in universe.tables}
        if level not in published.get(name, ()):
            raise InputError(
                f"{self.name}: means: no table {name!r} of {universe.name} at level {level!r}; the tables are "
                f"{', '.join(published) or 'none'}"
            )
        geocodes = self.spine.levels[number].geocodes
        columns: dict[str, Any] = dict(links[0].means(self._release, name, level, geocodes))
        for column, values in columns.items():
            if values.dtype == np.float64:
                columns[column] = pd.array(values, dtype="Float64")
        return pd.DataFrame(columns, index=_index(geocodes))

    def household_sizes(self, level: str, companion: str = "") -> pd.DataFrame:
        """The average household size of every geounit of a level, as published.

        Columns: persons in households, households, average, and its 90 % interval as `table` has it. The average is
        missing where there are no households, the interval where nothing is known of it.

        Args:
            level: of the geounits.
            companion: whose records are the households; by default the only one that persons are joined with.

        Raises:
            InputError: there is no such level, or no average household size.
        """
        return self._sizes(companion).at(level)

    def household_sizes_over(
        self, areas: Sequence[str] | Mapping[str, Sequence[str]], companion: str = ""
    ) -> pd.DataFrame:
        """The sizes of households of areas taken together, as in `Question.over`.

        The interval of an area that is no geounit is that of the linear estimates, which does not know what households
        have learned from the persons: it is wider than it need be.

        Raises:
            InputError: as above, or a geocode is not in the release, or counts twice in one area.
        """
        sizes = self._sizes(companion)
        return sizes.over(areas, self._main().companion(sizes.companion))

    @property
    def joined(self) -> tuple[str, ...]:
        """The companions whose records are the households that its own live in."""
        return tuple(
            link.by for link in self._release.links if link.of == self.universe.name and isinstance(link, HasSizes)
        )

    def _sizes(self, companion: str) -> AverageSizes:
        own, main = companion or self.universe.name, self._main()
        joined = {link.by: link for link in self._release.links if isinstance(link, HasSizes)}
        if not own and len(joined) == 1:
            (own,) = joined
        if own not in joined:
            found = f"{own!r} is not joined" if own else "no companion is named"
            raise InputError(
                f"{main.name}: average household size: {found}; the companions with a [[join]] are "
                f"{', '.join(joined) or 'none'}"
            )
        return joined[own].sizes_of(self._release, main)

    def _main(self) -> Release:
        return Release(self._release, self._release.universes[0]) if self.universe.name else self

    def query(self, text: str) -> Question:
        """The numbers of a query ("votingage * race", "total"), measured or not, to be narrowed and had for areas.

        Raises:
            InputError: it names what the schema does not have.
        """
        home = self.holding(terms_of(text))
        everybody = tuple(np.ones(n, dtype=bool) for n in home.schema.shape)
        return Question(home, Query.parse(text, home.schema), everybody)

    def holding(self, terms: Collection[str] = (), table: str = "") -> Release:
        """The universe that has some attributes, or a table: another one where it is estimated together with others.

        Raises:
            InputError: no universe of those has all of the attributes; the message says what would have to be measured.
        """
        together, others = self.universe.together, self._release.universes
        if together is None or (set(terms) <= set(self.schema.names) and table in ("", *self.tables)):
            return self
        if table:
            if found := [one for one in others if table in [own.name for own in one.tables]]:
                return Release(self._release, found[0])
            listed_tables = ", ".join(own.name for one in others for own in one.tables)
            raise InputError(f"{self.name}: no table {table!r}; the tables are {listed_tables}")
        name = together.home(terms)
        return next(Release(self._release, one) for one in others if one.name == name)

    @cached_property
    def areas(self) -> AreaIndex:
        """The areas by their names."""
        return AreaIndex(self.name, self.spine, self._release.names)

    @cached_property
    def labels(self) -> Labels:
        """What levels, attributes, values and tables are called, in the language of the report."""
        return self.spec.labels(self.universe.name)

    @property
    def about(self) -> About:
        """Title, publisher, reference date, notes and whatever else the release says of itself."""
        return self.spec.about

    @property
    def citation(self) -> str:
        """How the release is cited, in the language of its report."""
        return self.about.cited(self.name, texts_in(self.spec.report.language))

    @property
    def named_levels(self) -> tuple[str, ...]:
        """The levels whose areas have names."""
        return tuple(level for level in self.levels if level in self._release.names)

    def names(self, level: str, language: str | None = None) -> pd.Series[str]:
        """The names of a level's geounits, by geocode; where the level has none, the geocodes themselves.

        Args:
            level: of the geounits.
            language: a tag such as "es"; by default the report's.

        Raises:
            InputError: there is no such level.
        """
        codes = self.spine.levels[self.index_of(level)].geocodes.tolist()
        names = self._release.names.get(level)
        wanted = (self.spec.report.language or "") if language is None else language
        return pd.Series(codes if names is None else names.in_language(wanted), index=codes, name="name")

    def are_those_of(self, other: Numbers) -> bool:
        """See `Numbers.are_those_of`."""
        return isinstance(other, Release) and (self.manifest, self.universe.name) == (
            other.manifest,
            other.universe.name,
        )

    def index_of(self, level: str) -> int:
        """The number of a level, 0 at the top; InputError where there is none."""
        if level not in self.levels:
            raise InputError(f"{self.name}: no level {level!r}; the levels are {', '.join(self.levels)}")
        return self.spine.index_of(level)

    def histogram(self, level: str) -> sp.csr_array:
        """The released counts `(n_geounits, n_cells)` of a level; kept once read."""
        if level not in self._histograms:
            geounits = self.spine.levels[self.index_of(level)]
            self._histograms[level] = self._release.histogram(self.universe, geounits)
        return self._histograms[level]

    @cached_property
    def half_widths(self) -> HalfWidths:
        """The margins of sums; computed from spec and spine when first needed."""
        return provider()(self.universe, self.files, self.spine, self.spec.postprocess.estimator)

    def published_intervals(self, level: str, groups: Groups) -> tuple[Ends, NDArray[np.bool_]]:
        """The intervals that tables publish of the answers that `groups` make, in whichever table they stand.

        Returns:
            Their ends, each `(n, size)`, and which answers `(size,)` have one; the first table of the spec counts.
        """
        size = math.prod(int(group.max()) + 1 for group in groups)
        n = len(self.spine.levels[self.index_of(level)])
        lows, highs = np.full((n, size), np.nan), np.full((n, size), np.nan)
        there = np.zeros(size, dtype=bool)
        if self.spec.publish.margins:
            for query, columns, path in self._with_intervals(level):
                if not there.all():
                    column = columns_of(groups, query.groups)
                    column = np.where(column >= 0, columns[column], -1)
                    new = (column >= 0) & ~there
                    if not new.any():
                        continue
                    readable = self._release.unchanged(path)
                    published = read_table(readable, geocodes=self.spine.level(level).geocodes)
                    if published.lows is not None and published.highs is not None:
                        lows[:, new], highs[:, new] = published.lows[:, column[new]], published.highs[:, column[new]]
                        there |= new
        return (lows, highs), there

    def _with_intervals(self, level: str) -> Iterator[tuple[Query, NDArray[np.int64], Path]]:
        """Queries whose answers are published with intervals at a level: the file, and the column of each answer or -1.

        Tables come first, in their order.
        """
        tables = [table for table in self.universe.tables if level in table.levels]
        for table in tables:
            yield table.query, np.arange(table.query.size), self.files.table(table.name, level)
        for table in tables:
            for fact in table.facts:
                if isinstance(fact, TabulatedOtherwise):
                    for query, columns in fact.answers_in_file(table):
                        yield query, columns, fact.file(self.files, table, level)

    def exact_table(self, name: str, level: str) -> pd.DataFrame:
        """Which numbers of a published table are certain: True where the rule of `HalfWidths.exact_of_level` says so.

        Raises:
            InputError: there is no such table.
        """
        query = self._table(name).query
        number = self.index_of(level)
        exact = self.half_widths.exact_of_level(number, query.groups)
        codes = self.spine.levels[number].geocodes.astype(object)
        return pd.DataFrame(exact, columns=list(query.answer_labels()), index=pd.Index(codes, name="geocode"))

    def geounit_of(self, inside: NDArray[np.bool_]) -> tuple[str, int] | None:
        """The level and number of the geounit that has just these leaves `(n_leaves,)`, the highest; else None."""
        first, n_leaves = int(inside.argmax()), int(inside.sum())
        if not inside[first : first + n_leaves].all():
            return None
        for number, level in enumerate(self.spine.levels):
            offsets = self.spine.leaf_offsets(number)
            row = int(np.searchsorted(offsets, first, side="right")) - 1
            if offsets[row] == first and offsets[row + 1] == first + n_leaves:
                return level.name, row
        return None

    def leaves_of(self, codes: Sequence[str], area: str) -> NDArray[np.bool_]:
        """`(n_leaves,)` which leaves are in an area, given as geocodes of leaves or of geounits of any level, or names.

        Raises:
            InputError: a code or name is not in the release, a name is of several areas, or a leaf is in it twice.
        """
        if isinstance(codes, str):
            raise InputError(f"over: area {area!r}: found the text {codes!r}; a list of geocodes is needed")
        wanted = np.array([str(code) for code in codes], dtype=np.str_)
        if not wanted.size:
            raise InputError(f"over: area {area!r} has no geocodes; at least one is needed")
        times = np.zeros(self.spine.n_leaves, dtype=np.int64)
        for number in reversed(range(self.spine.n_levels)):
            geocodes = self.spine.levels[number].geocodes
            order = np.argsort(geocodes, kind="stable")
            near = order[np.minimum(np.searchsorted(geocodes, wanted, sorter=order), len(geocodes) - 1)]
            matches = geocodes[near] == wanted
            chosen = np.bincount(near[matches], minlength=len(geocodes))
            times += chosen[self.spine.leaf_ancestors(number)]
            wanted = wanted[~matches]
        strange = []
        for text in wanted.tolist():
            if (named := self.areas.one(text)) is None:
                strange.append(text)
            else:
                first, end = self.areas.span(named.level, named.number)
                times[first:end] += 1
        if strange:
            what = counted(len(strange), "geocode or name", "geocodes or names") if self._release.names else ""
            raise InputError(
                f"over: area {area!r}: {what or counted(len(strange), 'geocode')} not in {self.name}: "
                f"{first_few(strange)}{self.areas.advice(strange[0])}"
            )
        if (times > 1).any():
            twice = self.spine.leaf_level.geocodes[times > 1]
            raise InputError(
                f"over: area {area!r} has {counted(len(twice), 'leaf', 'leaves')} twice: {first_few(twice)}"
            )
        return times > 0

    def _check_published(self, table: Table, level: str) -> None:
        if not level:
            raise InputError(f"{self.name}: table {table.name!r}: name one of its levels, {', '.join(table.levels)}")
        self.index_of(level)
        if level not in table.levels:
            raise InputError(
                f"{self.name}: table {table.name!r} is published for {', '.join(table.levels)}, not for {level!r}"
            )

    def _table(self, name: str) -> Table:
        for table in self.universe.tables:
            if table.name == name:
                return table
        raise InputError(f"{self.name}: no table {name!r}; the tables are {', '.join(self.tables)}")

    def _facts(self) -> list[tuple[str, str]]:
        labels = self.labels
        levels = ", ".join(f"{beside(one.name, labels.level(one.name))} {len(one):,}" for one in self.spine.levels)
        facts = [("levels", levels), ("tables", listed(self.tables, labels.table))]
        facts.append(("attributes", listed(self.schema.names, labels.attribute)))
        if self.companions and not self.universe.name:
            facts.append(("companions", ", ".join(self.companions)))
            if self.household_tables:
                facts.append(("persons by household", listed(self.household_tables, labels.table)))
        short = self.promise if self.universe.name else promise(self.manifest.joint, self.manifest.privacy[0].delta)
        facts += [("promise", short), ("to be cited as", self.citation)]
        return [("status", self.manifest.status), *facts]

    def __repr__(self) -> str:
        lines = [f"Release {self.name}", *(f"  {key}: {text}" for key, text in self._facts())]
        return "\n".join([*lines, '  .table(name, level), .query("a * b").where(a="x").at(level) or .over(geocodes)'])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(key)}</th><td style="text-align:left">{html.escape(text)}'
            "</td></tr>"
            for key, text in self._facts()
        )
        return f"<p><strong>Release {html.escape(self.name)}</strong></p><table>{rows}</table>"


#: Of a frame with one row a number: the number, and the ends of its interval.
TIDY_NUMBERS: Final = ("value", "low", "high")


def tidy_heads(terms: Sequence[str], others: Sequence[str]) -> list[str]:
    """What the columns of terms are called beside the others: the term, or "attribute TERM" where that is taken."""
    return [f"attribute {term}" if term in others else term for term in terms]


def tidy_table(table: ReleasedTable, query: Query) -> pd.DataFrame:
    """Columns geocode, a column a term of the query, value, low, high, reliability; `n * size` rows.

    A term that is called like one of the others is "attribute TERM".

    Args:
        table: `(n, size)` numbers.
        query: what is tabulated.
    """
    n, size = table.counts.shape
    unknown = np.full((n, size), np.nan)
    lows, highs = (unknown if ends is None else ends for ends in (table.lows, table.highs))
    margins = unknown if table.margins is None else table.margins
    keys = np.array([one.key for one in CLASSES])
    columns = {"geocode": np.repeat(table.geocodes.astype(object), size)}
    heads = tidy_heads(query.terms, ("geocode", *TIDY_NUMBERS, "reliability"))
    columns |= {
        head: np.tile(query.labels_of(term).astype(object), n) for head, term in zip(heads, query.terms, strict=True)
    }
    value, low, high = TIDY_NUMBERS
    columns |= {value: table.counts.ravel(), low: lows.ravel(), high: highs.ravel()}
    columns["reliability"] = keys[classes_in(table.counts, margins)].astype(object).ravel()
    return pd.DataFrame(columns)
