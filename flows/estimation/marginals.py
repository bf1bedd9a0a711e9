"""A query of the spec as plain arrays, which is all that post-processing knows of it."""

from __future__ import annotations

import numpy as np

from pipeline.model.query import Query
from pipeline.model.universe import Universe
from postprocess.marginal import Marginal


def marginal_of(query: Query) -> Marginal:
    """The query as plain arrays; of a question with a condition, with which of its answers were asked for."""
    asked = tuple(np.arange(int(group.max()) + 1) < size for group, size in zip(query.groups, query.sizes, strict=True))
    return Marginal(query.name, query.groups, () if all(one.all() for one in asked) else asked)


def measured_marginal(universe: Universe, query: Query) -> Marginal:
    """The same of a query that is measured: of words from reports, any other word is the rest, and is not measured."""
    if universe.collected is None or universe.collected.counted.all():
        return marginal_of(query)
    return Marginal(query.name, query.groups, (universe.collected.counted,))
