"""What goes wrong around a run: no space, no access, altered checkpoints, a second run, kills at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles.how_many import OF_A_VERSION
from releases.command import environment, spinewise
from releases.killed import kill_at
from releases.small import public_bytes, run

from pipeline.errors import InputError, RefusedError, ReleaseError, SpinewiseError
from pipeline.execution.batches import Batches
from pipeline.execution.steps import Silent, Step
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files
from postprocess.downward import batch as level_task


class StoppedError(Exception):
    """The test has stopped the run."""


class StoppedAt(Silent):
    """Stops a run at a step; or within it, after its second batch."""

    def __init__(self, step: str, *, within: bool = False) -> None:
        self.step, self.inside, self.now, self.batches = step, within, "", 0

    def start(self, step: Step) -> None:
        self.now = step.name
        if step.name == self.step and not self.inside:
            raise StoppedError

    def advance(self, geounits: int) -> None:  # noqa: ARG002
        if self.now == self.step and self.inside:
            self.batches += 1
            if self.batches > 2:
                raise StoppedError


class Performed(Silent):
    """Keeps which steps were performed."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def finish(self, step: Step, seconds: float | None) -> None:
        if seconds is not None:
            self.steps.append(step.name)


def stop(spec: Path, out: Path, step: str, *, within: bool = False) -> RunDirectory:
    """A run that is stopped at a step; its directory."""
    with pytest.raises(StoppedError):
        run(spec, out, progress=StoppedAt(step, within=within))
    return RunDirectory(out / "town")


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of that size; skips where none can be made."""
    folder.mkdir()
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("a file system in memory can be made by root alone")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"a file system in memory cannot be made here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)


@pytest.mark.parametrize("kilobytes", [40, 320])
def test_a_full_disk_is_told_and_the_run_goes_on_with_more(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path, kilobytes: int
) -> None:
    with small_disk(tmp_path / "disk", kilobytes) as disk:
        with pytest.raises(SpinewiseError) as error:
            run(town_spec, disk)
        told = str(error.value)
        if isinstance(error.value, RefusedError) and error.value.details.exists():
            told = error.value.details.read_text()
        assert "no space left" in told
        assert error.value.exit_status == 1
        assert not RunDirectory(disk / "town").manifest.exists()
        remount(disk, "size=20m")
        assert public_bytes(run(town_spec, disk)) == undisturbed


def test_a_read_only_file_system_is_told_and_the_run_goes_on_after(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 20_000) as disk:
        stop(town_spec, disk, "estimate tract")
        remount(disk, "ro")
        with pytest.raises((ReleaseError, InputError), match="read-only"):
            run(town_spec, disk)
        remount(disk, "rw")
        progress = Performed()
        assert public_bytes(run(town_spec, disk, progress=progress)) == undisturbed
        assert "estimate county" not in progress.steps


@pytest.mark.slow
@pytest.mark.parametrize("swapped", [False, True])
def test_altered_batches_are_computed_again_and_others_are_not(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path, swapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level_task, "BATCH_OPERATIONS", 1.0)  # a batch for each family
    directory = stop(town_spec, tmp_path, "estimate block", within=True)
    kept = sorted((directory.main.checkpoints / "batches").rglob("*.npz"))
    assert len(kept) == 2
    if swapped:
        shutil.copy(kept[0], kept[1])
        kept[0].unlink()
    read: list[bool] = []
    get = Batches.get

    def watched(self: Batches, step: str, batch: str) -> object:
        found = get(self, step, batch)
        if step == "estimate block":
            read.append(found is not None)
        return found

    monkeypatch.setattr(Batches, "get", watched)
    assert public_bytes(run(town_spec, tmp_path)) == undisturbed
    assert any(read) != swapped
    assert not list(directory.restricted.rglob("*.npz"))


_RACER = """
import sys
from pathlib import Path
from releases.small import run
from pipeline.errors import InputError
import pipeline.confidential.accuracy, cvxpy
sys.stdout.write("ready"); sys.stdout.flush()
sys.stdin.readline()
try:
    run(Path(sys.argv[1]), Path(sys.argv[2]))
except InputError as error:
    sys.stderr.write(str(error))
    sys.exit(error.exit_status)
"""


@pytest.mark.slow
def test_of_runs_started_at_once_in_one_directory_all_but_one_are_refused(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _RACER, str(town_spec), str(tmp_path)]
    pipe = subprocess.PIPE
    racers = [
        subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.read(5) == "ready"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    ended = [(racer.communicate(timeout=300)[1], racer.returncode) for racer in racers]
    assert sorted(status for _, status in ended) == [0, 2, 2]
    assert all("another process is running in" in text for text, status in ended if status)
    assert public_bytes(tmp_path / "town") == undisturbed


def assert_nothing_half_written(root: Path, *, finished: bool = False) -> None:
    directory = RunDirectory(root)
    if directory.manifest.exists():
        # It is written last: whoever finds it finds all that it lists.
        assert check_public_files(directory) == []
    assert directory.manifest.exists() >= finished
    for path in directory.public.rglob("*"):
        if path.suffix == ".parquet":
            pq.read_table(path)
        elif path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
        elif path.suffix == ".html":
            assert path.read_text("utf-8").rstrip().endswith("</html>")
        else:
            assert path.is_dir()


@pytest.mark.slow
def test_it_does_not_matter_at_which_write(town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    """A process is killed at an early write to the disk, another at a later one, and so on until one gets through."""
    number = 1
    while kill_at(town_spec, tmp_path / str(number), "sync", number):
        assert_nothing_half_written(tmp_path / str(number) / "town")
        assert public_bytes(run(town_spec, tmp_path / str(number))) == undisturbed
        assert not list(tmp_path.rglob("*.npz"))
        number += 5 if OF_A_VERSION else 37
    assert number > 100


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 7])
def test_killed_while_measurements_are_written(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path, number: int
) -> None:
    """Files of the level are begun, and none of them is where it will be; the same noise is drawn again."""
    assert kill_at(town_spec, tmp_path, "measured", number)
    left = RunDirectory(tmp_path / "town")
    assert [path for path in left.staging.rglob("*") if path.is_file()] != []
    assert_nothing_half_written(left.root)
    assert public_bytes(run(town_spec, tmp_path)) == undisturbed
    assert not left.staging.exists() or not any(left.staging.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_command_can_be_ended_at_any_time(
    town_spec: Path, undisturbed: dict[str, bytes], prefect_home: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    command = [sys.executable, "-m", "flows.cli", "run", str(town_spec), "--out", str(tmp_path)]
    variables = environment(PREFECT_HOME=str(prefect_home))
    with subprocess.Popen(command, env=variables, start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("measure units tract"):
                break
        process.send_signal(ending)
        assert process.wait(60) != 0
        rest = process.stderr.read()  # ends when Prefect's temporary server has ended too
    assert "Traceback" not in rest
    assert_nothing_half_written(tmp_path / "town", finished=False)
    time.sleep(1)
    shown = spinewise("run", town_spec, "--out", tmp_path, PREFECT_HOME=str(prefect_home))
    assert shown.returncode == 0, shown.stderr
    assert public_bytes(tmp_path / "town") == undisturbed
