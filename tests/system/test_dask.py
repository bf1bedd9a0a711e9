"""A release whose parts are worked on by a real Dask cluster: the same bytes, also when a worker is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from releases.command import spinewise
from releases.small import public_bytes, write_town

from geography.errors import InputError
from pipeline.execution.cluster import _read, _write
from pipeline.execution.steps import Silent, Step
from pipeline.runs.request import Engine, Request, check_request
from pipeline.runs.run import run_release

if TYPE_CHECKING:
    from distributed import LocalCluster

distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two worker processes with a memory limit each, and their scheduler on the loopback interface."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=None, processes=True
    ) as cluster:
        yield cluster


def test_the_command_gives_the_same_bytes_and_leaves_nothing_behind(
    cluster: LocalCluster, town_spec: Path, tmp_path: Path, prefect_home: Path, undisturbed: dict[str, bytes]
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = spinewise(
        *("run", town_spec, "--out", tmp_path, "--scheduler", cluster.scheduler_address),
        *("--scratch", f"file://{scratch}"),
        PREFECT_HOME=str(prefect_home),
    )
    assert done.returncode == 0, done.stderr
    assert public_bytes(tmp_path / "town") == undisturbed
    assert not list(scratch.iterdir())


class Reaper(Silent):
    """Kills one worker when the first part of the step below the cut is done."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.step = ""
        self.killed = 0

    def start(self, step: Step) -> None:
        self.step = step.name

    def advance(self, _: int) -> None:
        if self.step.startswith("estimate below") and not self.killed:
            self.killed = next(iter(self.cluster.workers.values())).process.process.pid
            os.kill(self.killed, signal.SIGKILL)


def test_a_worker_that_is_killed_in_the_middle_does_not_show(
    cluster: LocalCluster, town_spec: Path, tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    engine = Engine(cluster.scheduler_address)
    reaper = Reaper(cluster)
    root = run_release(check_request(Request(town_spec, tmp_path, None, 1, engine=engine)), reaper)
    assert reaper.killed
    assert public_bytes(root) == undisturbed


def test_what_cannot_be_is_refused_before_anything_is_begun(cluster: LocalCluster, tmp_path: Path) -> None:
    """A scheduler that is not there, and a scratch folder in a memory that other processes do not see."""
    spec = write_town(tmp_path / "in")
    done = spinewise("run", spec, "--out", tmp_path / "out", "--scratch", "memory://scratch", "--no-prefect")
    assert (done.returncode, (tmp_path / "out").exists()) == (2, False)
    assert "--scratch is for a Dask cluster" in done.stderr
    for engine, message in (
        (Engine("tcp://127.0.0.1:1"), "no Dask scheduler answers there"),
        (Engine(cluster.scheduler_address, "memory://scratch"), "cannot read what is written there"),
    ):
        with pytest.raises(InputError, match=message):
            run_release(check_request(Request(spec, tmp_path, None, 1, engine=engine)), Silent())


def test_a_file_that_was_changed_on_the_way_is_not_opened(tmp_path: Path) -> None:
    place = str(tmp_path / "one.task")
    digest = _write(place, b"a task")
    assert _read(place, digest) == b"a task"
    Path(place).write_bytes(b"other")
    with pytest.raises(OSError, match="is not what was written there"):
        _read(place, digest)
