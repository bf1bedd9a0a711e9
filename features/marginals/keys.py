"""What the feature adds to a spec: the section [marginals], and what comes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from features.marginals.section import MarginalsSection
from pipeline.spec.slots import FeatureKeys

if TYPE_CHECKING:
    from features.marginals.together import Cliques
    from pipeline.model.universe import Universe
    from pipeline.spec.problems import Problems
    from pipeline.spec.release_spec import ReleaseSpec


class MarginalsKeys(FeatureKeys):
    """The section [marginals]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "companions"

    marginals: MarginalsSection | None = Field(
        default=None, description="records with many attributes: tables of a few of them each are measured"
    )

    @classmethod
    def implied(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `FeatureKeys.implied`: a universe for each table of the tree; the first is the release's own."""
        from features.marginals.universes import divided

        return divided(content)

    def note_apart(self, spec: ReleaseSpec, problems: Problems) -> None:
        """See `pipeline.spec.release_spec.NotesApart`."""
        from features.marginals.universes import note_untried

        if self.marginals is not None:
            note_untried(self.marginals, spec, problems)

    def together(self, universes: Sequence[Universe]) -> Cliques | None:
        """See `pipeline.spec.release_spec.StatesTogether`."""
        from features.marginals.together import Cliques

        return None if self.marginals is None else Cliques.of(self.marginals, universes)
