"""Results come in order from any number of processes, cannot be written to, and are kept for the same run alone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import pipeline.execution.batch_store
from pipeline.errors import ReleaseError
from pipeline.execution.batch_store import Batches
from pipeline.execution.batches import run_kept
from pipeline.execution.perform import Checkpoints
from pipeline.execution.steps import Step
from pipeline.execution.workers import WorkerError, Workers
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import open_run, record_input
from pipeline.release.software import software
from postprocess.arrays import Arrays
from postprocess.families import progress


def slow_square(number: int) -> int:
    time.sleep(0.05 if number % 3 == 0 else 0.0)
    return number * number


def die(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def sleep_after_the_first(number: int) -> None:
    time.sleep(0 if number == 0 else 60)


def interrupt(_: int) -> None:
    raise KeyboardInterrupt


def threads(_: int) -> list[int]:
    from threadpoolctl import threadpool_info

    return [library["num_threads"] for library in threadpool_info()]


def long_result(megabytes: int) -> bytes:
    return bytes(megabytes << 20)


def stands_at(number: int) -> int:
    """Where an earlier task of the same number was, or -1; and keeps that it is at the square."""
    progress.WHILE = 0.0
    solution = progress.Standing("square", lambda: [np.array([number])])
    kept = solution.found()
    solution.at(lambda: {"at": np.array(number * number)})
    return -1 if kept is None else int(kept["at"])


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    with Workers(2, start_after=0) as workers:
        yield workers


@pytest.mark.parametrize("count", [1, 2])
def test_solutions_go_on_where_those_of_a_run_before_were(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "WHILE", progress.WHILE)  # what a task does to it here ends with the test
    with open_run(tmp_path / "run", {"spec": "1"}) as run:
        record_input(run, {"": "ab"})
        for expected in ([-1, -1, -1], [1, 4, 9]):
            with Workers(count, start_after=0) as workers:
                workers.kept = Batches(run)
                assert list(workers.run(stands_at, [1, 2, 3])) == expected


@pytest.mark.parametrize("count", [1, 2])
def test_results_and_progress_come_in_the_order_of_the_tasks(count: int, pool: Workers) -> None:
    workers = pool if count == 2 else Workers(1)
    done: list[int] = []
    results = list(workers.run(slow_square, range(20), done.append))
    assert results == [number * number for number in range(20)]
    assert done == list(range(20))


def test_workers_compute_with_one_thread(pool: Workers) -> None:
    assert all(count == 1 for found in pool.run(threads, range(2)) for count in found)


def test_a_killed_worker_is_a_clear_error() -> None:
    began = time.monotonic()
    with (
        Workers(2, start_after=0) as workers,
        pytest.raises(WorkerError, match=r"it was killed, or there is not enough memory"),
    ):
        list(workers.run(die, range(8)))
    assert time.monotonic() - began < 30


def test_an_interrupted_run_does_not_wait_for_its_workers() -> None:
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        list(workers.run(sleep_after_the_first, range(4), interrupt))
    assert time.monotonic() - began < 30


def test_a_begun_task_is_worked_on_elsewhere_or_when_it_is_asked_for(pool: Workers) -> None:
    """With other processes at once, without them in this one, and once."""
    list(pool.run(slow_square, range(4)))
    assert pool.started
    begun = pool.begin(os.getpgid, 0)
    assert begun() == begun()
    assert pool.begin(os.getpid)() != os.getpid()
    alone = Workers(2)
    assert not alone.started
    assert alone.begin(os.getpid)() == os.getpid()
    asked: list[int] = []
    later = alone.begin(asked.append, 3)
    assert asked == []
    later()
    later()
    assert asked == [3]


def test_a_killed_process_is_the_error_of_a_begun_task() -> None:
    with Workers(2, start_after=0) as workers:
        list(workers.run(slow_square, range(4)))
        before = workers.begin(slow_square, 4)
        assert before() == 16  # else it might be lost with the process that is killed
        begun = workers.begin(die, 2)
        after = [workers.begin(slow_square, number) for number in range(9)]
        with pytest.raises(WorkerError, match="it was killed"):
            begun()
        # A step that is tried again is not stopped by each of the others, too.
        assert [one() for one in after] == [number * number for number in range(9)]
        assert before() == 16
        assert workers.begin(slow_square, 5)() == 25


def test_a_result_that_is_half_sent_is_not_waited_for() -> None:
    """Of long results one is on its way when the processes are ended."""
    began = time.monotonic()
    for pause in (0.0, 0.02):
        with Workers(2, start_after=0) as workers:
            list(workers.run(slow_square, range(4)))
            first, *_ = [workers.begin(long_result, 100) for _ in range(4)]
            first()
            time.sleep(pause)
            workers.close(at_once=True)
    assert time.monotonic() - began < 60


@dataclass(frozen=True, eq=False)
class Doubling:
    """A task as it goes to a cluster, with an array in each place where tasks have some."""

    numbers: np.ndarray
    sparse: sp.csr_array
    by_name: dict[str, tuple[np.ndarray, ...]]

    @classmethod
    def of(cls, number: int) -> Doubling:
        numbers = np.arange(number, number + 4)
        doubling = cls(numbers[1:], sp.csr_array(np.eye(2)), {"a": (np.ones(2), np.zeros(3))})
        assert doubling.remembered.flags.writeable
        return doubling

    @cached_property
    def remembered(self) -> np.ndarray:
        return np.full(2, 7)


def doubled(task: Doubling) -> dict[str, Any]:
    """Its result; AssertionError where anything of the task can be written to."""
    assert not writeable(task)
    return {"doubled": [2 * task.numbers], "given": task.numbers}


def writing(task: Doubling) -> None:
    task.numbers[:] = 0


def writeable(task: Doubling) -> list[np.ndarray]:
    sparse, base = task.sparse, [] if task.numbers.base is None else [task.numbers.base]
    arrays = [task.numbers, *base, sparse.data, sparse.indices, sparse.indptr, *task.by_name["a"], task.remembered]
    return [array for array in arrays if array.flags.writeable]


def assert_closed(result: dict[str, Any]) -> None:
    for array in (result["doubled"][0], result.get("given", result["doubled"][0])):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("where", ["here", "processes"])
def test_tasks_and_results_are_closed_wherever_they_are_done(where: str, pool: Workers) -> None:
    workers = Workers(1) if where == "here" else pool
    tasks = [Doubling.of(number) for number in range(3)]
    for result in workers.run(doubled, tasks):
        assert_closed(result)
    assert [writeable(task) for task in tasks] == [[], [], []]
    other = Doubling.of(5)
    begun = workers.begin(doubled, other)
    assert_closed(begun())
    assert begun() is begun()
    assert writeable(other) == []
    for begin in (lambda: list(workers.run(writing, tasks)), workers.begin(writing, other)):
        with pytest.raises(ValueError, match="read-only"):
            begin()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    with open_run(tmp_path / "run", {"spec": "1"}) as run:
        record_input(run, {"": "ab"})
        yield run


@pytest.mark.parametrize("what", ["truncated", "flipped", "renamed", "empty"])
def test_a_damaged_file_does_not_count(directory: RunDirectory, what: str) -> None:
    batches = Batches(directory, "one")
    batches.put("combine", "3", {"a": np.arange(4)})
    (path,) = directory.main.checkpoints.rglob("*.npz")
    content = path.read_bytes()
    if what == "renamed":
        path.rename(path.with_name("4.npz"))
    else:
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes({"truncated": content[:-1], "flipped": flipped, "empty": b""}[what])
    assert not batches.has("combine", "3")
    assert not batches.has("combine", "4")
    with pytest.raises(ReleaseError, match="combine: part 3 among the run's checkpoints was damaged"):
        batches.needed("combine", "3")


def test_a_batch_of_another_run_records_or_software_is_not_used(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    Batches(directory).put("simulate", "0", {})
    assert Batches(directory).has("simulate", "0")
    assert not Batches(directory, "another").has("simulate", "0")
    other = software().model_copy(update={"version": "0.0.0"})
    monkeypatch.setattr(pipeline.execution.batch_store, "software", lambda: other)
    assert not Batches(directory).has("simulate", "0")


def steps_of(directory: RunDirectory) -> Path:
    return directory.main.checkpoints / "steps.json"


def another_number(_: Step, directory: RunDirectory) -> None:
    path = steps_of(directory)
    path.write_text(path.read_text().replace('"families": 3', '"families": 4'))


@pytest.mark.parametrize(
    "damage",
    [
        lambda step, _: step.files[0].write_text("other"),
        lambda step, _: step.files[0].unlink(),
        lambda _, directory: steps_of(directory).write_text("{"),
        another_number,
    ],
    ids=["another file", "no file", "a damaged list", "another number in the list"],
)
def test_a_step_that_is_not_as_it_was_recorded_is_made_again(
    directory: RunDirectory, damage: Callable[[Step, RunDirectory], object]
) -> None:
    step = Step("estimate", lambda: None, level="one", files=(directory.public / "one.parquet",))
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {"families": 3})
    assert Checkpoints(directory).notes_of(step) == {"families": 3}
    damage(step, directory)
    assert Checkpoints(directory).notes_of(step) is None


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


def started(
    workers: Workers, batches: Batches, tasks: Iterable[int], done: Callable[[int], None] = lambda _: None
) -> Iterator[int]:
    def packed(result: int) -> Arrays:
        return {"result": np.array(result)}

    def unpacked(arrays: Arrays) -> int:
        return int(arrays["result"])

    return run_kept(workers, batches, "square", squared, tasks, named=str, packed=packed, unpacked=unpacked, done=done)


def test_only_what_is_missing_is_computed(directory: RunDirectory) -> None:
    """A run that stops after two results leaves two; the next computes the others, in the order of the tasks."""
    batches = Batches(directory)
    first = started(Counting(), batches, [3, 1, 2])
    assert [next(first), next(first)] == [9, 1]
    assert isinstance(first, Generator)
    first.close()
    assert [batches.has("square", name) for name in "312"] == [True, True, False]
    workers = Counting()
    done: list[int] = []
    assert list(started(workers, batches, [3, 1, 2], done.append)) == [9, 1, 4]
    assert workers.tasks == [2]
    assert done == [3, 1, 2]


@pytest.mark.parametrize("lasting", [True, False])
@pytest.mark.parametrize("kept", [0, 3])
def test_tasks_are_made_as_they_are_asked_for(directory: RunDirectory, lasting: bool, kept: int) -> None:
    """Those of a level of a country have matrices of their own: all at once they were half of the memory."""
    store, made = Batches(directory) if lasting else Batches(), 0
    held: list[int] = []
    if lasting and kept:
        assert list(started(Workers(1), store, [*range(kept), *range(90, 92)]))[:2] == [0, 1]

    def tasks() -> Iterator[int]:
        nonlocal made
        for made in range(1, 21):
            yield made - 1

    def done(_: int) -> None:
        held.append(made - len(held))

    assert list(started(Workers(1), store, tasks(), done)) == [number * number for number in range(20)]
    assert len(held) == 20
    assert max(held) <= 3 + kept
