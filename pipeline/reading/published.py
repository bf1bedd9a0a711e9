"""Published files of a release as frames, unchanged: tables by households, and sums and means of amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipeline.errors import InputError
from pipeline.release.joined.means import read_means
from pipeline.release.tables import read_table

if TYPE_CHECKING:
    from pipeline.reading.release import Release


def household_table_frame(release: Release, name: str, level: str) -> pd.DataFrame:
    """See `Release.household_table`."""
    number = release.index_of(level)
    found = next((table for table in release.spec.tables_of_households() if table.name == name), None)
    if found is None or name not in release.household_tables:
        tables = ", ".join(release.household_tables) or "none"
        raise InputError(f"{release.name}: no table {name!r} of persons by their households; there are {tables}")
    if level not in found.levels:
        raise InputError(
            f"{release.name}: table {name!r} is published for {', '.join(found.levels)}, not for {level!r}"
        )
    published = read_table(release.run.household_table(name, level), len(release.spine.levels[number]))
    return pd.DataFrame(dict(published.columns()), index=_index(published.geocodes))


def means_frame(release: Release, name: str, level: str) -> pd.DataFrame:
    """See `Release.means`; what is null in the file is missing, and no number."""
    number, universe = release.index_of(level), release.universe
    if universe.amount is None:
        raise InputError(
            f"{release.name}: means: {universe.name or 'the release itself'} holds counts and no amounts; name a "
            "companion of an amount"
        )
    published = {table.name: table.levels for table in universe.tables}
    if level not in published.get(name, ()):
        raise InputError(
            f"{release.name}: means: no table {name!r} of {universe.name} at level {level!r}; the tables are "
            f"{', '.join(published) or 'none'}"
        )
    means = read_means(release.run.means(universe.name, name, level), len(release.spine.levels[number]))
    columns: dict[str, Any] = dict(means.columns())
    for column, values in columns.items():
        if values.dtype == np.float64:
            columns[column] = pd.array(values, dtype="Float64")
    return pd.DataFrame(columns, index=_index(means.geocodes))


def _index(geocodes: Any) -> pd.Index[str]:
    return pd.Index(geocodes.astype(object), name="geocode")
