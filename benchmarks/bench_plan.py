"""Plans against whole runs: the errors of three divisions of one budget, and the memory that a run takes at most.

    python benchmarks/bench_plan.py [--json PATH] [--data ri_2010|ri_pl94] [--keys 3]
    python benchmarks/bench_plan.py --shapes RUNS.jsonl [--only NAME ...]

`--shapes` runs each of the made-up shapes of `tests/releases/plan_shapes.py` that the file does not have yet, and
prints the memory that a plan says it takes at most beside what it took. The rest needs the real census data in
../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_release import DATA, EXAMPLES, PROJECT, run, spec_text
from bench_small_run import adopt_orphans
from bench_small_run import cost_of as used_by

from features.plan.best import find_best
from features.plan.release_plan import plan_release
from features.plan.targets import parse_aims
from features.plan.write_spec import write_divided
from pipeline.cost.memory import memory_of
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import load_spec

sys.path[:0] = [str(PROJECT / name) for name in ("", "tests")]
from releases.plan_shapes import BOUNDED, SHAPES, write_shape  # noqa: E402 - the tests share it

#: What the divisions are made for, and judged by: the sum of the errors of a geounit, times the weights.
AIMS = {
    "ri_2010": "county: race = 1; tract: race = 1; tract: total = 3; block_group: race = 1; block: total = 2",
    "ri_pl94": "county: hispanic = 1; tract: total = 3; tract: votingage * hispanic = 1; block_group: total = 2",
}
LEAST = {"ri_2010": 0.002, "ri_pl94": 0.002}


def with_strategy(folder: Path, text: str, universe: Universe) -> str:
    """The spec with the budget and division of `universe`."""
    before, after = folder / "before.toml", folder / "after.toml"
    before.write_text(text, encoding="utf-8")
    write_divided(before, after, universe)
    return after.read_text(encoding="utf-8")


def measured_error(directory: Path, level: str, query: Query, geounits: int) -> float:
    """The mean over geounits of the absolute errors added up, from the released and the true histogram."""
    frames = []
    for room, sign in (("public", 1), ("restricted", -1)):
        frame = pd.read_parquet(directory / room / "histograms" / f"{level}.parquet")
        frame = frame.astype({name: str for name in frame.columns if name != "count"})
        frames.append(frame.assign(count=frame["count"] * sign))
    off = pd.concat(frames).groupby(["geocode", *query.terms])["count"].sum().abs().sum()
    return float(off / geounits)


def bench_divisions(name: str, keys: int) -> dict[str, Any]:
    """Planned and measured errors of the found, the spec's own and the equal division of the spec's budget."""
    plan = plan_release(PROJECT / "examples" / EXAMPLES[name], 2)
    expectation = plan.universes[0].expectation
    budget = expectation.universe.budget
    aims = parse_aims("--weights", AIMS[name], expectation.universe)
    best = find_best(expectation, aims, "sum", budget, LEAST[name])
    levels = [level for level in expectation.universe.strategy.levels if level.queries]
    equal = {
        (level.level, measured.query.name): Fraction(1, len(levels) * len(level.queries))
        for level in levels
        for measured in level.queries
    }
    universes = {
        "found": best.universe,
        "the spec's own": expectation.universe,
        "equal": expectation.divided(budget, equal),
    }
    geounits = {level.name: len(level) for level in plan.spine.levels}
    rows = []
    for candidate in best.candidates:
        errors = np.zeros(len(aims))
        for key in range(1, keys + 1):
            with tempfile.TemporaryDirectory() as folder:
                text = spec_text(name, key=key, estimator="full", margins=False)
                done = run(Path(folder), with_strategy(Path(folder), text, universes[candidate.name]))
                directory = Path(str(done["directory"]))
                errors += [measured_error(directory, aim.level, aim.query, geounits[aim.level]) for aim in aims]
        weights = np.array([aim.number for aim in aims])
        rows.append(
            {
                "division": candidate.name,
                "planned": dict(zip((aim.name for aim in aims), candidate.errors, strict=True)),
                "measured": dict(zip((aim.name for aim in aims), (errors / keys).tolist(), strict=True)),
                "planned sum": float(weights @ candidate.errors),
                "measured sum": float(weights @ errors / keys),
            }
        )
    return {"budget": str(budget), "aims": AIMS[name], "gap": best.gap, "keys": keys, "rows": rows}


def measure_shapes(path: Path, only: Sequence[str]) -> None:
    """Run what the file does not have; one line of JSON a run."""
    adopt_orphans()
    done = {json.loads(line)["name"] for line in path.read_text().splitlines()} if path.exists() else set()
    for one in (*SHAPES, *BOUNDED):
        if one.name in done or (only and one.name not in only):
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            command = [sys.executable, "-m", "flows.entry", "run", str(write_shape(folder, one)), "--no-prefect"]
            command += ["--out", str(folder / "out"), "--workers", str(one.workers), "--i-know"]
            used = used_by(command, folder)
            (log,) = folder.glob("out/*/restricted/run.log")
            steps = [line.split(maxsplit=1)[1] for line in log.read_text(encoding="utf-8").splitlines()]
        row = {"name": one.name, "peak_mb": used.peak_mb, "steps": steps}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def compare_shapes(used: Mapping[str, Any]) -> None:
    """Print what every shape that was run takes at most, without the engine, and what it took."""
    for one in (*SHAPES, *BOUNDED):
        if one.name in used:
            with tempfile.TemporaryDirectory() as place:
                spec = load_spec(write_shape(Path(place), one))
                spine = read_spine(spec.geography)
            most, took = memory_of(spec, spine, one.workers, engine=False).peak_mb, used[one.name]["peak_mb"]
            print(f"| {one.name}: {one.about} | {most:,.0f} / {took:,.0f} | {most / took:.2f} |")


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--data", choices=list(EXAMPLES), action="append")
    parser.add_argument("--shapes", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.shapes is not None:
        measure_shapes(arguments.shapes, arguments.only)
        compare_shapes({row["name"]: row for row in map(json.loads, arguments.shapes.read_text("utf-8").splitlines())})
        return
    if not DATA.is_dir():
        print("bench_plan: the real census data (../shared/data) is not beside the project; nothing is measured")
        return
    figures: dict[str, Any] = {}
    for name in arguments.data or list(EXAMPLES):
        comparison = bench_divisions(name, arguments.keys)
        figures[f"{name} divisions"] = comparison
        print(f"\n{name}: errors of a geounit, planned / measured, rho = {comparison['budget']}, {comparison['aims']}")
        for row in comparison["rows"]:
            summary = ", ".join(f"{k} {v:.2f} / {row['measured'][k]:.2f}" for k, v in row["planned"].items())
            print(f"  {row['division']}: sum {row['planned sum']:.2f} / {row['measured sum']:.2f}; {summary}")
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
