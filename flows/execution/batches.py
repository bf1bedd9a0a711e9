"""Batches whose results are kept as they come, so that a run that is killed in the middle of a level goes on there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from flows.execution.checkpoints import Arrays, Batches
from flows.execution.workers import Workers
from postprocess.downward.level import SolverReport
from postprocess.downward.simulated_margins import ErrorCounts

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_kept(
    workers: Workers,
    batches: Batches | None,
    step: str,
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    named: Callable[[Task], str],
    packed: Callable[[Result], Arrays],
    unpacked: Callable[[Arrays], Result],
    done: Callable[[Task], None],
) -> Iterator[Result]:
    """As `Workers.run`, but a result that an interrupted run has left is not computed again.

    A step of one batch is kept as the files that it writes, and not here.

    Args:
        batches: where results are kept; None if they are not.
        step: its name.
        named: the name of a task's batch, the same in every run.
        packed, unpacked: a result as arrays, and back.
        done: called with each task, in order.
    """
    if batches is None or len(tasks) < 2:
        yield from workers.run(function, tasks, done)
        return
    kept = [batches.get(step, named(task)) for task in tasks]
    computed = workers.run(function, [task for task, one in zip(tasks, kept, strict=True) if one is None], done)
    for task, one in zip(tasks, kept, strict=True):
        if one is not None:
            done(task)
            yield unpacked(one)
        else:
            result = next(computed)
            batches.put(step, named(task), packed(result))
            yield result


def packed_level(result: tuple[sp.csr_array, SolverReport]) -> Arrays:
    """The whole-number histograms of a batch of families, and what the solvers did."""
    counts, report = result
    return {**_packed_csr("counts", counts), "report": _text(asdict(report))}


def unpacked_level(arrays: Arrays) -> tuple[sp.csr_array, SolverReport]:
    """What `packed_level` packed."""
    return _unpacked_csr("counts", arrays), SolverReport(**json.loads(arrays["report"].tobytes()))


def packed_errors(result: list[ErrorCounts]) -> Arrays:
    """The errors of one simulated run, table by table."""
    arrays = {"tables": np.array(len(result))}
    for number, errors in enumerate(result):
        arrays |= _packed_csr(f"small{number}", errors.small)
        arrays |= {f"large{number}": errors.large, f"unit{number}": np.array(errors.unit)}
    return arrays


def unpacked_errors(arrays: Arrays) -> list[ErrorCounts]:
    """What `packed_errors` packed."""
    return [
        ErrorCounts(_unpacked_csr(f"small{number}", arrays), arrays[f"large{number}"], int(arrays[f"unit{number}"]))
        for number in range(int(arrays["tables"]))
    ]


def _packed_csr(name: str, matrix: sp.csr_array) -> dict[str, np.ndarray]:
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    return {f"{name}.{part}": values for part, values in parts.items()}


def _unpacked_csr(name: str, arrays: Arrays) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = arrays[f"{name}.shape"].tolist()
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _text(content: object) -> np.ndarray:
    return np.frombuffer(json.dumps(content, sort_keys=True).encode(), dtype=np.uint8)
