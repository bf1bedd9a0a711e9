"""Results come in order from any number of processes; a process that is killed is an error and never a hang."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from geography.errors import InputError
from pipeline.execution.batch_store import Batches
from pipeline.execution.workers import WorkerError, Workers, default_workers
from pipeline.release.run_directory import open_run, record_input
from postprocess.families import progress
from postprocess.families.progress import Watch


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


def test_a_worker_that_was_killed_before_a_task_is_handed_out_is_the_same_error() -> None:
    with Workers(2, start_after=0) as workers:
        assert workers._hand_out(die, 2).exception(timeout=30) is not None
        with pytest.raises(WorkerError, match=r"it was killed, or there is not enough memory"):
            workers._hand_out(die, 2)
        assert list(workers.run(os.getpgid, [0, 0])) == [os.getpgid(0)] * 2


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
    for pause in (0.0, 0.02, 0.05):
        with Workers(2, start_after=0) as workers:
            list(workers.run(slow_square, range(4)))
            first, *_ = [workers.begin(long_result, 300) for _ in range(4)]
            first()
            time.sleep(pause)
            workers.close(at_once=True)
    assert time.monotonic() - began < 60


def say(number: int) -> int:
    watch = Watch(f"family {number} {'é' * 100}")
    watch._next = 0.0  # as if it had begun long ago
    watch.at(lambda: f"step {number}")
    return os.getpid()


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_said_of_long_solutions_comes_from_whichever_process(count: int) -> None:
    heard: list[tuple[str, str]] = []
    with Workers(count, start_after=0.0, told=lambda what, where: heard.append((what, where))) as workers:
        processes = set(workers.run(say, range(6)))
    ends = time.monotonic() + 60
    while len(heard) < 6 and time.monotonic() < ends:
        time.sleep(0.02)
    assert sorted(where for _, where in heard) == [f"step {number}" for number in range(6)]
    assert all(what.startswith(f"family {where[-1]}") for what, where in heard)
    assert (os.getpid() in processes) == (count == 1)
    say(9)
    assert len(heard) == 6, "nobody listens after the block"


def test_at_least_one_worker_is_needed() -> None:
    with pytest.raises(InputError, match="workers: found 0; at least 1"):
        Workers(0)
    assert default_workers() >= 1
