"""Plans against whole runs: planned and measured errors of three divisions of one budget.

    python benchmarks/bench_plan.py [--json PATH] [--data ri_2010|ri_pl94] [--keys 3]

The divisions are the one that `plan --best` finds, the spec's own, and equal shares. Needs the real census data in
../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_release import DATA, EXAMPLES, PROJECT, run, spec_text

from features.plan.best import find_best
from features.plan.release_plan import plan_release
from features.plan.targets import parse_weights
from features.plan.write_spec import write_divided
from pipeline.model.query import Query
from pipeline.model.universe import Universe

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


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--data", choices=list(EXAMPLES), action="append")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print("bench_plan: the real census data (../shared/data) is not beside the project; nothing is measured")
        return
    figures: dict[str, Any] = {}
    for name in arguments.data or list(EXAMPLES):
        comparison = bench_divisions(name, arguments.keys)
        figures[name] = comparison
        print(f"\n{name}: errors of a geounit, planned / measured, rho = {comparison['budget']}, {comparison['aims']}")
        for row in comparison["rows"]:
            summary = ", ".join(f"{k} {v:.2f} / {row['measured'][k]:.2f}" for k, v in row["planned"].items())
            print(f"  {row['division']}: sum {row['planned sum']:.2f} / {row['measured sum']:.2f}; {summary}")
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
