"""Batches whose results are kept as they come, so that a run that is killed in the middle of a level resumes there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from pipeline.execution.batch_store import Batches
from pipeline.execution.immutable import immutable
from pipeline.execution.workers import Workers, begun
from postprocess.arrays import Arrays

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
