"""Plans against whole runs: the errors of three divisions of one budget, and the cost that is foretold.

    python benchmarks/bench_plan.py [--json PATH] [--part divisions|cost] [--data ri_2010|ri_pl94] [--keys 3]

Needs the real census data in ../shared/data beside the project; without it says so and ends. Seconds of one core are
those that all processes of a run used; elapsed seconds need free cores to mean anything.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_release import DATA, EXAMPLES, PROJECT, run, spec_text

from flows.plan.best import find_best
from flows.plan.cost.model import cost_of
from flows.plan.release_plan import plan_release
from flows.plan.targets import parse_weights
from flows.plan.write_spec import write_divided
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import load_spec

#: What the divisions are made for, and judged by: the sum of the errors of a geounit, times the weights.
AIMS = {
    "ri_2010": "county: race = 1; tract: race = 1; tract: total = 3; block_group: race = 1; block: total = 2",
    "ri_pl94": "county: hispanic = 1; tract: total = 3; tract: votingage * hispanic = 1; block_group: total = 2",
}
LEAST = {"ri_2010": 0.002, "ri_pl94": 0.002}
#: Shares of the state's tracts, and whether margins are made, in the runs whose cost is compared.
RUNS = ((0.25, False), (1.0, False), (0.25, True), (1.0, True))


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
    plan = plan_release(PROJECT / "examples" / EXAMPLES[name], None, 2)
    expectation = plan.universes[0].expectation
    budget = expectation.universe.budget
    aims = parse_weights(AIMS[name], expectation.universe)
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


def subset(folder: Path, share: float) -> None:
    """The real data of a random part of the state's tracts."""
    units = pd.read_parquet(DATA / "ri_pl94_units.parquet")
    tracts = sorted(units["block"].str[:11].unique())
    chosen = set(np.random.default_rng(1).permutation(tracts)[: round(share * len(tracts))])
    for file in ("ri_pl94_persons", "ri_pl94_units", "ri_2010_blocks"):
        frame = pd.read_parquet(DATA / f"{file}.parquet")
        frame[frame["block"].str[:11].isin(chosen)].to_parquet(folder / f"{file}.parquet")


def bench_cost(name: str) -> list[dict[str, Any]]:
    """Foretold and used: seconds of one core, elapsed seconds, peak memory."""
    rows = []
    for share, margins in RUNS:
        with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as out:
            folder = Path(place)
            subset(folder, share)
            text = spec_text(name, key=1, estimator="full", margins=margins, folder=folder)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = run(Path(out), text)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spec = load_spec(Path(out) / "release.toml")
            from pipeline.inputs.geography import read_spine

            foretold = cost_of(spec, read_spine(spec.geography), 2)
            rows.append(
                {
                    "share": share,
                    "margins": margins,
                    "core_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                    "seconds": done["seconds"],
                    "peak_mb": done["peak_mb"],
                    "foretold": foretold.data(),
                }
            )
    return rows


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--part", choices=["divisions", "cost"], action="append")
    parser.add_argument("--data", choices=list(EXAMPLES), action="append")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print("bench_plan: the real census data (../shared/data) is not beside the project; nothing is measured")
        return
    figures: dict[str, Any] = {}
    for name in arguments.data or list(EXAMPLES):
        if "divisions" in (arguments.part or ["divisions"]):
            comparison = bench_divisions(name, arguments.keys)
            figures[f"{name} divisions"] = comparison
            print(
                f"\n{name}: errors of a geounit, planned / measured, rho = {comparison['budget']}, {comparison['aims']}"
            )
            for row in comparison["rows"]:
                summary = ", ".join(f"{k} {v:.2f} / {row['measured'][k]:.2f}" for k, v in row["planned"].items())
                print(f"  {row['division']}: sum {row['planned sum']:.2f} / {row['measured sum']:.2f}; {summary}")
        if "cost" in (arguments.part or ["cost"]):
            rows = bench_cost(name)
            figures[f"{name} cost"] = rows
            print(f"\n{name}: foretold / used")
            for row in rows:
                foretold = row["foretold"]
                print(
                    f"  {row['share']:.0%} of the tracts, margins {row['margins']}: "
                    + ", ".join(
                        f"{key} {foretold[key]:.0f} / {row[key]:.0f}" for key in ("core_seconds", "seconds", "peak_mb")
                    )
                )
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
