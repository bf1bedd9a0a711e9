"""Average household sizes: how often their 90 % intervals hold the truth, and how wide they are.

    python benchmarks/bench_household_sizes.py [--keys 6] [--json PATH]

The example `examples/one_population.toml` is released with several keys. For every level: the share of published
averages whose interval holds the true average, the median half-width, and the median error. Areas without households in
the records or in the release have no average. Beside them, what a wrong way to make intervals gives: from those of the
households alone, as if the number of persons were exact.

Needs the real data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from bench_joins import EXAMPLE, SHARED, truth
from numpy.typing import NDArray

from flows.runs.request import Request, check_stated
from flows.runs.run import run_release
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.model.residents import residents_of
from pipeline.release.joined.averages import Counted, average_sizes
from pipeline.release.joined.sizes import HouseholdSizes, read_household_sizes
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import read_table
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

Floats = NDArray[np.float64]


def spec_of(key: int) -> ReleaseSpec:
    text = EXAMPLE.read_text("utf-8").replace('"insecure-test:1"', f'"insecure-test:{key}"')
    return parse_spec(text + "\n[publish]\nmicrodata = false\n", "spec", EXAMPLE.parent)


def true_averages(spec: ReleaseSpec) -> list[Floats]:
    """Of the records, per level; NaN where there are no households."""
    residents = residents_of(spec.joins(), "households")
    assert residents is not None
    counts = truth(spec)
    found = []
    for persons, households in zip(counts[""], counts["households"], strict=True):
        in_households = persons.toarray()[:, residents.cells].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            found.append(in_households / households.toarray().sum(axis=1))
    return found


def without_persons(run: RunDirectory, sizes: HouseholdSizes) -> tuple[Floats, Floats]:
    """The ends of intervals as if the persons were known exactly."""
    homes = read_table(run.universe("households").table("total", sizes.level))
    assert homes.lows is not None
    assert homes.highs is not None
    persons = Counted(sizes.persons, sizes.persons.astype(float), sizes.persons.astype(float))
    found = average_sizes(persons, Counted(sizes.households, homes.lows[:, 0], homes.highs[:, 0]), 1, 12)
    assert found.lows is not None
    assert found.highs is not None
    return found.lows, found.highs


def measured(keys: int) -> dict[str, Any]:
    true = true_averages(spec_of(1))
    levels = spec_of(1).geography.level_names
    inside: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    narrow: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    widths: dict[str, list[Floats]] = {level: [] for level in levels}
    errors: dict[str, list[Floats]] = {level: [] for level in levels}
    for key in range(1, keys + 1):
        spec = spec_of(key)
        with tempfile.TemporaryDirectory() as out:
            checked = check_stated(Request(EXAMPLE, Path(out), None, 1, i_know=True), spec)
            run = RunDirectory(run_release(checked, Silent()))
            for level, right in zip(read_spine(spec.geography).levels, true, strict=True):
                sizes = read_household_sizes(run.household_sizes("households", level.name))
                averages = sizes.averages
                assert averages.lows is not None
                assert averages.highs is not None
                there = ~np.isnan(averages.values) & ~np.isnan(right)
                low, high = averages.lows[there], averages.highs[there]
                inside[level.name].append((low <= right[there]) & (right[there] <= high))
                low_only, high_only = (ends[there] for ends in without_persons(run, sizes))
                narrow[level.name].append((low_only <= right[there]) & (right[there] <= high_only))
                widths[level.name].append((high - low) / 2)
                errors[level.name].append(np.abs(averages.values[there] - right[there]))
    return {
        level: {
            "averages": int(sum(map(len, inside[level]))),
            "covered": float(np.concatenate(inside[level]).mean()),
            "covered, households alone": float(np.concatenate(narrow[level]).mean()),
            "half-width": float(np.median(np.concatenate(widths[level]))),
            "error": float(np.median(np.concatenate(errors[level]))),
        }
        for level in levels
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not SHARED.exists():
        print(f"{SHARED}: no such folder; the real data are needed")
        return
    found = measured(arguments.keys)
    print(f"{'level':>10} {'averages':>9} {'covered':>8} {'households alone':>17} {'half-width':>11} {'error':>8}")
    for level, row in found.items():
        print(
            f"{level:>10} {row['averages']:>9,} {row['covered']:>8.3f} {row['covered, households alone']:>17.3f} "
            f"{row['half-width']:>11.4f} {row['error']:>8.4f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
