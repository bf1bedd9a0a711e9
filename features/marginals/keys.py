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
    from pipeline.pages.templates import ReleaseFacts
    from pipeline.release.layout import RunDirectory
    from pipeline.spec.problems import Problems
    from pipeline.spec.release_spec import ReleaseSpec


class MarginalsKeys(FeatureKeys):
    """The section [marginals]."""

    slot: ClassVar[str] = ""
    after: ClassVar[str] = "companions"
    states_together: ClassVar[bool] = True
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
        """See `Kind.note_apart`."""
        from features.marginals.division_check import note_division

        if self.marginals is not None:
            note_division(self.marginals, spec, problems)

    def together(self, universes: Sequence[Universe]) -> Cliques | None:
        """See `Kind.together`."""
        from features.marginals.tree import Cliques

        return None if self.marginals is None else Cliques.of(self.marginals, universes)

    def undecided(
        self, spec: ReleaseSpec, universes: tuple[Universe, ...], spine: Spine, run: RunDirectory
    ) -> ChoiceWork | None:
        """See `Kind.undecided`: the private choice of pairs."""
        from features.marginals.stage import work_of

        if self.marginals is None or self.marginals.undivided is None:
            return None
        return work_of(spec, universes, spine, run)

    def decided(self, spec: ReleaseSpec, answer: Mapping[str, object]) -> ReleaseSpec:
        """See `Kind.decided`."""
        from features.marginals.stage import decided_spec

        assert self.marginals is not None
        return decided_spec(self.marginals, spec, answer)

    def redrawn(
        self, spec: ReleaseSpec, universes: tuple[Universe, ...], spine: Spine, run: RunDirectory, again: RunDirectory
    ) -> tuple[ChoiceWork, Mapping[str, object]] | None:
        """See `Kind.redrawn`."""
        from features.marginals.stage import work_of

        if self.marginals is None or self.marginals.chosen is None:
            return None
        work = work_of(spec, universes, spine, run, again)
        pairs = [list(names) for names in self.marginals.cliques or () if len(names) > 1]
        return None if work is None else (work, {"pairs": pairs, "records": self.marginals.chosen.records})

    def shown(self, facts: ReleaseFacts) -> MarginalsView | None:
        """See `Kind.shown`."""
        from features.marginals.shown import marginals_view

        return None if self.marginals is None else marginals_view(self.marginals, facts)
