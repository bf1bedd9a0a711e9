"""Steps performed in order, each unless an interrupted run has left its files whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pipeline.execution.checkpoints import Checkpoints
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes, Perform, Step, perform_here
from pipeline.execution.threads import give_memory_back


def perform_steps(
    job: Job, steps: Sequence[Step], perform: Perform = perform_here, checkpoints: Checkpoints | None = None
) -> dict[str, Notes]:
    """Perform the steps in order, but for those whose files an interrupted run has left whole.

    Returns:
        The notes of the steps, by name.
    """
    performed: dict[str, Notes] = {}
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
            new = cast("dict[str, Notes]", notes) if step.several else {step.name: notes}
            performed |= new
            job.notes.update(new)
    return performed
