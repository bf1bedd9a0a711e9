"""The data that the page's explorer shows: geocodes, tables and polygons, each compressed on its own.

Levels are taken from the top down, and at each level the tables in the order of the spec, while they fit into
`LARGEST`: the page stays one that opens quickly and can be sent by mail. What is left out is named with its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geography.spine import Level, Spine
from pipeline.model.household_table import NO_MARGINS
from pipeline.model.universe import Table, Universe
from pipeline.release.tables import ReleasedTable, read_table, read_table_parts
from pipeline.report.encoding import packed_lines, packed_numbers
from pipeline.report.moments import MomentChunks
from pipeline.report.polygons import Area, flattening, read_public_areas
from pipeline.report.sentences import sentence
from pipeline.report.sources import ReportSources
from pipeline.report.summaries import MarginSummary

#: Characters of all data in the page.
LARGEST = 3_000_000
#: Numbers of one table and level beyond which its size need not be tried.
_MOST_NUMBERS = 12_000_000
#: Points of a polygon are whole steps of this many to a degree.
_STEPS = 10**6


@dataclass
class Explorer:
    """What goes into the page, and what the same reading of the tables says of their margins.

    Attributes:
        content: JSON: levels, universes with their tables, and which chunk holds what.
        chunks: compressed data in base64, by number.
        summaries: (universe, table, level) -> margins.
        left_out: paths under public/ of tables that did not fit.
        totals: universe -> number of persons of the whole release, released.
    """

    content: dict[str, object] = field(default_factory=dict)
    chunks: list[str] = field(default_factory=list)
    summaries: dict[tuple[str, str, str], MarginSummary] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Numbers of the table in one geounit."""
        return sum(map(len, self.chunks))

    def add(self, chunk: str) -> int:
        """The number of the chunk that now holds this."""
        self.chunks.append(chunk)
        return len(self.chunks) - 1


def explorer_of(sources: ReportSources) -> Explorer:
    """Read every published table once; what fits goes into the page."""
    explorer = Explorer()
    tables = {
        (universe.name, table.name): {
            "universe": universe.name,
            "name": table.name,
            "query": table.query.name,
            "title": sources.words(universe.name).table(table.name),
            "labels": list(table.query.answer_labels()),
            "shown": sources.words(universe.name).answers(table.query),
            "levels": {},
        }
        for universe in sources.universes
        for table in universe.tables
    }
    by_household = sources.spec.tables_of_households()
    tables |= {
        ("", table.name): {
            "universe": "", "name": table.name, "query": table.query, "title": sources.words("").table(table.name),
            "labels": list(table.labels), "shown": [label.replace("_", " ") for label in table.labels], "levels": {},
            "note": sentence(sources.texts, NO_MARGINS),
        }
        for table in by_household
    }  # fmt: skip
    levels = []
    for number, level in enumerate(sources.spine.levels):
        entry = _level(explorer, sources, number)
        fits = bool(entry["codes"] is not None)
        for universe in sources.universes:
            for table in universe.tables:
                if level.name in table.levels:
                    chunk = _table(explorer, sources, universe, table, level, fits=fits)
                    if chunk is not None:
                        tables[universe.name, table.name]["levels"][level.name] = chunk  # type: ignore[index]
        for household_table in by_household:
            if level.name in household_table.levels:
                path = sources.run.household_table(household_table.name, level.name)
                chunk = _without_margins(explorer, sources, path, level, household_table.size, fits=fits)
                if chunk is not None:
                    tables["", household_table.name]["levels"][level.name] = chunk  # type: ignore[index]
        levels.append(entry)
    _add_moments(explorer, sources, tables)
    explorer.content = {"levels": levels, "tables": list(tables.values())}
    return explorer


def _add_moments(
    explorer: Explorer, sources: ReportSources, tables: Mapping[tuple[str, str], Mapping[str, Any]]
) -> None:
    """How errors go together, for every table that is in the page with intervals, upper levels first."""
    kept = MomentChunks()
    for number, level in enumerate(sources.spine.levels):
        for universe in sources.universes:
            for table in universe.tables:
                chunk = tables[universe.name, table.name]["levels"].get(level.name)
                if chunk is not None and chunk["below"] is not None:
                    moments = sources.moments(universe.name, number, table.query)
                    chunk["moments"] = kept.entry(moments, explorer.chunks)


def _level(explorer: Explorer, sources: ReportSources, number: int) -> dict[str, object]:
    """A level's geocodes and parents in the page, and its polygons; "codes" is None where they do not fit."""
    level = sources.spine.levels[number]
    label = sources.words("").level(level.name)
    entry: dict[str, object] = {"name": level.name, "label": label, "n": len(level)}
    entry |= {"codes": None, "prefixed": False, "map": None}
    if len(level) > _MOST_NUMBERS:
        return entry
    codes, prefixed = _suffixes(sources.spine, number)
    children = np.zeros(0, dtype=np.int64) if number == 0 else np.diff(sources.spine.child_offsets(number - 1))
    lines, parents = packed_lines(codes), packed_numbers(children)
    if explorer.size + len(lines) + len(parents) > LARGEST:
        return entry
    entry |= {"codes": explorer.add(lines), "children": explorer.add(parents), "prefixed": prefixed}
    if level.name in sources.names:
        names = packed_lines(sources.names[level.name].in_language(sources.spec.report.language or ""))
        if explorer.size + len(names) <= LARGEST:
            entry["names"] = explorer.add(names)
    if level.name in sources.spec.report.polygons:
        _add_map(explorer, entry, level, read_public_areas(sources.polygons_file(level.name)))
    return entry


def _suffixes(spine: Spine, number: int) -> tuple[list[str], bool]:
    """The geocodes of a level, without their parents' where every one begins with it."""
    level = spine.levels[number]
    if number == 0:
        return level.geocodes.tolist(), False
    above = spine.levels[number - 1].geocodes[level.parents]
    if not np.strings.startswith(level.geocodes, above).all():
        return level.geocodes.tolist(), False
    pairs = zip(level.geocodes.tolist(), np.strings.str_len(above).tolist(), strict=True)
    return [code[length:] for code, length in pairs], True


def _add_map(explorer: Explorer, entry: dict[str, object], level: Level, areas: list[Area]) -> None:
    place = {code: number for number, code in enumerate(level.geocodes.tolist())}
    shapes = list(_shapes(areas, place))
    packed = packed_numbers(np.concatenate(shapes) if shapes else np.zeros(0, dtype=np.int64))
    names = [""] * len(level)
    for area in areas:
        names[place[area.geocode]] = area.name
    if any(names) and "names" not in entry:
        entry["names"] = explorer.add(packed_lines([name.replace("\n", " ") for name in names]))
    if explorer.size + len(packed) <= LARGEST:
        entry["map"] = {"shapes": explorer.add(packed), "flattening": flattening(areas), "areas": len(areas)}


def _shapes(areas: list[Area], place: dict[str, int]) -> Iterator[NDArray[np.int64]]:
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
    explorer: Explorer, sources: ReportSources, universe: Universe, table: Table, level: Level, *, fits: bool
) -> dict[str, object] | None:
    """Read a table; the chunks with its counts and margins if they fit."""
    path = sources.table_file(universe, table, level.name)
    summary = explorer.summaries[universe.name, table.name, level.name] = MarginSummary()
    keep = fits and len(level) * table.query.size <= _MOST_NUMBERS
    parts: list[ReleasedTable] = []
    total = 0
    exact = _exact(sources, universe, table, level)
    kept_exact: list[NDArray[np.bool_] | None] = []
    row = 0
    for part in read_table_parts(path, len(level)):
        of_part = None if exact is None else exact[0][exact[1][row : row + len(part.counts)]]
        row += len(part.counts)
        summary.add(part, of_part)
        total += int(part.counts.sum())
        if keep:
            parts.append(part)
            kept_exact.append(of_part)
    explorer.totals.setdefault(universe.name, total)
    if parts:
        counts = packed_numbers(np.concatenate([part.counts for part in parts]).T)
        ends = [_ends(part, certain) for part, certain in zip(parts, kept_exact, strict=True) if part.lows is not None]
        below, above = (
            (packed_numbers(np.concatenate(side).T) for side in zip(*ends, strict=True)) if ends else ("", "")
        )
        if explorer.size + len(counts) + len(below) + len(above) <= LARGEST:
            chunk: dict[str, object] = {"counts": explorer.add(counts), "below": None, "above": None}
            return chunk | {"below": explorer.add(below), "above": explorer.add(above)} if ends else chunk
    explorer.left_out.append(path.relative_to(sources.run.public).as_posix())
    return None


def _without_margins(
    explorer: Explorer, sources: ReportSources, path: Path, level: Level, size: int, *, fits: bool
) -> dict[str, object] | None:
    """The chunk with the counts of a table that has no margins, if it fits."""
    if fits and len(level) * size <= _MOST_NUMBERS:
        counts = packed_numbers(read_table(path, len(level)).counts.T)
        if explorer.size + len(counts) <= LARGEST:
            return {"counts": explorer.add(counts), "below": None, "above": None}
    explorer.left_out.append(path.relative_to(sources.run.public).as_posix())
    return None


def _ends(part: ReleasedTable, exact: NDArray[np.bool_] | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How far the intervals reach below the counts and above them, persons, both `(n, size)`.

    Below: 0 where a number is exact, 1 where its interval is unknown, else 2 more than the distance.
    """
    assert part.lows is not None
    assert part.highs is not None
    unknown = np.isnan(part.lows)
    below = np.where(unknown, 1, 2 + part.counts - np.where(unknown, 0, part.lows))
    above = np.where(unknown, 0, part.highs - part.counts)
    certain = np.zeros_like(unknown) if exact is None else exact
    return np.where(certain, 0, below).astype(np.int64), np.where(certain, 0, np.nan_to_num(above)).astype(np.int64)


def _exact(
    sources: ReportSources, universe: Universe, table: Table, level: Level
) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
    """Which numbers of a table are certain, as `ReportSources.exact`; None where no margins stand beside them."""
    if not sources.spec.publish.margins:
        return None
    return sources.exact(universe.name, sources.spine.index_of(level.name), table.query)
