"""Batches whose results are kept as they come, so that a run that is killed in the middle of a level resumes there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from pipeline.execution.batch_store import Batches
from pipeline.execution.immutable import immutable
from pipeline.execution.workers import Workers
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
    tasks = [*tasks]
    if not batches.lasting or len(tasks) < 2:
        yield from workers.run(function, tasks, done)
        return
    kept = [batches.get(step, named(task)) for task in tasks]
    missing = [task for task, arrays in zip(tasks, kept, strict=True) if arrays is None]
    computed = workers.run(function, missing, done)
    for task, arrays in zip(tasks, kept, strict=True):
        if arrays is not None:
            done(task)
            yield immutable(unpacked(arrays))
        else:
            result = next(computed)
            batches.put(step, named(task), packed(result))
            yield result
