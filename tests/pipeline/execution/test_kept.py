"""What is kept of a step or batch comes back as it was, for the same run, records and software alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline.execution.batch_store
from pipeline.errors import ReleaseError
from pipeline.execution.batch_store import Batches
from pipeline.execution.batches import run_kept
from pipeline.execution.perform import Checkpoints
from pipeline.execution.steps import Step
from pipeline.execution.workers import Workers
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import open_run, record_input
from pipeline.release.software import software
from postprocess.arrays import Arrays


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    with open_run(tmp_path / "run", {"spec": "1"}) as run:
        record_input(run, {"": "ab"})
        yield run


def test_arrays_come_back_from_a_file_of_the_owner_alone(directory: RunDirectory) -> None:
    arrays = {"counts": np.arange(6).reshape(2, 3), "report": np.array([0.5])}
    batches = Batches(directory)
    assert batches.lasting
    assert batches.get("estimate block", "0-3") is None
    batches.put("estimate block", "0-3", arrays)
    read = Batches(directory).get("estimate block", "0-3")
    assert read is not None
    assert set(read) == set(arrays)
    assert all((read[name] == arrays[name]).all() and read[name].dtype == arrays[name].dtype for name in arrays)
    assert not batches.has("estimate tract", "0-3")
    (path,) = directory.restricted.rglob("0-3.npz")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("lasting", [True, False])
def test_a_step_is_forgotten_alone_or_with_all_others(directory: RunDirectory, lasting: bool) -> None:
    batches = Batches(directory) if lasting else Batches()
    for step in ("combine", "estimate below tract"):
        batches.put(step, "0", {"a": np.arange(3)})
    batches.forget("combine")
    assert not batches.has("combine", "0")
    assert batches.needed("estimate below tract", "0")["a"].tolist() == [0, 1, 2]
    batches.forget()
    assert not batches.has("estimate below tract", "0")
    batches.forget()


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


def step_of(directory: RunDirectory, name: str = "one", **more: Any) -> Step:
    files = (directory.public / f"{name}.parquet",)
    return Step("estimate", lambda: None, level=name, files=files, **more)


def test_a_recorded_step_is_known_with_what_it_told(directory: RunDirectory) -> None:
    step = step_of(directory)
    assert Checkpoints(directory).notes_of(step) is None
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {"families": 3, "primal": 1e-7})
    assert Checkpoints(directory).notes_of(step) == {"families": 3, "primal": 1e-7}
    assert Checkpoints(directory).notes_of(step_of(directory, "two")) is None


def _list(step: Step, directory: RunDirectory) -> Path:
    assert step.files[0].exists()
    return directory.main.checkpoints / "steps.json"


@pytest.mark.parametrize(
    "damage",
    [
        lambda step, _: step.files[0].write_text("other"),
        lambda step, _: step.files[0].unlink(),
        lambda step, directory: _list(step, directory).write_text("{"),
        lambda step, directory: _list(step, directory).write_text(
            _list(step, directory).read_text().replace('"families": 3', '"families": 4')
        ),
    ],
    ids=["another file", "no file", "a damaged list", "another number in the list"],
)
def test_a_step_that_is_not_as_it_was_recorded_is_made_again(
    directory: RunDirectory, damage: Callable[[Step, RunDirectory], object]
) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {"families": 3})
    damage(step, directory)
    assert Checkpoints(directory).notes_of(step) is None


def test_a_step_that_prepares_is_needed_until_its_files_are_there(directory: RunDirectory) -> None:
    files = (directory.public / "one.parquet", directory.public / "two.parquet")
    prepare = Step("combine", lambda: None, prepares=files)
    for path, needed in zip(files, [True, False], strict=True):
        path.write_text(path.name)
        Checkpoints(directory).record(Step("estimate", lambda: None, level=path.name, files=(path,)), {})
        assert (Checkpoints(directory).notes_of(prepare) is None) is needed


def test_a_damaged_list_counts_as_none(directory: RunDirectory) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {})
    (directory.main.checkpoints / "steps.json").write_text("{")
    assert Checkpoints(directory).notes_of(step) is None


def test_batches_of_a_step_are_forgotten_when_its_files_are_whole(directory: RunDirectory) -> None:
    batches = Batches(directory)
    batches.put("estimate block", "0-3", {})
    batches.put("simulate", "0", {})
    step = step_of(directory, "block")
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {})
    assert not batches.has("estimate block", "0-3")
    assert batches.has("simulate", "0")


def test_what_was_told_is_checked_too(directory: RunDirectory) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {"families": 3})
    path = directory.main.checkpoints / "steps.json"
    path.write_text(path.read_text().replace('"families": 3', '"families": 4'))
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
