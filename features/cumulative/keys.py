"""What the feature adds to a table of a spec, `[tables.NAME] cumulative`, and what comes with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, PlainValidator

from features.cumulative.cumulated import Cumulated
from pipeline.spec.fields import describe
from pipeline.spec.problems import dotted
from pipeline.spec.slots import FeatureKeys, keys_of

if TYPE_CHECKING:
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Step
    from pipeline.metadata.products import Product
    from pipeline.model.query import Query
    from pipeline.model.schema import Schema
    from pipeline.model.universe import Universe
    from pipeline.pages.templates import ReleaseFacts
    from pipeline.publishing.tables import MarginSource
    from pipeline.spec.problems import Problems
    from pipeline.spec.release_spec import ReleaseSpec


def _term(value: object) -> bool | str:
    if isinstance(value, bool | str):
        return value
    raise ValueError(f"found {describe(value)}; true, or the name of an attribute or recode of the query, is needed")


class CumulativeKeys(FeatureKeys):
    """The key `cumulative` of a table."""

    slot: ClassVar[str] = "tables"
    after: ClassVar[str] = "median"
    section: ClassVar[tuple[str, str]] = ("features.cumulative", "cumulative.html.j2")

    cumulative: Annotated[bool | str | None, PlainValidator(_term, json_schema_input_type=bool | str)] = Field(
        default=None,
        description="whether cumulative numbers are published, too: how many have each value or one before it, with "
        "margins of their own; true for a query of one attribute, else the name of the one that is cumulated, whose "
        "values or groups stand in their order",
    )

    def of_table(self, query: Query, schema: Schema, problems: Problems) -> Cumulated | None:
        """See `Kind.of_table`."""
        stated = self.cumulative
        return None if stated is None or stated is False else Cumulated.of(stated, query, schema, problems)

    def note_apart(self, spec: ReleaseSpec, problems: Problems) -> None:
        """See `Kind.note_apart`: universes whose numbers have no such margins."""
        together = [key for part in spec.parts if part.states_together for key in keys_of(type(part))]
        sums = [
            name
            for name, companion in spec.companions.items()
            for part in companion.parts
            if part.named_by and not part.measure().counts
        ]
        for universe, name, table in spec.stated_tables():
            part = table.part(CumulativeKeys)
            if part is None or part.cumulative is None or part.cumulative is False:
                continue
            if together:  # such a spec has its universes from its tables
                why = f"not with [{together[0]}], whose tables are estimated together; leave it out"
                problems.add(dotted(["tables", name, "cumulative"]), why)
            if universe in sums:
                key = dotted(["companions", universe, "tables", name, "cumulative"])
                problems.add(key, "only for counts, and these are sums of an amount; leave it out")

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `Kind.products`."""
        from features.cumulative.files import CUMULATIVE

        return (CUMULATIVE,)

    def table_steps(self, job: Job, universe: Universe, level: int, margins: MarginSource) -> Sequence[Step]:
        """See `Kind.table_steps`."""
        from features.cumulative.files import cumulative_steps

        return cumulative_steps(job, universe, level, margins)

    def shown(self, facts: ReleaseFacts) -> dict[str, Any] | None:
        """See `Kind.shown`."""
        from features.cumulative.files import cumulative_view

        return cumulative_view(facts)
