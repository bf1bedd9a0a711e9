"""What the feature adds to a spec: the section [marginals], and what comes with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from features.marginals.section import MarginalsSection
from pipeline.spec.slots import FeatureKeys

if TYPE_CHECKING:
    from features.marginals.shown import MarginalsView
    from features.marginals.stage import ChoiceWork
    from features.marginals.tree import Cliques
    from geography.spine import Spine
    from pipeline.model.universe import Universe
    from pipeline.pages.facts import ReleaseFacts
    from pipeline.release.layout import RunDirectory
    from pipeline.spec.problems import Problems
    from pipeline.spec.release_spec import ReleaseSpec


class MarginalsKeys(FeatureKeys):
    """The section [marginals]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "companions"
    #: See `pipeline.pages.facts.HasSection`.
    section: ClassVar[tuple[str, str]] = ("features.marginals", "marginals.html.j2")

    marginals: MarginalsSection | None = Field(
        default=None, description="records with many attributes: tables of a few of them each are measured"
    )

    @classmethod
    def implied(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """See `FeatureKeys.implied`: a universe for each table of the tree; the first is the release's own."""
        from features.marginals.division import divided

        return divided(content)

    def note_apart(self, spec: ReleaseSpec, problems: Problems) -> None:
        """See `pipeline.spec.release_spec.NotesApart`."""
        from features.marginals.division_check import note_division

        if self.marginals is not None:
            note_division(self.marginals, spec, problems)

    def together(self, universes: Sequence[Universe]) -> Cliques | None:
        """See `pipeline.spec.release_spec.StatesTogether`."""
        from features.marginals.tree import Cliques

        return None if self.marginals is None else Cliques.of(self.marginals, universes)

    def undecided(
        self, spec: ReleaseSpec, universes: tuple[Universe, ...], spine: Spine, run: RunDirectory
    ) -> ChoiceWork | None:
        """See `pipeline.runs.decided.DecidedFirst`: the private choice of pairs."""
        from features.marginals.stage import work_of

        if self.marginals is None or self.marginals.undivided is None:
            return None
        return work_of(spec, universes, spine, run)

    def decided(self, spec: ReleaseSpec, answer: Mapping[str, object]) -> ReleaseSpec:
        """See `pipeline.runs.decided.DecidedFirst`."""
        from features.marginals.stage import decided_spec

        assert self.marginals is not None
        return decided_spec(self.marginals, spec, answer)

    def redrawn(
        self, spec: ReleaseSpec, universes: tuple[Universe, ...], spine: Spine, run: RunDirectory, again: RunDirectory
    ) -> tuple[ChoiceWork, Mapping[str, object]] | None:
        """See `pipeline.runs.decided.DecidedFirst`."""
        from features.marginals.stage import redrawn, work_of

        if self.marginals is None:
            return None
        return redrawn(self.marginals, work_of(spec, universes, spine, run, again))

    def shown(self, facts: ReleaseFacts) -> MarginalsView | None:
        """See `pipeline.pages.facts.HasSection`."""
        from features.marginals.shown import marginals_view

        return None if self.marginals is None else marginals_view(self.marginals, facts)
