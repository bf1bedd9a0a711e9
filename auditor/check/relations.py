"""Relations of released numbers: in each area a number x of a histogram has lower y <= x <= upper y, exactly.

So invariants and bounds limit it, with y a published number; joins, with y the released households; and the ends of a
clip, with y the released records whose amounts are summed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.reading.cells import NO_LIMIT, JoinedGroup, Query
from auditor.reading.counts import Counts, LevelFile, impossible_sums, read_counts
from auditor.reading.files import LARGEST, Files
from auditor.reading.findings import Check, FormError
from auditor.reading.spec import PublicUniverse, Relation
from auditor.reading.spine import Level
from auditor.reading.values import BoolArray, IntArray

#: A number's place, in words; and what follows from what is allowed there.
Words = Callable[[int], str]


def check_within(
    check: Check,
    found: NDArray[Any],
    least: NDArray[Any],
    most: NDArray[Any],
    place: Words,
    why: str,
    by: Words = lambda _: "",
    unlimited: BoolArray | None = None,
) -> None:
    """Report the numbers that are not from `least` to `most`, all `(n,)`.

    Args:
        check: takes them.
        found, least, most: the numbers, and what is allowed.
        place: where they are.
        why: what demands it.
        by: the number that it depends on.
        unlimited: which have no number at most; None where all have one.
    """
    free = np.zeros(found.shape, dtype=np.bool_) if unlimited is None else unlimited

    def sentence(at: int) -> str:
        low = found[at] < least[at]
        beyond = f"{least[at] - found[at]:,} too few" if low else f"{found[at] - most[at]:,} too many"
        allowed = f"{least[at]:,} or more" if free[at] else f"{least[at]:,} to {most[at]:,}"
        return f"{place(at)}: found {found[at]:,}, allowed {allowed}{by(at)}, {beyond} ({why})"

    check.add(np.asarray((found < least) | ((found > most) & ~free), dtype=np.bool_), sentence)


def check_group(check: Check, group: JoinedGroup, level: Level, persons: Counts, households: Counts, name: str) -> None:
    """Report the geounits of a level in which the persons of a group are too few or too many for its households.

    Args:
        check: takes them.
        group: of persons.
        level: whose counts these are.
        persons, households: histograms of the level, as counts of cells.
        name: of the file of households.
    """
    n = len(level.codes)
    check_within(
        check,
        _by_geounit(persons, group.persons.astype(np.int64), n),
        _by_geounit(households, group.least, n),
        _by_geounit(households, np.maximum(group.most, 0), n),
        lambda at: f"{level.label(at)}, {group.label!r}",
        f"the join {group.join!r}",
        by=lambda _: f" by the households in {name}",
        unlimited=_by_geounit(households, (group.most == NO_LIMIT).astype(np.int64), n) > 0,
    )


def _by_geounit(counts: Counts, weights: IntArray, n: int) -> NDArray[Any]:
    """The sum of counts times the weight of their cell in each geounit, `(n,)`, exact."""
    large = float(np.abs(counts.counts).sum()) * max(int(weights.max(initial=0)), 1) > LARGEST
    out = np.zeros(n, dtype=object if large else np.int64)
    np.add.at(
        out, counts.geounits, (counts.counts.astype(object) if large else counts.counts) * weights[counts.columns]
    )
    return out


def check_clip(
    check: Check, universe: PublicUniverse, level: Level, records: Counts, sums: Counts, cells: IntArray
) -> None:
    """Report the places of a level in which so many records cannot have the sum of their amounts.

    Args:
        check: takes them.
        universe: the companion of the amount.
        level: whose counts these are.
        records, sums: histograms of the release and of the companion.
        cells: of the companion, in which each cell of the release is.
    """
    assert universe.amount is not None
    keys, n, found, least, most = impossible_sums(records, sums, cells, universe.amount)
    width = universe.cells.size
    check_within(
        check,
        found,
        least,
        most,
        lambda at: f"{level.label(keys[at] // width)}, {universe.cells.label(int(keys[at] % width))!r}",
        f"the ends of {universe.amount.column!r}",
        by=lambda at: f" units for {n[at]:,} records",
    )


def check_relation(files: Files, path: Path, level: Level, relation: Relation, cells: Counts, histogram: Path) -> None:
    """Check the cells of a level, of the file `histogram`, against the numbers of a file.

    Raises:
        FormError: the file of these numbers is missing or damaged.
    """
    answers, columns, released = relation.answers, list(relation.columns), cells.answers(relation.answers)
    file = LevelFile(files, path, level, once=True, values=1 if columns else answers.size)
    broken = files.check(histogram, f"counts that break {relation.name}")
    for part, geounits in file.parts(columns or ["value", "variance"]):
        read = map(part.column, columns) if columns else _answer_columns(part.column("value"), answers, file)
        for label, column in zip(columns or answers.labels, read, strict=True):
            numbers = read_counts(column, label, geounits, file)
            known = (geounits >= 0) & (numbers >= 0)
            _check_answer(broken, relation, file, label, geounits[known], numbers[known], released)


def _check_answer(
    broken: Check,
    relation: Relation,
    file: LevelFile,
    label: str,
    geounits: IntArray,
    y: NDArray[Any],
    released: Counts,
) -> None:
    """Released numbers of the answer `label` against those of the file, of some geounits."""
    if int(y.max(initial=0)) * max(abs(relation.lower), abs(relation.upper), 1) > LARGEST:
        y = y.astype(object)
    x = released.at(geounits * released.width + relation.answers.labels.index(label))
    check_within(
        broken, x, y * relation.lower, y * relation.upper,
        lambda at: f"{file.level.label(geounits[at])}, {label!r}",
        f"{relation.name}, {file.name}",
        lambda at: f" by {y[at]:,} there",
    )  # fmt: skip


def _answer_columns(column: pa.ChunkedArray, answers: Query, file: LevelFile) -> list[pa.Array]:
    """The column of lists as one array an answer, each `(n_rows,)`."""
    if not pa.types.is_list(column.type):
        raise FormError(f"{file.name}: column 'value' holds {column.type}; lists of whole numbers are required")
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    if (lengths != answers.size).any():
        row = int(np.flatnonzero(lengths != answers.size)[0])
        raise FormError(
            f"{file.name}: row {file.first_row + row:,} has {max(lengths[row], 0):,} answers; the query "
            f"{answers.name!r} has {answers.size:,}"
        )
    flat = pc.list_flatten(column).combine_chunks()
    return [flat.take(pa.array(np.arange(index, len(flat), answers.size))) for index in range(answers.size)]
