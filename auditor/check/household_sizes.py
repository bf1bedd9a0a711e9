"""Published average household sizes, compared with the histograms and, for their intervals, with the tables' own.

Intervals are not computed again: an end has to solve the equation that docs/mathematics.md states, or to be the
limit that the joins put on the size of any household.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.check.answers import read_counts
from auditor.reading.cells import NO_LIMIT, JoinedGroup, Query
from auditor.reading.counts import ENDS, Counts, LevelFile, is_long, read_long
from auditor.reading.files import Files, Places, value_text
from auditor.reading.findings import Check, Findings, FormError, surplus
from auditor.reading.spec import PublicUniverse
from auditor.reading.spine import Level

#: How far an end may be from solving its equation, relative to its terms.
_TOLERANCE = 1e-9
_SUFFIXES = (":moe90", ":low90", ":high90")


@dataclass(frozen=True, eq=False)
class Sized:
    """What the joins with a companion say of its households' sizes.

    Attributes:
        persons: `(n_cells,)` True for those who live in its households.
        least, most: members of one household.
    """

    persons: NDArray[np.bool_]
    least: int
    most: int


def sized(joins: Sequence[Sequence[JoinedGroup]]) -> Sized | None:
    """From the groups of each join with a companion; None where the joins do not say who lives in its households.

    One of the joins has to limit all members of every household from above, and households must differ in size.
    """
    persons = np.logical_or.reduce([group.persons for groups in joins for group in groups])
    limits = []
    for groups in joins:
        together = np.logical_or.reduce([group.persons for group in groups])
        if (together == persons).all() and all((group.most != NO_LIMIT).all() for group in groups):
            least, most = (np.sum([getattr(group, name) for group in groups], axis=0) for name in ("least", "most"))
            limits.append((int(least.min()), int(most.max())))
    if not limits:
        return None
    least, most = max(low for low, _ in limits), min(high for _, high in limits)
    return Sized(persons, least, most) if least < most else None


#: A published table, the number of its answer that is meant.
Number = tuple[str, Query, int]


def number_of(universe: PublicUniverse, cells: NDArray[np.bool_], level: str) -> Number | None:
    """The first table of a level with an answer that counts just these cells, but for impossible ones."""
    possible = ~universe.impossible
    for name, answers, levels in universe.tables:
        if level in levels:
            touched = np.unique(answers.of_cell[cells & possible])
            if len(touched) == 1 and np.array_equal((answers.of_cell == touched[0])[possible], cells[possible]):
                return name, answers, int(touched[0])
    return None


@dataclass(frozen=True, eq=False)
class Demand:
    """What is demanded of the file of a companion and a level.

    Attributes:
        companion: whose records are the households.
        level: of the geounits.
        size: what the joins say.
        numbers: of persons in households and of households, in published tables.
        counts: histograms of persons and of the companion at the level; None where one cannot be read.
        margins: whether intervals are published.
    """

    companion: str
    level: Level
    size: Sized
    numbers: tuple[Number, Number]
    counts: tuple[Counts | None, Counts | None]
    margins: bool


def check_household_sizes(files: Files, run: Places, demand: Demand, findings: Findings) -> None:
    """Check the file of a companion and a level.

    Args:
        files: reads it.
        run: with the files' names.
        demand: what the spec says of it.
        findings: takes what is wrong.

    Raises:
        FormError: a file is missing or damaged.
    """
    companion, level, size, margins = demand.companion, demand.level, demand.size, demand.margins
    n = len(level.codes)
    path = run.household_sizes(companion, level.name)
    file = LevelFile(files, path, level, findings, once=True)
    checks = {
        "whole": findings.check(file.name, "counts that are not whole numbers from 0"),
        "equal": findings.check(file.name, "counts that are not the histograms'"),
        "average": findings.check(file.name, "averages that are not persons by households"),
        "interval": findings.check(file.name, "intervals that do not follow from those of the tables"),
    }
    cells = [size.persons, None]
    required = [_totals(own, cell, n) for own, cell in zip(demand.counts, cells, strict=True)]
    ends = (
        [
            _ends(files, run, universe, number, level)
            for universe, number in zip(("", companion), demand.numbers, strict=True)
        ]
        if margins
        else []
    )
    suffixes = _SUFFIXES if margins else ()
    columns = ["persons", "households", "average", *("average" + suffix for suffix in suffixes)]
    for part, geounits in file.parts(columns):
        found = [
            read_counts(part.column(name), name, geounits, file, checks["whole"]) for name in ("persons", "households")
        ]
        known = geounits >= 0
        for name, own, right in zip(("persons", "households"), found, required, strict=True):
            if right is not None:
                _equal(checks["equal"], name, own, right[geounits], known & (own >= 0), level, geounits)
        average = reals(part.column("average"), "average", file)
        with np.errstate(invalid="ignore", divide="ignore"):
            wrong = np.abs(average * found[1] - found[0]) > _TOLERANCE * np.maximum(found[0], 1)
            wrong = np.where(found[1] > 0, ~np.isfinite(average) | wrong, part.column("average").is_valid().to_numpy())

        def sentence(row: int, geounits: Any = geounits, part: pa.Table = part, found: Any = found) -> str:
            return (
                f"{level.label(geounits[row])}: found the average {value_text(part.column('average'), row)} of "
                f"{found[0][row]:,} persons in {found[1][row]:,} households"
            )

        checks["average"].add(known & (found[0] >= 0) & (found[1] >= 0) & wrong.astype(np.bool_), sentence)
        if margins:
            own_ends = [end[:, geounits] for end in ends]
            _check_interval(checks["interval"], part, geounits, known & ~wrong, found, own_ends, size, file)


def _totals(counts: Counts | None, cells: NDArray[np.bool_] | None, n: int) -> NDArray[np.int64] | None:
    """`(n,)` records of some cells in each geounit."""
    if counts is None:
        return None
    weights = counts.counts if cells is None else counts.counts * cells[counts.columns]
    out = np.zeros(n, dtype=np.int64)
    np.add.at(out, counts.geounits, weights)
    return out


def _equal(
    check: Check,
    name: str,
    found: NDArray[np.int64],
    right: NDArray[np.int64],
    rows: NDArray[np.bool_],
    level: Level,
    geounits: NDArray[np.int64],
) -> None:
    def sentence(row: int) -> str:
        return f"{level.label(geounits[row])}, {name!r}: {surplus(int(found[row]), int(right[row]))} (the histogram)"

    check.add(rows & (found != right), sentence)


def _ends(files: Files, run: Places, universe: str, number: Number, level: Level) -> NDArray[np.float64]:
    """`(2, n)` ends of the interval of a number in its table; NaN where unknown."""
    table, answers, answer = number
    path = run.universe(universe).table(table, level.name)
    if is_long(files, path, answers):
        long = read_long(files, path, level, answers, Findings(), margins=True)
        return np.stack([long.column(name, answer) for name in ENDS[1:]])
    file = LevelFile(files, path, level, Findings(), once=True)
    out = np.full((2, len(level.codes)), np.nan)
    names = [label + suffix for label in answers.labels for suffix in ("", *_SUFFIXES)]
    for part, geounits in file.parts(names):
        for end, suffix in enumerate(_SUFFIXES[1:]):
            values = reals(part.column(answers.labels[answer] + suffix), answers.labels[answer] + suffix, file)
            out[end, geounits[geounits >= 0]] = values[geounits >= 0]
    return out


def reals(column: pa.ChunkedArray, name: str, file: LevelFile) -> NDArray[np.float64]:
    """A column of real numbers, NaN for what is missing; FormError where it holds something else."""
    if not pa.types.is_floating(column.type):
        raise FormError(f"{file.name}: column {name!r} holds {column.type}; real numbers are required")
    return np.array(column.to_numpy(), dtype=np.float64)


def _check_interval(
    check: Check,
    part: pa.Table,
    geounits: NDArray[np.int64],
    rows: NDArray[np.bool_],
    found: Sequence[NDArray[np.int64]],
    ends: Sequence[NDArray[np.float64]],
    size: Sized,
    file: LevelFile,
) -> None:
    margin, low, high = (reals(part.column("average" + suffix), "average" + suffix, file) for suffix in _SUFFIXES)
    p, h = (numbers.astype(np.float64) for numbers in found)
    (p_low, p_high), (h_low, h_high) = ends
    with np.errstate(invalid="ignore", divide="ignore"):
        average = p / h
        unknown = np.isnan(p_low) | np.isnan(h_low) | (h == 0)
        nothing = np.logical_and.reduce([part.column("average" + suffix).is_null().to_numpy() for suffix in _SUFFIXES])
        right = (low <= average) & (average <= high) & np.isclose(margin, np.maximum(average - low, high - average))
        below, above, more = (widened(reach) for reach in (p - p_low, p_high - p, h_high - h))
        fewer = np.minimum(widened(h - h_low), h)
        right &= solves(low, p, h, (below, more), float(size.least))
        right &= solves(high, p, h, (above, fewer), float(size.most))

    def sentence(row: int) -> str:
        return (
            f"{file.level.label(geounits[row])}: found {value_text(part.column('average:low90'), row)} to "
            f"{value_text(part.column('average:high90'), row)} with margin of error "
            f"{value_text(part.column('average:moe90'), row)} for {found[0][row]:,} persons in {found[1][row]:,} "
            f"households; it does not follow from the intervals of the tables and from {size.least} to {size.most} "
            "members"
        )

    check.add(rows & np.where(unknown, ~nothing, ~right).astype(np.bool_), sentence)


def widened(reach: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far an interval of whole numbers reaches as one of numbers without steps: half a step more, where it does."""
    return reach + np.where(reach > 0, 0.5, 0.0)


def solves(
    end: NDArray[np.float64],
    p: NDArray[np.float64],
    h: NDArray[np.float64],
    distances: tuple[NDArray[np.float64], NDArray[np.float64]],
    limit: float,
    *,
    near: bool = False,
) -> NDArray[np.bool_]:
    """Whether an end is where 0 begins to be excluded, or the limit where that lies beyond it.

    With `near`, an end that is the limit but for the last digits of a float is the limit.
    """

    def excluded(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return (p - t * h) ** 2 - distances[0] ** 2 - (t * distances[1]) ** 2

    scale = _TOLERANCE * np.maximum(p**2 + (end * h) ** 2, 1.0)
    return np.asarray(
        (np.abs(excluded(end)) <= scale)
        | ((np.isclose(end, limit, rtol=1e-12, atol=0.0) if near else end == limit) & (excluded(end) <= scale))
    )
