"""Results of the parts that a step is worked on in, kept until the run is done so that a killed run goes on with them.

They follow from public files alone. Each is a file of arrays whose name says what it is of; it counts only for the same
run on the same records with the same versions, and only with the hash that it was written with.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.files import canonical_json, make_restricted, staged
from pipeline.layout import RunDirectory
from pipeline.manifest import software
from pipeline.release_directory import recorded_identity, recorded_input

Arrays = dict[str, NDArray[Any]]

_DIGEST = hashlib.sha256().digest_size


class Store(Protocol):
    """Where parts are kept."""

    def get(self, name: str) -> Arrays | None: ...

    def put(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None: ...

    def clear(self, prefix: str) -> None: ...


class MemoryStore:
    """Keeps parts as long as the process lives."""

    def __init__(self) -> None:
        self._kept: dict[str, Arrays] = {}

    def get(self, name: str) -> Arrays | None:
        """What `put` was given under this name; None where there is nothing."""
        return self._kept.get(name)

    def put(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the arrays."""
        self._kept[name] = dict(arrays)

    def clear(self, prefix: str) -> None:
        """Forget the parts whose names begin so."""
        self._kept = {name: arrays for name, arrays in self._kept.items() if not name.startswith(prefix)}


class PartStore:
    """Keeps parts in files of the run's restricted checkpoints.

    Args:
        run: whose identity and input are recorded when the first part is kept, unless `about` is given.
        about: what the parts are of, where nothing is recorded: a release that is computed again.
    """

    def __init__(self, run: RunDirectory, about: bytes | None = None) -> None:
        self._run = run
        self._given = about
        self._folder = run.main.checkpoints / "parts"

    @cached_property
    def _about(self) -> bytes:
        make_restricted(self._run.main.checkpoints)
        make_restricted(self._folder)
        if self._given is not None:
            return self._given
        versions = software().model_dump(mode="json")
        about = [recorded_identity(self._run), recorded_input(self._run), versions]
        return hashlib.sha256(canonical_json(about)).digest()

    def get(self, name: str) -> Arrays | None:
        """What `put` was given under this name in this run; None where there is nothing or it is damaged."""
        with suppress(OSError, ValueError, KeyError):
            content = (self._folder / f"{name}.npz").read_bytes()
            if self._digest(name, content[_DIGEST:]) == content[:_DIGEST]:
                with np.load(io.BytesIO(content[_DIGEST:]), allow_pickle=False) as found:
                    return {key: found[key] for key in found.files}
        return None

    def put(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the arrays.

        Raises:
            ReleaseError: they cannot be written.
        """
        buffer = io.BytesIO()
        np.savez(buffer, **dict[str, Any](arrays))
        content = buffer.getvalue()
        digest = self._digest(name, content)
        with staged(self._folder / f"{name}.npz", self._run.staging, private=True) as path:
            path.write_bytes(digest + content)

    def clear(self, prefix: str) -> None:
        """Forget the parts whose names begin so."""
        for path in self._folder.glob(f"{prefix}*.npz"):
            path.unlink(missing_ok=True)

    def _digest(self, name: str, content: bytes) -> bytes:
        return hashlib.sha256(self._about + hashlib.sha256(name.encode()).digest() + content).digest()


class Parts:
    """The parts of one universe, by number and kind; each is there once it was put."""

    def __init__(self, store: Store | None, universe: str) -> None:
        self._store = MemoryStore() if store is None else store
        self._universe = universe

    def has(self, number: int, kind: str) -> bool:
        """Whether the part is kept whole."""
        return self._store.get(self._name(number, kind)) is not None

    def get(self, number: int, kind: str) -> Arrays:
        """A part that was put.

        Raises:
            ReleaseError: it was damaged since.
        """
        found = self._store.get(self._name(number, kind))
        if found is None:
            raise ReleaseError(f"part {number} ({kind}) among the run's checkpoints was damaged; run the same again")
        return found

    def put(self, number: int, kind: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep a part."""
        self._store.put(self._name(number, kind), arrays)

    def clear(self) -> None:
        """Forget all parts: what they were for is done."""
        self._store.clear(f"{self._universe}.")

    def _name(self, number: int, kind: str) -> str:
        return f"{self._universe}.{kind}.{number}"
