"""The data that the page's explorer shows: geocodes, tables and polygons, each compressed on its own.

Levels are taken from the top down, and at each level the tables in the order of the spec. What fits is in the page,
which stays one that opens quickly; the rest is in files beside it that the page loads when it is asked for (`chunks`).
Large levels are cut into pieces of so many areas, a file each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from features.report.moments import MomentChunks
from features.report.sources import ReportSources
from features.report.table_numbers import MarginSummary, TableNumbers, TableReader
from geography.spine import Level
from pipeline.inputs.polygons import Area, flattening, read_public_areas
from pipeline.model.link import tables_of
from pipeline.model.universe import Table, Universe
from pipeline.pages.data import LARGEST, Chunks, Write, areas_of_level, lines_of_areas, packed_numbers, rows_of_table
from pipeline.release.long_tables import is_long
from pipeline.release.tables import read_table
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray

#: Numbers of one table and level beyond which the report leaves it to the table's own file.
_MOST_BESIDE = 1_000_000_000
#: Points of a polygon are whole steps of this many to a degree.
_STEPS = 10**6


@dataclass
class Explorer:
    """What goes into the page, and what the same reading of the tables says of their margins.

    Attributes:
        content: JSON: levels, universes with their tables, and which chunk holds what.
        chunks: the packed data.
        summaries: (universe, table, level) -> margins.
        beside: paths under public/ of tables that are in files beside the page.
        left_out: those of tables that are too large for these, too.
        totals: universe -> number of persons of the whole release, released.
        wholes: universe -> the ends of its published interval, equal where it is exact; where there is one.
    """

    content: dict[str, object] = field(default_factory=dict)
    chunks: Chunks = field(default_factory=Chunks)
    summaries: dict[tuple[str, str, str], MarginSummary] = field(default_factory=dict)
    beside: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    wholes: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add_total(self, universe: str, numbers: TableNumbers) -> None:
        """Keep the total of a table of a universe, and its interval, unless there were some."""
        self.totals.setdefault(universe, numbers.total)
        if numbers.whole is not None:
            self.wholes.setdefault(universe, numbers.whole)


def explorer_of(sources: ReportSources, write: Write) -> Explorer:
    """Read every published table once; what fits goes into the page, the rest is written beside it."""
    explorer = Explorer(chunks=Chunks(write))
    tables = {
        (universe.name, table.name): {
            "universe": universe.name,
            "name": table.name,
            "query": table.query.name,
            "title": sources.words(universe.name).table(table.name),
            "labels": list(table.query.answer_labels()),
            "shown": sources.words(universe.name).answers(table.query),
            "median": table.median,
            "levels": {},
        }
        for universe in sources.universes
        for table in universe.tables
        if not universe.measure.signed and not is_long(table.query.size)
    }
    linked = tables_of(sources.links)
    tables |= {
        ("", table.name): {
            "universe": "", "name": table.name, "query": table.query, "title": sources.words("").table(table.name),
            "labels": list(table.labels), "shown": [label.replace("_", " ") for label in table.labels], "levels": {},
            "median": False, "note": sources.texts(table.note),
        }
        for table in linked
    }  # fmt: skip
    levels = []
    kept = MomentChunks(explorer.chunks)
    for number, level in enumerate(sources.spine.levels):
        entry = _level(explorer, sources, number)
        for universe in sources.universes:
            for table in universe.tables:
                if level.name in table.levels:
                    chunk = _table(explorer, sources, universe, table, level)
                    if chunk is not None:
                        tables[universe.name, table.name]["levels"][level.name] = chunk  # type: ignore[index]
        for linked_table in linked:
            if level.name in linked_table.levels:
                path = sources.readable(linked_table.file(sources.run.public, level.name))
                chunk = _without_margins(explorer, sources, path, level)
                if chunk is not None:
                    tables["", linked_table.name]["levels"][level.name] = chunk  # type: ignore[index]
        _add_moments(kept, sources, tables, number)
        levels.append(entry)
    explorer.content = {"levels": levels, "tables": list(tables.values())}
    return explorer


def _add_moments(
    kept: MomentChunks,
    sources: ReportSources,
    tables: Mapping[tuple[str, str], Mapping[str, Any]],
    number: int,
) -> None:
    """How errors go together, for every table of a level that the page shows with intervals."""
    if not sources.spec.publish.margins:
        return
    level = sources.spine.levels[number].name
    for universe in sources.universes:
        for table in universe.tables:
            shown = tables.get((universe.name, table.name))
            chunk = None if shown is None else shown["levels"].get(level)
            if chunk is not None and chunk["ends"]:
                moments = sources.numbers.moments(universe.name, number, table)
                if moments is not None:
                    chunk["moments"] = kept.entry(moments)


def _level(explorer: Explorer, sources: ReportSources, number: int) -> dict[str, object]:
    """A level's geocodes, parents, names and polygons; `rows` is the number of areas in each piece."""
    level, names = sources.spine.levels[number], None
    if level.name in sources.names:
        names = sources.names[level.name].in_language(sources.spec.report.language or "")
    label = sources.words("").level(level.name)
    entry = areas_of_level(explorer.chunks, sources.spine, number, label, names)
    if level.name in sources.spec.report.polygons:
        _add_map(explorer, entry, level, read_public_areas(sources.readable(sources.run.polygons(level.name))))
    return entry


def _add_map(explorer: Explorer, entry: dict[str, object], level: Level, areas: list[Area]) -> None:
    place = {code: number for number, code in enumerate(level.geocodes.tolist())}
    shapes = list(_shapes(areas, place))
    packed = packed_numbers(np.concatenate(shapes) if shapes else np.zeros(0, dtype=np.int64))
    names = [""] * len(level)
    for area in areas:
        names[place[area.geocode]] = area.name
    if any(names) and "names" not in entry:
        lines = [name.replace("\n", " ") for name in names]
        entry["names"] = lines_of_areas(
            explorer.chunks, lambda first, end: lines[first:end], len(level), cast("int", entry["rows"])
        )
    if len(packed) <= LARGEST:
        entry["map"] = {"shapes": explorer.chunks.add(packed), "flattening": flattening(areas), "areas": len(areas)}


def _shapes(areas: list[Area], place: dict[str, int]) -> Iterator[IntArray]:
    """Each area as whole numbers: its place, its polygons; of each its rings; of each its points.

    The first point is absolute, the others are steps from the one before; signed numbers are folded to 0, -1, 1, -2 ...
    -> 0, 1, 2, 3 ...
    """
    for area in areas:
        yield np.array([place[area.geocode], len(area.polygons)], dtype=np.int64)
        for polygon in area.polygons:
            yield np.array([len(polygon)], dtype=np.int64)
            for ring in polygon:
                points = np.rint(ring[:-1] * _STEPS).astype(np.int64)
                steps = np.diff(points, axis=0, prepend=np.zeros((1, 2), dtype=np.int64)).ravel()
                yield np.array([len(points)], dtype=np.int64)
                yield np.where(steps >= 0, 2 * steps, -2 * steps - 1)


def _table(
    explorer: Explorer, sources: ReportSources, universe: Universe, table: Table, level: Level
) -> dict[str, object] | None:
    """Read a table, once; where its numbers are, as `decode.js` reads them; None where they are not in the explorer.

    Nor are sums that may be below 0: they have no shares, and no order by size; nor long tables, which nobody reads in
    a list of areas.
    """
    key = (universe.name, table.name, level.name)
    number = sources.spine.index_of(level.name)
    packed = sources.numbers.packed(universe.name, number, table)
    if packed is not None and packed.text is not None and explorer.chunks.fit(packed.text):
        explorer.summaries[key] = packed.summary
        explorer.add_total(universe.name, packed)
        return {"numbers": explorer.chunks.add(packed.text), "rows": len(level), "ends": packed.ends}
    path = sources.readable(sources.run.universe(universe.name).table(table.name, level.name))
    reader = TableReader()
    parts = reader.parts(path, len(level), sources.numbers.exact(universe.name, number, table))
    explorer.summaries[key] = reader.summary
    if universe.measure.signed:
        for _ in parts:
            pass
        return None
    name = path.relative_to(sources.run.public).as_posix()
    entry = _numbers(explorer, name, parts, len(level), table.query.size)
    numbers = reader.numbers()
    explorer.add_total(universe.name, numbers)
    return None if entry is None else entry | {"ends": numbers.ends}


def _without_margins(
    explorer: Explorer, sources: ReportSources, path: Readable, level: Level
) -> dict[str, object] | None:
    """The same of a table that has no margins."""
    counts = read_table(path, len(level)).counts
    name = path.relative_to(sources.run.public).as_posix()
    entry = _numbers(explorer, name, iter([counts]), len(level), counts.shape[1])
    return None if entry is None else entry | {"ends": False}


def _numbers(
    explorer: Explorer, name: str, parts: Iterator[IntArray], areas: int, size: int
) -> dict[str, object] | None:
    """Rows of a table, part by part, `(n, columns)`: in the page, in pieces beside it, or nowhere. All parts are read.

    Args:
        name: of the table's own file.
        areas, size: of the level, and answers of the table; with intervals there are three columns for each.
    """
    if areas * size > _MOST_BESIDE or is_long(size):
        explorer.left_out.append(name)
        for _ in parts:
            pass
        return None
    before = explorer.chunks.beside
    entry = rows_of_table(explorer.chunks, parts, areas, size)
    if explorer.chunks.beside > before:
        explorer.beside.append(name)
    return entry
