"""What the feature adds to a spec, and what comes with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from features.years.section import SeriesPart
from pipeline.model.about import Period
from pipeline.model.universe import Universe
from pipeline.spec.problems import Problems
from pipeline.spec.sections import UniverseSections

if TYPE_CHECKING:
    from features.years.chain import PredecessorsInput
    from pipeline.spec.release_spec import ReleaseSpec


class SeriesKeys(SeriesPart):
    """The section [series]."""

    def placed(self, universe: Universe, sections: UniverseSections, problems: Problems) -> Universe:
        """See `Kind.placed`."""
        from features.years.chain import refuse_untried, series_of
        from features.years.series import MixedPeriods, Periods

        if self.series is None:
            return universe
        refuse_untried(self.series, universe, sections, problems.at("series"))
        series = series_of(self.series, universe.neighbours)
        source = Periods(series) if self.series.spells is None else MixedPeriods(series)
        return replace(universe, series=series, source=source)

    def at(self, spec: ReleaseSpec, period: str | None, out: Path) -> ReleaseSpec:
        """See `Kind.at`."""
        from features.years.chain import placed_after

        return placed_after(spec, self, period, out)

    def releases(self, spec: ReleaseSpec) -> dict[str, str]:
        """See `Kind.releases`."""
        from features.years.chain import name_at

        return {} if self.series is None else {one: name_at(spec.name, one) for one in self.series.series.periods}

    def counted_in(self) -> Period | None:
        """See `Kind.counted_in`."""
        if self.series is None or self.series.period is None:
            return None
        return Period(self.series.period, *self.series.series.days(self.series.period))

    def public_inputs(self) -> Sequence[PredecessorsInput]:
        """See `Kind.public_inputs`."""
        from features.years.chain import PredecessorsInput

        return () if self.series is None else (PredecessorsInput(),)

    def problems(self, spec: ReleaseSpec) -> list[str]:
        """See `Kind.problems`: what it states is what its design gives."""
        from features.years.chain import stated_problems

        return [] if self.series is None else stated_problems(self.series, spec.privacy.neighbours)
