"""A query of the spec as plain arrays, which is all that post-processing knows of it."""

from __future__ import annotations

from pipeline.model.query import Query
from postprocess.marginal import Marginal


def marginal_of(query: Query) -> Marginal:
    """The query as plain arrays."""
    return Marginal(query.name, query.groups)
