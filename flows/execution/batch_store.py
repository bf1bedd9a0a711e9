"""Results of the parts of a spine that is cut into subtrees: kept for a run that goes on, and until all are there."""

from __future__ import annotations

from flows.execution.checkpoints import Arrays, Batches
from pipeline.errors import ReleaseError


class Parts:
    """The parts of one step, by name; each is there once it was put.

    Args:
        batches: where they are kept; None for memory.
        step: its name.
    """

    def __init__(self, batches: Batches | None, step: str) -> None:
        self._batches = batches
        self._step = step
        self._kept: dict[str, Arrays] = {}

    def has(self, name: str) -> bool:
        """Whether the part is kept whole."""
        return self._find(name) is not None

    def get(self, name: str) -> Arrays:
        """A part that was put.

        Raises:
            ReleaseError: it was damaged since.
        """
        found = self._find(name)
        if found is None:
            raise ReleaseError(f"{self._step}: part {name} among the run's checkpoints was damaged; run the same again")
        return found

    def put(self, name: str, arrays: Arrays) -> None:
        """Keep a part; ReleaseError where it cannot be written."""
        if self._batches is None:
            self._kept[name] = arrays
        else:
            self._batches.put(self._step, name, arrays)

    def clear(self) -> None:
        """Forget all parts: what they were for is done."""
        self._kept.clear()
        if self._batches is not None:
            self._batches.forget(self._step)

    def _find(self, name: str) -> Arrays | None:
        return self._kept.get(name) if self._batches is None else self._batches.get(self._step, name)
