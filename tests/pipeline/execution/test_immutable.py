"""What is immutable cannot be written to, wherever in a value its arrays are, nor through what they are views of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.execution.batch_store import Batches
from pipeline.execution.cluster import _arrays_in, _write, work_on
from pipeline.execution.immutable import immutable
from pipeline.execution.workers import Workers
from pipeline.release.layout import RunDirectory
from postprocess.arrays import Arrays


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

    def packed(self) -> Doubling:
        return self

    def arrays_of(self, result: dict[str, Any]) -> Arrays:
        return {"doubled": result["doubled"][0]}

    def result_of(self, arrays: Arrays) -> dict[str, Any]:
        return {"doubled": [arrays["doubled"]]}


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


@pytest.fixture(scope="module")
def pool() -> Iterator[Workers]:
    with Workers(2, start_after=0) as workers:
        yield workers


def test_every_array_of_a_value_is_closed_and_its_numbers_are_kept() -> None:
    task = Doubling.of(3)
    assert len(writeable(task)) == 8
    assert immutable(task) is task
    assert writeable(task) == []
    assert task.numbers.tolist() == [4, 5, 6]


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


@pytest.mark.parametrize("lasting", [False, True])
def test_results_that_are_kept_are_closed(tmp_path: Path, *, lasting: bool) -> None:
    run = RunDirectory(tmp_path)
    run.staging.mkdir(parents=True)
    batches = Batches(run, "test") if lasting else Batches()
    arrays = {"one": np.ones(3)}
    batches.put("step", "1", arrays)
    for kept in (batches.needed("step", "1"), *([] if lasting else [arrays])):
        assert not kept["one"].flags.writeable
    found = batches.get("step", "1")
    assert isinstance(found, dict)
    found.clear()  # what was got is the caller's own
    assert batches.needed("step", "1")["one"].tolist() == [1, 1, 1]


def test_parts_of_a_cluster_are_closed_there_and_when_they_come_back(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed.protocol", reason="the extra `dask` is not installed")
    place = str(tmp_path / "part")
    digest = _write(f"{place}.task", distributed.pickle.dumps(Doubling.of(4)))
    work_on(f"{__name__}:doubled", place, digest)
    arrays = _arrays_in(Path(f"{place}.result").read_bytes())
    assert arrays["doubled"].tolist() == [10, 12, 14]
    assert not arrays["doubled"].flags.writeable
