"""What was put for a batch comes back as it was, and only for the same step, batch, run, records and software."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pipeline.execution.batch_store
from pipeline.errors import ReleaseError
from pipeline.execution.batch_store import Batches
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import open_run, record_input
from pipeline.release.software import software


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
