"""The link of the sums of an amount with the counts of the records that they are of, and their expected errors.

A mean is S / n. With independent errors of the sum (standard error s) and of the number of records (c), its standard
error is about sqrt(s^2 + m^2 c^2) / n for a mean m. Neither n nor m is known before a run: the plan takes some round
numbers of records, and the middle of the clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipeline.model.link import Link
from pipeline.model.query import Query
from pipeline.model.schema import AmountAttribute
from postprocess.statistics import NORMAL_QUANTILE

if TYPE_CHECKING:
    from pipeline.model.universe import Table, Universe


@dataclass(frozen=True, eq=False)
class SumsOfCounts(Link):
    """Sums of an amount, in a companion, and the numbers of records which they are of, in the release's own universe.

    Attributes:
        sums: the companion; its attributes are some of the release's own, in the same order with the same values.
        counts: the release's own universe.
    """

    sums: Universe
    counts: Universe

    @property
    def amount(self) -> AmountAttribute:
        """What each record adds."""
        (amount,) = self.sums.measure.amounts
        return amount

    @property
    def of(self) -> str:
        """See `Link.of`."""
        return self.sums.name

    @property
    def by(self) -> str:
        """See `Link.by`."""
        return self.counts.name

    @property
    def same_records(self) -> bool:
        """See `Link.same_records`."""
        return True

    @property
    def signed(self) -> bool:
        """Whether sums may be below 0, whose intervals need the published number of records."""
        return self.sums.measure.signed

    @cached_property
    def cells(self) -> Query:
        """The query on the release's own records whose answers are the cells of the sums, in their order."""
        return Query.parse(" * ".join(self.sums.schema.names) or "total", self.counts.schema)

    def records(self, table: Table, level: str) -> Table | None:
        """The first of the release's own tables with the numbers of records whose amounts a table sums."""
        wanted = _answers(table.query, self.sums)
        published = (other for other in self.counts.tables if level in other.levels)
        return next((other for other in published if _answers(other.query, self.counts) == wanted), None)

    def left_out(self, table: Table, level: str) -> str:
        """See `Link.left_out`: sums that may be below 0 need the number of records."""
        if not self._uncounted(table, level):
            return ""
        return (
            "sums that may be below 0 have intervals only where the release itself has a table of the same answers, "
            f"and its own of {table.query.name!r} is left out at level {level!r}, as nothing that is measured "
            "determines it; the sums are left out there, too"
        )

    def _uncounted(self, table: Table, level: str) -> bool:
        return self.signed and self.records(table, level) is None

    def unfit(self, *, margins: bool) -> Iterator[tuple[Table, str]]:
        """See `Link.unfit`: tables that may be below 0 without the number of records, where intervals need it."""
        for table in self.sums.tables if margins else ():
            if missing := [level for level in table.levels if self._uncounted(table, level)]:
                yield (
                    table,
                    "sums that may be below 0 have intervals only where the release itself has a table of the same "
                    f"answers; it has none at level {', '.join(missing)}",
                )


def _answers(query: Query, universe: Universe) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """What the answers of a query are, attribute by attribute; equal where those of two schemas are."""
    return [
        (name, labels, tuple(group.tolist()))
        for name, labels, group in zip(universe.schema.names, query.labels, query.groups, strict=True)
        if labels
    ]


#: (level, terms) -> expected absolute error of a number, and margin; of each universe by its name.
Errors = Mapping[tuple[str, tuple[str, ...]], tuple[float | None, float | None]]


def amount_rows(link: SumsOfCounts, errors: Mapping[str, Errors], records: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Of every published table at every level: the fields of `features.plan.kinds.AmountRow`.

    Args:
        link: of the sums.
        errors: what the plan expects of each universe.
        records: that means are of.
    """
    universe, amount = link.sums, link.amount
    unit, middle = float(amount.unit), float(amount.low + amount.high) / 2
    for level in universe.level_names:
        for table in (table for table in universe.tables if level in table.levels):
            error, margin = errors[universe.name].get((level, table.query.terms), (None, None))
            beside = link.records(table, level)
            _, counted = (None, None) if beside is None else errors[""].get((level, beside.query.terms), (None, None))
            means = {}
            if margin is not None and counted is not None:
                s, c = margin * unit / NORMAL_QUANTILE, counted / NORMAL_QUANTILE
                means = {n: NORMAL_QUANTILE * math.hypot(s, middle * c) / n for n in records}
            yield {
                "companion": universe.name,
                "level": level,
                "query": table.query.name,
                "sum_error": None if error is None else error * unit,
                "sum_margin": None if margin is None else margin * unit,
                "mean_margins": means,
            }
