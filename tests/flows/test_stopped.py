"""A service manager's SIGTERM ends a run with a word and the usual status; the limits of a machine are told as such."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from releases.command import environment
from releases.small import QUICK, write_town


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "engine", [["--no-prefect"], pytest.param([], marks=pytest.mark.slow)], ids=["here", "prefect"]
)
def test_a_run_that_is_terminated_says_so_and_that_it_can_go_on(engine: list[str], tmp_path: Path) -> None:
    spec = write_town(tmp_path, *QUICK)
    command = [sys.executable, "-m", "flows.cli", "run", str(spec), "--out", str(tmp_path / "out"), *engine]
    run = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stderr is not None
    first = run.stderr.readline()  # of the first step that has ended
    assert "tabulate" in first
    run.send_signal(signal.SIGTERM)
    _, rest = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM
    assert rest.strip().splitlines()[-1] == "stopped; the same command resumes"
    assert rest.count("stopped") == 1
    assert "Traceback" not in rest


@pytest.mark.parametrize("files", [6, 16])
def test_a_limit_on_open_files_is_told(files: int, tmp_path: Path) -> None:
    spec = write_town(tmp_path, *QUICK)
    done = limited(
        resource.RLIMIT_NOFILE, files, "run", spec, "--out", tmp_path / "out", "--no-prefect", "--workers", 2
    )
    assert done.returncode == 1, done.stderr
    told = done.stderr.strip().splitlines()[-1]
    assert told.startswith(f"Error: too many open files: at most {files} can be; ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("megabytes", [60, 456, 750])
def test_too_little_memory_for_the_libraries_is_told(megabytes: int, tmp_path: Path) -> None:
    """At some of these OpenBLAS, where it is loaded, asks for memory without end."""
    spec = write_town(tmp_path, *QUICK)
    done = limited(resource.RLIMIT_AS, megabytes << 20, "run", spec, "--out", tmp_path / "out", "--no-prefect")
    assert done.returncode == 1, done.stderr
    need = 920 + 84 * (min(os.cpu_count() or 1, 64) - 1)
    assert done.stderr.startswith(
        f"Error: not enough memory: a process may have {megabytes} MB (ulimit -v), and {need:,} "
    )


def limited(limit: int, most: int, *words: object) -> subprocess.CompletedProcess[str]:
    """The command where this limit is set."""
    command = [sys.executable, "-m", "flows.entry", *map(str, words)]
    return subprocess.run(
        command,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(limit, (most, most)),
    )
