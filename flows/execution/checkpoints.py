"""What an interrupted run has left whole, so that the same run goes on where it stopped: files of steps, and batches.

Everything is checked by its hash before it is used: what was truncated, flipped, or is of another run, of other records
or of other versions of the software, is computed again.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.execution.steps import Notes, Step
from pipeline.errors import ReleaseError
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import software
from pipeline.release.run_directory import recorded_identity, recorded_input
from pipeline.storage.files import canonical_json, json_sha256, make_restricted, sha256_file, write_bytes, write_json

#: The arrays of one batch's result, by name.
Arrays = Mapping[str, NDArray[Any]]


def fingerprint_of(run: RunDirectory) -> str:
    """What results are bound to: the run, its records, and the versions of all that decides on a published number."""
    about = [recorded_identity(run), recorded_input(run), software().model_dump(mode="json")]
    return json_sha256(about)


class Checkpoints:
    """The hashes of the files that finished steps wrote, and what the steps told.

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
            found = json.loads(self._path.read_bytes())
            if found["about"] == self._about and found["sha256"] == json_sha256(found["steps"]):
                self._steps = dict(found["steps"])
        self._hashes = {name: sha256 for step in self._steps.values() for name, sha256 in step["files"].items()}
        make_restricted(run.main.checkpoints)

    def notes_of(self, step: Step) -> Notes | None:
        """What the step told when it was performed; None if it has to be performed."""
        needed = (*step.files, *step.prepares)
        if not needed or not all(self._is_whole(path) for path in needed):
            return None
        if step.files and step.name not in self._steps:
            return None
        return dict(self._steps.get(step.name, {}).get("notes", {}))

    def record(self, step: Step, notes: Notes) -> None:
        """Note that the step's files are whole."""
        if not step.files:
            return
        hashes = {str(path.relative_to(self._run.public)): sha256_file(path) for path in step.files}
        self._steps[step.name] = {"files": hashes, "notes": dict(notes)}
        self._hashes.update(hashes)
        self._whole.update(dict.fromkeys(step.files, True))
        content = {"about": self._about, "steps": self._steps, "sha256": json_sha256(self._steps)}
        write_json(self._path, content, self._run.staging, private=True)
        self._batches.forget(step.name)

    def _is_whole(self, path: Path) -> bool:
        if path not in self._whole:
            expected = self._hashes.get(str(path.relative_to(self._run.public)))
            self._whole[path] = expected is not None and path.is_file() and sha256_file(path) == expected
        return self._whole[path]


class Batches:
    """Results of the batches of steps that take long, each in a file of its own under restricted/checkpoints/.

    A file is the SHA-256 of what it is of (run, records, software, step, batch) and of its arrays, then the arrays in
    numpy's npz form. It is written whole or not at all.

    Args:
        run: whose folder they are in.
        about: what they are of; by default the run on its records, which are to be recorded before the first batch.
    """

    def __init__(self, run: RunDirectory, about: str | None = None) -> None:
        self._run = run
        self._given = about

    @cached_property
    def _about(self) -> str:
        return fingerprint_of(self._run) if self._given is None else self._given

    def get(self, step: str, batch: str) -> dict[str, NDArray[Any]] | None:
        """The arrays that were put for a batch; None if there are none, or the file is damaged or of another run."""
        try:
            content = self._path(step, batch).read_bytes()
        except OSError:
            return None
        seal, body = content[:32], content[32:]
        if seal != self._seal(step, batch, body):
            return None
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as found:
                return {name: found[name] for name in found.files}
        except (OSError, ValueError, zipfile.BadZipFile):  # pragma: no cover - the hash was right
            return None

    def put(self, step: str, batch: str, arrays: Arrays) -> None:
        """Keep the result of a batch; it is on the disk when this returns.

        Raises:
            ReleaseError: it cannot be written.
        """
        body = io.BytesIO()
        np.savez(body, allow_pickle=False, **arrays)
        content = self._seal(step, batch, body.getvalue()) + body.getvalue()
        path = self._path(step, batch)
        for folder in (path.parents[2], path.parents[1], path.parent):
            make_restricted(folder)
        write_bytes(path, content, self._run.staging, private=True)

    def forget(self, step: str | None = None) -> None:
        """Remove what was kept of a step, or of all: its files are whole now.

        Raises:
            ReleaseError: it cannot be removed.
        """
        folder = self._run.main.checkpoints / "batches"
        if step is not None:
            folder = self._path(step, "").parent
        try:
            if folder.is_dir():
                shutil.rmtree(folder)
        except OSError as error:
            raise ReleaseError(f"cannot remove {folder}: {error.strerror}") from error

    def _path(self, step: str, batch: str) -> Path:
        return self._run.main.checkpoints / "batches" / step.replace(" ", "-") / f"{batch}.npz"

    def _seal(self, step: str, batch: str, body: bytes) -> bytes:
        head = canonical_json([self._about, step, batch])
        return hashlib.sha256(head + body).digest()
