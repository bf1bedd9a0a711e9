"""Public numbers by which answers are expected to be shared among the areas of a parent, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.model.public_fact import PublicFact
from pipeline.model.query import Query
from pipeline.model.universe import Universe

if TYPE_CHECKING:
    from pipeline.estimation.expectation import Expectation
    from pipeline.estimation.knowledge import Knowledge, Results
    from pipeline.execution.job import Job
    from pipeline.report.sources import ReportSources
    from postprocess.linear.expected import LevelCovariances


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
class SharedByNumbers(PublicFact):
    """The public shares in use of a universe; one at least."""

    shares: tuple[PublicShare, ...]
    template = ("features.shares", "shared.html.j2")

    def told_apart(self) -> tuple[Query, ...]:
        """See `PublicFact.told_apart`: those whose answers are shared."""
        return tuple(share.query for share in self.shares)

    def knowledge(self, job: Job, universe: Universe, results: Results) -> Knowledge:
        """See `pipeline.estimation.knowledge.Knowing`."""
        from features.shares.spreads import PublicShares  # brings the solvers

        return PublicShares(job, universe, self.shares, results)

    def view(self, sources: ReportSources) -> object:
        """See `pipeline.report.facts.Shown`."""
        from features.shares.report import shared_rows

        return shared_rows(self.shares, sources)

    @property
    def names(self) -> tuple[str, ...]:
        """See `features.plan.shares.Foretelling`: of the shares."""
        return tuple(share.name for share in self.shares)

    def foretold(
        self, expectation: Expectation, planned: Sequence[LevelCovariances], stated: str | None, like: Path | None
    ) -> tuple[dict[str, Any], ...]:
        """See `features.plan.shares.Foretelling`."""
        from features.shares.foretold import shared_rows
        from features.shares.guesses import guesses_of

        guesses = guesses_of(stated, like, self.shares)
        return shared_rows(self.shares, expectation, planned, guesses) if guesses else ()


def shares_of(universe: Universe) -> tuple[PublicShare, ...]:
    """The public shares in use of a universe."""
    return tuple(share for one in universe.facts if isinstance(one, SharedByNumbers) for share in one.shares)
