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
from auditor.reading.findings import Check, Findings, FormError
from auditor.reading.spec import Bound, PublicUniverse
from auditor.reading.spine import Level

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
    unlimited: NDArray[np.bool_] | None = None,
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


def check_group(
    group: JoinedGroup, level: Level, persons: Counts, households: Counts, names: tuple[str, str], findings: Findings
) -> None:
    """Report the geounits of a level in which the persons of a group are too few or too many for its households.

    Args:
        group: of persons.
        level: whose counts these are.
        persons, households: histograms of the level, as counts of cells.
        names: of the files of both.
        findings: to which they are added.
    """
    n = len(level.codes)
    check_within(
        findings.check(names[0], f"counts that break the join {group.join!r}"),
        _by_geounit(persons, group.persons.astype(np.int64), n),
        _by_geounit(households, group.least, n),
        _by_geounit(households, np.maximum(group.most, 0), n),
        lambda at: f"{level.label(at)}, {group.label!r}",
        f"the join {group.join!r}",
        by=lambda _: f" by the households in {names[1]}",
        unlimited=_by_geounit(households, (group.most == NO_LIMIT).astype(np.int64), n) > 0,
    )


def _by_geounit(counts: Counts, weights: NDArray[np.int64], n: int) -> NDArray[Any]:
    """The sum of counts times the weight of their cell in each geounit, `(n,)`, exact."""
    large = float(np.abs(counts.counts).sum()) * max(int(weights.max(initial=0)), 1) > LARGEST
    out = np.zeros(n, dtype=object if large else np.int64)
    np.add.at(
        out, counts.geounits, (counts.counts.astype(object) if large else counts.counts) * weights[counts.columns]
    )
    return out


def check_clip(
    universe: PublicUniverse, level: Level, records: Counts, sums: Counts, cells: NDArray[np.int64], findings: Findings
) -> None:
    """Report the places of a level in which so many records cannot have the sum of their amounts.

    Args:
        universe: the companion of the amount.
        level: whose counts these are.
        records, sums: histograms of the release and of the companion.
        cells: of the companion, in which each cell of the release is.
        findings: to which they are added.
    """
    assert universe.amount is not None
    keys, n, found, least, most = impossible_sums(records, sums, cells, universe.amount)
    width = universe.cells.size
    check_within(
        findings.check(f"companion {universe.name!r} at level {level.name!r}", "sums that so many records cannot have"),
        found,
        least,
        most,
        lambda at: f"{level.label(keys[at] // width)}, {universe.cells.label(int(keys[at] % width))!r}",
        f"the ends of {universe.amount.column!r}",
        by=lambda at: f" units for {n[at]:,} records",
    )


def check_invariant(
    files: Files, path: Path, level: Level, answers: Query, cells: Counts, histogram: str, findings: Findings
) -> None:
    """Compare the histogram `cells` of a level, in the file `histogram`, with what is published exactly.

    Raises:
        FormError: the file of exact answers is missing or damaged.
    """
    file = LevelFile(files, path, level, findings, once=True, values=answers.size)
    name = f"the invariant {answers.name!r}"
    against = _Against(file, findings, histogram, name, cells.answers(answers), answers, 1, 1)
    for part, geounits in file.parts(["value", "variance"]):
        for label, column in zip(answers.labels, _answer_columns(part.column("value"), answers, file), strict=True):
            against.check(column, label, geounits)


def check_bound(
    files: Files, path: Path, level: Level, bound: Bound, cells: Counts, histogram: str, findings: Findings
) -> None:
    """Check the histogram `cells` of the bound's level, in the file `histogram`, against the facilities.

    Raises:
        FormError: the file of facilities is missing or damaged.
    """
    file = LevelFile(files, path, level, findings, once=True)
    name, released = f"the bound {bound.name!r}", cells.answers(bound.answers)
    against = _Against(file, findings, histogram, name, released, bound.answers, bound.lower, bound.upper)
    for part, geounits in file.parts(list(bound.columns)):
        for label in bound.columns:
            against.check(part.column(label), label, geounits)


class _Against:
    """Released answers against the numbers of a file: at least and at most so many times these."""

    def __init__(
        self,
        file: LevelFile,
        findings: Findings,
        histogram: str,
        name: str,
        released: Counts,
        answers: Query,
        lower: int,
        upper: int,
    ) -> None:
        self._file, self._released, self._answers, self._times = file, released, answers, (lower, upper)
        self._counted = findings.check(file.name, "counts that are not whole numbers from 0")
        self._broken = findings.check(histogram, f"counts that break {name}")
        self._why = f"{name}, {file.name}"

    def check(self, column: pa.Array | pa.ChunkedArray, label: str, geounits: NDArray[np.int64]) -> None:
        """Those of the answer `label`, of the geounits of rows."""
        numbers: NDArray[Any] = read_counts(column, label, geounits, self._file, self._counted)
        known = np.flatnonzero((geounits >= 0) & (numbers >= 0))
        of, y = geounits[known], numbers[known]
        if int(y.max(initial=0)) * max(*map(abs, self._times), 1) > LARGEST:
            y = y.astype(object)
        x = self._released.at(of * self._released.width + self._answers.labels.index(label))
        check_within(
            self._broken, x, y * self._times[0], y * self._times[1],
            lambda at: f"{self._file.level.label(of[at])}, {label!r}",
            self._why,
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
