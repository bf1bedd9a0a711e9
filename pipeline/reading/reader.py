"""A finished release as Spinewise's own modules read it: areas, numbers and margins, from its public files alone.

Areas by their names: which geounits are called so, and what is said where none is, or several are.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy.sparse as sp

from geography.spine import Spine, counted, first_few
from pipeline.errors import InputError, ReleaseError
from pipeline.model.area_names import AreaNames, folded
from pipeline.model.labels import Labels
from pipeline.model.link import LinkedTable, counted_by, tables_of
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.universe import Table, Universe
from pipeline.published import PublishedRelease, open_finished
from pipeline.reading.margins import Groups, columns_of
from pipeline.release.draws import read_draws
from pipeline.release.published_files import UniverseFiles
from pipeline.release.status import RECEIVED
from pipeline.release.tables import ReleasedTable, read_table
from postprocess.arrays import BoolArray, Ends, IntArray

if TYPE_CHECKING:
    from pipeline.reading.sum_margins import SumMargins

#: Candidates that a message lists.
_LISTED = 10


@dataclass(frozen=True)
class NamedArea:
    """A geounit that has a name.

    Attributes:
        level: of the geounit, by its name.
        number: of the geounit in its level.
        inside: the name of the geounit above it, or its geocode; "" at the top.
    """

    level: str
    number: int
    geocode: str
    name: str
    inside: str

    def __str__(self) -> str:
        return f"{self.level} {self.geocode}" + (f" in {self.inside}" if self.inside else "")


@dataclass(frozen=True, eq=False)
class AreaIndex:
    """The named areas of a release.

    Attributes:
        release: its name, for messages.
        names: by level; names of all languages count.
    """

    release: str
    spine: Spine
    names: AreaNames

    def named(self, text: str) -> list[NamedArea]:
        """The areas of that name, upper levels first; `level:name` and `level:code` are of that level alone.

        Case, blanks and marks of direction do not count. Of areas with the same leaves, one above the other, only the
        uppermost is given.
        """
        level, colon, rest = text.partition(":")
        if colon and level.strip() in self.spine.level_names:
            return self._of_level(level.strip(), rest.strip())
        found: list[NamedArea] = []
        leaves: set[tuple[int, int]] = set()
        for name, number in self._places.get(folded(text), ()):
            if (span := self.span(name, number)) not in leaves:
                leaves.add(span)
                found.append(self._area(name, number))
        return found

    def span(self, level: str, number: int) -> tuple[int, int]:
        """The first leaf of a geounit, and the one after its last."""
        offsets = self.spine.leaf_offsets(self.spine.index_of(level))
        return int(offsets[number]), int(offsets[number + 1])

    def one(self, text: str) -> NamedArea | None:
        """The one area of that name; None where there is none.

        Raises:
            InputError: there are several; the message lists them.
        """
        found = self.named(text)
        if len(found) < 2:
            return found[0] if found else None
        listed = "; ".join(map(str, found[:_LISTED]))
        more = f" and {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
        first = found[0]
        raise InputError(
            f"{self.release}: {text!r} is the name of {len(found):,} areas: {listed}{more}; give the geocode of "
            f"one, or level and geocode, such as {f'{first.level}:{first.geocode}'!r}"
        )

    def advice(self, text: str) -> str:
        """What to write in the place of a name that no area has: "; did you mean 'Birch County'?", or ""."""
        asked = folded(text)
        longer = [name for name in self._places if name.startswith(f"{asked} ")]  # "Birch" for "Birch County"
        close = longer or difflib.get_close_matches(asked, list(self._places), n=1, cutoff=0.7)
        return f"; did you mean {self._area(*self._places[close[0]][0]).name!r}?" if close else ""

    def _of_level(self, level: str, text: str) -> list[NamedArea]:
        codes = self.spine.level(level).geocodes
        numbers = [int(number) for number in (codes == text).nonzero()[0]]
        numbers = numbers or [number for name, number in self._places.get(folded(text), ()) if name == level]
        return [self._area(level, number) for number in numbers]

    def _area(self, level: str, number: int) -> NamedArea:
        index = self.spine.index_of(level)
        geounits = self.spine.levels[index]
        inside = "" if not index else self._called(self.spine.level_names[index - 1], int(geounits.parents[number]))
        return NamedArea(level, number, str(geounits.geocodes[number]), self._called(level, number), inside)

    def _called(self, level: str, number: int) -> str:
        if level in self.names:
            return str(next(iter(self.names[level].by_language.values()))[number])
        return str(self.spine.level(level).geocodes[number])

    @cached_property
    def _places(self) -> dict[str, list[tuple[str, int]]]:
        """Folded name -> level and number of the geounits with that name in some language, upper levels first."""
        places: dict[str, list[tuple[str, int]]] = {}
        for name, place in self._pairs():
            there = places.setdefault(name, [])
            if place not in there:
                there.append(place)
        return places

    def _pairs(self) -> Iterator[tuple[str, tuple[str, int]]]:
        for level in self.spine.level_names:
            if level in self.names:
                for texts in self.names[level].by_language.values():
                    yield from ((folded(text), (level, number)) for number, text in enumerate(texts.to_pylist()))


def open_reader(folder: Path | str) -> Reader:
    """The finished release in `folder`: a run's directory, or the public/ folder of one. Only public files are read.

    Each file is compared with its hash in the manifest before it is read.

    Raises:
        InputError: there is no finished release; ReleaseError: it is damaged, or a file is not what the manifest says.
    """
    release = open_finished(Path(folder), check_hashes=False)
    return Reader(release, release.universes[0])


class Reader:
    """One universe of a finished release; `open_reader` gives the release's own, `companion` the others.

    Users of Python have the part of it that is `pipeline.reading.release.Release`.

    Attributes:
        run: where its files are.
        manifest, spec, spine: of the release.
        published: the whole release, with all of its universes.
        universe: whose tables these are.
    """

    def __init__(self, published: PublishedRelease, universe: Universe) -> None:
        self.run = published.run
        self.manifest = published.manifest
        self.spec = published.spec
        self.spine = published.spine
        self.published = published
        self.universe = universe
        self._histograms: dict[str, sp.csr_array] = {}

    @property
    def name(self) -> str:
        """The release's name, and the companion's."""
        return self.manifest.release + (f", {self.universe.name}" if self.universe.name else "")

    @property
    def schema(self) -> Schema:
        """The universe's attributes and their values."""
        return self.universe.schema

    @property
    def files(self) -> UniverseFiles:
        """The universe's files."""
        return self.published.files_of(self.universe.name)

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

    def companion(self, name: str) -> Reader:
        """The companion of that name; InputError where there is none."""
        for universe in self.published.universes[1:]:
            if universe.name == name:
                return Reader(self.published, universe)
        raise InputError(f"{self.name}: no companion {name!r}; there are {', '.join(self.companions) or 'none'}")

    @property
    def promise(self) -> str:
        """What is guaranteed of the universe, in words; ReleaseError where a damaged manifest does not say it."""
        if words := [one.words for one in self.manifest.privacy if one.universe == self.universe.name]:
            return words[0]
        if not self.universe.promises:
            return RECEIVED
        raise ReleaseError(f"{self.run.manifest}: privacy: has no statement of {self.universe.name or 'the release'}")

    @property
    def main(self) -> Reader:
        """The release's own universe."""
        return Reader(self.published, self.published.universes[0]) if self.universe.name else self

    @property
    def counted(self) -> str:
        """The name of the universe that has the number of the records: of sums that of their counts, else its own."""
        return counted_by(self.universe.name, self.published.links)

    @property
    def linked_tables(self) -> tuple[LinkedTable, ...]:
        """The published tables of its records and those of others together."""
        return tables_of(link for link in self.published.links if link.of == self.universe.name)

    @property
    def joined(self) -> tuple[str, ...]:
        """The companions whose records are the households that its own live in."""
        return tuple(link.by for link in self.published.links if link.of == self.universe.name and link.members)

    def holding(self, terms: Collection[str] = (), table: str = "") -> Reader:
        """The universe that has some attributes, or a table: another one where it is estimated together with others.

        Raises:
            InputError: no universe of those has all of the attributes; the message says what would have to be measured.
        """
        together, others = self.universe.together, self.published.universes
        if together is None or (set(terms) <= set(self.schema.names) and table in ("", *self.tables)):
            return self
        if table:
            if found := [one for one in others if table in [own.name for own in one.tables]]:
                return Reader(self.published, found[0])
            listed_tables = ", ".join(own.name for one in others for own in one.tables)
            raise InputError(f"{self.name}: no table {table!r}; the tables are {listed_tables}")
        name = together.home(terms)
        return next(Reader(self.published, one) for one in others if one.name == name)

    @cached_property
    def areas(self) -> AreaIndex:
        """The areas by their names."""
        return AreaIndex(self.name, self.spine, self.published.names)

    @cached_property
    def labels(self) -> Labels:
        """What levels, attributes, values and tables are called, in the language of the report."""
        return self.spec.labels(self.universe.name)

    @property
    def named_levels(self) -> tuple[str, ...]:
        """The levels whose areas have names."""
        return tuple(level for level in self.levels if level in self.published.names)

    def names(self, level: str, language: str | None = None) -> pd.Series[str]:
        """See `pipeline.reading.release.Release.names`."""
        codes = self.spine.levels[self.index_of(level)].geocodes.tolist()
        names = self.published.names.get(level)
        wanted = (self.spec.report.language or "") if language is None else language
        return pd.Series(codes if names is None else names.in_language(wanted), index=codes, name="name")

    def are_those_of(self, other: Reader) -> bool:
        """Whether another's numbers are the same, of one universe of one release."""
        return (self.manifest, self.universe.name) == (other.manifest, other.universe.name)

    def index_of(self, level: str) -> int:
        """The number of a level, 0 at the top; InputError where there is none."""
        if level not in self.levels:
            raise InputError(f"{self.name}: no level {level!r}; the levels are {', '.join(self.levels)}")
        return self.spine.index_of(level)

    def histogram(self, level: str) -> sp.csr_array:
        """The released counts `(n_geounits, n_cells)` of a level; kept once read."""
        if level not in self._histograms:
            geounits = self.spine.levels[self.index_of(level)]
            self._histograms[level] = self.published.histogram(self.universe, geounits)
        return self._histograms[level]

    @cached_property
    def margins(self) -> SumMargins:
        """The margins of sums; computed from spec and spine when first needed."""
        from pipeline.reading.sum_margins import SumMargins  # reading a table needs no solver

        return SumMargins(self.universe, self.files, self.spine, self.spec.postprocess.estimator)

    def published_intervals(self, level: str, groups: Groups) -> tuple[Ends, BoolArray]:
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
                    published = self.read(path, level)
                    if published.lows is not None and published.highs is not None:
                        lows[:, new], highs[:, new] = published.lows[:, column[new]], published.highs[:, column[new]]
                        there |= new
        return (lows, highs), there

    def read(self, path: Path, level: str) -> ReleasedTable:
        """A published table of a level, after its file was compared with its hash; errors as of `open_reader`."""
        return read_table(self.published.unchanged(path), geocodes=self.spine.level(level).geocodes)

    def _with_intervals(self, level: str) -> Iterator[tuple[Query, IntArray, Path]]:
        """Queries whose answers are published with intervals at a level: the file, and the column of each answer or -1.

        Tables come first, in their order.
        """
        tables = [table for table in self.universe.tables if level in table.levels]
        for table in tables:
            yield table.query, np.arange(table.query.size), self.files.table(table.name, level)
        for table in tables:
            for fact in table.facts:
                for query, columns in fact.answers_in_file(table):
                    yield query, columns, fact.file(self.files, table, level)

    def table_called(self, name: str) -> Table:
        """The published table of that name; InputError where there is none."""
        for table in self.universe.tables:
            if table.name == name:
                return table
        raise InputError(f"{self.name}: no table {name!r}; the tables are {', '.join(self.tables)}")

    def published_table(self, name: str, level: str) -> Table:
        """The same, where it is published at a level; InputError where it is not, or there is no such level."""
        table = self.table_called(name)
        if not level:
            raise InputError(f"{self.name}: table {name!r}: name one of its levels, {', '.join(table.levels)}")
        self.index_of(level)
        if level not in table.levels:
            raise InputError(
                f"{self.name}: table {name!r} is published for {', '.join(table.levels)}, not for {level!r}"
            )
        return table

    def draws(self, name: str, level: str) -> pd.DataFrame:
        """See `pipeline.reading.release.Release.draws`."""
        table, n_draws = self.table_called(name), self.spec.publish.draws
        geocodes = self.spine.levels[self.index_of(level)].geocodes
        if not n_draws:
            raise InputError(f"{self.name}: it was published without draws; publish.draws is 0 in its spec")
        self.published_table(name, level)
        return read_draws(self.published.unchanged(self.files.draws(name, level)), table, level, geocodes, n_draws)

    def geounit_of(self, inside: BoolArray) -> tuple[str, int] | None:
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

    def leaves_of(self, codes: Sequence[str], area: str) -> BoolArray:
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
            what = counted(len(strange), "geocode or name", "geocodes or names") if self.published.names else ""
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
