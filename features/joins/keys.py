"""What the feature adds to a spec: [[join]] and [household_tables.NAME], and what comes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from features.joins.section import HouseholdTableSection, JoinSection
from pipeline.spec.fields import NamedTable, TableName
from pipeline.spec.public import encode
from pipeline.spec.slots import FeatureKeys

if TYPE_CHECKING:
    from features.joins.resolve import StatedJoins
    from pipeline.estimation.expectation import Expectation
    from pipeline.metadata.products import Product
    from pipeline.model.universe import Universe
    from pipeline.pages.facts import ReleaseFacts
    from pipeline.spec.problems import Problems
    from pipeline.spec.release_spec import ReleaseSpec


class JoinsKeys(FeatureKeys):
    """The sections [[join]] and [household_tables.NAME]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "companions"
    #: See `pipeline.pages.facts.HasSection`.
    section: ClassVar[tuple[str, str]] = ("features.joins", "households.html.j2")

    join: tuple[JoinSection, ...] = Field(
        default=(), description="what a household of each kind, a companion's record, implies for the persons in it"
    )
    household_tables: NamedTable[TableName, HouseholdTableSection] = Field(
        default={}, description="tables of the persons in households by what these are, by name; needs a `[[join]]`"
    )

    def stated_links(self, spec: ReleaseSpec, universes: Sequence[Universe], problems: Problems) -> StatedJoins:
        """See `pipeline.spec.release_spec.StatesLinks`."""
        from features.joins.resolve import resolve  # with numpy

        return resolve(self.join, self.household_tables, spec, universes, problems)

    def published(self, spec: ReleaseSpec) -> Mapping[str, Any]:
        """See `pipeline.spec.release_spec.PublishedResolved`: tables with their companion and levels."""
        from features.joins.resolve import encode_household_table, stated_joins

        tables = [encode_household_table(table) for table in stated_joins(spec).tables]
        stated = {"join": encode(self.join), "household_tables": tables}
        return {key: content for key, content in stated.items() if content}

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `pipeline.metadata.products.HasProducts`."""
        from features.joins.files import HOUSEHOLD_SIZES, HOUSEHOLD_TABLES

        return HOUSEHOLD_SIZES, HOUSEHOLD_TABLES

    def shown(self, facts: ReleaseFacts) -> object | None:
        """See `pipeline.pages.facts.HasSection`."""
        from features.joins.report import households_view

        return households_view(facts)

    def joined_words(self) -> tuple[str, ...]:
        """See `features.plan.joined.ForetellingJoins`."""
        return tuple(section.words for section in self.join)

    def joined_rows(self, spec: ReleaseSpec, expectations: Sequence[Expectation]) -> tuple[dict[str, Any], ...]:
        """See `features.plan.joined.ForetellingJoins`."""
        from features.joins.foretold import joined_rows
        from features.joins.resolve import stated_joins

        return joined_rows(self.join, stated_joins(spec).joins, expectations)
