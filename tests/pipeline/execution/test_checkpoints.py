"""A step is passed over only where its files are whole, and of the same run, records and software."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.execution.batch_store import Batches
from pipeline.execution.perform import Checkpoints
from pipeline.execution.steps import Step
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import open_run, record_input


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    with open_run(tmp_path / "run", {"spec": "1"}) as run:
        record_input(run, {"": "ab"})
        yield run


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


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_file_that_is_not_whole_is_made_again(directory: RunDirectory, damage: str) -> None:
    step = step_of(directory)
    step.files[0].write_text("content")
    Checkpoints(directory).record(step, {})
    step.files[0].write_text("other") if damage == "changed" else step.files[0].unlink()
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
