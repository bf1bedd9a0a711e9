"""The link of the sums of an amount with the release's own counts of the records that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pipeline.model.links.link import Link
from pipeline.model.query import Query

if TYPE_CHECKING:
    from pipeline.model.schema import AmountAttribute
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

    def has_intervals(self, table: Table, level: str) -> bool:
        """See `Link.has_intervals`."""
        return not self.signed or self.records(table, level) is not None


def links_with_counts(universes: Sequence[Universe]) -> tuple[SumsOfCounts, ...]:
    """One for each companion of an amount, in their order; none where the release's own universe is not given."""
    own = next((universe for universe in universes if not universe.name), None)
    return () if own is None else tuple(SumsOfCounts(one, own) for one in universes if one.measure.amounts)


def _answers(query: Query, universe: Universe) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """What the answers of a query are, attribute by attribute; equal where those of two schemas are."""
    return [
        (name, labels, tuple(group.tolist()))
        for name, labels, group in zip(universe.schema.names, query.labels, query.groups, strict=True)
        if labels
    ]
