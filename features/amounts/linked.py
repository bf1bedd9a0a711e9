"""What is made of the link of sums with their counts: knowledge, files, and what readers and plans ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from features.amounts.link import SumsOfCounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from features.amounts.foretold import Errors
    from pipeline.estimation.knowledge import Knowledge
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Step
    from pipeline.published import PublishedRelease


class SumsInRelease(SumsOfCounts):
    """The link, as those ask for it who release and read the two universes."""

    def knowledge_after(self, job: Job) -> Knowledge:
        """See `pipeline.estimation.known.KnownAfter`."""
        from features.amounts.knowledge import BoundedByCounts  # brings the solvers

        return BoundedByCounts(job, self)

    def steps(self, job: Job, level: int) -> list[Step]:
        """See `pipeline.publishing.linked.PublishesLinked`."""
        from features.amounts.published import mean_steps

        return mean_steps(job, self, level)

    def means(
        self, release: PublishedRelease, table: str, level: str, geocodes: NDArray[np.str_]
    ) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """See `pipeline.reading.reader.HasMeans`."""
        from features.amounts.means import path_of, read_means
        from pipeline.release.tables import check_geocodes

        path = release.unchanged(path_of(release.run, self.of, table, level))
        found = read_means(path, len(geocodes))
        check_geocodes(path, found.geocodes, geocodes)
        return found.columns()

    @property
    def high(self) -> Fraction:
        """See `features.plan.amounts.ForetellingSums`."""
        return self.amount.high

    def foretold(self, errors: Mapping[str, Errors], records: Sequence[int]) -> Iterator[dict[str, Any]]:
        """See `features.plan.amounts.ForetellingSums`."""
        from features.amounts.foretold import amount_rows

        return amount_rows(self, errors, records)

    def ends(
        self, errors: Mapping[str, float], areas: Mapping[str, int], held: Mapping[Fraction, Fraction]
    ) -> Iterator[dict[str, Any]]:
        """See `features.plan.amounts.ForetellingSums`."""
        from features.amounts.foretold import end_rows

        return end_rows(self, errors, areas, held)
