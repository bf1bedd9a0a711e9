"""What the stages of one run have in common; its steps performed in order, and the log of that, restricted/run.log.

A step is not performed where an interrupted run has left its files whole. They are checked by their hashes before they
are used: what was truncated, flipped, or is of another run, of other records or of other versions of the software, is
computed again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from geography.spine import Spine
from pipeline.execution.batches import Batches, fingerprint_of
from pipeline.execution.steps import Notes, Perform, Progress, Step, perform_here
from pipeline.execution.threads import give_memory_back, peak_memory, peak_of_children
from pipeline.execution.workers import Workers
from pipeline.inputs.public_input import OpenedInputs
from pipeline.model.link import Link
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.published_files import UniverseFiles
from pipeline.release.receipts import Receipt
from pipeline.release.status import Status
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import json_sha256, make_restricted, sha256_file, write_json
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


class Checkpoints:
    """The hashes of the files that finished steps wrote, and what the steps noted.

    They count only for the same run on the same records with the same versions of everything that decides on a
    published number: otherwise every step is performed again.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._path = run.main.checkpoints / "steps.json"
        self._about = fingerprint_of(run)
        self._batches = Batches(run)
        self._steps: dict[str, dict[str, Any]] = {}
        self._whole: dict[Path, bool] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(self._path.read_bytes())
            if content["about"] == self._about and content["sha256"] == json_sha256(content["steps"]):
                self._steps = dict(content["steps"])
        self._hashes = {name: sha256 for step in self._steps.values() for name, sha256 in step["files"].items()}
        make_restricted(run.main.checkpoints)

    def notes_of(self, step: Step) -> Notes | None:
        """What the step noted when it was performed; None if it has to be performed."""
        recorded = self._steps.get(step.name, {}).get("files", {})
        needed = {*step.written(), *step.prepares, *(self._run.public / name for name in recorded)}
        if not needed or not all(self._is_whole(path) for path in needed):
            return None
        if step.files and step.name not in self._steps:
            return None
        return dict(self._steps.get(step.name, {}).get("notes", {}))

    def record(self, step: Step, notes: Notes) -> None:
        """Note that the step's files are whole."""
        if not step.files:
            return
        hashes = {str(path.relative_to(self._run.public)): sha256_file(path) for path in step.written()}
        self._steps[step.name] = {"files": hashes, "notes": dict(notes)}
        self._hashes.update(hashes)
        self._whole.update(dict.fromkeys(step.written(), True))
        content = {"about": self._about, "steps": self._steps, "sha256": json_sha256(self._steps)}
        write_json(self._path, content, self._run.staging, private=True)
        self._batches.forget(step.name)

    def _is_whole(self, path: Path) -> bool:
        if path not in self._whole:
            expected = self._hashes.get(str(path.relative_to(self._run.public)))
            self._whole[path] = expected is not None and path.is_file() and sha256_file(path) == expected
        return self._whole[path]


def perform_steps(
    job: Job, steps: Sequence[Step], perform: Perform = perform_here, checkpoints: Checkpoints | None = None
) -> None:
    """Perform the steps in order, but for those whose files an interrupted run has left whole.

    What they note is in `Job.notes` afterwards, by the steps' names.
    """
    for step in steps:
        job.progress.start(step)
        before, began = checkpoints.notes_of(step) if checkpoints is not None else None, time.monotonic()
        if before is None:
            notes = perform(step) or {}
            if checkpoints is not None:
                checkpoints.record(step, notes)
        else:
            notes = before
        job.progress.finish(step, time.monotonic() - began if before is None else None)
        give_memory_back()
        if notes:
            job.notes.update(cast("dict[str, Notes]", notes) if step.several else {step.name: notes})


class RunLog(Progress):
    """Lines with a time, appended to a file that only its owner can read.

    A line that cannot be written is left out: a full disk is reported by what the run needs to write.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def open(cls, run: RunDirectory) -> Iterator[RunLog]:
        """The log of `run`, whose directory is held."""
        descriptor = os.open(run.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        log = cls(descriptor)
        try:
            log.write("run begins")
            yield log
            log.write("run ends")
        except BaseException as error:
            log.write(f"run stops: {type(error).__name__}")
            raise
        finally:
            os.close(descriptor)

    def write(self, text: str) -> None:
        """Append a line, with the time."""
        line = f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {text}\n"
        with suppress(OSError):
            os.write(self._descriptor, line.encode())

    def finish(self, step: Step, seconds: float | None) -> None:
        """The step has ended after so many seconds; None if an earlier run had done it."""
        took = "done before" if seconds is None else f"{seconds:.2f} s"
        children = peak_of_children()
        others = f", of the largest other process that has ended {children / 1e6:.0f} MB" if children else ""
        self.write(f"{step.name}: {took}, peak memory {peak_memory() / 1e6:.0f} MB{others}")
