"""Queries of a universe as they are measured."""

from __future__ import annotations

from pipeline.model.query import Query
from pipeline.model.universe import Universe
from postprocess.marginal import Marginal


def measured_marginal(universe: Universe, query: Query) -> Marginal:
    """The query as it was measured: of words from reports, any other word is the rest, and is not measured."""
    if universe.collected is None or universe.collected.counted.all():
        return query
    return Marginal(query.name, query.groups, (universe.collected.counted,))
