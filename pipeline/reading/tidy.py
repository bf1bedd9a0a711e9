"""A published table with one row a number, as statistical packages and charts take it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pipeline.model.query import Query
from pipeline.release.reliability import CLASSES, classes_in
from pipeline.release.tables import ReleasedTable


def tidy_table(table: ReleasedTable, query: Query) -> pd.DataFrame:
    """Columns geocode, a column a term of the query, value, low, high, reliability; `n * size` rows.

    Args:
        table: `(n, size)` numbers.
        query: what is tabulated.
    """
    n, size = table.counts.shape
    unknown = np.full((n, size), np.nan)
    lows, highs = (unknown if ends is None else ends for ends in (table.lows, table.highs))
    margins = unknown if table.margins is None else table.margins
    keys = np.array([one.key for one in CLASSES])
    columns = {"geocode": np.repeat(table.geocodes.astype(object), size)}
    columns |= {term: np.tile(query.labels_of(term).astype(object), n) for term in query.terms}
    columns |= {"value": table.counts.ravel(), "low": lows.ravel(), "high": highs.ravel()}
    columns["reliability"] = keys[classes_in(table.counts, margins)].astype(object).ravel()
    return pd.DataFrame(columns)
