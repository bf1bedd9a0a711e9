"""Public numbers by which answers are expected to be shared among the areas of a parent, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.model.public_fact import PublicFact
from pipeline.model.query import Query
from pipeline.model.universe import Universe


@dataclass(frozen=True, eq=False)
class PublicShare:
    """Some answers of a query, and the public file with a number for every area.

    Attributes:
        name: what the spec calls it.
        level: the level that the file has numbers for; above it they are added up.
        levels: at which they are used.
        file: CSV or Parquet with one row a geounit of `level`.
        geocode: the file's column of geocodes.
        query: whose answers are shared.
        columns: answer's number -> the file's column, in the order of the answers.
    """

    name: str
    level: str
    levels: tuple[str, ...]
    file: Path
    geocode: str
    query: Query
    columns: Mapping[int, str]

    @property
    def distinct_columns(self) -> tuple[str, ...]:
        """The columns, each once."""
        return tuple(dict.fromkeys(self.columns.values()))


@dataclass(frozen=True, eq=False)
class Shares(PublicFact):
    """The public shares in use of a universe; one at least."""

    shares: tuple[PublicShare, ...]

    def told_apart(self) -> tuple[Query, ...]:
        """See `PublicFact.told_apart`: those whose answers are shared."""
        return tuple(share.query for share in self.shares)

    @property
    def names(self) -> tuple[str, ...]:
        """See `features.plan.shares.Foretelling`: of the shares."""
        return tuple(share.name for share in self.shares)


def shares_of(universe: Universe) -> tuple[PublicShare, ...]:
    """The public shares in use of a universe."""
    return tuple(share for one in universe.facts if isinstance(one, Shares) for share in one.shares)
