"""Whether the tables of a P.L. 94-171 summary file agree with each other: every line of every area."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.imports.pl94171.layout import BLOCK, GEO_LEVELS, SPINE_LEVELS, line_name
from features.imports.pl94171.summary_file import SummaryFile
from pipeline.exchange.pl94171_tables import LINES, race_sums

_HISPANIC = 1  # the line (from 0) of P2 and P4 before that of all races together
_OVER_BLOCKS = " = sum over its blocks"
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
    rows: NDArray[np.int64]
    actual: NDArray[np.int64]
    expected: NDArray[np.int64]
    kind: str

    @property
    def fatal(self) -> bool:
        """Whether the histogram cannot be made: tables of a block contradict each other."""
        return self.kind == "tables" and self.level == BLOCK


def check_summary(summary: SummaryFile) -> list[Mismatches]:
    """All mismatches: within the tables, between them, with the header, and of blocks with the areas above."""
    mismatches = []
    for kind, rule, left, right, at_most in _rules(summary):
        broken = left > right if at_most else left != right
        for level in np.unique(summary.level[broken]):
            rows = np.flatnonzero(broken & (summary.level == level))
            mismatches.append(Mismatches(str(level), rule, rows, left[rows], right[rows], kind))
    return [*mismatches, *_sums_of_blocks(summary)]


def _rules(summary: SummaryFile) -> Iterator[tuple[str, str, NDArray[np.int64], NDArray[np.int64], bool]]:
    """Kind, rule, left and right side `(n,)`, and whether the left may be less."""
    tables = summary.tables
    for table, sums in _sums().items():
        if table in tables:
            for line, parts in sums.items():
                rule = f"{line_name(table, line)} = {_sum_text(table, parts)}"
                yield "tables", rule, _line(summary, table, line), _sum(tables[table], parts), False
    for small, large in (("P2", "P1"), ("P4", "P3")):
        rule = f"{line_name(small, 0)} = {line_name(large, 0)}"
        yield "tables", rule, _line(summary, small, 0), _line(summary, large, 0), False
    for small, large in (("P2", "P1"), ("P4", "P3"), ("P3", "P1"), ("P4", "P2")):
        yield from _at_most(summary, small, large)
    rule = f"{line_name('P4', _HISPANIC)} <= {line_name('P2', _HISPANIC)}"
    yield "tables", rule, _line(summary, "P4", _HISPANIC), _line(summary, "P2", _HISPANIC), True
    for line in range(LINES["P1"]):
        lesser_line, other = (line_name(table, line) for table in ("P3", "P1"))
        less, lesser = (line_name(table, line + _ALL_RACES[table]) for table in ("P4", "P2"))
        adults = _line(summary, "P3", line) - _line(summary, "P4", line + 2)
        everybody = _line(summary, "P1", line) - _line(summary, "P2", line + 2)
        yield "tables", f"{lesser_line} - {less} <= {other} - {lesser}", adults, everybody, True
    if "P5" in tables:
        yield "header", "P5_001 <= P1_001", _line(summary, "P5", 0), _line(summary, "P1", 0), True
    yield "header", "POP100 = P1_001", summary.population, _line(summary, "P1", 0), False
    yield "header", "HU100 = H1_001", summary.units, _line(summary, "H1", 0), False


def _sums() -> dict[str, dict[int, tuple[int, ...]]]:
    """Of each table, line -> the lines it is the sum of, from 0."""
    sums: dict[str, dict[int, tuple[int, ...]]] = {}
    for table, start in _ALL_RACES.items():
        sums[table] = {line + start: tuple(p + start for p in parts) for line, parts in race_sums().items()}
        if start:
            sums[table] = {0: (_HISPANIC, start), **sums[table]}
    sums["H1"] = {0: (1, 2)}
    sums["P5"] = {0: (1, 6), 1: (2, 3, 4, 5), 6: (7, 8, 9)}
    return sums


def _at_most(
    summary: SummaryFile, small: str, large: str
) -> Iterator[tuple[str, str, NDArray[np.int64], NDArray[np.int64], bool]]:
    """Each line of races of one table is at most that of the other."""
    for line in range(LINES["P1"]):
        lesser_line, other = line + _ALL_RACES[small], line + _ALL_RACES[large]
        rule = f"{line_name(small, lesser_line)} <= {line_name(large, other)}"
        yield "tables", rule, _line(summary, small, lesser_line), _line(summary, large, other), True


def _line(summary: SummaryFile, table: str, line: int) -> NDArray[np.int64]:
    return summary.tables[table][:, line].astype(np.int64)


def _sum(table: NDArray[np.int32], lines: Sequence[int]) -> NDArray[np.int64]:
    return table[:, lines].sum(axis=1, dtype=np.int64)


def _sum_text(table: str, parts: Sequence[int]) -> str:
    if len(parts) > 3 and parts == tuple(range(parts[0], parts[-1] + 1)):
        return f"{line_name(table, parts[0])} + ... + {line_name(table, parts[-1])}"
    return " + ".join(line_name(table, part) for part in parts)


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


def mismatch_messages(summary: SummaryFile, mismatches: Sequence[Mismatches], *, most: int = 12) -> list[str]:
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
    return [*messages[:most], f"... and {len(messages) - most:,} more rules"] if len(messages) > most else messages


def _areas(level: str, rows: NDArray[np.int64]) -> str:
    name = GEO_LEVELS[level].name.replace("_", " ")
    plural = {"county": "counties"}.get(name, f"{name}s")
    return f"{rows.size:,} {name if rows.size == 1 else plural}"


def _first(summary: SummaryFile, mismatch: Mismatches) -> str:
    return f"first in {summary.geocode[mismatch.rows[0]]}: {mismatch.actual[0]:,} and {mismatch.expected[0]:,}"
