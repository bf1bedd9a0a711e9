"""What a small run costs: CPU seconds and peak memory of all its processes, with Prefect and without.

    python benchmarks/bench_small_run.py [--repeat 3] [--json PATH]

64 geounits and 5,000 records, of which the release itself takes a fraction of a second. The rest is the fixed cost of
each run: Python, imports, Prefect and its temporary server, worker processes, the report. Each command runs in
processes of its own; what counts is the user and system time of all of them, also of those that outlive the command
that started them. Elapsed time is not compared: it depends on what else the machine does. So do CPU seconds, though
less; hence two yardsticks are measured in the same run, an empty flow of Prefect with a temporary server of its own,
and the imports that no release can do without. The least of `--repeat` rounds counts. The limits hold on a machine
that does nothing else.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

#: Counties, tracts of a county, blocks of a tract: 4 + 12 + 48 = 64 geounits.
AREAS = (4, 3, 4)
PEOPLE = 5_000
#: CPU seconds that a run may take.
LIMITS = {"run": 7.0, "run --no-prefect": 2.0}
#: Number of prctl (Linux): processes whose parents have ended become children of this one, which sees what they used.
PR_SET_CHILD_SUBREAPER = 36

SPEC = """name = "small"
[privacy]
rho = "2"
[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 2, block = 3 }
[schema.attributes]
age = ["child", "adult", "old"]
sex = ["female", "male"]
[strategy.queries]
total = "1/2"
detailed = "1/2"
[strategy.levels]
county = "1/2"
tract = "1/4"
block = "1/4"
[tables]
age = { query = "age", levels = ["county", "block"] }
[input]
file = "persons.csv"
form = "microdata"
geocode = "block"
"""
FLOW = """
from flows.orchestration.server import set_up_prefect
set_up_prefect()
from prefect import flow
@flow
def nothing() -> None:
    pass
nothing()
"""


@dataclass(frozen=True)
class Cost:
    """What a command and all processes that it started took.

    Attributes:
        cpu_seconds: user and system time.
        peak_mb: the most proportional memory (shared pages counted once) of all processes together, seen every 50 ms.
    """

    cpu_seconds: float
    peak_mb: float


def write_case(folder: Path) -> Path:
    """Spec, areas and records; the path of the spec."""
    counties, tracts, blocks = AREAS
    codes = [f"{c}{t}{b}" for c in range(counties) for t in range(tracts) for b in range(blocks)]
    rng = np.random.default_rng(13)
    pd.DataFrame({"block": codes}).to_csv(folder / "blocks.csv", index=False)
    persons = {
        "block": rng.choice(codes, PEOPLE),
        "age": rng.choice(["child", "adult", "old"], PEOPLE),
        "sex": rng.choice(["female", "male"], PEOPLE),
    }
    pd.DataFrame(persons).to_csv(folder / "persons.csv", index=False)
    spec = folder / "release.toml"
    spec.write_text(SPEC)
    return spec


def adopt_orphans() -> None:
    """Count processes that outlive those that started them."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    """Run a command to its end; RuntimeError where it fails."""
    environment = {**os.environ, "PREFECT_HOME": str(folder / "prefect"), "HOME": str(folder)}
    for name in ("PREFECT_API_URL", "SPINEWISE_CONFIG"):
        environment.pop(name, None)
    before = os.times()
    peak = 0.0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.05):
            peak = max(peak, memory_of_all(process.pid))

    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    ended.set()
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {process.returncode}\n{output.decode()}")
    reap_orphans()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(round(used, 2), round(peak / 2**20))


def memory_of_all(process: int) -> float:
    """Proportional memory of a process and all below it, in bytes."""
    total = 0.0
    try:
        below = [psutil.Process(process), *psutil.Process(process).children(recursive=True)]
    except psutil.Error:
        return total
    for one in below:
        try:
            total += one.memory_full_info().pss
        except (psutil.Error, AttributeError):
            continue
    return total


def reap_orphans() -> None:
    """Wait until all processes that we have adopted have ended, for a minute at most."""
    last = time.monotonic() + 60
    while time.monotonic() < last:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            return
    raise RuntimeError("a process outlives the command that started it by more than a minute")


def measure(folder: Path) -> dict[str, Cost]:
    """One round: name of what was run -> its cost."""
    spec = str(write_case(folder))
    command = [sys.executable, "-m", "flows.entry"]

    def run(out: str, *more: str) -> Callable[[], Cost]:
        return lambda: cost_of([*command, "run", spec, "--out", str(folder / out), *more], folder)

    runs: dict[str, Callable[[], Cost]] = {
        "imports": lambda: cost_of([sys.executable, "-c", "import numpy, scipy, pandas, pyarrow"], folder),
        "empty flow": lambda: cost_of([sys.executable, "-c", FLOW], folder),
        "run": run("with"),
        "run, again": run("with"),
        "run --no-prefect": run("without", "--no-prefect"),
        "run --no-prefect, again": run("without", "--no-prefect"),
    }
    return {name: measure_one() for name, measure_one in runs.items()}


def least(rounds: Sequence[dict[str, Cost]]) -> dict[str, Cost]:
    """Of each figure the least of all rounds."""
    return {
        name: Cost(min(one[name].cpu_seconds for one in rounds), min(one[name].peak_mb for one in rounds))
        for name in rounds[0]
    }


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="rounds, of which the least counts")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    adopt_orphans()
    rounds = []
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory() as name:
            rounds.append(measure(Path(name)))
    costs = least(rounds)
    if options.json is not None:
        options.json.write_text(json.dumps({name: asdict(cost) for name, cost in costs.items()}, indent=2) + "\n")
    imports, flow = costs["imports"].cpu_seconds, costs["empty flow"].cpu_seconds
    print(f"{'':<26}{'CPU s':>8}{'peak MB':>9}{'of imports':>12}{'of empty flow':>15}{'limit':>8}")
    for name, cost in costs.items():
        limit = f"{LIMITS[name]:g}" if name in LIMITS else ""
        ratios = f"{cost.cpu_seconds / imports:>12.2f}{cost.cpu_seconds / flow:>15.2f}"
        print(f"{name:<26}{cost.cpu_seconds:>8.2f}{cost.peak_mb:>9,.0f}{ratios}{limit:>8}")


if __name__ == "__main__":
    main()
