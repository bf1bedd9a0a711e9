"""Steps performed in order, each unless an interrupted run has left its files whole.

The files of steps that an interrupted run has left whole, so that the same run resumes after them.

Everything is checked by its hash before it is used: what was truncated, flipped, or is of another run, of other records
or of other versions of the software, is computed again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pipeline.execution.batch_store import Batches, fingerprint_of
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes, Perform, Step, perform_here
from pipeline.execution.threads import give_memory_back
from pipeline.release.layout import RunDirectory
from pipeline.storage.files import json_sha256, make_restricted, sha256_file, write_json


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
        before = checkpoints.notes_of(step) if checkpoints is not None else None
        if before is None:
            notes = perform(step) or {}
            if checkpoints is not None:
                checkpoints.record(step, notes)
        else:
            notes = before
        job.progress.finish(step, skipped=before is not None)
        give_memory_back()
        if notes:
            job.notes.update(cast("dict[str, Notes]", notes) if step.several else {step.name: notes})
