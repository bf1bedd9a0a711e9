"""Margins of error: what they cost, as ratios of a run with them to the run without.

    python benchmarks/bench_margins.py [--json PATH] [--part cost|blocks] [--runs 3] [--states 1,5,17,18,19,21]

cost: both Rhode Island examples, medians of some runs of each, in turn; target 1.5 times the time.
blocks: 1.2 million blocks of 2020 with 2,016 cells, once with and once without; target 1.3 times the time, 1 GB more.
It takes half an hour, and is only done where it is asked for.

Needs the real census data in ../shared/data beside the project; without it says so and ends. Elapsed time with two
workers, and the memory of all processes with shared pages counted once (PSS); both kinds of runs are made in this run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_national import GROWTH, spec_2020
from bench_release import DATA, spec_text
from measured_run import Used, measured_run
from national_population import write_nation

#: Most times as long as the run without margins, and most megabytes more.
TARGETS = {"ri_2010": (1.5, None), "ri_pl94": (1.5, None), "blocks": (1.3, 1000.0)}

Figures = dict[str, Any]


def compared(with_margins: list[Used], without: list[Used]) -> Figures:
    """Medians of both kinds of runs, the ratio of the times, and the difference in memory."""
    medians = {
        kind: {name: statistics.median(getattr(used, name) for used in runs) for name in ("seconds", "peak_mb")}
        for kind, runs in (("with", with_margins), ("without", without))
    }
    return medians | {
        "ratio": medians["with"]["seconds"] / medians["without"]["seconds"],
        "more_mb": medians["with"]["peak_mb"] - medians["without"]["peak_mb"],
        "runs": len(with_margins),
    }


def example(name: str, runs: int) -> Figures:
    """Runs of an example with and without margins, in turn."""
    used: dict[bool, list[Used]] = {True: [], False: []}
    for _ in range(runs):
        for margins in (False, True):
            with tempfile.TemporaryDirectory() as place:
                spec = Path(place) / "release.toml"
                text = spec_text(name, key=1, estimator="full", margins=margins)
                spec.write_text(text, encoding="utf-8")
                used[margins].append(measured_run(spec, Path(place) / "out"))
    return compared(used[True], used[False])


def cost(arguments: argparse.Namespace) -> dict[str, Figures]:
    """Both examples."""
    return {name: example(name, arguments.runs) for name in ("ri_2010", "ri_pl94")}


def blocks(arguments: argparse.Namespace) -> dict[str, Figures]:
    """Some states of 2020, once each way."""
    states = [int(number) for number in arguments.states.split(",")]
    used = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        n_blocks = write_nation(DATA / "us_2020_block_spine_exTXDC.parquet", folder, states)
        for margins in (False, True):
            spec = folder / f"margins_{margins}.toml"
            spec.write_text(spec_2020(margins=margins), encoding="utf-8")
            used[margins] = measured_run(spec, folder / f"out_{margins}")
    return {"blocks": compared([used[True]], [used[False]]) | {"blocks": n_blocks}}


#: Each part gives figures by the name of what was run.
PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Figures]]] = {"cost": cost, "blocks": blocks}
#: Those that are done unless others are asked for.
DEFAULT = ["cost"]


def show_costs(figures: dict[str, Figures]) -> None:
    """Print the ratios beside the targets."""
    print("\nRuns with margins of error against runs without, 2 workers")
    print("  run          without      with   ratio  target   MB without    MB with")
    for name, found in figures.items():
        ratio, more = TARGETS[name]
        limit = "" if more is None else f"   {found['more_mb']:+.0f} MB, target {more:+.0f}"
        without, made = found["without"], found["with"]
        print(
            f"  {name:10}  {without['seconds']:7.1f} s {made['seconds']:7.1f} s  {found['ratio']:5.2f}   {ratio:5.2f}"
            f"  {without['peak_mb']:10.0f}  {made['peak_mb']:9.0f}{limit}"
        )


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=sorted(PARTS), action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--states", default=",".join(str(number) for number in GROWTH[-1]))
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print("bench_margins: the real census data (../shared/data) is not beside the project; nothing is measured")
        return
    figures: dict[str, dict[str, Figures]] = {}
    for part in arguments.part or DEFAULT:
        figures[part] = PARTS[part](arguments)
        show_costs(figures[part])
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
