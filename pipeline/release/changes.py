"""changes.json of a version of a release that replaces another: which numbers, or which texts, are others than before.

It follows from the tables and specs of both versions, those before in `replaced/`.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from pipeline.errors import ReleaseError
from pipeline.release.stated import Stated, read_stated
from pipeline.release.tables import ReleasedTable, read_table_parts
from pipeline.storage.files import canonical_json
from pipeline.storage.paths import Readable
from postprocess.arrays import FloatArray
from postprocess.differences import DifferenceSums, largest, outside

#: Numbers of a table at a level that are named.
NAMED: Final = 5


class Move(Stated):
    """A number that is another than before.

    Attributes:
        number: label of its column.
        before, low, high: as the version before has it, and its 90 % interval; None where it has none.
        margins: the change by the margin of error before; None where there is none, or it was 0.
    """

    geocode: str
    number: str
    before: int
    low: float | None
    high: float | None
    after: int
    margins: float | None


class TableChanges(Stated):
    """A table at a level, persons.

    Attributes:
        numbers: how many it has; `changed`: others than before; `outside`: of the interval that they had before.
        mean: absolute change of all numbers; `largest`: of any.
        margin_before, margin_after: mean margins of error of the numbers that have one in both; None where none has.
        moves: those that changed most, by their margin before.
    """

    universe: str
    table: str
    level: str
    numbers: int
    changed: int
    outside: int
    mean: float
    largest: int
    margin_before: float | None
    margin_after: float | None
    moves: tuple[Move, ...]


class AnswerUsed(Stated):
    """An answer that is new in the version: exact `cost`, which was charged when it was asked."""

    name: str
    question: str
    cost: str
    sha256: str


class TextChange(Stated):
    """A text for readers that was corrected: its `key` in the spec, `before` and `after`; None where there is none."""

    key: str
    before: str | None
    after: str | None


class Changes(Stated):
    """changes.json.

    Attributes:
        release, version: which this is; `replaces`: SHA-256 of the manifest of the version before.
        answers: that are new in it.
        tables: in the order of the spec.
        texts: that were corrected; left out of the file where there are none.
    """

    spinewise_changes: Literal[1] = 1
    release: str
    version: int
    replaces: str
    answers: tuple[AnswerUsed, ...]
    tables: tuple[TableChanges, ...]
    texts: tuple[TextChange, ...] = ()

    @property
    def numbers(self) -> int:
        """How many numbers all tables have."""
        return sum(table.numbers for table in self.tables)

    @property
    def changed(self) -> int:
        """How many numbers are others than before."""
        return sum(table.changed for table in self.tables)

    @property
    def outside(self) -> int:
        """Outside of the interval that they had before."""
        return sum(table.outside for table in self.tables)

    @property
    def largest(self) -> int:
        """Change of any number."""
        return max((table.largest for table in self.tables), default=0)


class _Counted:
    """What was counted of a table so far; `margins` before and after of the `known` numbers that have both."""

    def __init__(self) -> None:
        self.changes = DifferenceSums(1)
        self.outside = self.known = 0
        self.margins = np.zeros(2)


def table_changes(universe: str, before: Readable, after: Readable, rows: int) -> TableChanges:
    """What changed in a table at a level.

    Args:
        universe: its name.
        before, after: the table's files in both versions.
        rows: geounits of the level.

    Raises:
        ReleaseError: a file is missing or damaged, or they are not of the same areas and numbers.
    """
    counted, moves, name, level = _Counted(), list[tuple[float, Move]](), "", ""
    parts = zip(read_table_parts(before, rows), read_table_parts(after, rows), strict=True)
    try:
        for old, new in parts:
            if old.labels != new.labels or not np.array_equal(old.geocodes, new.geocodes):
                raise ReleaseError(f"{before}: is not of the same areas and numbers as {after}")
            name, level = new.name, new.level
            moves += _count(counted, old, new)
    except ValueError:
        raise ReleaseError(f"{before}: is not of the same areas as {after}") from None
    moves.sort(key=lambda one: (-one[0], -abs(one[1].after - one[1].before), one[1].geocode, one[1].number))
    margins, changes = counted.margins / counted.known if counted.known else None, counted.changes
    return TableChanges(
        universe=universe,
        table=name,
        level=level,
        numbers=(numbers := int(changes.numbers[0])),
        changed=numbers - changes.equal,
        outside=counted.outside,
        mean=round(changes.mean(changes.absolute), 4),
        largest=int(changes.largest),
        margin_before=None if margins is None else round(float(margins[0]), 3),
        margin_after=None if margins is None else round(float(margins[1]), 3),
        moves=tuple(move for _, move in moves[:NAMED]),
    )


def _count(counted: _Counted, old: ReleasedTable, new: ReleasedTable) -> list[tuple[float, Move]]:
    """Count some rows, and return those of their numbers that changed most, with the change by the margin."""
    change = np.abs(new.counts - old.counts)
    counted.changes.add(new.counts.reshape(-1, 1), old.counts.reshape(-1, 1))
    by = np.full(change.shape, np.nan)
    if old.lows is not None and old.highs is not None and old.margins is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            by = np.where(old.margins > 0, change / old.margins, np.nan)
        counted.outside += outside(new.counts, old.lows, old.highs)[0]
        if new.margins is not None:
            both = ~np.isnan(old.margins) & ~np.isnan(new.margins)
            counted.known += int(both.sum())
            counted.margins += np.array([old.margins[both].sum(), new.margins[both].sum()])
    rank = np.where(np.isnan(by), 0.0, by)
    return [
        (float(rank[row, column]), _move(old, new, row, column, float(by[row, column])))
        for row, column in largest(change, NAMED, rank)
    ]


def _move(old: ReleasedTable, new: ReleasedTable, row: int, column: int, by: float) -> Move:
    def end(values: FloatArray | None) -> float | None:
        return None if values is None or np.isnan(values[row, column]) else float(values[row, column])

    return Move(
        geocode=str(old.geocodes[row]),
        number=old.labels[column],
        before=int(old.counts[row, column]),
        low=end(old.lows),
        high=end(old.highs),
        after=int(new.counts[row, column]),
        margins=None if np.isnan(by) else round(by, 3),
    )


def changes_bytes(changes: Changes) -> bytes:
    """changes.json as it is written."""
    return canonical_json(changes.model_dump(mode="json", exclude=None if changes.texts else {"texts"}))


def read_changes(path: Readable) -> Changes:
    """changes.json; ReleaseError where it is damaged."""
    return read_stated(path, Changes, "does not state the changes of a version")
