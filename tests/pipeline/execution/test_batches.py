"""Results of batches are kept as they come, and what is kept is not computed again."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.execution.batch_store import Batches
from pipeline.execution.batches import run_kept
from pipeline.execution.workers import Workers
from pipeline.release.layout import RunDirectory
from postprocess.arrays import Arrays


def squared(number: int) -> int:
    return number * number


class Counting(Workers):
    """Remembers the tasks that it was given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.tasks: list[int] = []

    def run(self, function, tasks, done=None):  # type: ignore[no-untyped-def]
        tasks = [*tasks]
        self.tasks += tasks
        return super().run(function, tasks, done)


def started(workers: Workers, batches: Batches, tasks: list[int], done: list[int]) -> Iterator[int]:
    def packed(result: int) -> Arrays:
        return {"result": np.array(result)}

    def unpacked(arrays: Arrays) -> int:
        return int(arrays["result"])

    return run_kept(
        workers, batches, "square", squared, tasks, named=str, packed=packed, unpacked=unpacked, done=done.append
    )


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    run = RunDirectory(tmp_path)
    run.staging.mkdir(parents=True)
    return Batches(run, "test")


def test_only_what_is_missing_is_computed(batches: Batches) -> None:
    """A run that stops after two results leaves two; the next computes the others, in the order of the tasks."""
    first = started(Counting(), batches, [3, 1, 2], [])
    assert [next(first), next(first)] == [9, 1]
    assert isinstance(first, Generator)
    first.close()
    assert [batches.has("square", name) for name in "312"] == [True, True, False]
    workers = Counting()
    done: list[int] = []
    assert list(started(workers, batches, [3, 1, 2], done)) == [9, 1, 4]
    assert workers.tasks == [2]
    assert done == [3, 1, 2]


def test_a_step_of_one_batch_is_not_kept_nor_is_anything_in_memory(batches: Batches) -> None:
    assert list(started(Counting(), batches, [5], [])) == [25]
    assert not batches.has("square", "5")
    memory = Batches()
    assert list(started(Counting(), memory, [5, 6], [])) == [25, 36]
    assert not memory.has("square", "5")


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("kept", [0, 3])
def test_tasks_are_made_as_they_are_asked_for(batches: Batches, lasting: bool, kept: int) -> None:
    """Those of a level of a country have matrices of their own: all at once they were half of the memory."""
    store, made = batches if lasting else Batches(), 0
    held: list[int] = []
    if lasting and kept:
        assert list(started(Workers(1), store, [*range(kept), *range(90, 92)], []))[:2] == [0, 1]

    def tasks() -> Iterator[int]:
        nonlocal made
        for made in range(1, 21):
            yield made - 1

    def done(_: int) -> None:
        held.append(made - len(held))

    results = run_kept(
        Workers(1), store, "square", squared, tasks(), named=str,
        packed=lambda result: {"result": np.array(result)}, unpacked=lambda arrays: int(arrays["result"]), done=done,
    )  # fmt: skip
    assert list(results) == [number * number for number in range(20)]
    assert len(held) == 20
    assert max(held) <= 3 + kept
