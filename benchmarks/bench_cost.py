"""What runs cost, foretold and used: a grid of synthetic runs to fit the planner's model on, and others to test it on.

    python benchmarks/bench_cost.py [--measure PATH] [--only NAME ...] [--fit PATH] [--test PATH]

`--measure` runs what PATH (JSON lines) does not have yet; `--fit` prints the constants that fit the runs of the first
grid best; `--test` compares the model as it stands with all runs, and fails where it is further off than a factor of
1.5. Core seconds are user and system time of all processes, memory the most that all of them have at a time (PSS): a
busy machine makes the first somewhat larger and leaves the second alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measured_run import measured_run
from scipy.optimize import nnls
from synthetic_spine import Shape, leaf_codes, spec_text, write_population

from flows.plan import cost as cost_model
from flows.plan.cost import Cost, cost_of
from flows.plan.size import Size
from pipeline.inputs.geography import read_spine
from pipeline.spec.release_spec import load_spec

#: The factor that foretold and used may be apart.
ALLOWED = 1.5

#: Runs that the model is fitted on, and their numbers of workers.
FIT = (
    (Shape("two-cells", (1, 100), (2,)), 1),
    (Shape("ages", (1, 10, 100, 500), (91,), groups=19, people=1000), 1),
    (Shape("margins-16", (1, 30, 300, 3000), (2, 8), replicates=3), 1),
    (Shape("pl94-small", (1, 5, 50, 300), (7, 9, 32)), 1),
    (Shape("ages-alone", (1, 10, 200, 1000), (91,), people=1000), 2),
    (Shape("margins-ages", (1, 10, 40, 200), (91,), groups=19, people=1000, replicates=3), 2),
    (Shape("many-leaves", (1, 30, 900, 40000), (2,)), 2),
    (Shape("sixteen-cells", (1, 5, 100, 1000, 8000), (2, 8)), 2),
    (Shape("eight-levels", (1, 2, 8, 30, 120, 500, 1500, 3000), (2, 8)), 1),
    (Shape("margins-pl94", (1, 10, 100), (7, 9, 32), replicates=2), 2),
    (Shape("three-hundred", (1, 10, 60, 500), (10, 30)), 2),
    (Shape("ages-more", (1, 10, 40, 400, 2000), (91,), groups=19, people=1000), 1),
    (Shape("selection", (1, 30, 300, 2000), (2, 8), selections=True, unbiased=True), 2),
    (Shape("pl94", (1, 10, 100, 1000), (7, 9, 32)), 2),
)
#: Runs that it is tested on.
TEST = (
    (Shape("test-40", (1, 3, 30, 200, 700, 2000), (5, 8)), 1),
    (Shape("test-ages", (1, 10, 100, 1000), (91,), groups=19, people=1000), 2),
    (Shape("test-margins-16", (1, 5, 500, 4000), (2, 8), replicates=2), 2),
    (Shape("test-pl94-two-levels", (1, 100), (7, 9, 32)), 1),
    (Shape("test-600", (1, 20, 300), (20, 30)), 2),
    (Shape("test-margins-ages", (1, 10, 80, 320), (91,), groups=19, people=1000, replicates=2), 1),
    (Shape("test-selection", (1, 40, 3000), (8,), selections=True), 2),
    (Shape("test-15000", (1, 10, 1000, 15000), (2, 8)), 2),
    (Shape("test-pl94", (1, 25, 500), (7, 9, 32)), 2),
    (Shape("test-200000", (1, 100, 4000, 200000), (2,)), 2),
)


def measure(path: Path, only: list[str]) -> None:
    """Run what the file does not have; one line of JSON a run."""
    done = {json.loads(line)["name"] for line in path.read_text().splitlines()} if path.exists() else set()
    for shape, workers in [pair for both in zip_longest(FIT, TEST) for pair in both if pair is not None]:
        if shape.name in done or (only and shape.name not in only):
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            used = measured_run(write_population(folder, shape), folder / "out", workers, most_mb=4000)
        row = {"name": shape.name, "workers": workers} | vars(used)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


def foretold(shape: Shape, workers: int) -> tuple[Cost, Size]:
    """What the model says of a run without an engine, and the size that it says it by."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        codes = leaf_codes(shape.geounits, np.random.default_rng([1, 1]))
        pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
        (folder / "release.toml").write_text(spec_text(shape), encoding="utf-8")
        spec = load_spec(folder / "release.toml")
        spine = read_spine(spec.geography)
        return cost_of(spec, spine, workers, engine=False), Size.of(spec.universes()[0], spine)


def compare(path: Path) -> float:
    """Print foretold and used of every run; the largest factor between them in a run of the second grid."""
    used = {row["name"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    worst = 1.0
    for grid, runs in (("fit", FIT), ("test", TEST)):
        for shape, workers in runs:
            if shape.name not in used:
                continue
            cost, _ = foretold(shape, workers)
            row = used[shape.name]
            pairs = ((cost.core_seconds, row["core_seconds"]), (cost.peak_mb, row["peak_mb"]))
            factors = [max(predicted / real, real / predicted) for predicted, real in pairs]
            worst = max(worst, *factors) if grid == "test" else worst
            numbers = ", ".join(f"{predicted:.1f} / {real:.1f}" for predicted, real in pairs)
            print(f"{grid} {shape.name} {shape.geounits} x {shape.cells}, {workers} workers: {numbers} (s, MB)")
    return worst


def fit(path: Path) -> None:
    """Print the constants that make the largest relative errors over the first grid small, none of them negative."""
    used = {row["name"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    seconds, memory, core, peak = [], [], [], []
    for shape, workers in FIT:
        if shape.name not in used:
            continue
        size = foretold(shape, workers)[1]
        passes = 1 + cost_model.REPLICATE * shape.replicates
        work = [size.geounits, size.measured, size.squares, size.cubes]
        begun = float(workers if workers > 1 else 0)
        seconds.append([1.0, begun, *(passes * term for term in work), size.published, size.n_checked, size.checked])
        core.append(used[shape.name]["core_seconds"])
        memory.append(
            [
                1.0,
                workers - 1.0,
                size.geounits,
                size.measured,
                size.filled,
                size.above,
                size.matrices,
                workers * size.batch,
            ]
        )
        peak.append(used[shape.name]["peak_mb"])
    for names, rows, values in (
        (
            "START WORKER_START PER_GEOUNIT PER_NUMBER PER_SQUARE PER_CUBE PER_PUBLISHED CHECK PER_CHECKED",
            seconds,
            core,
        ),
        ("MAIN WORKER GEOUNIT MEASURED FILLED ABOVE MATRIX BATCH (MB)", memory, peak),
    ):
        real = np.array(values)
        constants = nnls(np.array(rows) / real[:, None], np.ones(len(real)))[0]
        print(names, " ".join(f"{term:.3g}" for term in constants))


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--fit", type=Path)
    parser.add_argument("--test", type=Path)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measure(arguments.measure, arguments.only)
    if arguments.fit is not None:
        fit(arguments.fit)
    if arguments.test is not None and (worst := compare(arguments.test)) > ALLOWED:
        raise SystemExit(f"the model is off by a factor of {worst:.2f}; {ALLOWED} is allowed")


if __name__ == "__main__":
    main()
