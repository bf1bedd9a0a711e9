"""What the stages of one run have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from flows.steps import Notes, Progress
from flows.workers import Workers
from geography.spine import Spine
from pipeline.layout import RunDirectory, UniverseDirectory
from pipeline.manifest import Status
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
        status: whether it may be published; without being told, not.
        told: step -> what it has told; public.
    """

    run: RunDirectory
    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine
    workers: Workers
    progress: Progress
    status: Status = "NOT FOR RELEASE: insecure test key"
    told: dict[str, Notes] = field(default_factory=dict)

    def folder(self, universe: Universe) -> UniverseDirectory:
        return self.run.universe(universe.name)
