"""What a record adds where amounts are summed, or is counted by the side of their clip, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from features.amounts.link import SumsOfCounts
from pipeline.model.exact import exact_text
from pipeline.model.measure import Counts, Measure
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import AmountAttribute, ChosenEnd, ClippedAttribute
from pipeline.privacy.budget import Neighbours, reach_between, reach_of_total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from features.amounts.link import Errors
    from pipeline.estimation.constraints import Knowledge
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Step
    from pipeline.model.texts.catalogue import Texts
    from pipeline.model.universe import Universe
    from pipeline.published import PublishedRelease


class SumsInRelease(SumsOfCounts):
    """The link, as those ask for it who release and read the two universes."""

    def knowledge_after(self, job: Job) -> Knowledge:
        """See `Link.knowledge_after`."""
        from features.amounts.knowledge import BoundedByCounts  # brings the solvers

        return BoundedByCounts(job, self)

    def steps(self, job: Job, level: int) -> list[Step]:
        """See `Link.steps`."""
        from features.amounts.means import mean_steps

        return mean_steps(job, self, level)

    def means(
        self, release: PublishedRelease, table: str, level: str, geocodes: NDArray[np.str_]
    ) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """See `Link.means`."""
        from features.amounts.means import path_of, read_means
        from pipeline.release.form import check_geocodes

        path = release.unchanged(path_of(release.run, self.of, table, level))
        found = read_means(path, len(geocodes))
        check_geocodes(path, found.geocodes, geocodes)
        return found.columns()

    def foretold(self, errors: Mapping[str, Errors], records: Sequence[int]) -> Iterator[dict[str, Any]]:
        """See `Link.foretold`."""
        from features.amounts.link import amount_rows

        return amount_rows(self, errors, records)


@dataclass(frozen=True)
class ClippedCounts(Counts):
    """The release's own records count one each, by the side of the clip of an amount that they are on.

    Attributes:
        clip: the attribute that says it.
    """

    clip: ClippedAttribute
    chosen: ChosenEnd | None = None
    own_records = True

    def content(self) -> list[object]:
        """By which amount, and beyond which ends."""
        return [["clipped", *self.clip.content]]

    def layout(self) -> list[object]:
        """The same."""
        return [[self.clip.name, *self.clip.content]]


@dataclass(frozen=True)
class AmountSums(Measure):
    """The release's own records add an amount each, in whole units.

    Attributes:
        amount: its column, public ends and unit.
    """

    amount: AmountAttribute
    chosen: ChosenEnd | None = None
    counts = False
    own_records = True

    @property
    def unit(self) -> Fraction:
        """The width of a step of the amount's grid."""
        return self.amount.unit

    @property
    def amounts(self) -> tuple[AmountAttribute, ...]:
        """The one that is summed."""
        return (self.amount,)

    @property
    def signed(self) -> bool:
        """Whether the lower end is below 0."""
        return self.amount.first < 0

    @property
    def total(self) -> bool:
        """Whether the ends are those of a unit's total."""
        return self.amount.total

    def reach(self, neighbours: Neighbours) -> int:
        """The farthest that the ends allow one record to move sums, in units; of a total, all records of a unit."""
        ends = self.amount.first, self.amount.last
        return reach_of_total(*ends) if self.total else reach_between(*ends, neighbours)

    def content(self) -> list[object]:
        """Column, ends, unit and what a record without an amount has.

        The column and what stands for a missing amount do not change the distribution, but the noise: with equal noise
        equal sums would show that two columns agree everywhere, or that no record lacks an amount.
        """
        return [["amount", *self.amount.content]]

    def layout(self) -> list[object]:
        """The same, with the ends of a total as an entry of its own."""
        grid = self.amount
        texts = [grid.name, *map(str, (grid.low, grid.high, grid.unit, grid.missing))]
        return [texts, "total"] if grid.total else [texts]

    def reading(self, source: RecordSource) -> RecordSource:
        """The source, of which each record counts as many units as it has."""
        return replace(source, amount=self.amount)

    def heading(self, texts: Texts, what: str) -> str:
        """With the unit, as published numbers are whole units."""
        return texts("{what} in units of {unit}", what=what, unit=str(self.amount.unit))

    def counted(self, texts: Texts) -> str:
        """Units of the amount."""
        return texts("units of {unit}", unit=exact_text(self.amount.unit))

    @property
    def remark(self) -> str:
        """What is summed, and in which units."""
        return f"Sums of {self.amount.name} in units of {self.amount.unit}."

    def link(self, universe: Universe, own: Universe) -> SumsInRelease:
        """See `Measure.link`."""
        return SumsInRelease(universe, own)

    def too_many(self) -> tuple[str, str, str]:
        """Units of the amount."""
        return "units of the amount", "unit", f"round to more than {self.amount.unit}"
