"""What a cluster sends back is used only where it has the form that its part has, and nothing in it is executed."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from releases.again import computed_again
from releases.small import public_bytes

from pipeline.estimation import margins
from pipeline.execution.cluster import Portable, _arrays_in
from pipeline.execution.workers import WorkerError, Workers
from pipeline.publishing.steps import perform_public_steps
from postprocess.arrays import Arrays

#: What an attacker makes of an array, by its name's ending.
SPOILT: dict[str, Callable[[Any], Any]] = {
    "classes": lambda array: array + 10**6,
    "own": lambda array: array.astype(np.float32),
    "info_precision": lambda array: array[:, :0],
    "info_covariance": lambda array: np.full_like(array, np.nan),
    "children_mean": lambda array: array[:-1],
    "children_precision": lambda array: array.astype(np.int64),
    "counts.data": lambda array: -array - 1,
    "counts.indices": lambda array: array + 10**6,
    "counts.indptr": lambda array: array[::-1].copy(),
    "counts.shape": lambda array: array * 1000,
    "variances0": lambda array: np.full_like(array, np.inf),
    "answers0": lambda array: array[:-1],
    "report": lambda _array: np.frombuffer(b'{"families": "many"}', dtype=np.uint8),
}


class Sent(Workers):
    """Works on parts here, and hands their results over as a cluster does; `change` is what happens on the way."""

    def __init__(self, change: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> None:
        super().__init__(1)
        self.change = change
        self.names: set[str] = set()

    def run(
        self, function: Callable[[Any], Any], tasks: Iterable[Any], done: Callable[[Any], None] | None = None
    ) -> Iterator[Any]:
        tasks = [*tasks]
        for task, result in zip(tasks, super().run(function, tasks, done), strict=True):
            if not isinstance(task, Portable):
                yield result
                continue
            arrays = dict(task.arrays_of(result))
            self.names |= set(arrays)
            body = io.BytesIO()
            np.savez(body, allow_pickle=False, **self.change(arrays))
            yield task.result_of(_arrays_in(body.getvalue()))


def test_results_come_back_as_they_were(town: Path, tmp_path: Path) -> None:
    with computed_again(town, tmp_path / "town", 1, 250) as job:
        sent = Sent()
        perform_public_steps(replace(job, workers=sent))
    expected = public_bytes(town)
    assert public_bytes(tmp_path / "town") == {k: v for k, v in expected.items() if not k.endswith("manifest.json")}
    assert {name.split(".", 1)[-1] if name[0].isdigit() else name for name in sent.names} >= set(SPOILT)


@pytest.mark.parametrize("ending", SPOILT)
def test_spoilt_arrays_are_refused(town: Path, tmp_path: Path, ending: str) -> None:
    def spoil(arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: SPOILT[ending](array) if name.endswith(ending) else array for name, array in arrays.items()}

    with (
        computed_again(town, tmp_path / "town", 1, 250) as job,
        pytest.raises(WorkerError, match=rf"not those of its part \((\d\.)?{ending}\)"),
    ):
        perform_public_steps(replace(job, workers=Sent(spoil)))


def test_spoilt_errors_of_simulated_runs_are_refused(town: Path, tmp_path: Path) -> None:
    """Counts may be wrong, as those of any worker; but no index leads out of an array, and no form is another."""
    with computed_again(town, tmp_path / "town", 1 << 28, 1 << 26) as job:
        seen: list[tuple[margins.Simulation, dict[str, Any]]] = []

        class Kept(Sent):
            def run(self, function: Any, tasks: Any, done: Any = None) -> Iterator[Any]:
                tasks = [*tasks]
                for task, result in zip(tasks, Workers.run(self, function, tasks, done), strict=True):
                    if isinstance(task, margins.Simulation):
                        seen.append((task, dict(task.arrays_of(result))))
                    yield result

        perform_public_steps(replace(job, workers=Kept()), last=False)
    task, arrays = seen[0]
    assert len(task.result_of(arrays)) == len(task.run.nothing)
    spoilt = [
        {**arrays, name: changed}
        for name, array in arrays.items()
        if array.size
        for changed in (array.astype(np.float32), array - 10**12)
    ]
    for some in (*spoilt, {**arrays, "x": np.zeros(1)}, dict(list(arrays.items())[1:])):
        with pytest.raises(WorkerError, match="not those of its part"):
            task.result_of(some)


@pytest.mark.parametrize("how", ["more", "fewer"])
def test_other_names_are_refused(town: Path, tmp_path: Path, how: str) -> None:
    def change(arrays: Arrays) -> dict[str, Any]:
        return {**arrays, "x": np.zeros(1)} if how == "more" else dict(list(arrays.items())[1:])

    with computed_again(town, tmp_path / "town", 1, 250) as job, pytest.raises(WorkerError, match="not those of"):
        perform_public_steps(replace(job, workers=Sent(change)))


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("form", ["pickle", "objects"])
def test_nothing_in_a_result_is_executed(tmp_path: Path, form: str) -> None:
    hostile = Hostile(tmp_path / "run")
    body = io.BytesIO()
    if form == "pickle":
        body.write(pickle.dumps(hostile))
    else:
        np.savez(body, allow_pickle=True, classes=np.array([hostile], dtype=object))
    with pytest.raises(WorkerError, match="a result that is not arrays"):
        _arrays_in(body.getvalue())
    assert not (tmp_path / "run").exists()
    pickle.loads(pickle.dumps(hostile))  # noqa: S301  # what would have happened
    assert (tmp_path / "run").exists()
