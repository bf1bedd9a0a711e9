"""Persons and households that are joined: how far they agree, errors of either, and intervals of average sizes.

    python benchmarks/bench_households.py [--part joins|sizes|open] [--keys 6] [--json PATH]

joins: `examples/one_population.toml` is released with its joins and without, by the same keys, from the same
measurements. For every level: the share of geounits in which the persons agree with every join; the mean L1 errors of
persons and of households, as ratios of the errors without joins.

sizes: the same example with its joins. For every level: the share of published average household sizes whose 90 %
interval holds the true average, the median half-width, and the median error. Areas without households in the records or
in the release have no average. Beside them, what a wrong way to make intervals gives: from those of the households
alone, as if the number of persons were exact. And the share of households' totals that are covered.

open: coverage by number of open households. Real households of block groups of 2000 by size where "7+" is open, rho 1
each, with made-up members beyond 7: geometric, of mean `MEAN_EXCESS` times factors of the counties and tracts with a
relative standard deviation of `--between` each. Per level and class of areas, by their households of "7+": the share of
households' totals whose intervals hold the truth, its standard error by areas, the root mean square error and the mean
half-width.

Needs the real data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.files import HouseholdSizes, read_household_sizes, sizes_file
from features.joins.keys import stated_joins
from features.joins.link import residents_of
from features.joins.mathematics.composition import Composition, joined_bounds
from geography.sums import roll_up
from pipeline.execution.steps import Silent
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.records.tabulate import tabulate
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import ReleasedTable, read_table
from pipeline.runs.request import Request, check_stated
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.storage.paths import unchecked
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


BLOCK_GROUPS = """
name = "open"
[privacy]
rho = "1"
key = "insecure-test:{key}"
[geography]
file = "areas.parquet"
levels = ["nation", "state", "county", "tract", "block_group"]
[schema.attributes]
sex = ["male", "female"]
[strategy]
queries = {{ "total" = "1/2", "sex" = "1/2" }}
levels = {{ nation = "1/10", state = "1/10", county = "1/5", tract = "1/5", block_group = "2/5" }}
[tables]
total = "total"
[input]
file = "persons.parquet"
form = "long"
geocode = "block_group"
[publish]
microdata = false
[companions.households.privacy]
rho = "1"
[companions.households.schema.attributes]
size = ["1", "2", "3", "4", "5", "6", "7+"]
[companions.households.strategy]
queries = {{ "total" = "1/2", "size" = "1/2" }}
levels = {{ nation = "1/10", state = "1/10", county = "1/5", tract = "1/5", block_group = "2/5" }}
[companions.households.tables]
total = "total"
[companions.households.input]
file = "households.parquet"
form = "long"
geocode = "block_group"
[[join]]
companion = "households"
size = "size"
most = 60
mean = "{mean}"
"""
STATES = ("38", "56")
DIGITS = {"state": 2, "county": 5, "tract": 11, "block_group": 12}
#: Members of a household of "7+" beyond 7, on average.
MEAN_EXCESS = 1.2
#: Households of "7+" from which on a class of areas begins.
CLASSES = (0, 1, 6, 16, 51)


def write_block_groups(folder: Path, states: Sequence[str], between: float) -> pd.DataFrame:
    """Households by size and their members as files of the long form; numbers by block group.

    Args:
        folder: where to.
        states: whose block groups.
        between: see `made_up`.
    """
    table = pd.read_parquet(SHARED / "us_2000_block_groups.parquet")
    if missing := set(states) - set(table.block_group.str[:2]):
        raise SystemExit(f"--states: the file has no block groups of {', '.join(sorted(missing))}")
    table = table[table.block_group.str[:2].isin(states)].sort_values("block_group", ignore_index=True)
    areas = {level: table.block_group.str[:digits] for level, digits in DIGITS.items()}
    pd.DataFrame({"nation": "US", **areas}).to_parquet(folder / "areas.parquet")
    households = table[[f"hh_{size}" for size in range(1, 8)]].to_numpy(dtype=np.int64)
    persons = households @ np.arange(1, 8) + made_up(table, between)
    for name, attribute, counts, values in (
        ("persons", "sex", np.stack([persons // 2, persons - persons // 2], axis=1), ["male", "female"]),
        ("households", "size", households, [*map(str, range(1, 7)), "7+"]),
    ):
        row, cell = np.nonzero(counts)
        columns = {"block_group": table.block_group.to_numpy()[row], attribute: np.array(values)[cell]}
        pd.DataFrame({**columns, "count": counts[row, cell]}).to_parquet(folder / f"{name}.parquet")
    return pd.DataFrame({"households": households.sum(axis=1), "open": households[:, -1]}, index=table.block_group)


def made_up(table: pd.DataFrame, between: float) -> NDArray[np.int64]:
    """Members beyond 7 of the households of "7+": geometric, with factors of the county and of the tract.

    `between` is the relative standard deviation of either; 0: the same mean everywhere.
    """
    rng = np.random.default_rng(7)
    mean = np.full(len(table), MEAN_EXCESS)
    if between:
        for level in ("county", "tract"):
            _, area = np.unique(table.block_group.str[: DIGITS[level]], return_inverse=True)
            mean *= rng.gamma(between**-2, between**2, area.max() + 1)[area]
    open_ended = table["hh_7"].to_numpy(dtype=np.int64)
    drawn = rng.negative_binomial(np.maximum(open_ended, 1), 1.0 / (1.0 + mean))
    return np.where(open_ended > 0, drawn, 0).astype(np.int64)


def of_open_sizes(keys: Sequence[int], states: Sequence[str], between: float) -> dict[str, Any]:
    """Per level and class of areas, how households' totals are covered."""
    hits: dict[str, list[Floats]] = {level: [] for level in DIGITS}
    errors: dict[str, list[Floats]] = {level: [] for level in DIGITS}
    widths: dict[str, list[Floats]] = {level: [] for level in DIGITS}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        true = write_block_groups(folder, states, between)
        right = {level: true.groupby(true.index.str[:digits]).sum() for level, digits in DIGITS.items()}
        for key in keys:
            spec = parse_spec(BLOCK_GROUPS.format(key=key, mean=7 + MEAN_EXCESS), "spec", folder)
            with tempfile.TemporaryDirectory() as out:
                request = Request(folder / "release.toml", Path(out), None, 1, i_know=True)
                run = RunDirectory(run_release(check_stated(request, spec), Silent()))
                for level in DIGITS:
                    released = read_table(unchecked(run.universe("households").table("total", level)))
                    right[level] = right[level].loc[released.geocodes.tolist()]
                    counted, truth_of = _counted(released), right[level]["households"].to_numpy()
                    low, high = counted.lows, counted.highs
                    assert low is not None
                    assert high is not None
                    hits[level].append(((low <= truth_of) & (truth_of <= high)).astype(float))
                    errors[level].append(released.counts[:, 0] - truth_of)
                    widths[level].append((high - low) / 2)
    found: dict[str, Any] = {}
    for level in DIGITS:
        of_class = np.searchsorted(CLASSES, right[level]["open"].to_numpy(), side="right") - 1
        covered = np.mean(hits[level], axis=0)
        for number, least in enumerate(CLASSES):
            own = of_class == number
            if own.sum() > 1:
                found[f"{level}, {least} and more"] = {
                    "areas": int(own.sum()),
                    "covered": float(covered[own].mean()),
                    "se": float(covered[own].std(ddof=1) / np.sqrt(own.sum())),
                    "rms": float(np.sqrt(np.mean(np.array(errors[level])[:, own] ** 2))),
                    "half-width": float(np.mean(np.array(widths[level])[:, own])),
                }
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=["joins", "sizes", "open"], default="joins")
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--states", default=",".join(STATES), help="open: FIPS codes")
    parser.add_argument("--between", type=float, default=0.25, help="open: 0 for the same mean everywhere")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not SHARED.exists():
        print("the real data is not there: ../shared/data")
        return
    if arguments.part == "joins":
        figures = measured(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE.parent, arguments.keys)
        show_joins(figures)
    elif arguments.part == "sizes":
        figures = measured_sizes(arguments.keys)
        show_sizes(figures)
    else:
        figures = of_open_sizes(range(1, arguments.keys + 1), arguments.states.split(","), arguments.between)
        show_open(figures)
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


def show_open(figures: dict[str, Any]) -> None:
    """Print the coverage of households' totals of each class of areas."""
    for name, row in figures.items():
        print(
            f"{name:>28} {row['areas']:>6,} {row['covered']:.3f} (se {row['se']:.3f}) "
            f"rms {row['rms']:.2f} half-width {row['half-width']:.2f}"
        )


if __name__ == "__main__":
    main()
