"""Average household sizes: how often their 90 % intervals hold the truth, and how wide they are.

    python benchmarks/bench_household_sizes.py [--keys 6] [--part example|block_groups|open] [--json PATH]

The example `examples/one_population.toml` is released with several keys. For every level: the share of published
averages whose interval holds the true average, the median half-width, and the median error. Areas without households in
the records or in the release have no average. Beside them, what a wrong way to make intervals gives: from those of the
households alone, as if the number of persons were exact. And the share of households' totals that are covered.

block_groups: real households of North Dakota and Wyoming in 2000 and their members, sizes 1 to 7, rho 1 each, joined.
Beside the share that is covered, that of intervals made from the whole-number ends as they are, without the half step
that each stands for; and of the numbers of persons and of households.

open: coverage by number of open households. Real households by size where "7+" is open, with made-up members beyond 7:
geometric, of mean `MEAN_EXCESS` times factors of the counties and tracts with a relative standard deviation of
`--between` each. Per level and class of areas, by their households of "7+": the share of households' totals
whose intervals hold the truth, its standard error by areas, the root mean square error and the mean half-width.

Needs the real data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_joins import EXAMPLE, SHARED, truth
from numpy.typing import NDArray

from features.joins.files import HouseholdSizes, read_household_sizes, sizes_file
from features.joins.keys import stated_joins
from features.joins.link import residents_of
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import ReleasedTable, read_table
from pipeline.runs.request import Request, check_stated
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.storage.readable import unchecked
from postprocess.statistics import Counted, average_sizes

Floats = NDArray[np.float64]


def spec_of(key: int) -> ReleaseSpec:
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


def measured(keys: int) -> dict[str, Any]:
    true = true_numbers(spec_of(1))
    levels = spec_of(1).geography.level_names
    inside: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    narrow: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    widths: dict[str, list[Floats]] = {level: [] for level in levels}
    errors: dict[str, list[Floats]] = {level: [] for level in levels}
    totals: dict[str, list[NDArray[np.bool_]]] = {level: [] for level in levels}
    for key in range(1, keys + 1):
        spec = spec_of(key)
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


BLOCK_GROUPS = """
name = "sizes"
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
size = ["1", "2", "3", "4", "5", "6", "7"]
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
"""
STATES = ("38", "56")
DIGITS = {"state": 2, "county": 5, "tract": 11, "block_group": 12}


#: Members of a household of "7+" beyond 7, on average.
MEAN_EXCESS = 1.2
#: Households of "7+" from which on a class of areas begins.
CLASSES = (0, 1, 6, 16, 51)


def write_block_groups(
    folder: Path, states: Sequence[str] = STATES, beyond: Callable[[pd.DataFrame], NDArray[np.int64]] | None = None
) -> pd.DataFrame:
    """Households by size and their members as files of the long form; numbers by block group.

    Args:
        folder: where to.
        states: whose block groups.
        beyond: the members beyond 7 of households of "7+", of these rows; none by default.
    """
    table = pd.read_parquet(SHARED / "us_2000_block_groups.parquet")
    if missing := set(states) - set(table.block_group.str[:2]):
        raise SystemExit(f"--states: the file has no block groups of {', '.join(sorted(missing))}")
    table = table[table.block_group.str[:2].isin(states)].sort_values("block_group", ignore_index=True)
    areas = {level: table.block_group.str[:digits] for level, digits in DIGITS.items()}
    pd.DataFrame({"nation": "US", **areas}).to_parquet(folder / "areas.parquet")
    households = table[[f"hh_{size}" for size in range(1, 8)]].to_numpy(dtype=np.int64)
    persons = households @ np.arange(1, 8)
    if beyond is not None:
        persons = persons + beyond(table)
    for name, attribute, counts, values in (
        ("persons", "sex", np.stack([persons // 2, persons - persons // 2], axis=1), ["male", "female"]),
        ("households", "size", households, [str(size) for size in range(1, 8)]),
    ):
        row, cell = np.nonzero(counts)
        columns = {"block_group": table.block_group.to_numpy()[row], attribute: np.array(values)[cell]}
        pd.DataFrame({**columns, "count": counts[row, cell]}).to_parquet(folder / f"{name}.parquet")
    numbers = {"persons": persons, "households": households.sum(axis=1), "open": households[:, -1]}
    return pd.DataFrame(numbers, index=table.block_group)


def of_block_groups(keys: int) -> dict[str, Any]:
    """Per level, the shares that are covered, with standard errors over keys."""
    covered: dict[str, dict[str, list[float]]] = {level: {} for level in DIGITS}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        true = write_block_groups(folder)
        for key in range(1, keys + 1):
            spec = parse_spec(BLOCK_GROUPS.format(key=key), "spec", folder)
            with tempfile.TemporaryDirectory() as out:
                request = Request(folder / "release.toml", Path(out), None, 1, i_know=True)
                run = RunDirectory(run_release(check_stated(request, spec), Silent()))
                for level, digits in DIGITS.items():
                    for name, share in covered_in(run, level, true.groupby(true.index.str[:digits]).sum()).items():
                        covered[level].setdefault(name, []).append(share)
    return {
        level: {
            name: (float(np.mean(shares)), float(np.std(shares, ddof=1) / np.sqrt(keys)) if keys > 1 else float("nan"))
            for name, shares in rows.items()
        }
        for level, rows in covered.items()
    }


def covered_in(run: RunDirectory, level: str, true: pd.DataFrame) -> dict[str, float]:
    """Of one release's areas of a level with households in truth and release."""
    sizes = read_household_sizes(unchecked(sizes_file(run, "households", level)))
    right = true.loc[sizes.geocodes.tolist()]
    there = ((right["households"] > 0) & (sizes.households > 0)).to_numpy()
    average = (right["persons"] / right["households"]).to_numpy()
    names = {"persons": "", "households": "households"}
    counted = {
        name: _counted(read_table(unchecked(run.universe(of).table("total", level)))) for name, of in names.items()
    }
    as_they_are = average_sizes(counted["persons"], counted["households"], 1, 7)

    def share(lows: Any, highs: Any, truth: Any) -> float:
        return float(((lows <= truth) & (truth <= highs))[there].mean())

    return {
        "averages": share(sizes.averages.lows, sizes.averages.highs, average),
        "ends as they are": share(as_they_are.lows, as_they_are.highs, average),
        **{name: share(each.lows, each.highs, right[name].to_numpy()) for name, each in counted.items()},
    }


def _counted(table: ReleasedTable) -> Counted:
    """The one number of a table, with its whole-number ends as they are."""
    assert table.lows is not None
    assert table.highs is not None
    return Counted(table.counts[:, 0], table.lows[:, 0], table.highs[:, 0])


def made_up(table: pd.DataFrame, between: float) -> NDArray[np.int64]:
    """Members beyond 7 of the households of "7+": geometric, with factors of the county and of the tract."""
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
    text = BLOCK_GROUPS.replace('"6", "7"]', '"6", "7+"]') + f'most = 60\nmean = "{7 + MEAN_EXCESS}"\n'
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        true = write_block_groups(folder, states, lambda table: made_up(table, between))
        for name in ("households.parquet",):
            table = pd.read_parquet(folder / name)
            table.replace({"size": {"7": "7+"}}).to_parquet(folder / name)
        right = {level: true.groupby(true.index.str[:digits]).sum() for level, digits in DIGITS.items()}
        for key in keys:
            spec = parse_spec(text.format(key=key), "spec", folder)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--part", choices=["example", "block_groups", "open"], default="example")
    parser.add_argument("--states", default=",".join(STATES), help="open: FIPS codes")
    parser.add_argument("--between", type=float, default=0.25, help="open: 0 for the same mean everywhere")
    parser.add_argument("--first-key", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not SHARED.exists():
        print(f"{SHARED}: no such folder; the real data are needed")
        return
    if arguments.part == "block_groups":
        found = of_block_groups(arguments.keys)
        for level, row in found.items():
            print(f"{level:>12}", *(f"{name} {share:.3f} (se {error:.3f})" for name, (share, error) in row.items()))
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1), "utf-8")
        return
    if arguments.part == "open":
        keys = range(arguments.first_key, arguments.first_key + arguments.keys)
        found = of_open_sizes(keys, arguments.states.split(","), arguments.between)
        for name, row in found.items():
            print(
                f"{name:>28} {row['areas']:>6,} {row['covered']:.3f} (se {row['se']:.3f}) "
                f"rms {row['rms']:.2f} half-width {row['half-width']:.2f}"
            )
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1), "utf-8")
        return
    found = measured(arguments.keys)
    print(
        f"{'level':>10} {'averages':>9} {'covered':>8} {'households alone':>17} {'half-width':>11} {'error':>8} "
        f"{'households':>11}"
    )
    for level, row in found.items():
        print(
            f"{level:>10} {row['averages']:>9,} {row['covered']:>8.3f} {row['covered, households alone']:>17.3f} "
            f"{row['half-width']:>11.4f} {row['error']:>8.4f} {row['households covered']:>11.3f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main()
