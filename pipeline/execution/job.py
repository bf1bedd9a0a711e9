"""What the stages of one run have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from geography.spine import Spine
from pipeline.execution.batch_store import Batches
from pipeline.execution.progress import Progress
from pipeline.execution.steps import Notes
from pipeline.execution.workers import Workers
from pipeline.inputs.public_input import OpenedInputs
from pipeline.model.link import Link
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.published_files import UniverseFiles
from pipeline.release.receipts import Receipt
from pipeline.release.status import Status
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.paths import Readable, unchecked

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Job:
    """A run's directory, its public inputs, and who works on it; nothing confidential.

    Attributes:
        run: where everything is read and written.
        spec: the release spec.
        universes: what it resolves to, the release's own first.
        spine: the geography.
        workers: for batches of geounits.
        progress: takes note of how far the run is.
        batches: where results of batches are kept: for a run that is resumed, or in memory where none is.
        most_cells: leaf cells from which a spine is cut, and that a subtree may have; None for what post-processing
            takes by default. No published number depends on it, nor on the next.
        part_cells: leaf cells of the small subtrees that are worked on together; None as above.
        status: whether it may be published; by default not.
        notes: step -> what its solvers reported; public.
        begun: tasks that other processes work on already, before the step that needs them.
        worked_out: by name, what several steps need and is worked out once; public.
        receipts: of the run's charges, once it is charged; public.
        readable: gives a public file to be read. A run's own, which it has written or taken over and no manifest lists
            yet, are read as they are; of a finished release it is `PublishedFiles.unchanged`.
        inputs: what the public inputs that the spec names hold; none once they are published, and in the process that
            measures only those that it needs.
    """

    run: RunDirectory
    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine
    workers: Workers
    progress: Progress
    batches: Batches = field(default_factory=Batches)
    most_cells: int | None = None
    part_cells: int | None = None
    status: Status = "NOT FOR RELEASE: insecure test key"
    notes: dict[str, Notes] = field(default_factory=dict)
    begun: dict[str, Sequence[Callable[[], Any]]] = field(default_factory=dict)
    worked_out: dict[str, Any] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    readable: Callable[[Path], Readable] = unchecked
    inputs: OpenedInputs = field(default_factory=OpenedInputs)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """What its universes have in common."""
        return self.spec.links(self.universes)

    def once(self, name: str, work: Callable[[], T]) -> T:
        """What `work` gives, which is done the first time that it is asked for."""
        if name not in self.worked_out:
            self.worked_out[name] = work()
        found: T = self.worked_out[name]
        return found

    @property
    def n_geounits(self) -> int:
        """Geounits of all levels."""
        return sum(len(level) for level in self.spine.levels)

    def folder(self, universe: Universe) -> UniverseFiles:
        """The files of a universe, which can be read."""
        folder = self.run.universe(universe.name)
        return UniverseFiles(folder.public, folder.restricted, self.readable)
