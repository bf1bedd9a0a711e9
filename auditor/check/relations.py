"""Relations of released numbers: in each area a number x of a histogram has lower y <= x <= upper y, exactly.

So invariants and bounds limit it, with y a published number; joins, with y the released households; and the ends of a
clip, with y the released records whose amounts are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.check.published import PublicRelease
from auditor.reading.cells import NO_LIMIT, JoinedGroup, Query
from auditor.reading.counts import Counts, LevelFile, compare, lists_of, place, read_counts
from auditor.reading.files import LARGEST
from auditor.reading.findings import Check, FormError
from auditor.reading.spec import PublicUniverse, Relation
from auditor.reading.spine import Level
from auditor.reading.values import BoolArray, IntArray, zeros

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


def check_relations(published: PublicRelease, *, exact: bool | None = None) -> None:
    """Report where the counts, so far as they can be read, break what limits them, of every universe.

    Args:
        published: the release.
        exact: what records cannot break (invariants, clips); False: what is said of them (bounds, joins); None: all.
    """
    spec, places, noting = published.spec, published.places, published.files.findings.noting_errors
    persons = spec.universe("")
    for universe in spec.universes:
        name = universe.name
        relations = [
            (Relation(f"the invariant {own.name!r}", at, own), places.answers(name, "invariants", at, own.name))
            for at, own in universe.invariants
            if exact is not False
        ]
        for number, bound in enumerate(() if exact else universe.bounds, 1):
            relations.append((bound, places.of(name, "constraints", f"bound-{number}")))
        for relation, path in relations:
            with noting():
                check_relation(published, universe, relation, path)
        with noting():
            for join in () if exact else spec.joins_with(name):
                check_join(published, universe, join.limits)
        if universe.amount is not None and exact is not False:
            with noting():
                cells = persons.cells.cells_of(universe.cells)
                for level in published.levels:
                    check_clip(published, universe, level, cells)


def check_sums(published: PublicRelease) -> None:
    """Report where counts, so far as they can be read, are not the sums over the level below, of every universe."""
    for universe in published.spec.universes:
        counts = published.counts[universe.name]
        for above, below in pairwise(published.levels):
            if above.name in counts and below.name in counts:
                path = published.histogram(universe, above)
                check = published.files.check(path, f"cells that are not the sum over level {below.name!r}")
                why, sums = f"the sum over its children, level {below.name!r}", counts[below.name].raised(below)
                compare(check, why, above, universe.cells.label, counts[above.name], sums)


def check_join(published: PublicRelease, companion: PublicUniverse, groups: Sequence[JoinedGroup]) -> None:
    """Report where the persons of a group are too few or too many for the households of a companion, at every level."""
    persons = published.spec.universe("")
    for level in published.levels:
        own, theirs = (published.counts[of.name].get(level.name) for of in (persons, companion))
        if own is not None and theirs is not None:
            path, by = (published.histogram(of, level) for of in (persons, companion))
            for group in groups:
                check = published.files.check(path, f"counts that break the join {group.join!r}")
                _check_group(check, group, level, own, theirs, published.files.name(by))


def _check_group(
    check: Check, group: JoinedGroup, level: Level, persons: Counts, households: Counts, name: str
) -> None:
    """The same of a group at a level, given its counts of cells and the name of the file of households."""
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


def check_clip(published: PublicRelease, universe: PublicUniverse, level: Level, cells: IntArray) -> None:
    """Report the places of a level in which so many records cannot have the sum of their amounts.

    Args:
        published: the release.
        universe: the companion of the amount.
        level: whose counts are compared.
        cells: of the companion, in which each cell of the release is.
    """
    records, sums = (published.counts[name].get(level.name) for name in ("", universe.name))
    if (amount := universe.amount) is None or records is None or sums is None:
        return
    counted = records.mapped(cells, sums.width)
    keys = np.union1d(counted.keys, sums.keys)
    n = counted.at(keys)
    file = f"companion {universe.name!r} at level {level.name!r}"
    check_within(
        published.files.findings.check(file, "sums that so many records cannot have"),
        sums.at(keys),
        amount.first * n,
        amount.last * n,
        lambda at: place(level, universe.cells.size, universe.cells.label, keys[at]),
        f"the ends of {amount.column!r}",
        by=lambda at: f" units for {n[at]:,} records",
    )


def check_relation(published: PublicRelease, universe: PublicUniverse, relation: Relation, path: Path) -> None:
    """Check the histogram of a level against the numbers of a file: exact answers, or facilities.

    Raises:
        FormError: the file of these numbers is missing or damaged.
    """
    files, level, answers = published.files, published.level(relation.level), relation.answers
    if (cells := published.counts[universe.name].get(level.name)) is None:
        return
    columns, released = list(relation.columns), cells.answers(answers)
    file = LevelFile(files, path, level, once=True, values=1 if columns else answers.size)
    keys, numbers = [zeros(0)], [zeros(0)]
    for part, geounits in file.parts(columns or ["value", "variance"]):
        read = map(part.column, columns) if columns else _answer_columns(part.column("value"), answers, file)
        for label, column in zip(columns or answers.labels, read, strict=True):
            found = read_counts(column, label, geounits, file)
            known = (geounits >= 0) & (found >= 0)
            keys.append(geounits[known] * answers.size + answers.labels.index(label))
            numbers.append(found[known])
    at_keys, y = np.concatenate(keys), np.concatenate(numbers)
    if int(y.max(initial=0)) * max(abs(relation.lower), abs(relation.upper), 1) > LARGEST:
        y = y.astype(object)
    check_within(
        files.check(published.histogram(universe, level), f"counts that break {relation.name}"),
        released.at(at_keys),
        y * relation.lower,
        y * relation.upper,
        lambda at: place(level, answers.size, answers.labels.__getitem__, at_keys[at]),
        f"{relation.name}, {file.name}",
        lambda at: f" by {y[at]:,} there",
    )


def _answer_columns(column: pa.ChunkedArray, answers: Query, file: LevelFile) -> list[pa.Array]:
    """The column of lists as one array an answer, each `(n_rows,)`."""
    lengths, numbers = lists_of(column, "value", file.name)
    if (wrong := np.flatnonzero(lengths != answers.size)).size:
        raise FormError(
            f"{file.name}: row {file.first_row + wrong[0]:,} has {lengths[wrong[0]]:,} answers; the query "
            f"{answers.name!r} has {answers.size:,}"
        )
    return list(map(pa.array, numbers.reshape(-1, answers.size).T))
