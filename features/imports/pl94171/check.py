"""Whether the tables of a P.L. 94-171 summary file agree with each other: every line of every area."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from features.imports.pl94171.summary_file import BLOCK, GEO_LEVELS, SPINE_LEVELS, SummaryFile, line_name
from pipeline.exchange.pl94171_tables import LINES, race_sums
from postprocess.arrays import IntArray

#: Of a side of a rule: sign, table, its line, and the last of several lines.
_TERM = re.compile(r"([+-]?) ?(\w\d)_(\d+)(?: \+ \.\.\. \+ \w+_(\d+))?")
_SUMS = (
    "H1_001 = H1_002 + H1_003",
    "P5_001 = P5_002 + P5_007",
    "P5_002 = P5_003 + ... + P5_006",
    "P5_007 = P5_008 + P5_009 + P5_010",
    "P2_001 = P1_001",
    "P4_001 = P3_001",
)
_OVER_BLOCKS = " = sum over its blocks"
#: Messages that are shown.
_MOST_SHOWN = 12
#: The line (from 0) of all races together in each table of races.
_ALL_RACES = {"P1": 0, "P2": 2, "P3": 0, "P4": 2}


@dataclass(frozen=True, eq=False)
class Mismatches:
    """The areas where one rule does not hold.

    Attributes:
        level: the summary level of all of them.
        rule: what should hold, in lines of tables: "P1_001 = P1_002 + P1_009".
        rows: `(n,)` rows of the summary file.
        actual, expected: `(n,)` int64, the left and the right side of the rule.
        kind: "blocks" where the areas' sums over blocks are meant, "header" where the header is, else "tables".
    """

    level: str
    rule: str
    rows: IntArray
    actual: IntArray
    expected: IntArray
    kind: str

    @property
    def fatal(self) -> bool:
        """Whether the histogram cannot be made: tables of a block contradict each other."""
        return self.kind == "tables" and self.level == BLOCK


def check_summary(summary: SummaryFile) -> list[Mismatches]:
    """All mismatches: within the tables, between them, with the header, and of blocks with the areas above."""
    mismatches = []
    for kind, rule in _rules(frozenset(summary.tables)):
        left, sign, right = rule.partition(" <= " if " <= " in rule else " = ")
        actual, expected = _side(summary, left), _side(summary, right)
        broken = actual > expected if sign == " <= " else actual != expected
        for level in np.unique(summary.level[broken]):
            rows = np.flatnonzero(broken & (summary.level == level))
            mismatches.append(Mismatches(str(level), rule, rows, actual[rows], expected[rows], kind))
    return [*mismatches, *_sums_of_blocks(summary)]


def _side(summary: SummaryFile, text: str) -> IntArray:
    """`(n,)`, one side of a rule: lines of tables, or a total of the header."""
    of_header = {"POP100": summary.population, "HU100": summary.units}
    if text in of_header:
        return of_header[text]
    total = np.zeros(len(summary.level), dtype=np.int64)
    for sign, table, first, last in _TERM.findall(text):
        lines = summary.tables[table][:, int(first) - 1 : int(last or first)]
        total += lines.sum(axis=1, dtype=np.int64) * (-1 if sign == "-" else 1)
    return total


def _rules(tables: Collection[str]) -> Iterator[tuple[str, str]]:
    """The kind of each rule, and the rule."""
    for table, start in _ALL_RACES.items():
        if start:
            yield "tables", f"{table}_001 = {table}_002 + {table}_003"
        for line, parts in race_sums().items():
            names = [line_name(table, start + part) for part in parts]
            run = len(parts) > 3 and parts == tuple(range(parts[0], parts[-1] + 1))
            of_parts = f"{names[0]} + ... + {names[-1]}" if run else " + ".join(names)
            yield "tables", f"{line_name(table, start + line)} = {of_parts}"
    yield from (("tables", rule) for rule in _SUMS if rule[:2] in tables)
    for small, large in (("P2", "P1"), ("P4", "P3"), ("P3", "P1"), ("P4", "P2")):
        for one, other in zip(_of_races(small), _of_races(large), strict=True):
            yield "tables", f"{one} <= {other}"
    yield "tables", "P4_002 <= P2_002"
    for p1, p2, p3, p4 in zip(*map(_of_races, _ALL_RACES), strict=True):
        yield "tables", f"{p3} - {p4} <= {p1} - {p2}"
    if "P5" in tables:
        yield "header", "P5_001 <= P1_001"
    yield "header", "POP100 = P1_001"
    yield "header", "HU100 = H1_001"


def _of_races(table: str) -> list[str]:
    """The lines of a table of races, from that of all races together on."""
    return [line_name(table, _ALL_RACES[table] + line) for line in range(LINES["P1"])]


def _sums_of_blocks(summary: SummaryFile) -> Iterator[Mismatches]:
    """Areas of the spine, and places, whose tables are not the sums of their blocks'."""
    blocks = summary.rows(BLOCK)
    for level, described in GEO_LEVELS.items():
        rows = summary.rows(level)
        if level == BLOCK or not rows.size or described.name == "aian":
            continue
        if described.name == "place":
            state = summary.geocode[blocks].astype("<U2")
            above = np.where(summary.place[blocks] == "", "", np.strings.add(state, summary.place[blocks]))
        else:
            above = summary.geocode[blocks].astype(f"<U{SPINE_LEVELS[described.name]}")
        order = np.argsort(above, kind="stable")
        codes, starts = np.unique(above[order], return_index=True)
        at = np.minimum(np.searchsorted(codes, summary.geocode[rows]), codes.size - 1)
        matched = codes[at] == summary.geocode[rows]
        for table, counts in summary.tables.items():
            sums = np.add.reduceat(counts[blocks[order]], starts, axis=0, dtype=np.int64)
            expected = np.where(matched[:, None], sums[at], 0)
            published = counts[rows].astype(np.int64)
            for line in np.flatnonzero((published != expected).any(axis=0)):
                differing = np.flatnonzero(published[:, line] != expected[:, line])
                rule = f"{line_name(table, int(line))}{_OVER_BLOCKS}"
                yield Mismatches(
                    level, rule, rows[differing], published[differing, line], expected[differing, line], "blocks"
                )
    for name in ("county", "tract", "block_group"):
        yield from _without_record(summary, name)


def _without_record(summary: SummaryFile, name: str) -> Iterator[Mismatches]:
    """Blocks whose area above has no record of its own, where the file has records of that level at all."""
    level = next(level for level, described in GEO_LEVELS.items() if described.name == name)
    if not (rows := summary.rows(level)).size:
        return
    blocks = summary.rows(BLOCK)
    orphans = blocks[~np.isin(summary.geocode[blocks].astype(f"<U{SPINE_LEVELS[name]}"), summary.geocode[rows])]
    if orphans.size:
        ones = np.ones(orphans.size, dtype=np.int64)
        yield Mismatches(BLOCK, f"the {name} above has a record", orphans, 0 * ones, ones, "blocks")


def mismatch_messages(summary: SummaryFile, mismatches: Sequence[Mismatches]) -> list[str]:
    """A line for each kind of mismatch and level, with its number and the first; then how many more there are."""
    messages = []
    sums: dict[str, list[Mismatches]] = {}
    for mismatch in mismatches:
        if mismatch.kind == "blocks" and mismatch.rule.endswith(_OVER_BLOCKS):
            sums.setdefault(mismatch.level, []).append(mismatch)
        else:
            messages.append(
                f"{_areas(mismatch.level, mismatch.rows)}: {mismatch.rule} does not hold, {_first(summary, mismatch)}"
            )
    for level, several in sums.items():
        areas = _areas(level, np.unique(np.concatenate([mismatch.rows for mismatch in several])))
        lines = f"{len(several):,} line{'s' if len(several) > 1 else ''} of their tables"
        first = several[0].rule.removesuffix(_OVER_BLOCKS)
        messages.append(
            f"{areas}: {lines} are not the sums over their blocks, such as {first}, {_first(summary, several[0])}"
        )
    more = [f"... and {len(messages) - _MOST_SHOWN:,} more rules"] if len(messages) > _MOST_SHOWN else []
    return messages[:_MOST_SHOWN] + more


def _areas(level: str, rows: IntArray) -> str:
    name = GEO_LEVELS[level].name.replace("_", " ")
    plural = {"county": "counties"}.get(name, f"{name}s")
    return f"{rows.size:,} {name if rows.size == 1 else plural}"


def _first(summary: SummaryFile, mismatch: Mismatches) -> str:
    return f"first in {summary.geocode[mismatch.rows[0]]}: {mismatch.actual[0]:,} and {mismatch.expected[0]:,}"
