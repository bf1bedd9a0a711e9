"""What is made of the public shares of a universe: knowledge of its estimation, a part of the report, and of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from features.shares.public_share import Shares
from pipeline.model.universe import Universe

if TYPE_CHECKING:
    from pipeline.estimation.expectation import Expectation
    from pipeline.estimation.knowledge import Knowledge, Results
    from pipeline.execution.job import Job
    from pipeline.report.sources import ReportSources
    from postprocess.linear.expected import LevelCovariances


class SharedByNumbers(Shares):
    """Public shares, as those ask for them who use a universe's facts."""

    template = ("features.shares", "shared.html.j2")

    def knowledge(self, job: Job, universe: Universe, results: Results) -> Knowledge:
        """See `pipeline.estimation.knowledge.Knowing`."""
        from features.shares.spreads import PublicShares  # brings the solvers

        return PublicShares(job, universe, self.shares, results)

    def view(self, sources: ReportSources) -> object:
        """See `pipeline.report.page.Shown`."""
        from features.shares.report import shared_rows

        return shared_rows(self.shares, sources)

    def foretold(
        self, expectation: Expectation, planned: Sequence[LevelCovariances], stated: str | None, like: Path | None
    ) -> tuple[dict[str, Any], ...]:
        """See `features.plan.shares.Foretelling`."""
        from features.shares.foretold import shared_rows
        from features.shares.guesses import guesses_of

        guesses = guesses_of(stated, like, self.shares)
        return shared_rows(self.shares, expectation, planned, guesses) if guesses else ()
