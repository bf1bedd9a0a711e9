"""All links between the universes of a release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pipeline.model.links.households import links_with_households
from pipeline.model.links.link import Link

if TYPE_CHECKING:
    from pipeline.model.household_table import HouseholdTable
    from pipeline.model.join import Join
    from pipeline.model.universe import Universe


def links_of(
    universes: Sequence[Universe], joins: Sequence[Join] = (), tables: Sequence[HouseholdTable] = ()
) -> tuple[Link, ...]:
    """The links between some universes of a release.

    Args:
        universes: of the release.
        joins: what households imply for the persons in them.
        tables: of persons by their households.
    """
    return (*links_with_households(universes, joins, tables), *_of_measures(universes))


@runtime_checkable
class LinksToCounts(Protocol):
    """A measure by which a companion has something in common with the release's own universe."""

    def link(self, universe: Universe, own: Universe) -> Link:
        """What it is.

        Args:
            universe: the companion.
            own: the release's own, which is released first.
        """


def _of_measures(universes: Sequence[Universe]) -> Iterator[Link]:
    """What companions have by what they measure in common with the release's own universe, where that is given."""
    for own in (universe for universe in universes if not universe.name):
        for universe in universes:
            if isinstance(measure := universe.measure, LinksToCounts):
                yield measure.link(universe, own)
