"""What the stages of one run have in common."""

from __future__ import annotations

from dataclasses import dataclass

from flows.checkpoints import Batches
from flows.steps import Progress
from flows.workers import Workers
from geography.spine import Spine
from pipeline.layout import RunDirectory, UniverseDirectory
from pipeline.spec import ReleaseSpec
from pipeline.universe import Universe


@dataclass(frozen=True, eq=False)
class Job:
    """A run's directory, its public inputs, and who works on it; nothing confidential.

    Attributes:
        run: where everything is read and written.
        spec: the release spec.
        universes: what it resolves to, the release's own first.
        spine: the geography.
        workers: for batches of geounits.
        progress: is told how far the run is.
        batches: where results of batches are kept for a run that goes on; None where none does.
    """

    run: RunDirectory
    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine
    workers: Workers
    progress: Progress
    batches: Batches | None = None

    def folder(self, universe: Universe) -> UniverseDirectory:
        return self.run.universe(universe.name)
