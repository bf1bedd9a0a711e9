"""What runs cost, foretold and used: a grid of synthetic runs to fit the planner's model on, and others to test it on.

    python benchmarks/bench_cost.py [--measure PATH] [--only NAME ...] [--fit PATH] [--test PATH] [--levels]

`--measure` runs what PATH (JSON lines) does not have yet; `--fit` prints the constants that fit the seconds of the runs
of the first grid best; `--test` compares the model as it stands with all runs, and fails where its seconds are further
off than a factor of 1.5, or a run took more memory than it says. `--levels` runs as many areas on one level and on
four, and fails where one level takes twice as long. Core seconds are user and system time of all processes, memory the
most that all of them have at a time (PSS): a busy machine makes the first somewhat larger and leaves the second alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_release import DATA, EXAMPLES
from bench_release import spec_text as release_text
from measured_run import measured_run
from numpy.typing import NDArray
from scipy.optimize import least_squares
from synthetic_spine import Shape, leaf_codes, spec_text, write_population

from geography.spine import Spine
from pipeline.cost import model as cost_model
from pipeline.cost.model import cost_of, sizes_of
from pipeline.cost.size import Size
from pipeline.inputs.geography import read_spine
from pipeline.spec.release_spec import ReleaseSpec, load_spec

#: The factor that foretold and used may be apart.
ALLOWED = 1.5
#: As many areas on one level and on four, with intervals, and what the first may take of the second's core seconds.
ONE_LEVEL = Shape("one-level", (35_672,), (5,), people=200, replicates=20)
FOUR_LEVELS = Shape("four-levels", (1, 79, 2_378, 35_672), (5,), people=200, replicates=20)
MOST_OF_FOUR = 2.0

#: Constants of the model that the runs determine.
SECONDS = (
    "START",
    "WORKER_START",
    "PER_GEOUNIT",
    "PER_SQUARE",
    "PER_CUBE",
    "CHECK",
    "PER_CHECKED",
    "REPLICATE",
    "PER_SIMULATED",
    "PER_USE",
    "PER_COUNTED",
    "SIMULATED",
)
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


#: Real releases, where their records are there: spec of examples/, simulated runs; all with two workers.
REAL_FIT = (("ri_pl94", 0), ("ri_pl94", 20))
REAL_TEST = (("ri_2010", 0), ("ri_2010", 20))


@dataclass(frozen=True)
class Run:
    """A run to be measured.

    Attributes:
        name: of the run; `about`: its geounits and cells.
        spec: its text, with files relative to the folder that it is written to.
        shape: of what is made up; None for real records.
        workers: number of processes.
        test: whether the model is tested on it, and not fitted.
    """

    name: str
    about: str
    spec: str
    shape: Shape | None
    workers: int
    test: bool

    def spec_in(self, folder: Path, *, population: bool) -> Path:
        """The spec file, with the leaves beside it and, if wanted, the records."""
        if self.shape is not None and population:
            return write_population(folder, self.shape)
        if self.shape is not None:
            codes = leaf_codes(self.shape.geounits, np.random.default_rng([1, 1]))
            pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
        path = folder / "release.toml"
        path.write_text(self.spec, encoding="utf-8")
        return path


def runs() -> list[Run]:
    """All runs: made-up ones of both grids by turns, then the real ones."""
    made = [
        Run(shape.name, f"{shape.geounits} x {shape.cells}", spec_text(shape), shape, workers, test=test)
        for pair in zip_longest(((run, False) for run in FIT), ((run, True) for run in TEST))
        for (shape, workers), test in (each for each in pair if each is not None)
    ]
    real = []
    for names, test in ((REAL_FIT, False), (REAL_TEST, True)):
        for name, replicates in names if DATA.is_dir() else ():
            text = release_text(name, key=1, estimator="full", margins=replicates > 0)
            real.append(Run(f"{name}-{replicates}", f"examples/{EXAMPLES[name]}", text, None, 2, test=test))
    return made + real


def measure(path: Path, only: list[str]) -> None:
    """Run what the file does not have; one line of JSON a run."""
    done = {json.loads(line)["name"] for line in path.read_text().splitlines()} if path.exists() else set()
    for run in runs():
        if run.name in done or (only and run.name not in only):
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            used = measured_run(run.spec_in(folder, population=True), folder / "out", run.workers, most_mb=8000)
        row = {"name": run.name, "workers": run.workers} | vars(used)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


def ratio_of_levels() -> float:
    """Core seconds of areas on one level, as a share of those of as many on four."""
    seconds = []
    for shape in (ONE_LEVEL, FOUR_LEVELS):
        with tempfile.TemporaryDirectory() as place:
            used = measured_run(write_population(Path(place), shape), Path(place) / "out")
        print(f"{shape.name}: {used.core_seconds:.1f} core seconds, {used.peak_mb:.0f} MB", flush=True)
        seconds.append(used.core_seconds)
    return seconds[0] / seconds[1]


def compare(path: Path) -> float:
    """Print predicted and used of every run; the largest factor between seconds in a run of the second grid.

    Infinite where one took more memory than the bound.
    """
    used = {row["name"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    worst = 1.0
    for run in sorted(runs(), key=lambda each: each.test):
        if run.name not in used:
            continue
        spec, spine, sizes = _stated(run)
        cost = cost_of(spec, spine, run.workers, sizes=sizes, engine=False)
        row = used[run.name]
        pairs = ((cost.core_seconds, row["core_seconds"]), (cost.peak_mb, row["peak_mb"]))
        (predicted, real), (bound, peak) = pairs
        factor = max(predicted / real, real / predicted)
        if run.test:
            worst = max(worst, factor if peak <= bound else np.inf)
        numbers = ", ".join(f"{predicted:.1f} / {real:.1f}" for predicted, real in pairs)
        grid = "test" if run.test else "fit"
        print(
            f"{grid} {run.name} {run.about}, {run.workers} workers: {numbers} (s, MB), {factor:.2f}, {bound / peak:.2f}"
        )
    return worst


def fit(path: Path) -> None:
    """Print the constants that make the relative errors over the first grid small, from the present ones on."""
    used = {row["name"]: row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    fitted = [run for run in runs() if run.name in used and not run.test]
    stated = [_stated(run) for run in fitted]

    def errors(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
        for name, value in zip(SECONDS, np.exp(logarithms), strict=True):
            setattr(cost_model, name, float(value))
        ratios = []
        for run, (spec, spine, sizes) in zip(fitted, stated, strict=True):
            cost = cost_of(spec, spine, run.workers, sizes=sizes, engine=False)
            ratios.append(cost.core_seconds / used[run.name]["core_seconds"])
        return np.log(ratios)

    begin = np.log([getattr(cost_model, name) for name in SECONDS])

    def residuals(logarithms: NDArray[np.float64]) -> NDArray[np.float64]:
        # What the runs do not determine stays near where it was.
        return np.concatenate([errors(logarithms), 0.03 * (logarithms - begin)])

    best = least_squares(residuals, begin, loss="soft_l1", f_scale=0.1).x
    errors(best)
    print("core_seconds", ", ".join(f"{name} = {getattr(cost_model, name):.2g}" for name in SECONDS))


def _stated(run: Run) -> tuple[ReleaseSpec, Spine, tuple[Size, ...]]:
    """Spec, spine and sizes of a run."""
    with tempfile.TemporaryDirectory() as place:
        spec = load_spec(run.spec_in(Path(place), population=False))
        spine = read_spine(spec.geography)
        return spec, spine, sizes_of(spec, spine)


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--fit", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--levels", action="store_true")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measure(arguments.measure, arguments.only)
    if arguments.fit is not None:
        fit(arguments.fit)  # what is tested below, are these constants
    if arguments.test is not None and (worst := compare(arguments.test)) > ALLOWED:
        raise SystemExit(f"the model is off by a factor of {worst:.2f}; {ALLOWED} is allowed")
    if arguments.levels and (ratio := ratio_of_levels()) >= MOST_OF_FOUR:
        raise SystemExit(f"one level takes {ratio:.2f} times as long as four; less than {MOST_OF_FOUR:g} is allowed")


if __name__ == "__main__":
    main()
