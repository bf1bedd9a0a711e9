"""All links between the universes of a release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.model.links.households import links_with_households
from pipeline.model.links.link import Link
from pipeline.model.links.sums_of_counts import links_with_counts

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
    return (*links_with_households(universes, joins, tables), *links_with_counts(universes))
