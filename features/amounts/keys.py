"""What the feature adds to the companions of a spec, and what comes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from features.amounts.resolve import amount_records, measure_of, note_amount_schema, with_clipped
from features.amounts.section import AmountPart
from pipeline.model.measure import Measure
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Schema
from pipeline.spec.resolve import MeasureScope

if TYPE_CHECKING:
    from features.amounts.shown import AmountsView
    from pipeline.metadata.products import Product
    from pipeline.pages.facts import ReleaseFacts


class AmountKeys(AmountPart):
    """The keys `amount` and `count_clipped` of a companion, with those that go with them."""

    section: ClassVar[tuple[str, str]] = ("features.amounts", "amounts.html.j2")

    @property
    def named_by(self) -> str:
        """See `pipeline.spec.resolve.StatesMeasure`."""
        return next((key for key in ("amount", "count_clipped") if getattr(self, key) is not None), "")

    def measure(self) -> Measure:
        """See `pipeline.spec.resolve.StatesMeasure`."""
        return measure_of(self)

    def measured(self, schema: Schema, scope: MeasureScope) -> Schema:
        """See `pipeline.spec.resolve.StatesMeasure`."""
        found = with_clipped(schema, self, scope.problems)
        if scope.own is not None:
            note_amount_schema(found, scope.own, scope.problems)
        return found

    def records(self, scope: MeasureScope) -> RecordSource | None:
        """See `pipeline.spec.resolve.StatesMeasure`."""
        return None if scope.own is None else amount_records(self, scope, scope.own)

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `pipeline.metadata.products.HasProducts`."""
        from features.amounts.published import AMOUNTS

        return (AMOUNTS,)

    def shown(self, facts: ReleaseFacts) -> AmountsView | None:
        """See `pipeline.pages.facts.HasSection`."""
        from features.amounts.shown import amounts_view

        return amounts_view(facts)
