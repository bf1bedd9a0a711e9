"""A step is passed over only where its files are whole, and of the same run, records and software."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import flows.execution.checkpoints
from flows.execution.checkpoints import Batches, Checkpoints
from flows.execution.steps import Step
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import open_run, record_input


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    with open_run(tmp_path / "run", {"spec": "1"}) as run:
        record_input(run, {"": "ab"})
        yield run


def step_of(directory: RunDirectory, name: str = "one", **more: tuple[Path, ...]) -> Step:
    files = (directory.public / f"{name}.parquet",)
    return Step("estimate", lambda: None, level=name, files=files, **more)


def test_a_recorded_step_is_known_with_what_it_told(directory: RunDirectory) -> None:
    step = step_of(directory)
    assert Checkpoints(directory).notes_of(step) is None
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {"families": 3, "primal": 1e-7})
    assert Checkpoints(directory).notes_of(step) == {"families": 3, "primal": 1e-7}
    assert Checkpoints(directory).notes_of(step_of(directory, "two")) is None


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_file_that_is_not_whole_is_made_again(directory: RunDirectory, damage: str) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {})
    step.files[0].write_text("other") if damage == "changed" else step.files[0].unlink()
    assert Checkpoints(directory).notes_of(step) is None


def test_other_software_starts_again(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {})
    other = flows.execution.checkpoints.software().model_copy(update={"version": "0.0.0"})
    monkeypatch.setattr(flows.execution.checkpoints, "software", lambda: other)
    assert Checkpoints(directory).notes_of(step) is None


def test_a_step_that_prepares_is_needed_until_its_files_are_there(directory: RunDirectory) -> None:
    files = (directory.public / "one.parquet", directory.public / "two.parquet")
    prepare = Step("combine", lambda: None, prepares=files)
    for path, needed in zip(files, [True, False], strict=True):
        path.write_text(path.name)
        Checkpoints(directory).record(Step("estimate", lambda: None, level=path.name, files=(path,)), {})
        assert (Checkpoints(directory).notes_of(prepare) is None) is needed


def test_a_step_without_files_is_always_performed(directory: RunDirectory) -> None:
    step = Step("charge", lambda: None)
    Checkpoints(directory).record(step, {})
    assert Checkpoints(directory).notes_of(step) is None


def test_a_damaged_list_counts_as_none(directory: RunDirectory) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {})
    (directory.main.checkpoints / "steps.json").write_text("{")
    assert Checkpoints(directory).notes_of(step) is None


def test_the_arrays_of_a_batch_come_back_until_they_are_forgotten(directory: RunDirectory) -> None:
    arrays = {"counts": np.arange(6).reshape(2, 3), "report": np.array([0.5])}
    batches = Batches(directory)
    assert batches.get("estimate block", "0-3") is None
    batches.put("estimate block", "0-3", arrays)
    batches.put("simulate", "0", {})
    found = Batches(directory).get("estimate block", "0-3")
    assert found is not None
    assert set(found) == set(arrays)
    assert all((found[name] == arrays[name]).all() and found[name].dtype == arrays[name].dtype for name in arrays)
    assert batches.get("estimate tract", "0-3") is None
    (path,) = (path for path in directory.restricted.rglob("0-3.npz"))
    assert path.stat().st_mode & 0o777 == 0o600
    step = step_of(directory, "block")
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {})
    assert batches.get("estimate block", "0-3") is None, "the step's files are whole"
    assert batches.get("simulate", "0") == {}
    batches.forget()
    assert batches.get("simulate", "0") is None


def test_a_batch_of_another_run_records_or_software_is_not_used(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    Batches(directory).put("simulate", "0", {})
    other = flows.execution.checkpoints.software().model_copy(update={"version": "0.0.0"})
    monkeypatch.setattr(flows.execution.checkpoints, "software", lambda: other)
    assert Batches(directory).get("simulate", "0") is None


def test_what_was_told_is_checked_too(directory: RunDirectory) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {"families": 3})
    path = directory.main.checkpoints / "steps.json"
    path.write_text(path.read_text().replace('"families": 3', '"families": 4'))
    assert Checkpoints(directory).notes_of(step) is None
