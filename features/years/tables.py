"""Tables of a history: of each period, and of changes between two periods, with 90 % intervals and what can be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from features.years.numbers import VERDICTS, Numbers, answers_of
from features.years.revised import Revision, revised, series_at
from geography.errors import InputError
from pipeline.model.query import Query
from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX
from postprocess.arrays import FloatArray

__all__ = ["DIRECTION_SUFFIX", "change_table", "changes", "period_table", "periods_of"]

#: Of the column that says whether a number fell, rose, or cannot be told to have.
DIRECTION_SUFFIX = ":direction"


def periods_of(text: str) -> tuple[str, str]:
    """The two periods of "2031..2033"; InputError where these are not two."""
    first, between, last = text.partition("..")
    if not between or not first or not last or ".." in last:
        raise InputError(f"--change: found {text!r}; two periods are needed, such as 2031..2033")
    return first, last


def changes(
    release: Path, query: str, conditions: Mapping[str, Sequence[str]], level: str, between: str
) -> pd.DataFrame:
    """How much the answers of a query have changed, of all geounits of a level: for `spinewise query --change`.

    Args:
        release: a release of the series; the others are beside it.
        query: as `spinewise query` takes it.
        conditions: term -> the values of it that are counted.
        level: of the geounits.
        between: two periods, "2031..2033".

    Raises:
        InputError: a name is unknown, or there is no release of a period.
    """
    first, last = periods_of(between)
    if first == last:
        raise InputError(f"--change: found period {first} twice; two different periods are needed")
    revision = revised(series_at(release))
    if level not in revision.spine.level_names:
        raise InputError(f"--at: found {level!r}; the levels are {', '.join(revision.spine.level_names)}")
    kept = np.ones(revision.universe.schema.n_cells)
    for term, values in conditions.items():
        condition = Query.parse(term, revision.universe.schema, where="--where")
        labels = condition.answer_labels()
        if unknown := [value for value in values if value not in labels]:
            raise InputError(f"--where {term}: found {unknown[0]!r}; allowed are {', '.join(labels)}")
        kept *= np.isin(condition.cell_answer, [labels.index(value) for value in values])
    asked = Query.parse(query, revision.universe.schema, where="query")
    return change_table(revision, asked, level, (revision.number(first), revision.number(last)), kept)


def change_table(
    revision: Revision, query: Query, level: str, periods: tuple[int, int], kept: FloatArray | None = None
) -> pd.DataFrame:
    """One row a geounit: of each answer the change, the ends of its interval, and its direction.

    Args:
        revision: a history.
        query: whose answers.
        level: of the geounits.
        periods: from the first to the second, from 0.
        kept: `(c,)` 1 for the cells that are counted, else 0; default: all.
    """
    columns: dict[str, object] = {}
    for label, cells in answers_of(query, kept):
        numbers = revision.change(level, cells, periods)
        columns |= _columns(label, numbers)
        columns[label + DIRECTION_SUFFIX] = [VERDICTS[one + 1] for one in numbers.directions.tolist()]
    return pd.DataFrame(columns, index=_index(revision, level))


def period_table(revision: Revision, query: Query, level: str, period: int) -> pd.DataFrame:
    """One row a geounit: of each answer its number in a period, from 0, and the ends of its interval."""
    columns: dict[str, object] = {}
    for label, cells in answers_of(query):
        columns |= _columns(label, revision.in_period(level, cells, period))
    return pd.DataFrame(columns, index=_index(revision, level))


def _columns(label: str, numbers: Numbers) -> dict[str, object]:
    return {label: numbers.values, label + LOW_SUFFIX: numbers.low, label + HIGH_SUFFIX: numbers.high}


def _index(revision: Revision, level: str) -> pd.Index[str]:
    return pd.Index(revision.spine.level(level).geocodes.astype(object), name="geocode")
