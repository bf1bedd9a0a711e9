"""Whole releases of a state: seconds and memory by stage, the solver against cvxpy, accuracy, growth, margins.

    python benchmarks/bench_release.py [--json PATH] [--part stages|solver|accuracy|growth|margins] [--keys 5]

Needs the real census data in ../shared/data beside the project; without it says so and ends. Every figure is from this
run on this machine; what is extrapolated is called so.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from measured_run import LOOK, Used, measured_run, memory_of

PROJECT = Path(__file__).resolve().parent.parent
DATA = PROJECT.parent / "shared" / "data"
EXAMPLES = {"ri_2010": "rhode_island.toml", "ri_pl94": "rhode_island_pl94.toml"}
#: Times as long as a run without margins that one with them may take.
MOST_TIMES = 1.5
PARTS = ["stages", "solver", "accuracy", "growth", "margins"]
STEP = re.compile(r"^\S+ (?P<name>.+): (?P<seconds>[0-9.]+) s, peak memory (?P<memory>[0-9]+) MB(?:, .*)?$")


def spec_text(name: str, *, key: int, estimator: str, margins: bool, folder: Path | None = None) -> str:
    """An example's spec with another key, estimator, and margins or none; its files in `folder`."""
    text = (PROJECT / "examples" / EXAMPLES[name]).read_text(encoding="utf-8")
    text = re.sub(r'key = "insecure-test:\d+"', f'key = "insecure-test:{key}"', text)
    if "insecure-test" not in text:
        text = text.replace("[privacy]\n", f'[privacy]\nkey = "insecure-test:{key}"\n')
    text = text.replace("../../shared/data", str(folder or DATA))
    text = text.replace("rhode_island_names.csv", str(PROJECT / "examples" / "rhode_island_names.csv"))
    text = re.sub(r"(?m)^estimator = .*$", "", text)
    text = text.replace("[postprocess]\n", f'[postprocess]\nestimator = "{estimator}"\n')
    text = re.sub(r"(?ms)^\[publish\]\n.*?(?=^\[|\Z)", "", text)
    return text + ("" if margins else "\n[publish]\nmargins = false\n")


def run(folder: Path, text: str, workers: int = 2) -> dict[str, Any]:
    """`spinewise run` in a process of its own: wall seconds, peak memory of all its processes, stages, directory."""
    spec = folder / "release.toml"
    spec.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "flows.cli", "run", str(spec), "--out", str(folder), "--workers", str(workers)]
    began = time.monotonic()
    peak = 0
    with (folder / "stderr.txt").open("w+", encoding="utf-8") as stderr:
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=stderr, text=True)
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid))
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
        if process.returncode:
            stderr.seek(0)
            last = "".join(stderr.readlines()[-20:])
            raise SystemExit(f"{last}{' '.join(command)} ended with exit status {process.returncode}")
    out, _ = process.communicate()
    directory = Path(out.strip())
    return {
        "seconds": time.monotonic() - began,
        "peak_mb": peak / 1e6,
        "stages": stages(directory / "restricted" / "run.log"),
        "directory": str(directory),
    }


def stages(log: Path) -> dict[str, float]:
    """Seconds by step of the last run in a log."""
    lines = log.read_text(encoding="utf-8").splitlines()
    begins = max(i for i, line in enumerate(lines) if line.endswith("run begins"))
    matches = [match for line in lines[begins:] if (match := STEP.match(line))]
    return {match["name"]: float(match["seconds"]) for match in matches}


def estimation(seconds: dict[str, float]) -> dict[str, float]:
    """The stages that the targets are stated for."""
    return {
        "upward pass": seconds.get("combine", 0.0),
        "solves and rounding": sum(s for name, s in seconds.items() if name.startswith("estimate")),
        "measuring": sum(s for name, s in seconds.items() if name.startswith("measure")),
    }


def bench_stages(name: str, times: int = 3) -> dict[str, Any]:
    """Medians of whole runs without margins, by the command."""
    runs = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run(Path(folder), spec_text(name, key=1, estimator="full", margins=False)))
    names = list(runs[0]["stages"])
    return {
        "runs": len(runs),
        "seconds": float(np.median([of_run["seconds"] for of_run in runs])),
        "peak_mb": float(np.median([of_run["peak_mb"] for of_run in runs])),
        "stages": {step: float(np.median([of_run["stages"][step] for of_run in runs])) for step in names},
    }


def bench_margins(name: str, times: int = 3) -> dict[str, Any]:
    """Runs with margins of error and without, in turn: medians of both, and the ratio of the times."""
    runs: dict[str, list[Used]] = {"without": [], "with": []}
    for _ in range(times):
        for kind, of_kind in runs.items():
            with tempfile.TemporaryDirectory() as place:
                spec = Path(place) / "release.toml"
                spec.write_text(spec_text(name, key=1, estimator="full", margins=kind == "with"), encoding="utf-8")
                of_kind.append(measured_run(spec, Path(place) / "out"))
    figures: dict[str, Any] = {
        kind: {what: float(np.median([getattr(used, what) for used in of_kind])) for what in ("seconds", "peak_mb")}
        for kind, of_kind in runs.items()
    }
    return figures | {"runs": times, "ratio": figures["with"]["seconds"] / figures["without"]["seconds"]}


def bench_solver(name: str, sample: int = 30) -> dict[str, Any]:
    """The batched solver over all families against cvxpy family by family, on a sample and extrapolated by level."""
    from threadpoolctl import threadpool_limits

    from pipeline.estimation.whole_spine import Computed
    from pipeline.execution.job import Job
    from pipeline.execution.steps import Silent
    from pipeline.execution.workers import Workers
    from pipeline.inputs.geography import read_spine
    from pipeline.runs.request import Request, check_request
    from postprocess.downward import level as downward
    from postprocess.downward.level import downward_level
    from postprocess.families.family import Family, Solution
    from postprocess.families.reference_solvers import solve_with_cvxpy
    from postprocess.families.solve import solve_families
    from postprocess.linear.upward import basis_of, upward_pass

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        run(folder, spec_text(name, key=1, estimator="full", margins=False))
        checked = check_request(Request(folder / "release.toml", folder, None, 1))
        job = Job(
            checked.run, checked.spec, checked.universes, read_spine(checked.spec.geography), Workers(1), Silent()
        )
        with threadpool_limits(1):
            problem = Computed(job, checked.universes[0]).problem
            basis = basis_of(problem)
            estimates = upward_pass(problem, basis)
            sampled: list[tuple[int, list[Family]]] = []
            batched = 0.0

            def timed(families: Sequence[Family], _: str) -> list[Solution]:
                nonlocal batched
                began = time.perf_counter()
                solutions = solve_families(families, "batched")
                batched += time.perf_counter() - began
                sampled.append((level, list(families)))
                return solutions

            above = None
            with mock.patch.object(downward, "solve_families", timed):
                for level, estimate in enumerate(estimates):
                    above, _ = downward_level(problem, basis, level, estimate, above)
            rng = np.random.default_rng(1)
            stated, alike, solved, counted = 0.0, 0.0, 0, 0
            strata: dict[tuple[int, int], list[Family]] = {}
            for level, families in sampled:
                for family in families:
                    strata.setdefault((level, int(family.n_cells > 8)), []).append(family)
            for families in strata.values():
                small = [f for f in families if f.matrices.size <= 2_000_000]
                if not small:
                    continue
                chosen = rng.choice(len(small), min(sample, len(small)), replace=False)
                began = time.perf_counter()
                for i in chosen:
                    solve_with_cvxpy(small[i])
                stated += (time.perf_counter() - began) / len(chosen) * len(small)
                began = time.perf_counter()
                solve_families(small, "batched")
                alike += time.perf_counter() - began
                solved += len(chosen)
                counted += len(small)
    total = sum(len(families) for _, families in sampled)
    return {
        "families": total,
        "batched_seconds": batched,
        "cvxpy_seconds_extrapolated": stated,
        "cvxpy_families_timed": solved,
        "families_too_large_for_cvxpy": total - counted,
        "batched_seconds_without_those": alike,
        "ratio": stated / alike,
    }


def _errors(directory: Path, queries: dict[str, list[str]], levels: list[str]) -> dict[str, float]:
    """Mean over geounits of the L1 error, per level and query, from released and true histograms."""
    out = {}
    n = {name: pd.read_parquet(directory / "public" / "spine.parquet")[name].nunique() for name in levels}
    for level in levels:
        frames = []
        for room, sign in (("public", 1), ("restricted", -1)):
            frame = pd.read_parquet(directory / room / "histograms" / f"{level}.parquet")
            frame = frame.astype({c: str for c in frame.columns if c != "count"})
            frames.append(frame.assign(count=frame["count"] * sign))
        both = pd.concat(frames)
        for query, attributes in queries.items():
            off = both.groupby(["geocode", *attributes], observed=True)["count"].sum().abs().sum()
            out[f"{level}: {query}"] = float(off / n[level])
    return out


def bench_accuracy(name: str, keys: int) -> dict[str, dict[str, float]]:
    """L1 error per geounit, `full` beside `topdown`, mean over keys."""
    if name == "ri_2010":
        queries = {"total": [], "race": ["race"], "detailed": ["votingage", "race"]}
    else:
        queries = {
            "total": [],
            "hispanic * cenrace": ["hispanic", "cenrace"],
            "detailed": ["hhgq", "votingage", "hispanic", "cenrace"],
        }
    levels = ["state", "county", "tract", "block_group", "block"]
    accuracy: dict[str, dict[str, float]] = {}
    for estimator in ("topdown", "full"):
        runs = []
        for key in range(1, keys + 1):
            with tempfile.TemporaryDirectory() as folder:
                done = run(Path(folder), spec_text(name, key=key, estimator=estimator, margins=False))
                runs.append(_errors(Path(str(done["directory"])), queries, levels))
        for figure in runs[0]:
            accuracy.setdefault(figure, {})[estimator] = float(np.mean([of_run[figure] for of_run in runs]))
    for row in accuracy.values():
        row["ratio"] = row["full"] / row["topdown"] if row["topdown"] else float("nan")
    return accuracy


def bench_growth(name: str) -> dict[str, Any]:
    """Post-processing seconds for 1/8, 1/4, 1/2 and all of the state's tracts, and the exponent in the blocks."""
    persons = pd.read_parquet(DATA / "ri_pl94_persons.parquet")
    units = pd.read_parquet(DATA / "ri_pl94_units.parquet")
    tracts = units["block"].str[:11]
    order = np.random.default_rng(1).permutation(sorted(tracts.unique()))
    rows = []
    for share in (0.125, 0.25, 0.5, 1.0):
        chosen = set(order[: round(share * len(order))])
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            selected = persons[persons["block"].str[:11].isin(chosen)]
            selected.to_parquet(folder / "ri_pl94_persons.parquet")
            units[tracts.isin(chosen)].to_parquet(folder / "ri_pl94_units.parquet")
            seconds = []
            for _ in range(2):
                with tempfile.TemporaryDirectory() as out:
                    text = spec_text(name, key=1, estimator="full", margins=False, folder=folder)
                    stage_seconds = estimation(run(Path(out), text)["stages"])
                    seconds.append(stage_seconds["upward pass"] + stage_seconds["solves and rounding"])
        rows.append({"blocks": int(tracts.isin(chosen).sum()), "seconds": float(min(seconds))})
    blocks, took = (np.log([row[column] for row in rows]) for column in ("blocks", "seconds"))
    return {"rows": rows, "exponent": float(np.polyfit(blocks, took, 1)[0])}


def _print(title: str, rows: Sequence[tuple[str, ...]]) -> None:
    print(f"\n{title}")
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--data", choices=list(EXAMPLES), action="append")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print("bench_release: the real census data (../shared/data) is not beside the project; nothing is measured")
        return
    parts = arguments.part or PARTS
    figures: dict[str, object] = {}
    for name in arguments.data or list(EXAMPLES):
        if "stages" in parts:
            result = bench_stages(name)
            figures[f"{name} stages"] = result
            rows: list[tuple[str, ...]] = [("stage", "seconds")]
            rows += [(stage, f"{seconds:.2f}") for stage, seconds in result["stages"].items()]
            rows += [(stage, f"{seconds:.2f}") for stage, seconds in estimation(result["stages"]).items()]
            rows += [("whole command", f"{result['seconds']:.1f}"), ("peak memory, MB", f"{result['peak_mb']:.0f}")]
            _print(f"{name}: spinewise run without margins, 2 workers, median of {result['runs']}", rows)
        if "solver" in parts:
            result = bench_solver(name)
            figures[f"{name} solver"] = result
            _print(
                f"{name}: all least-squares problems, one core",
                [("what", "figure")] + [(k, f"{v:.2f}" if isinstance(v, float) else str(v)) for k, v in result.items()],
            )
        if "accuracy" in parts:
            table = bench_accuracy(name, arguments.keys)
            figures[f"{name} accuracy"] = table
            rows = [("L1 per geounit", "topdown", "full", "ratio")]
            rows += [
                (figure, f"{row['topdown']:.2f}", f"{row['full']:.2f}", f"{row['ratio']:.3f}")
                for figure, row in table.items()
            ]
            _print(f"{name}: accuracy, mean of {arguments.keys} keys", rows)
        if "growth" in parts and name == "ri_pl94":
            result = bench_growth(name)
            figures[f"{name} growth"] = result
            rows = [("blocks", "seconds of post-processing")]
            rows += [(f"{row['blocks']:,}", f"{row['seconds']:.2f}") for row in result["rows"]]
            rows += [("exponent", f"{result['exponent']:.2f}")]
            _print(f"{name}: growth", rows)
        if "margins" in parts:
            result = bench_margins(name)
            figures[f"{name} margins"] = result
            rows = [("margins", "seconds", "peak memory, MB")]
            rows += [(k, f"{result[k]['seconds']:.1f}", f"{result[k]['peak_mb']:.0f}") for k in ("without", "with")]
            rows += [("ratio", f"{result['ratio']:.2f}", f"target {MOST_TIMES}")]
            _print(f"{name}: runs without Prefect, 2 workers, medians of {result['runs']}", rows)
    figures["own peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
