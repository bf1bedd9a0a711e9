"""Small releases of running sums."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matrix.case import Case, Refusal, released
from numpy.typing import NDArray
from releases.small import QUICK, write_town

from pipeline.model.query import Query
from pipeline.reading.release import open_release, reader_of

#: Running sums of one attribute, of one of two, of a recode, and of a companion's table.
CUMULATIVE: Final = (
    (
        'total = "total"\nsex =',
        'total = "total"\nage = { query = "age", cumulative = true, levels = ["county", "tract"] }\n'
        'both = { query = "sex * age", cumulative = "age" }\n'
        'sexes = { query = "sex * grown", cumulative = "sex", levels = ["tract"] }\nsex =',
    ),
    ("invariants = { block", 'tables = { s = { query = "status", cumulative = true } }\ninvariants = { block'),
)
#: Universe, table, the cumulated term and its levels.
TABLES: Final = (
    ("", "age", "age", ("county", "tract")),
    ("", "both", "age", ("county", "tract", "block")),
    ("", "sexes", "sex", ("tract",)),
    ("units", "s", "status", ("county", "tract", "block")),
)


def _sums(frame: pd.DataFrame, query: Query, term: str) -> dict[str, NDArray[np.int64]]:
    """Label -> sums of the columns of a published table, one by one, by the labels of its terms."""
    values = list(dict.fromkeys(query.labels_of(term).tolist()))
    combinations = [[str(query.labels_of(one)[at]) for one in query.terms] for at in range(query.size)]
    found = {}
    for own in combinations:
        value = own[query.terms.index(term)]
        label, total = [], np.zeros(len(frame), dtype=np.int64)
        for one, part in zip(query.terms, own, strict=True):
            label.append(f"up to {part}" if one == term else part)
        for earlier in values[: values.index(value) + 1]:
            parts = [earlier if one == term else part for one, part in zip(query.terms, own, strict=True)]
            total = total + frame[" * ".join(parts)].to_numpy()
        found[" * ".join(label)] = total
    return found


def _sums_of_what_is_published(folder: Path) -> None:
    """And of children; the interval is that of the sum, and of a first value the published one."""
    town = open_release(folder / "out" / "town")
    for universe, name, term, levels in TABLES:
        release = town.companion(universe) if universe else town
        (table,) = (one for one in reader_of(release).universe.tables if one.name == name)
        assert table.levels == levels
        below: pd.DataFrame | None = None
        for level in reversed(levels):
            found, published = release.table(name, level, cumulative=True), release.table(name, level)
            sums = _sums(published, table.query, term)
            assert list(sums) == [column for column in found.columns if ":" not in column]
            for label, expected in sums.items():
                assert np.array_equal(found[label], expected)
                low, high = found[label + ":low90"], found[label + ":high90"]
                assert ((low <= expected) & (expected <= high)).all()
                own = label.replace("up to ", "", 1)
                if own in published and f"up to {table.query.labels_of(term)[0]}" in label:
                    for end in (":moe90", ":low90", ":high90"):
                        assert found[label + end].equals(published[own + end])
            if below is not None:
                parents = reader_of(release).spine.level(levels[levels.index(level) + 1]).parents
                for label in sums:
                    assert np.array_equal(np.bincount(parents, below[label]).astype(int), found[label])
            below = found
    # Everybody in a county is published exactly, though no age is; those up to "adult" by less than both margins.
    found, ages = (town.table("age", "county", cumulative=one) for one in (True, False))
    assert (found["up to old:moe90"] == 0).all()
    assert (ages["old:moe90"] > 0).all()
    assert (found["up to adult:moe90"] < ages["child:moe90"] + ages["adult:moe90"]).all()


CASES: Final[Sequence[Case]] = (
    released(
        "cumulative",
        lambda folder: write_town(folder, *QUICK, *CUMULATIVE),
        "release.toml",
        "town",
        expect=_sums_of_what_is_published,
        full=True,
    ),
)
REFUSALS: Final[Sequence[Refusal]] = (
    Refusal(
        "cumulative",
        ('cumulative = "age"', "cumulative = true"),
        ("tables.both.cumulative", "has 2 attributes with several values", "one of age"),
    ),
)
