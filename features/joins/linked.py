"""The link of persons and households, as those ask for it who use the links of a release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from features.joins.household_table import HouseholdTable
from features.joins.join import Join, household_column, joined_companions
from features.joins.link import Households
from pipeline.model.universe import Universe

if TYPE_CHECKING:
    import scipy.sparse as sp

    from features.joins.knowledge import BoundedByHouseholds, ExpectedMembers
    from features.joins.reading import SizesOfHouseholds
    from pipeline.estimation.knowledge import Results
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Step
    from pipeline.published import PublishedRelease
    from pipeline.reading.numbers import Numbers


class LinkedHouseholds(Households):
    """The link with what is made of it; modules that bring libraries are imported when they are needed."""

    #: See `pipeline.publishing.linked.WritesRecords`.
    records_step: ClassVar[str] = "household tables"

    def knowledge_after(self, job: Job) -> BoundedByHouseholds:
        """See `pipeline.estimation.known.KnownAfter`."""
        from features.joins.knowledge import BoundedByHouseholds  # brings the solvers

        return BoundedByHouseholds(job, self)

    def knowledge_first(self, job: Job, results: Callable[[], Results]) -> ExpectedMembers:
        """See `pipeline.estimation.known.KnownFirst`."""
        from features.joins.knowledge import ExpectedMembers

        return ExpectedMembers(job, self, results)

    def checks(self) -> tuple[Callable[[], object], ...]:
        """See `pipeline.runs.request.HasChecks`: what the joins say of persons can be stated by bounds."""
        from features.joins.knowledge import told_apart

        return (partial(told_apart, self),)

    def steps(self, job: Job, level: int) -> list[Step]:
        """See `pipeline.publishing.linked.PublishesLinked`."""
        from features.joins.publishing import size_steps

        return size_steps(job, self, level)

    @staticmethod
    def write_records(job: Job, links: Sequence[Households], counts: sp.csr_array) -> None:
        """See `pipeline.publishing.linked.WritesRecords`."""
        from features.joins.publishing import publish_joined_records

        publish_joined_records(job, links, counts)

    def sizes_of(self, release: PublishedRelease, of: Numbers) -> SizesOfHouseholds:
        """See `pipeline.reading.reader.HasSizes`."""
        from features.joins.reading import SizesOfHouseholds

        return SizesOfHouseholds(release, self, of)


def links_with_households(
    universes: Sequence[Universe], joins: Sequence[Join], tables: Sequence[HouseholdTable]
) -> tuple[LinkedHouseholds, ...]:
    """One for each companion that is joined, in the order of the joins; those of universes that are not given are not.

    Args:
        universes: of the release.
        joins, tables: of the release.
    """
    by_name = {universe.name: universe for universe in universes}
    companions = joined_companions(joins)
    return tuple(
        LinkedHouseholds(
            persons=by_name[""],
            households=by_name[companion],
            joins=tuple(join for join in joins if join.companion == companion),
            column=household_column(companion, companions),
            tables=tuple(table for table in tables if table.companion == companion),
        )
        for companion in companions
        if "" in by_name and companion in by_name
    )
