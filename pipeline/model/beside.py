"""The release's own counts beside the sums of an amount: how many records a cell, or an answer, holds the sum of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.model.query import Query

if TYPE_CHECKING:
    from pipeline.model.universe import Table, Universe

__all__ = ["counted_cells", "counted_in"]


def counted_cells(amounts: Universe, own: Universe) -> Query:
    """The query on the release's own records whose answers are the cells of a companion of an amount, in their order.

    The companion's attributes are some of the release's own, in the same order with the same values.
    """
    return Query.parse(" * ".join(amounts.schema.names) or "total", own.schema)


def counted_in(table: Table, amounts: Universe, own: Universe, level: str) -> Table | None:
    """The first of the release's own tables of a level with the numbers of records whose amounts a table sums.

    Args:
        table: of `amounts`.
        amounts: a companion of an amount.
        own: the release's own universe.
        level: of both tables.
    """
    wanted = _answers(table.query, amounts)
    published = (other for other in own.tables if level in other.levels)
    return next((other for other in published if _answers(other.query, own) == wanted), None)


def _answers(query: Query, universe: Universe) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    """What the answers of a query are, attribute by attribute; equal where those of two schemas are."""
    return [
        (name, labels, tuple(group.tolist()))
        for name, labels, group in zip(universe.schema.names, query.labels, query.groups, strict=True)
        if labels
    ]
