"""What the feature adds to [postprocess] of a spec, and what comes with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from features.shares.facts import SharedByNumbers
from features.shares.section import SharesSection
from pipeline.model.schema import Schema
from pipeline.spec.fields import Name, NamedTable
from pipeline.spec.problems import Problems
from pipeline.spec.slots import FeatureKeys

if TYPE_CHECKING:
    from features.shares.public_input import SharesInput
    from pipeline.metadata.products import Product


class SharesKeys(FeatureKeys):
    """The key `shares` of [postprocess]."""

    slot: ClassVar[str] = "postprocess"
    after: ClassVar[str] = "seed"

    shares: NamedTable[Name, SharesSection] | None = Field(
        default=None, description="public numbers by which persons are shared among the areas of a parent, by name"
    )

    def facts(self, schema: Schema, level_names: Sequence[str], problems: Problems) -> tuple[SharedByNumbers, ...]:
        """See `pipeline.spec.resolve.StatesFacts`: those that are in use."""
        from features.shares.resolve import resolve_shares

        found = resolve_shares(self.shares or {}, schema, level_names, problems.at("shares"))
        return (SharedByNumbers(found),) if found else ()

    def public_inputs(self) -> tuple[SharesInput, ...]:
        """See `pipeline.inputs.public_input.HasInputs`."""
        from features.shares.public_input import SharesInput

        return (SharesInput(named=any(one.use for one in (self.shares or {}).values())),)

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `pipeline.metadata.products.HasProducts`."""
        from features.shares.files import SHARES

        return (SHARES,)
