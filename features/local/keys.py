"""What the feature adds to a spec: the section [collect], and what comes with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from features.local.section import CollectSection
from pipeline.spec.slots import FeatureKeys

if TYPE_CHECKING:
    from features.local.central import CentralInput
    from features.local.survey import Survey
    from pipeline.metadata.products import Product
    from pipeline.spec.problems import Problems
    from pipeline.spec.release_spec import ReleaseSpec
    from pipeline.spec.resolve import UniverseResolver


class LocalKeys(FeatureKeys):
    """The section [collect]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "provenance"
    states_source: ClassVar[bool] = True
    stand_for: ClassVar[tuple[str, ...]] = ("strategy",)

    collect: CollectSection | None = Field(
        default=None, description="how respondents randomised their answers before they sent them"
    )

    @classmethod
    def implied(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """The reports of leaves are what is measured, and their number is exact; see `FeatureKeys.implied`.

        A spec that states its strategy or its invariants itself is left as it is, and is checked when it is resolved.
        """
        levels, attributes = _names(content.get("geography"), "levels"), _names(content.get("schema"), "attributes")
        if not levels or not attributes:
            return content
        *above, leaves = levels
        measured = {"share": "1", "queries": {" * ".join(attributes): "1"}}
        strategy = {"levels": {**dict.fromkeys(above, "0"), leaves: measured}}
        return {"strategy": strategy, "invariants": {leaves: ["total"]}, **content}

    def source(self, scope: UniverseResolver) -> Survey | None:
        """See `Kind.source`."""
        from features.local.resolve import resolve_survey  # with numpy

        return None if self.collect is None else resolve_survey(self.collect, scope)

    def note_apart(self, spec: ReleaseSpec, problems: Problems) -> None:
        """See `Kind.note_apart`."""
        from features.local.resolve import note_apart

        if self.collect is not None:
            note_apart(spec, problems)

    def public_inputs(self) -> tuple[CentralInput, ...]:
        """See `Kind.public_inputs`."""
        from features.local.central import CENTRAL

        return (CENTRAL,)

    @classmethod
    def products(cls) -> tuple[Product, ...]:
        """See `Kind.products`."""
        from features.local.central import CENTRAL_COUNTS, CENTRAL_RELEASE

        return CENTRAL_RELEASE, CENTRAL_COUNTS

    @classmethod
    def randomiser_trials(cls, seed: int) -> Iterator[dict[str, Any]]:
        """See `Kind.randomiser_trials`."""
        from features.local.audited import trials

        return trials(seed)


def _names(section: object, key: str) -> list[str]:
    """The names in a table, or a list, of a section; none where it is neither."""
    found = section.get(key) if isinstance(section, Mapping) else None
    names = list(found) if isinstance(found, Mapping | list | tuple) else []
    return names if all(isinstance(name, str) for name in names) else []
