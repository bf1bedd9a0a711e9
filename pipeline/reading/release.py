"""A finished release, opened: its tables as frames, and sums of any of its cells with their margins of error.

Intervals of any function of a release's numbers, from its draws.

Draws and the truth are alike: given the measurements, each is an independent draw from the same distribution (with a
flat prior). So is a function of them, and its true value is as likely to be the lowest of M + 1 as any draw's. The
interval from the (M + 1) p-th lowest to the (M + 1) p-th highest draw therefore has the probability 1 - 2p, however few
draws there are and whatever the function, as long as (M + 1) p is 1 or more.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.model.area_names import Areas
from pipeline.model.labels import beside, listed
from pipeline.model.link import Link
from pipeline.model.query import Query, terms_of
from pipeline.model.texts.catalogue import texts_in
from pipeline.reading.margins import ends_column
from pipeline.reading.question import WantedNumbers
from pipeline.reading.reader import Reader, open_reader
from pipeline.release.reliability import CLASSES, classes_in
from pipeline.release.tables import INTERVAL_SUFFIXES, ReleasedTable

#: One draw of each table -> a number, or a pandas Series, DataFrame or array of numbers.
Function = Callable[..., Any]


def interval_of(function: Function, tables: Sequence[pd.DataFrame], share: float = 0.9) -> pd.DataFrame:
    """The interval of a function of the truth: columns median, low90 and high90 (by `share`), a row for each value.

    Args:
        function: called once for each draw with a data frame for each of `tables`, geounits by labels, as
            `Release.table` gives counts.
        tables: draws of tables with the index (draw, geocode), as `Release.draws` gives them.
        share: probability of the interval, above 0 and below 1.

    Raises:
        InputError: there are too few draws for the share, or the function's values differ in their form.
    """
    if not 0 < share < 1:
        raise InputError(f"interval: found share = {share}; a number above 0 and below 1 is needed, such as 0.9")
    outside = (1 - share) / 2
    count = len(tables[0].index.unique(level=0))
    needed = math.ceil(round(1 / outside, 9)) - 1
    if count < needed:
        raise InputError(
            f"interval: found {count} draws; an interval with a share of {share:g} needs {needed} at least "
            "(publish.draws)"
        )
    values = [
        _as_series(function(*parts), number) for number, parts in enumerate(_draw_by_draw(tables, count), start=1)
    ]
    for number, value in enumerate(values, start=1):
        if not value.index.equals(values[0].index):
            raise InputError(
                f"interval: the function gives {len(value)} values for draw {number} and {len(values[0])} for draw 1, "
                "or values with other names; they must be the same for every draw"
            )
    drawn = np.array([value.to_numpy(dtype=np.float64) for value in values])
    # The method with positions (M + 1) p, not interpolated beyond the lowest and highest draw.
    low, median, high = np.quantile(drawn, [round(outside, 12), 0.5, round(1 - outside, 12)], axis=0, method="weibull")
    percent = f"{100 * share:g}"
    return pd.DataFrame({"median": median, f"low{percent}": low, f"high{percent}": high}, index=values[0].index)


def _draw_by_draw(tables: Sequence[pd.DataFrame], count: int) -> Iterator[list[pd.DataFrame]]:
    """The tables of each draw; their rows are in order."""
    for number in range(count):
        parts = []
        for table in tables:
            n = len(table) // count
            parts.append(table.iloc[number * n : (number + 1) * n].droplevel(0))
        yield parts


def _as_series(value: object, number: int) -> pd.Series[Any]:
    if isinstance(value, pd.DataFrame):
        value = value.stack(future_stack=True)
    if isinstance(value, pd.Series):
        return value
    array = np.asarray(value)
    if array.ndim > 1 or not np.issubdtype(array.dtype, np.number):
        raise InputError(
            f"interval: the function gives {type(value).__name__} for draw {number}; a number, or a pandas Series, "
            "DataFrame or one-dimensional array of numbers is needed"
        )
    return pd.Series(np.atleast_1d(array), index=None if array.ndim else ["value"])


def open_release(folder: Path | str) -> Release:
    """The finished release in `folder`: a run's directory, or the public/ folder of one. Only public files are read.

    Each file is compared with its hash in the manifest before it is read.

    Raises:
        InputError: there is no finished release; ReleaseError: it is damaged, or a file is not what the manifest says.
    """
    return Release(open_reader(folder))


def reader_of(release: Release | Path | str) -> Reader:
    """What Spinewise's own modules read of a release that was opened, or of its folder; errors as `open_release`."""
    return release._reader if isinstance(release, Release) else open_reader(Path(release).expanduser())


def _index(geocodes: Any) -> pd.Index[str]:
    return pd.Index(geocodes.astype(object), name="geocode")


class Release:
    """One universe of a finished release; `open_release` gives the release's own, `companion` the others."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def name(self) -> str:
        """The release's name, and the companion's."""
        return self._reader.name

    @property
    def directory(self) -> Path:
        """The directory of the whole release."""
        return self._reader.run.root

    @property
    def report(self) -> Path:
        """The report for readers, a page for any browser."""
        return self._reader.run.report

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels' names, top first."""
        return self._reader.levels

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the published tables."""
        return self._reader.tables

    @property
    def companions(self) -> tuple[str, ...]:
        """The names of the release's companions."""
        return self._reader.companions

    @property
    def promise(self) -> str:
        """What is guaranteed of the universe, in words; ReleaseError where a damaged manifest does not say it."""
        return self._reader.promise

    @property
    def citation(self) -> str:
        """How the release is cited, in the language of its report."""
        spec = self._reader.spec
        return spec.about.cited(self.name, texts_in(spec.report.language))

    def companion(self, name: str) -> Release:
        """The companion of that name; InputError where there is none."""
        return Release(self._reader.companion(name))

    def query(self, text: str) -> WantedNumbers:
        """The numbers of a query ("votingage * race", "total"), measured or not, to be narrowed and had for areas.

        Raises:
            InputError: it names what the schema does not have.
        """
        home = self._reader.holding(terms_of(text))
        everybody = tuple(np.ones(n, dtype=bool) for n in home.schema.shape)
        return WantedNumbers(home, Query.parse(text, home.schema), everybody)

    def names(self, level: str, language: str | None = None) -> pd.Series[str]:
        """The names of a level's geounits, by geocode; where the level has none, the geocodes themselves.

        Args:
            level: of the geounits.
            language: a tag such as "es"; by default the report's.

        Raises:
            InputError: there is no such level.
        """
        return self._reader.names(level, language)

    def table(self, name: str, level: str = "", *, tidy: bool = False, cumulative: bool = False) -> pd.DataFrame:
        """A published table: one row a geounit, and beside each count its 90 % interval.

        The interval's ends are in "<label>:low90" and "<label>:high90", the larger distance to them in "<label>:moe90":
        whole numbers ("Int64"), missing where unknown.

        Args:
            name: of the table.
            level: of the geounits.
            tidy: one row a number instead: geocode, name (of the area, where the level has names), what each term of
                the query is, value, low and high (the ends of the 90 % interval), reliability ("good", "care",
                "unreliable", as in the report).
            cumulative: its cumulative numbers instead, "up to <value>", each with an interval of its own.

        Raises:
            InputError: there is no such table, or it is not published at the level; the levels are named. Or it is not
                published cumulatively.
        """
        if (home := self._reader.holding(table=name)) is not self._reader:
            return Release(home).table(name, level, tidy=tidy, cumulative=cumulative)
        table = self._reader.published_table(name, level)
        path, query = self._reader.files.table(name, level), table.query
        if cumulative:
            fact = next(iter(table.facts), None)
            if fact is None:
                raise InputError(
                    f"{self.name}: table {name!r} is not published cumulatively; its spec would say cumulative = true"
                )
            path, query = fact.file(self._reader.files, table, level), fact.query(table)
        published = self._reader.read(path, level)
        if tidy:
            names = self.names(level).to_numpy() if level in self._reader.named_levels else None
            return tidy_table(published, query, names)
        columns: dict[str, Any] = dict(published.columns())
        columns |= {name: ends_column(ends) for name, ends in columns.items() if name.endswith(INTERVAL_SUFFIXES)}
        return pd.DataFrame(columns, index=_index(published.geocodes))

    def draws(self, name: str, level: str) -> pd.DataFrame:
        """Joint draws of what a published table's numbers may truly be: a row for each (draw, geocode).

        They are linear: real numbers, some negative. Numbers of one draw belong together, across tables and levels.

        Raises:
            InputError: the release has no draws, no such table, or not at the level.
        """
        return self._reader.draws(name, level)

    def interval(self, function: Function, tables: str | Sequence[str], level: str, share: float = 0.9) -> pd.DataFrame:
        """The interval of any function of the true numbers, by the draws: columns median, low90, high90.

        Args:
            function: called with one draw of each table, in the form of `table` without margins; returns a number, or a
                pandas Series or DataFrame of numbers.
            tables: name of the table, or names.
            level: of the tables.
            share: probability of the interval; 0.9 needs 19 draws at least.

        Raises:
            InputError: as in `interval_of`, or there are too few draws, or the function's values differ in their form.
        """
        names = [tables] if isinstance(tables, str) else list(tables)
        return interval_of(function, [self.draws(name, level) for name in names], share)

    @property
    def household_tables(self) -> tuple[str, ...]:
        """The names of the published tables of persons by their households."""
        return tuple(table.name for table in self._reader.linked_tables)

    def household_table(self, name: str, level: str) -> pd.DataFrame:
        """A published table of persons by what their households are: one row a geounit, without margins.

        Raises:
            InputError: there is no such table, or it is not published at the level.
        """
        self._reader.index_of(level)  # refuses another level
        found = next((table for table in self._reader.linked_tables if table.name == name), None)
        if found is None:
            tables = ", ".join(self.household_tables) or "none"
            raise InputError(f"{self.name}: no table {name!r} of persons by their households; there are {tables}")
        if level not in found.levels:
            raise InputError(
                f"{self.name}: table {name!r} is published for {', '.join(found.levels)}, not for {level!r}"
            )
        published = self._reader.read(found.file(self._reader.run.public, level), level)
        return pd.DataFrame(dict(published.columns()), index=_index(published.geocodes))

    def means(self, name: str, level: str) -> pd.DataFrame:
        """Sums and means of an amount, of a companion that holds one: one row a geounit, with intervals.

        What is null in the file is missing, and no number.

        Raises:
            InputError: this holds no amount, or has no such table at the level.
        """
        universe = self._reader.universe
        links = [link for link in self._reader.published.links if link.same_records and link.of == universe.name]
        if not links:
            raise InputError(
                f"{self.name}: means: {universe.name or 'the release itself'} holds counts and no amounts; name a "
                "companion of an amount"
            )
        self._reader.published_table(name, level)
        geocodes = self._reader.spine.level(level).geocodes
        columns: dict[str, Any] = dict(links[0].means(self._reader.published, name, level, geocodes))
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
        return self._joined(companion).sizes_at(self._reader.published, self._reader.main, level)

    def household_sizes_over(self, areas: Areas, companion: str = "") -> pd.DataFrame:
        """The sizes of households of areas taken together, as in `WantedNumbers.over`.

        The interval of an area that is no geounit is that of the linear estimates, which does not know what households
        have learned from the persons: it is wider than it need be.

        Raises:
            InputError: as above, or a geocode is not in the release, or counts twice in one area.
        """
        link, main = self._joined(companion), self._reader.main
        return link.sizes_over(self._reader.published, main, main.companion(link.by), areas)

    def exact_table(self, name: str, level: str) -> pd.DataFrame:
        """Which numbers of a published table are certain: True where the rule of `SumMargins.exact` says so.

        Raises:
            InputError: there is no such table.
        """
        query = self._reader.table_called(name).query
        number = self._reader.index_of(level)
        exact = self._reader.margins.exact(number, query.groups)
        geocodes = self._reader.spine.levels[number].geocodes
        return pd.DataFrame(exact, columns=list(query.answer_labels()), index=_index(geocodes))

    def _joined(self, companion: str) -> Link:
        own, main = companion or self._reader.universe.name, self._reader.main
        joined = {link.by: link for link in self._reader.published.links if link.members}
        if not own and len(joined) == 1:
            (own,) = joined
        if own not in joined:
            found = f"{own!r} is not joined" if own else "no companion is named"
            raise InputError(
                f"{main.name}: average household size: {found}; the companions with a [[join]] are "
                f"{', '.join(joined) or 'none'}"
            )
        return joined[own]

    def _facts(self) -> list[tuple[str, str]]:
        reader, labels = self._reader, self._reader.labels
        levels = ", ".join(f"{beside(one.name, labels.level(one.name))} {len(one):,}" for one in reader.spine.levels)
        facts = [("levels", levels), ("tables", listed(self.tables, labels.table))]
        facts.append(("attributes", listed(reader.schema.names, labels.attribute)))
        if self.companions and not reader.universe.name:
            facts.append(("companions", ", ".join(self.companions)))
            if self.household_tables:
                facts.append(("persons by household", listed(self.household_tables, labels.table)))
        facts.append(("promise", self.promise if reader.universe.name else reader.manifest.promise))
        return [("status", reader.manifest.status), *facts, ("to be cited as", self.citation)]

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


#: Of a frame with one row a number: the name of its area, the number, and the ends of its interval.
AREA_NAME: Final = "name"
TIDY_NUMBERS: Final = ("value", "low", "high")


def tidy_heads(terms: Sequence[str], others: Sequence[str]) -> list[str]:
    """What the columns of terms are called beside the others: the term, or "attribute TERM" where that is taken."""
    return [f"attribute {term}" if term in others else term for term in terms]


def tidy_table(table: ReleasedTable, query: Query, names: NDArray[np.object_] | None = None) -> pd.DataFrame:
    """Columns geocode, name, a column a term of the query, value, low, high, reliability; `n * size` rows.

    A term that is called like one of the others is "attribute TERM".

    Args:
        table: `(n, size)` numbers.
        query: what is tabulated.
        names: of the geounits `(n,)`; without them there is no such column.
    """
    n, size = table.counts.shape
    unknown = np.full((n, size), np.nan)
    lows, highs = (unknown if ends is None else ends for ends in (table.lows, table.highs))
    margins = unknown if table.margins is None else table.margins
    keys = np.array([one.key for one in CLASSES])
    columns: dict[str, Any] = {"geocode": np.repeat(table.geocodes.astype(object), size)}
    if names is not None:
        columns[AREA_NAME] = np.repeat(names, size)
    heads = tidy_heads(query.terms, (*columns, *TIDY_NUMBERS, "reliability"))
    columns |= {
        head: np.tile(query.labels_of(term).astype(object), n) for head, term in zip(heads, query.terms, strict=True)
    }
    value, low, high = TIDY_NUMBERS
    columns |= {value: table.counts.ravel(), low: ends_column(lows.ravel()), high: ends_column(highs.ravel())}
    columns["reliability"] = keys[classes_in(table.counts, margins)].astype(object).ravel()
    return pd.DataFrame(columns)
