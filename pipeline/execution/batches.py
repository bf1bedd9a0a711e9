"""Results of the batches of steps that take long, kept as they come: a run that is killed in a level resumes there."""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from pipeline.errors import ReleaseError
from pipeline.execution.workers import Workers, begun, immutable
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import recorded_identity, recorded_input
from pipeline.release.software import software
from pipeline.storage.files import canonical_json, json_sha256, make_restricted, write_bytes
from postprocess.arrays import Arrays


def fingerprint_of(run: RunDirectory) -> str:
    """What results are bound to: the run, its records, and the versions of all that decides on a published number."""
    about = [recorded_identity(run), recorded_input(run), software().model_dump(mode="json")]
    return json_sha256(about)


def bytes_of_arrays(arrays: Arrays) -> bytes:
    """Arrays in numpy's npz form, without pickle."""
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **arrays)
    return body.getvalue()


def arrays_of_bytes(data: bytes) -> Arrays:
    """The arrays again, which cannot be written to; ValueError, OSError and others where they are none."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return immutable({name: arrays[name] for name in arrays.files})


class Batches:
    """Results by step and batch: each in a file of its own under restricted/checkpoints/, or all in memory.

    Their arrays cannot be written to, wherever they are kept.

    A file is the SHA-256 of what it is of (run, records, software, step, batch) and of its arrays, then the arrays in
    numpy's npz form. It is written whole or not at all.

    Args:
        run: whose folder they are in; None for memory, where no other run finds them.
        about: what they are of; by default the run on its records, which are to be recorded before the first batch.
    """

    def __init__(self, run: RunDirectory | None = None, about: str | None = None) -> None:
        self._run = run
        self._about = about
        self._in_memory: dict[tuple[str, str], Arrays] = {}

    @property
    def lasting(self) -> bool:
        """Whether the same run finds them after it was killed."""
        return self._run is not None

    def has(self, step: str, batch: str) -> bool:
        """Whether the result of a batch is kept whole."""
        return self.get(step, batch) is not None

    def get(self, step: str, batch: str) -> Arrays | None:
        """The arrays that were put for a batch; None if there are none, or the file is damaged or of another run."""
        if self._run is None:
            kept = self._in_memory.get((step, batch))
            return None if kept is None else dict(kept)
        try:
            content = _path(self._run, step, batch).read_bytes()
        except OSError:
            return None
        seal, body = content[:32], content[32:]
        if seal != self._seal(self._run, step, batch, body):
            return None
        try:
            return arrays_of_bytes(body)
        except (OSError, ValueError, zipfile.BadZipFile):  # pragma: no cover - the hash was right
            return None

    def needed(self, step: str, batch: str) -> Arrays:
        """The arrays of a batch that was put.

        Raises:
            ReleaseError: they were damaged since.
        """
        arrays = self.get(step, batch)
        if arrays is None:
            raise ReleaseError(f"{step}: part {batch} among the run's checkpoints was damaged; run the same again")
        return arrays

    def put(self, step: str, batch: str, arrays: Arrays) -> None:
        """Keep the result of a batch; where it is a file, it is on the disk when this returns.

        Raises:
            ReleaseError: it cannot be written.
        """
        if self._run is None:
            self._in_memory[step, batch] = immutable(dict(arrays))
            return
        body = bytes_of_arrays(arrays)
        content = self._seal(self._run, step, batch, body) + body
        path = _path(self._run, step, batch)
        for folder in (path.parents[2], path.parents[1], path.parent):
            make_restricted(folder)
        write_bytes(path, content, self._run.staging, private=True)

    def forget(self, step: str | None = None) -> None:
        """Remove what was kept of a step, or of all: its files are whole now.

        Raises:
            ReleaseError: it cannot be removed.
        """
        if self._run is None:
            self._in_memory = {key: arrays for key, arrays in self._in_memory.items() if step not in (None, key[0])}
            return
        folder = _folder(self._run) if step is None else _path(self._run, step, "").parent
        try:
            if folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            raise ReleaseError(f"cannot remove {folder}: {error.strerror}") from error

    def _seal(self, run: RunDirectory, step: str, batch: str, body: bytes) -> bytes:
        if self._about is None:
            self._about = fingerprint_of(run)
        return hashlib.sha256(canonical_json([self._about, step, batch]) + body).digest()


def _folder(run: RunDirectory) -> Path:
    return run.main.checkpoints / "batches"


def _path(run: RunDirectory, step: str, batch: str) -> Path:
    return _folder(run) / step.replace(" ", "-") / f"{batch}.npz"


Task = TypeVar("Task")
Result = TypeVar("Result")


def run_kept(  # noqa: PLR0913  # two pairs of functions: between task and name, between result and arrays
    workers: Workers,
    batches: Batches,
    step: str,
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    named: Callable[[Task], str],
    packed: Callable[[Result], Arrays],
    unpacked: Callable[[Arrays], Result],
    done: Callable[[Task], None],
) -> Iterator[Result]:
    """As `Workers.run`, but a result that an interrupted run has left is not computed again.

    A step of one batch is kept as the files that it writes, and not here.

    Args:
        batches: where results are kept; nothing is, where they would be in memory.
        step: its name.
        named: the name of a task's batch, the same in every run.
        packed, unpacked: a result as arrays, and back.
        done: called with each task, in order.
    """
    first, tasks = begun(tasks, 2)
    if not batches.lasting or len(first) < 2:
        yield from workers.run(function, tasks, done)
        return
    asked: deque[tuple[Task, Arrays | None]] = deque()

    def missing() -> Iterator[Task]:
        for task in tasks:
            asked.append((task, batches.get(step, named(task))))
            if asked[-1][1] is None:
                yield task

    def before_the_next() -> Iterator[Result]:
        """Those that are kept, up to the next task whose result is not."""
        while asked and (arrays := asked[0][1]) is not None:
            done(asked.popleft()[0])
            yield immutable(unpacked(arrays))

    for result in workers.run(function, missing()):
        yield from before_the_next()
        task, _ = asked.popleft()
        done(task)
        batches.put(step, named(task), packed(result))
        yield result
    yield from before_the_next()


def run_missing(
    workers: Workers,
    batches: Batches,
    step: str,
    function: Callable[[Task], Iterable[Arrays]],
    tasks: Iterable[tuple[Sequence[str], Callable[[], Task]]],
    done: Callable[[Task], None] | None = None,
) -> None:
    """Work on the tasks whose results are not all kept yet, and keep these: each gives several.

    Args:
        workers, batches, step, function: as of `run_kept`; the results are arrays.
        tasks: of each the names of its results, in the order in which they come, and what makes it.
        done: called with each task that was worked on, in order.
    """
    missing = [(names, task) for names, task in tasks if not all(batches.has(step, name) for name in names)]
    results = workers.run(function, (task() for _, task in missing), done)
    for (names, _), result in zip(missing, results, strict=True):
        for name, arrays in zip(names, result, strict=True):
            batches.put(step, name, arrays)
