"""Persons and households that are joined: how far they agree, errors of either, and intervals of average sizes.

    python benchmarks/bench_households.py [--part joins|sizes] [--keys 6] [--json PATH]

joins: `examples/one_population.toml` is released with its joins and without, by the same keys, from the same
measurements. For every level: the share of geounits in which the persons agree with every join; the mean L1 errors of
persons and of households, as ratios of the errors without joins.

sizes: the same example with its joins. For every level: the share of published average household sizes whose 90 %
interval holds the true average, the median half-width, and the median error. Areas without households in the records or
in the release have no average. Beside them, what a wrong way to make intervals gives: from those of the households
alone, as if the number of persons were exact. And the share of households' totals that are covered.

Needs the real data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.files import HouseholdSizes, read_household_sizes, sizes_file
from features.joins.keys import stated_joins
from features.joins.link import residents_of
from features.joins.mathematics.composition import Composition, joined_bounds
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import ReleasedTable, read_table
from pipeline.runs.request import Request, check_stated
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.storage.readable import unchecked
from postprocess.statistics import Counted, average_sizes

Floats = NDArray[np.float64]
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "one_population.toml"
SHARED = EXAMPLE.parents[2] / "shared" / "data"


def spec_of(text: str, folder: Path, key: int, *, joined: bool) -> ReleaseSpec:
    """The spec with another key, without margins and what is published of both, and with its joins or without."""
    text = re.sub(r"^\[household_tables\].*?(?=^\[companions)", "", text, flags=re.DOTALL | re.MULTILINE)
    text = text.replace('"insecure-test:1"', f'"insecure-test:{key}"')
    if not joined:
        text = text[: text.index("[[join]]")]
    return parse_spec(text + "\n[publish]\nmargins = false\nmicrodata = false\n", "spec", folder)


def released(spec: ReleaseSpec, folder: Path) -> dict[str, list[sp.csr_array]]:
    """Universe -> the released histograms of each level."""
    checked = check_stated(Request(EXAMPLE, folder, None, 1, i_know=True), spec)
    run = RunDirectory(run_release(checked, Silent()))
    spine = read_spine(spec.geography)
    return {
        universe.name: [
            read_histogram(
                unchecked(run.universe(universe.name).histogram(level.name)), level.geocodes, universe.schema
            )
            for level in spine.levels
        ]
        for universe in spec.universes()
    }


def truth(spec: ReleaseSpec) -> dict[str, list[sp.csr_array]]:
    """Universe -> the true histograms of each level."""
    spine = read_spine(spec.geography)
    return {
        universe.name: roll_up(spine, tabulate(universe.require_input(), universe.schema, spine))
        for universe in spec.universes()
    }


def agreeing(spec: ReleaseSpec, histograms: dict[str, list[sp.csr_array]]) -> list[float]:
    """Per level, the share of the geounits whose persons can be the members of their households."""
    composition = Composition.of(stated_joins(spec).joins)
    shares = []
    for persons, households in zip(histograms[""], histograms["households"], strict=True):
        kept = np.ones(persons.shape[0], dtype=bool)
        dense = persons.toarray()
        for bound in joined_bounds(composition, households):
            answers = bound.marginal.answer(dense)
            kept &= ((answers >= bound.lower) & (answers <= bound.upper)).all(axis=1)
        shares.append(float(kept.mean()))
    return shares


def errors(spec: ReleaseSpec, histograms: dict[str, Any], true: dict[str, Any]) -> dict[str, list[float]]:
    """Query -> per level the mean L1 error of a geounit."""
    out: dict[str, list[float]] = {}
    for universe in spec.universes():
        for name in ("total", "residence", "size", "detailed"):
            if name in ("total", "detailed") or name in universe.schema.names:
                query = Query.parse(name, universe.schema)
                out[f"{universe.name} {name}".strip()] = [
                    float(np.abs(query.answer_csr(one) - query.answer_csr(other)).sum(axis=1).mean())
                    for one, other in zip(histograms[universe.name], true[universe.name], strict=True)
                ]
    return out


def measured(text: str, folder: Path, keys: int) -> dict[str, Any]:
    """The figures of all keys; file names in the spec's text are relative to `folder`."""
    joined = spec_of(text, folder, 1, joined=True)
    apart = spec_of(text, folder, 1, joined=False)
    true = truth(joined)
    agree: dict[str, list[list[float]]] = {"joined": [], "apart": []}
    error: dict[str, list[dict[str, list[float]]]] = {"joined": [], "apart": []}
    seconds: dict[str, list[float]] = {"joined": [], "apart": []}
    for key in range(1, keys + 1):
        for name in ("apart", "joined"):
            spec = spec_of(text, folder, key, joined=name == "joined")
            with tempfile.TemporaryDirectory() as out:
                began = time.monotonic()
                histograms = released(spec, Path(out))
                seconds[name].append(time.monotonic() - began)
            agree[name].append(agreeing(joined, histograms))
            error[name].append(errors(apart, histograms, true))
    means = {
        name: {query: np.mean([one[query] for one in runs], axis=0) for query in runs[0]}
        for name, runs in error.items()
    }
    return {
        "levels": list(joined.geography.level_names),
        "keys": keys,
        "agree": {name: np.min(runs, axis=0).tolist() for name, runs in agree.items()},
        "errors apart": {query: values.tolist() for query, values in means["apart"].items()},
        "ratios": {
            query: (values / np.maximum(means["apart"][query], 1e-9)).tolist()
            for query, values in means["joined"].items()
        },
        "seconds": {name: float(np.median(values)) for name, values in seconds.items()},
    }


def sizes_spec(key: int) -> ReleaseSpec:
    """The whole example with another key, without microdata."""
    text = EXAMPLE.read_text("utf-8").replace('"insecure-test:1"', f'"insecure-test:{key}"')
    return parse_spec(text + "\n[publish]\nmicrodata = false\n", "spec", EXAMPLE.parent)


def true_numbers(spec: ReleaseSpec) -> list[tuple[Floats, Floats]]:
    """Of the records, per level: averages, NaN where there are no households, and households."""
    residents = residents_of(stated_joins(spec).joins, "households")
    assert residents is not None
    counts = truth(spec)
    found = []
    for persons, households in zip(counts[""], counts["households"], strict=True):
        in_households = persons.toarray()[:, residents.cells].sum(axis=1)
        homes = households.toarray().sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            found.append((in_households / homes, homes))
    return found


def without_persons(run: RunDirectory, sizes: HouseholdSizes) -> tuple[Floats, Floats]:
    """The ends of intervals as if the persons were known exactly."""
    homes = read_table(unchecked(run.universe("households").table("total", sizes.level)))
    assert homes.lows is not None
    assert homes.highs is not None
    persons = Counted(sizes.persons, sizes.persons.astype(float), sizes.persons.astype(float))
    found = average_sizes(persons, Counted(sizes.households, homes.lows[:, 0], homes.highs[:, 0]), 1, 12)
    assert found.lows is not None
    assert found.highs is not None
    return found.lows, found.highs


def measured_sizes(keys: int) -> dict[str, Any]:
    """Level -> coverage, half-widths and errors of the averages of all keys."""
    true = true_numbers(sizes_spec(1))
    levels = sizes_spec(1).geography.level_names
    inside: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    narrow: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    widths: dict[str, list[Floats]] = {level: [] for level in levels}
    errors: dict[str, list[Floats]] = {level: [] for level in levels}
    totals: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    for key in range(1, keys + 1):
        spec = sizes_spec(key)
        with tempfile.TemporaryDirectory() as out:
            checked = check_stated(Request(EXAMPLE, Path(out), None, 1, i_know=True), spec)
            run = RunDirectory(run_release(checked, Silent()))
            for level, (right, homes) in zip(read_spine(spec.geography).levels, true, strict=True):
                sizes = read_household_sizes(unchecked(sizes_file(run, "households", level.name)))
                averages = sizes.averages
                assert averages.lows is not None
                assert averages.highs is not None
                counted = _counted(read_table(unchecked(run.universe("households").table("total", level.name))))
                assert counted.lows is not None
                assert counted.highs is not None
                totals[level.name].append((counted.lows <= homes) & (homes <= counted.highs))
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
            "households covered": float(np.concatenate(totals[level]).mean()),
        }
        for level in levels
    }


def _counted(table: ReleasedTable) -> Counted:
    """The one number of a table, with its whole-number ends as they are."""
    assert table.lows is not None
    assert table.highs is not None
    return Counted(table.counts[:, 0], table.lows[:, 0], table.highs[:, 0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=["joins", "sizes"], default="joins")
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not SHARED.exists():
        print("the real data is not there: ../shared/data")
        return
    if arguments.part == "joins":
        figures = measured(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE.parent, arguments.keys)
        show_joins(figures)
    else:
        figures = measured_sizes(arguments.keys)
        show_sizes(figures)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def show_joins(figures: dict[str, Any]) -> None:
    """Print who agrees, and the errors without joins with the ratio of those with them."""
    print(f"{'':24}" + "".join(f"{level:>12}" for level in figures["levels"]))
    for name, shares in figures["agree"].items():
        print(f"{'agree, ' + name:24}" + "".join(f"{share:12.3f}" for share in shares))
    for query, ratios in figures["ratios"].items():
        apart = figures["errors apart"][query]
        print(f"{query:24}" + "".join(f"{a:7.1f} x{r:4.2f}" for a, r in zip(apart, ratios, strict=True)))
    print("seconds", figures["seconds"])


def show_sizes(figures: dict[str, Any]) -> None:
    """Print the coverage of the averages of each level."""
    print(
        f"{'level':>10} {'averages':>9} {'covered':>8} {'households alone':>17} {'half-width':>11} {'error':>8} "
        f"{'households':>11}"
    )
    for level, row in figures.items():
        print(
            f"{level:>10} {row['averages']:>9,} {row['covered']:>8.3f} {row['covered, households alone']:>17.3f} "
            f"{row['half-width']:>11.4f} {row['error']:>8.4f} {row['households covered']:>11.3f}"
        )


if __name__ == "__main__":
    main()
