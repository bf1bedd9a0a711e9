"""Published ratios of two numbers of tables: average household sizes; sums and means of amounts.

Intervals are not computed again: an end has to solve the equation that docs/mathematics.md states, or to be the limit
that joins put on the size of any household, or an end of the clip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from auditor.reading.cells import Query, together
from auditor.reading.counts import INTERVAL, ZEROS, LevelFile, read_table, real_numbers
from auditor.reading.files import Files, value_text
from auditor.reading.spec import PublicSpec, PublicUniverse
from auditor.reading.spine import Level
from auditor.reading.values import BoolArray, FloatArray, IntArray

#: How far a number may be from what follows from the tables, and an end from solving its equation, relative to them.
_NEAR = 1e-12
_TOLERANCE = 1e-9

#: A published table, its query, and the number of the answer that is meant.
Number = tuple[str, Query, int]


@dataclass(frozen=True, eq=False)
class Sized:
    """Members of one household, at least and at most."""

    least: int
    most: int


def averages(spec: PublicSpec, companion: str, level: str) -> tuple[Sized, Number, Number] | None:
    """What average household sizes of a level are made of; None where the joins do not say who lives in households.

    One of the joins has to limit all members of every household from above, households must differ in size, and persons
    and households must each be a number of a table.
    """
    joins, homes = spec.joins_with(companion), spec.universe(companion)
    whole = [together(join.groups) for join in joins]
    persons = np.logical_or.reduce([one.persons for one in whole])
    limits = [one for one in whole if one.limited and np.array_equal(one.persons, persons)]
    if not limits or any(join.others for join in joins):
        return None
    size = Sized(max(int(one.least.min()) for one in limits), min(int(one.most.max()) for one in limits))
    own = number_of(spec.universe(""), persons, level)
    theirs = number_of(homes, np.ones(homes.cells.size, dtype=np.bool_), level)
    return None if size.least >= size.most or own is None or theirs is None else (size, own, theirs)


def number_of(universe: PublicUniverse, cells: BoolArray, level: str) -> Number | None:
    """The first table of a level with an answer that counts just these cells, but for impossible ones."""
    possible = ~universe.impossible
    for name, answers, levels, _ in universe.tables:
        if level in levels:
            touched = np.unique(answers.of_cell[cells & possible])
            if len(touched) == 1 and np.array_equal((answers.of_cell == touched[0])[possible], cells[possible]):
                return name, answers, int(touched[0])
    return None


def counted_by(own: PublicUniverse, answers: Query, level: str, cells: IntArray) -> str | None:
    """The first of the release's own tables of a level with the same answers; None where there is none."""
    wanted = answers.of_cell[cells]
    for name, counted, names, _ in own.tables:
        if level in names and counted.labels == answers.labels and np.array_equal(counted.of_cell, wanted):
            return name
    return None


def table_columns(
    files: Files, path: Path, answers: Query, level: Level, margins: bool, labels: Sequence[str]
) -> list[dict[str, FloatArray]]:
    """For some labels of a table their columns by suffix, "" of the number, `(n_geounits,)` each; NaN where unknown.

    Raises:
        FormError: it is missing or damaged.
    """
    ends = ("", *(INTERVAL if margins else ()))
    n, numbers_of = len(level.codes), map(answers.labels.index, labels)
    out = {number: {end: np.full(n, np.nan) for end in ends} for number in numbers_of}
    for numbers in read_table(files.again(), path, level, answers, margins=margins):
        columns = [real_numbers(column, name, numbers.file) for name, column in numbers.columns.items()]
        for answer in sorted({*np.unique(numbers.answers).tolist()} & {ZEROS, *out}):
            own = (numbers.answers == answer) & (numbers.geounits >= 0)
            for number in out if answer == ZEROS else [answer]:
                for column, values in zip(out[number].values(), columns, strict=True):
                    column[numbers.geounits[own]] = values[own]
    return list(out.values())


@dataclass(frozen=True, eq=False)
class Ratio:
    """A number of a table, one of another, and the ratio of both, as a file has them.

    Attributes:
        names: columns of the three.
        above, below: as `table_columns` gives them; None where nothing below is published, and so no ratio.
        limits: between which every ratio is.
        unit: in which the number above and the limits are.
    """

    names: tuple[str, str, str]
    above: Mapping[str, FloatArray]
    below: Mapping[str, FloatArray] | None
    limits: tuple[int, int]
    unit: float = 1.0


def check_ratios(files: Files, path: Path, level: Level, ratios: Sequence[Ratio], *, sums: bool = False) -> None:
    """Check the file of ratios of a level.

    Args:
        files: reads it.
        path: of it.
        level: of the geounits.
        ratios: all that it has, one at least.
        sums: whether the number above has its interval there, too.

    Raises:
        FormError: the file is missing or damaged.
    """
    file, ends = LevelFile(files, path, level, once=True), tuple(ratios[0].above)
    due: dict[str, FloatArray] = {}
    for one in ratios:
        due |= {one.names[0] + end: one.above[end] * one.unit for end in (ends if sums else ("",))}
        due |= {} if one.below is None else {one.names[1]: one.below[""]}
    formed = [one for one in ratios if one.below is not None]
    for rows, geounits in file.parts([*due, *(one.names[2] + end for one in formed for end in ends)]):
        for name, numbers in due.items():
            _check_number(rows, name, numbers[geounits], geounits, file)
        for one in formed:
            _check_ratio(one, rows, geounits, file)


def _stated(rows: pa.Table, name: str, file: LevelFile) -> FloatArray:
    """A column in which what is not known is missing; infinite where it is a NaN instead."""
    found, stated = real_numbers(rows.column(name), name, file), rows.column(name).is_valid().to_numpy()
    return np.where(np.isnan(found) & stated, np.inf, found)


def _check_number(rows: pa.Table, name: str, required: FloatArray, geounits: IntArray, file: LevelFile) -> None:
    near = np.isclose(_stated(rows, name, file), required, rtol=_NEAR, atol=0.0, equal_nan=True)
    file.check("numbers that are not those of the tables").add(
        (geounits >= 0) & ~near,
        lambda row: (
            f"{file.level.label(geounits[row])}, {name!r}: found {value_text(rows.column(name), row)}, required "
            f"{required[row]:,} (the tables)"
        ),
    )


def _check_ratio(one: Ratio, rows: pa.Table, geounits: IntArray, file: LevelFile) -> None:
    """The ratio is that of the two numbers, and its interval one that follows from theirs; nothing where these fail."""
    assert one.below is not None
    name, (least, most) = one.names[2], one.limits
    right = file.check("ratios, or their intervals, that do not follow from the tables")
    p, h = one.above[""][geounits], one.below[""][geounits]

    def said(row: int, what: str) -> str:
        value, above, below = (value_text(rows.column(column), row) for column in (name, *one.names[:2]))
        found = f"found the {name} {value} of {above} {one.names[0]} in {below} {one.names[1]}"
        return f"{file.level.label(geounits[row])}: {found}{what}"

    with np.errstate(invalid="ignore", divide="ignore"):
        ratio, found = p / h, _stated(rows, name, file) / one.unit
        wrong = np.where(h > 0, ~np.isclose(found, ratio, rtol=_NEAR, atol=0.0), ~np.isnan(found))
        right.add((geounits >= 0) & wrong, lambda row: said(row, ""))
        if INTERVAL[0] not in one.above:
            return
        moe, low, high = (_stated(rows, name + end, file) / one.unit for end in INTERVAL)
        (p_low, p_high), (h_low, h_high) = (
            (numbers[INTERVAL[1]][geounits], numbers[INTERVAL[2]][geounits]) for numbers in (one.above, one.below)
        )
        unknown = np.isnan(p_low) | np.isnan(h_low) | (h == 0)
        follows = (low <= ratio + np.abs(ratio) * _NEAR) & (ratio <= high + np.abs(high) * _NEAR + _NEAR)
        follows &= np.isclose(moe, np.maximum(ratio - low, high - ratio))
        below, above, more = (_widened(reach) for reach in (p - p_low, p_high - p, h_high - h))
        fewer = np.minimum(_widened(h - h_low), h)
        # A ratio below 0 is further from 0 the fewer there are below.
        follows &= _solves(low, p, h, (below, np.where(p < below, fewer, more)), float(least))
        follows &= _solves(high, p, h, (above, np.where(p < -above, more, fewer)), float(most))
        broken = np.where(unknown, ~(np.isnan(moe) & np.isnan(low) & np.isnan(high)), ~follows)

    def interval(row: int) -> str:
        margin, first, last = (value_text(rows.column(name + end), row) for end in INTERVAL)
        return said(
            row,
            f", between {first} and {last} with margin of error {margin}; it does not follow from the intervals of the "
            f"tables and from {least} to {most}",
        )

    right.add((geounits >= 0) & ~wrong & broken, interval)


def _widened(reach: FloatArray) -> FloatArray:
    """How far an interval of whole numbers reaches as one of numbers without steps: half a step more, where it does."""
    return reach + np.where(reach > 0, 0.5, 0.0)


def _solves(
    end: FloatArray, p: FloatArray, h: FloatArray, distances: tuple[FloatArray, FloatArray], limit: float
) -> BoolArray:
    """Whether an end is where 0 begins to be excluded, or the limit where that lies beyond it."""
    excluded = (p - end * h) ** 2 - distances[0] ** 2 - (end * distances[1]) ** 2
    scale = _TOLERANCE * np.maximum(p**2 + (end * h) ** 2, 1.0)
    at_limit = np.isclose(end, limit, rtol=_NEAR, atol=0.0)
    return np.asarray((np.abs(excluded) <= scale) | (at_limit & (excluded <= scale)))
