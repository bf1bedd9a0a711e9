"""Fitness of one table at one level: its errors by size of area and by group, and the target of 2020."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.model.labels import Labels
from pipeline.model.texts.message import Message
from pipeline.model.universe import Table, Universe
from pipeline.pages.templates import Called
from pipeline.release.area_sizes import ALL, SIZE_LABELS, size_classes
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.differences import ErrorMeasures, ErrorSums
from postprocess.largest_group import Target, TargetSums, fits

#: Tables with more columns are not listed group by group.
MOST_GROUPS = 64


@dataclass(frozen=True)
class GroupErrors:
    """The errors of one group, a column of the table, in all areas or in those of one class of size."""

    group: str
    size: str
    measures: ErrorMeasures


def called(labels: Labels, table: Table, level: str) -> Called:
    """What a release calls a table at a level."""
    return Called(labels.table(table.name), labels.level(level), labels.columns(table.query))


def empty_fitness(
    universe: Universe,
    labels: Labels,
    table: Table,
    level: str,
    basis: Message,
    totals: tuple[IntArray, IntArray] | None = None,
) -> TableFitness:
    """The fitness of a table of a universe, of which nothing is known yet."""
    return TableFitness(
        universe.name,
        table.name,
        level,
        table.query.answer_labels(),
        basis,
        totals,
        called=called(labels, table, level),
        counts=universe.measure.counts,
        unit=str(universe.measure.unit or ""),
        signed=universe.measure.signed,
    )


@dataclass
class TableFitness:
    """What is known of the errors of a table at a level; filled part by part.

    Attributes:
        universe: "" for the release's own.
        labels: of the columns.
        basis: where the errors are known from, in words.
        totals: published and true numbers `(size,)` of the whole level, for shares; None where unknown.
        called: what table, level and columns are called for people; the data has their names.
        counts: whether the numbers are of people. The target is of these alone.
        unit: of other numbers, such as sums of an amount; "" for none.
        signed: whether the sums may be below 0; then there are no percentages of them.
        every: the errors in all areas; `classes` has those of each class of size.
    """

    universe: str
    table: str
    level: str
    labels: tuple[str, ...]
    basis: Message
    totals: tuple[IntArray, IntArray] | None = None
    target_sums: TargetSums = field(default_factory=TargetSums)
    classes: dict[int, ErrorSums] = field(default_factory=dict)
    called: Called = field(default_factory=Called)
    counts: bool = True
    unit: str = ""
    signed: bool = False
    _shares: FloatArray | None = None

    def __post_init__(self) -> None:
        self.every = ErrorSums(len(self.labels))

    @property
    def table_title(self) -> str:
        """The table for people, after its universe."""
        return f"{self.universe} {self.called.table or self.table}".strip()

    @property
    def level_title(self) -> str:
        """The level for people."""
        return self.called.level or self.level

    def add(self, published: IntArray, truth: NDArray[np.generic], people: IntArray, weight: float = 1.0) -> None:
        """Add areas: published and true numbers `(n, size)`, and people `(n,)` by which they are classed.

        People are the records of an area; of sums of an amount those that the sums are of.
        """
        for rows, sums in self._classed(people):
            sums.add(published[rows], truth[rows], weight)
        if len(self.labels) > 1 and self.counts:
            self.target_sums.add(people, fits(published, truth), weight)
        if self.totals is not None:
            own, true = (np.maximum(total, 1) for total in self.totals)
            errors = np.abs(published / own - np.asarray(truth, dtype=np.float64) / true).sum(axis=0)
            self._shares = errors if self._shares is None else self._shares + errors

    def add_expected(self, published: IntArray, spread: FloatArray, people: IntArray) -> None:
        """Add areas of whose errors the standard deviations `(n, size)` are known; classed by people as in `add`."""
        for rows, sums in self._classed(people):
            sums.add_expected(published[rows], spread[rows])

    def _classed(self, people: IntArray) -> list[tuple[BoolArray, ErrorSums]]:
        """The rows of each class of size, and of all areas, with their sums."""
        sizes = size_classes(people)
        found = [
            (sizes == number, self.classes.setdefault(number, ErrorSums(len(self.labels))))
            for number in np.unique(sizes).tolist()
        ]
        return [*found, (np.ones(len(people), dtype=np.bool_), self.every)]

    def take_signs(self, other: TableFitness) -> None:
        """Take signs, and the target, from `other`, of the same areas."""
        self.every.take_signs(other.every)
        for number, sums in self.classes.items():
            sums.take_signs(other.classes[number])
        self.target_sums = other.target_sums

    @property
    def whole(self) -> ErrorMeasures:
        """The errors of all areas."""
        return self._measures(self.every)

    @property
    def by_size(self) -> tuple[tuple[str, ErrorMeasures], ...]:
        """Of each class of size that has areas."""
        return tuple((SIZE_LABELS[size], self._measures(self.classes[size])) for size in sorted(self.classes))

    @property
    def groups(self) -> tuple[GroupErrors, ...]:
        """Of each group, in all areas; none for tables of one column or very many."""
        return self._groups(ALL, self.every) if 1 < len(self.labels) <= MOST_GROUPS else ()

    def _groups(self, size: str, sums: ErrorSums) -> tuple[GroupErrors, ...]:
        return tuple(GroupErrors(label, size, self._measures(sums, at)) for at, label in enumerate(self.labels))

    def _measures(self, sums: ErrorSums, columns: slice | int = slice(None)) -> ErrorMeasures:
        found = sums.measures(columns)
        return found.without_percents() if self.signed else found

    @property
    def worst_group(self) -> GroupErrors | None:
        """The group with the largest absolute errors for its number of people; None where there is but one."""
        found = [group for group in self._groups(ALL, self.every) if group.measures.relative is not None]
        return max(found, key=lambda group: group.measures.relative or 0.0) if len(self.labels) > 1 and found else None

    @property
    def most_biased(self) -> GroupErrors | None:
        """The group and class of size that gains or loses the most people for their number; None where not known."""
        found = [one for size in sorted(self.classes) for one in self._groups(SIZE_LABELS[size], self.classes[size])]
        known = [group for group in found if group.measures.relative_bias is not None]
        return max(known, key=lambda group: abs(group.measures.relative_bias or 0.0)) if known else None

    @property
    def target(self) -> Target | None:
        """How well the target is met; None for a table of one column or of sums, or where nothing is known."""
        return self.target_sums.target() if len(self.labels) > 1 and self.counts else None

    @property
    def share_errors(self) -> float | None:
        """TAES, mean over columns: the absolute errors of the areas' shares of a column's total, added up; percent."""
        if self.totals is None or self._shares is None or self.signed:
            return None
        there = (self.totals[0] > 0) & (self.totals[1] > 0)
        return 100 * float(self._shares[there].mean()) if there.any() else None

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        target = self.target
        return {
            "universe": self.universe,
            "table": self.table,
            "level": self.level,
            "basis": str(self.basis),
            "unit": self.unit or None,
            "all": vars(self.whole) | {"taes": self.share_errors},
            "by_size": [{"size": size} | vars(measures) for size, measures in self.by_size],
            "by_group": [_group(group) for group in self.groups],
            "worst_group": None if self.worst_group is None else _group(self.worst_group),
            "most_biased": None if self.most_biased is None else _group(self.most_biased),
            "largest_group_within_5_points": None
            if target is None
            else vars(target) | {"share": target.share, "met": target.met},
        }


def _group(group: GroupErrors) -> dict[str, Any]:
    return {"group": group.group, "size": group.size} | vars(group.measures)
