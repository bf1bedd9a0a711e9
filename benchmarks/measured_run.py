"""One release in a process of its own, without an engine: what it used of processors and memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

PROJECT = Path(__file__).resolve().parent.parent
#: Seconds between two looks at the memory.
LOOK = 0.4


@dataclass(frozen=True)
class Used:
    """What a run used.

    Attributes:
        core_seconds: user and system time of all its processes.
        seconds: elapsed.
        peak_mb: most memory of all its processes at a time: resident, each shared page counted once (PSS).
    """

    core_seconds: float
    seconds: float
    peak_mb: float


def measured_run(spec: Path, out: Path, workers: int = 2, most_mb: float | None = None) -> Used:
    """Run the spec.

    Args:
        spec: the spec file.
        out: the folder in which the release's directory is made.
        workers: number of processes.
        most_mb: the run is killed if it takes more memory.

    Raises:
        RuntimeError: it failed, or was killed; the message has its last lines.
    """
    out.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    before, began, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0.0
    with (out / "stderr.txt").open("w+", encoding="utf-8") as stderr:
        command = [sys.executable, __file__, str(spec), str(out), str(workers)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=stderr)
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid) / 1e6)
            if most_mb is not None and peak > most_mb:
                process.kill()
            time.sleep(LOOK)
        if process.returncode:
            stderr.seek(0)
            raise RuntimeError(f"exit status {process.returncode}, peak {peak:.0f} MB: {stderr.read()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Used(core, time.monotonic() - began, peak)


def measured_beside_plan(spec: Path, out: Path, what: str, workers: int = 2) -> Used:
    """Run the spec; prints what it took, beside the memory that the plan says at most, after `what` and its leaves."""
    from pipeline.cost.memory import memory_of as most_memory_of
    from pipeline.inputs.geography import read_spine
    from pipeline.spec.release_spec import load_spec

    stated = load_spec(spec)
    spine = read_spine(stated.geography)
    most = most_memory_of(stated, spine, workers, engine=False).peak_mb
    used = measured_run(spec, out, workers)
    print(
        f"{what}, {spine.n_leaves:,} leaves: {used.core_seconds:.0f} core seconds, {used.seconds:.0f} s elapsed, "
        f"{used.peak_mb:.0f} MB of at most {most:.0f}",
        flush=True,
    )
    return used


def memory_of(pid: int) -> int:
    """Bytes of memory of a process and those that it has started; a page that n share counts 1/n in each."""
    try:
        process = psutil.Process(pid)
        return sum(child.memory_full_info().pss for child in [process, *process.children(recursive=True)])
    except psutil.Error:  # one has just ended
        return 0


def main() -> None:
    """Run the spec of the command line, in the process to be measured."""
    from pipeline.execution.threads import limit_threads

    limit_threads()
    from pipeline.execution.steps import Silent
    from pipeline.model.universe import promised
    from pipeline.runs.from_measurements import received_release
    from pipeline.runs.request import Request, check_request
    from pipeline.runs.run import run_release
    from pipeline.spec.release_spec import load_spec

    spec, out, workers = sys.argv[1:4]
    if not promised(load_spec(Path(spec)).universes()):
        received_release(Path(spec), Path(out), int(workers), Silent())
        return
    run_release(check_request(Request(Path(spec), Path(out), None, int(workers))), Silent())


if __name__ == "__main__":
    main()
