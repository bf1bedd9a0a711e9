"""Solutions that are stopped on their way, and gone on with from nothing but what was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from postprocess.arrays import Arrays
from postprocess.families import progress
from postprocess.families.progress import kept_in

Result = TypeVar("Result")

#: Stops that are tried of one solution.
STOPS = 6


class Memory:
    """A store that remembers all that was ever put."""

    def __init__(self, kept: dict[str, Arrays]) -> None:
        self.kept = kept
        self.put_so_far: list[tuple[str, Arrays]] = []

    def get(self, step: str, batch: str) -> Arrays | None:
        """What it was made with."""
        assert step == progress.STEP
        return self.kept.get(batch)

    def put(self, step: str, batch: str, arrays: Arrays) -> None:
        """Remember copies."""
        assert step == progress.STEP
        self.put_so_far.append((batch, {name: array.copy() for name, array in arrays.items()}))


def after_each_stop(solve: Callable[[], Result]) -> Iterator[Result]:
    """Results of `solve`, each gone on with after a stop at another of its steps, from the first to the last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "WHILE", 0.0)
        with kept_in(whole := Memory({})):
            solve()
    stops = whole.put_so_far
    assert len(stops) > 1
    for number in sorted({round(i * (len(stops) - 1) / (STOPS - 1)) for i in range(STOPS)}):
        store = Memory(dict([stops[number]]))
        with kept_in(store):
            yield solve()
        assert not store.put_so_far
