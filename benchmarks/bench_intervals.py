"""Coverage and width of the 90 % intervals, by true and by released size, where the truth is known.

    python benchmarks/bench_intervals.py [--json PATH] [--data ri_2010] [--keys 5] [--first 1]

Whole releases of many populations, each under several keys. The example's is synthetic; `sampled` is made up, large
enough for a sample of simulated areas, and so are `wide_england` and `survey`, answers from reports. The others are
census counts and records in ../shared/data beside the project, and are left out, with a word, where that is not there.
`ri_2010_topdown` is `ri_2010` by the estimator of 2020. Of the wide ones `wide_ri` is Rhode Island without Providence
County and `wide_providence` this county, 2,016 cells of block groups of which the detail alone is measured. `shared` is
Iowa's block groups, whose totals are shared as public housing units are, with cumulative ages; `households` joined ones
of two states, which are also told apart by how many households of an open size an area has (`open`); `wages` sums of an
amount, in units; `register` a municipal register of one year; `adult` tables of cliques. Averages, means and histories
of years are in bench_households.py, bench_amounts.py and bench_years.py.

Each published number that is not exact is compared with the truth. Classes with fewer than 300 numbers are not shown. A
class misses its target if less than 88 % are covered or, from 10 on, more than 93 %; it fails if by more than two
standard errors. These are of areas, whose numbers under all keys go together: the larger of that between areas and
that of independent numbers, as a level with few areas says little of the former. At the end stands the same of all
numbers below 10, and from 10 on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import bench_amounts
import bench_households
import bench_local
import bench_marginals
import bench_scale
import bench_wide
import numpy as np
import pandas as pd
import scipy.sparse as sp
from bench_release import DATA, EXAMPLES, PROJECT, run, spec_text

from features.cumulative.cumulated import cumulated_in
from geography.sums import roll_up
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Universe
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import read_table
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import unchecked

#: Lower ends of the classes of counts.
SIZES = np.array([0, 1, 5, 10, 100, 1000])
LEAST, MOST, ENOUGH = 0.88, 0.93, 300
#: Households of an open size, in the same classes of areas as `bench_households`.
OPEN = "7+"

#: A spec of counts by area, whose file has columns of them.
SPEC = """
name = "{name}"

[privacy]
framework = "zcdp"
rho = "1"
delta = "1e-10"
key = "insecure-test:{key}"

[geography]
file = "areas.parquet"
{geography}

[schema.attributes]
{attributes}

[strategy]
queries = {{ total = "1/4", {queries} }}
levels = {{ {shares} }}

[input]
file = "areas.parquet"
form = "wide"
geocode = "{geocode}"
cells = [{cells}]

[tables]
total = "total"
{tables}
"""

STATE_2000 = {
    "name": "state-2000",
    "geography": 'column = "block_group"\nlevels = { state = 2, county = 5, tract = 11, block_group = 12 }',
    "attributes": 'age = ["0_4", "5_17", "18_21", "22_29", "30_39", "40_49", "50_64", "65_up"]',
    "queries": 'age = "3/4"',
    "shares": 'state = "1/4", county = "1/4", tract = "1/4", block_group = "1/4"',
    "geocode": "block_group",
    "cells": '{ counts = "age_{age}" }',
    "tables": 'age = "age"',
}

COUNTRY_2010 = {
    "name": "country-2010",
    "geography": 'levels = ["region", "division", "state", "county", "leaf"]',
    "attributes": """votingage = ["under18", "18plus"]
race = ["hisp", "white", "black", "aian", "asian", "nhpi", "other_or_two"]""",
    "queries": 'race = "1/4", detailed = "1/2"',
    "shares": 'region = "1/10", division = "1/10", state = "1/5", county = "3/10", leaf = "3/10"',
    "geocode": "leaf",
    "cells": """
    { counts = "vap_{race}", votingage = "18plus" },
    { counts = "pop_{race} - vap_{race}", votingage = "under18" },
""",
    "tables": 'race = "race"\ndetail = "votingage * race"',
}

SAMPLED = {
    "name": "sampled",
    "geography": 'column = "leaf"\nlevels = { nation = 1, region = 2, area = 3, leaf = 6 }',
    "attributes": 'group = ["a", "b", "c", "d", "e"]',
    "queries": 'group = "3/4"',
    "shares": 'nation = "1/5", region = "1/5", area = "1/5", leaf = "2/5"',
    "geocode": "leaf",
    "cells": '{ counts = "{group}" }',
    "tables": 'group = "group"\n\n[publish]\nmicrodata = false',
}


def sampled_population(areas: int, leaves: int) -> pd.DataFrame:
    """People of five groups in so many areas of so many leaves, of which one group is most of them; made up.

    Leaves of an area are alike, and ten areas are a region.
    """
    rng = np.random.default_rng(1)
    mean = np.array([60.0, 20.0, 30.0, 1300.0, 20.0])
    mean = mean * np.exp(rng.normal(0, 0.8, (areas, 1, 5))) * np.exp(rng.normal(0, 0.5, (areas, leaves, 5)))
    codes = [f"E{chr(65 + area // 10)}{area % 10}{leaf:03}" for area in range(areas) for leaf in range(leaves)]
    return pd.DataFrame(rng.poisson(mean).reshape(-1, 5), columns=list("abcde")).assign(leaf=codes)


def _sampled(folder: Path, key: int) -> str:
    sampled_population(300, 100).to_parquet(folder / "areas.parquet", index=False)
    return SPEC.format(key=key, **SAMPLED)


def _iowa(folder: Path, key: int) -> str:
    areas = pd.read_parquet(DATA / "us_2000_block_groups.parquet")
    areas[areas["block_group"].str.startswith("19")].to_parquet(folder / "areas.parquet")
    return SPEC.format(key=key, **STATE_2000)


def _country(folder: Path, key: int) -> str:
    areas = pd.read_parquet(DATA / "us_2010_national_leaves.parquet")
    areas.to_parquet(folder / "areas.parquet")
    return SPEC.format(key=key, **COUNTRY_2010)


def _example(folder: Path, key: int) -> str:
    subprocess.run([sys.executable, "-m", "flows.cli", "example", str(folder / "made")], check=True)
    text = (folder / "made" / "release.toml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith(("key =", "dataset ="))]
    text = "\n".join(lines).replace('file = "', f'file = "{folder}/made/')
    return text.replace("[privacy]\n", f'[privacy]\nkey = "insecure-test:{key}"\n')


DETAIL_ALONE = """
name = "detail-alone"

[privacy]
rho = "1/2"
key = "insecure-test:{key}"

[geography]
file = "areas.csv"
column = "block_group"
levels = {{ state = 2, county = 5, tract = 11, block_group = 12 }}

[schema.attributes]
hhgq = [{hhgq}]
votingage = ["0", "1"]
hispanic = ["0", "1"]
cenrace = [{cenrace}]

[strategy.queries]
detailed = "1"

[strategy.levels]
state = "1/4"
county = "1/4"
tract = "1/4"
block_group = "1/4"

[input]
file = "persons.parquet"
form = "long"
geocode = "block_group"
count = "count"

[tables]
total = "total"
race = "cenrace"
origin = "hispanic * cenrace"
voters = "votingage * hispanic * cenrace"
quarters = "hhgq"

[publish]
microdata = false
"""


def _detail_alone(folder: Path, key: int, *, providence: bool) -> str:
    persons = pd.read_parquet(DATA / "ri_pl94_persons.parquet")
    persons["block_group"] = persons["block"].astype(str).str[:12]
    persons = persons[(persons["block_group"].str[:5] == "44007") == providence]
    columns = ["hhgq", "votingage", "hispanic", "cenrace"]
    persons = persons.groupby(["block_group", *columns])["count"].sum().reset_index()
    persons[columns] = persons[columns].astype(int).astype(str)
    persons.to_parquet(folder / "persons.parquet", index=False)
    persons[["block_group"]].drop_duplicates().to_csv(folder / "areas.csv", index=False)
    values = {name: ", ".join(f'"{i}"' for i in range(n)) for name, n in (("hhgq", 8), ("cenrace", 63))}
    return DETAIL_ALONE.format(key=key, **values)


def _england(folder: Path, key: int) -> str:
    text = bench_scale.write_england(folder, 128, margins=True).read_text(encoding="utf-8")
    text = text.replace("insecure-test:1", f"insecure-test:{key}")
    return text.replace("[tables]\n", '[tables]\nethnic = "ethnic"\n')


def _wide_1940(folder: Path, key: int) -> str:
    bench_wide.write_areas(folder / "areas.csv")
    return bench_wide.spec_text("with", key, folder / "areas.csv", margins=True)


def _shared(folder: Path, key: int) -> str:
    areas = pd.read_parquet(DATA / "us_2000_block_groups.parquet")
    areas[areas["block_group"].str.startswith("19")].to_parquet(folder / "areas.parquet")
    text = SPEC.format(key=key, **STATE_2000).replace('rho = "1"', 'rho = "1/50"')
    shares = 'file = "areas.parquet"\nlevel = "block_group"\ngeocode = "block_group"\ncolumn = "units"'
    text = text.replace('age = "age"', 'age = { query = "age", cumulative = true }')
    return f"{text}\n[postprocess.shares.homes]\n{shares}\n"


def _households(folder: Path, key: int) -> str:
    bench_households.write_block_groups(folder, bench_households.STATES, 0.0)
    return bench_households.BLOCK_GROUPS.format(key=key, mean=7 + bench_households.MEAN_EXCESS)


def _keyed(example: str, key: int) -> str:
    text = (PROJECT / "examples" / example).read_text(encoding="utf-8")
    return text.replace('"insecure-test:1"', f'"insecure-test:{key}"')


def _wages(folder: Path, key: int) -> str:
    bench_amounts.write_inputs(folder, 0)
    return _keyed("wages.toml", key)


def _adult(folder: Path, key: int) -> str:
    bench_marginals.write_files(folder / "adult_files")
    return _keyed("adult.toml", key).replace("../adult_files", str(folder / "adult_files"))


REGISTER = {
    "name": "register",
    "geography": 'levels = ["country", "region", "province", "municipality"]',
    "attributes": 'sex = ["men", "women"]',
    "queries": 'sex = "3/4"',
    "shares": 'country = "1/4", region = "1/4", province = "1/4", municipality = "1/4"',
    "geocode": "municipality",
    "cells": '{ counts = "{sex}" }',
    "tables": 'sex = "sex"\n\n[publish]\nmicrodata = false',
}


def _register(folder: Path, key: int) -> str:
    people = pd.read_parquet(DATA / "spain_padron_2003_2012.parquet")
    people[people["year"] == 2012].assign(country="ES").to_parquet(folder / "areas.parquet")
    return SPEC.format(key=key, **REGISTER).replace('rho = "1"', 'rho = "1/10"')


def _survey(folder: Path, key: int, *, mechanism: str, values: int, epsilon: str) -> str:
    survey = bench_local.state_survey(folder, mechanism, values, epsilon, key)
    np.save(folder / "truth.npy", survey.truth)
    return survey.spec.read_text(encoding="utf-8")


#: Name -> the spec of a run under a key; its files may be made in the folder.
POPULATIONS: dict[str, Callable[[Path, int], str]] = {
    "example": _example,
    "sampled": _sampled,
    "survey": partial(_survey, mechanism="unary_encoding", values=12, epsilon="1"),
    "survey_yes_no": partial(_survey, mechanism="randomised_response", values=2, epsilon="1"),
    **{
        name: lambda _, key, name=name: spec_text(name, key=key, estimator="full", margins=True)  # type: ignore[misc]
        for name in EXAMPLES
    },
    "ri_2010_topdown": lambda _, key: spec_text("ri_2010", key=key, estimator="topdown", margins=True),
    "us_2000_iowa": _iowa,
    "us_2010": _country,
    "wide_ri": partial(_detail_alone, providence=False),
    "wide_providence": partial(_detail_alone, providence=True),
    "wide_england": _england,
    "wide_1940": _wide_1940,
    "shared": _shared,
    "households": _households,
    "wages": _wages,
    "register": _register,
    "adult": _adult,
}
#: Of these no data is read.
MADE_UP = ("example", "sampled", "survey", "survey_yes_no", "wide_england")


def compared(directory: Path) -> Iterator[pd.DataFrame]:
    """Table by table, each published number that is not exact: class by truth and release, inside or not, width."""
    directories = RunDirectory(directory)
    spec = load_spec(directory.parent / "release.toml")
    for universe in spec.universes():
        folder = directories.universe(universe.name)
        for table in universe.tables:
            for level in table.levels:
                name, path = f"{universe.name} {table.name}".strip(), folder.table(table.name, level)
                codes = read_table(unchecked(path)).geocodes
                true = _true_counts(directory, universe, level, codes)
                answers = table.query.answer_csr(true)
                yield _numbers(name, level, path, answers, _open_households(universe, true))
                if (fact := cumulated_in(table)) is not None:
                    sums = np.cumsum(fact.split(table, answers), axis=2).reshape(answers.shape)
                    yield _numbers(f"{name}, cumulative", level, fact.file(folder, table, level), sums)


def _true_counts(directory: Path, universe: Universe, level: str, codes: np.ndarray) -> sp.csr_array:
    """The true histogram of a level; of reports, of which no run has one, from the answers that were randomised."""
    truth = directory.parent / "truth.npy"
    if not truth.is_file():
        file = RunDirectory(directory).universe(universe.name).true_histogram(level)
        return read_histogram(file, codes, universe.schema)
    spec = load_spec(directory.parent / "release.toml")
    spine = read_spine(spec.geography)
    return roll_up(spine, sp.csr_array(np.load(truth)))[spine.index_of(level)]


def _open_households(universe: Universe, true: sp.csr_array) -> np.ndarray | None:
    sizes = next((one.values for one in universe.schema.attributes if one.name == "size"), ())
    return None if OPEN not in sizes else true.toarray()[:, sizes.index(OPEN)]


def _numbers(name: str, level: str, path: Path, true: np.ndarray, households: np.ndarray | None = None) -> pd.DataFrame:
    published = read_table(unchecked(path))
    assert published.lows is not None
    assert published.highs is not None
    free = published.highs > published.lows
    area = np.broadcast_to(np.arange(len(true))[:, None], true.shape)
    columns: dict[str, np.ndarray] = {"area": area, "inside": (published.lows <= true) & (true <= published.highs)}
    columns |= {by: np.searchsorted(SIZES, of, side="right") - 1 for by, of in _sizes(true, published.counts)}
    if households is not None:
        own = np.searchsorted(bench_households.CLASSES, households, side="right") - 1
        columns["open"] = np.broadcast_to(own[:, None], true.shape)
    columns["width"] = published.highs - published.lows
    return pd.DataFrame({"table": name, "level": level, **{name: each[free] for name, each in columns.items()}})


def _sizes(true: np.ndarray, released: np.ndarray) -> tuple[tuple[str, np.ndarray], ...]:
    return ("true", np.maximum(true, 0)), ("released", np.maximum(released, 0))


def coverage(name: str, keys: range) -> pd.DataFrame:
    """Numbers, share covered, its standard error and mean width by table, level and size, over runs with other keys."""
    sums: list[pd.DataFrame] = []
    for key in keys:
        with tempfile.TemporaryDirectory() as place:
            done = run(Path(place), POPULATIONS[name](Path(place), key), workers=1)
            for frame in compared(Path(str(done["directory"]))):
                for by in ("true", "released", "open"):
                    if by in frame:
                        grouped = frame.groupby(["level", "table", by, "area"])
                        counted = grouped.agg(
                            numbers=("inside", "size"), inside=("inside", "sum"), widths=("width", "sum")
                        )
                        counted = counted.rename_axis(["level", "table", "size", "area"]).assign(by=by)
                        sums.append(counted.reset_index())
    of_class = ["level", "table", "by", "size"]
    by_area = pd.concat(sums).groupby([*of_class, "area"], sort=False).sum().reset_index()
    total = by_area.groupby(of_class, sort=False)[["numbers", "inside", "widths"]].sum()
    share = total["inside"] / total["numbers"]
    areas = by_area.set_index(of_class)
    off = (areas["inside"] - areas["numbers"] * share.reindex(areas.index)) ** 2
    between = np.sqrt(off.groupby(level=of_class, sort=False).sum()) / total["numbers"]
    error = np.maximum(between, np.sqrt(share * (1 - share) / total["numbers"]))
    total = total.assign(error=error).reset_index()
    least = np.where(
        total["by"] == "open", np.array([*bench_households.CLASSES, 0])[total["size"]], SIZES[total["size"]]
    )
    return with_shares(total.assign(size=least))


def with_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Share covered and mean width, of sums over the numbers of each class."""
    return rows.assign(coverage=rows["inside"] / rows["numbers"], width=rows["widths"] / rows["numbers"])


def together(rows: pd.DataFrame) -> pd.DataFrame:
    """The classes of all numbers below 10, and from 10 on, by true and by released size."""
    rows = rows[rows["by"] != "open"]
    sizes = np.where(rows["size"] < 10, "below 10", "from 10 on")
    return with_shares(rows.groupby(["by", sizes])[["numbers", "inside", "widths"]].sum())


def missed(rows: pd.DataFrame) -> pd.Series:
    """Which classes miss their target."""
    return (rows["coverage"] < LEAST) | (_is_bounded(rows) & (rows["coverage"] > MOST))


def failed(rows: pd.DataFrame) -> pd.Series:
    """Which of them do so by more than two standard errors."""
    low, high = rows["coverage"] + 2 * rows["error"], rows["coverage"] - 2 * rows["error"]
    return (low < LEAST) | (_is_bounded(rows) & (high > MOST))


def _is_bounded(rows: pd.DataFrame) -> pd.Series:
    return (rows["size"] >= 10) & (rows["by"] != "open")


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", choices=list(POPULATIONS), action="append")
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="the first key")
    arguments = parser.parse_args()
    figures = {}
    for name in arguments.data or list(POPULATIONS):
        if name not in MADE_UP and not DATA.is_dir():
            print(f"{name}: the real census data (../shared/data) is not beside the project; left out")
            continue
        classes = coverage(name, range(arguments.first, arguments.first + arguments.keys))
        rows = classes[classes["numbers"] >= ENOUGH]
        figures[name] = rows[["level", "table", "size", "numbers", "width", "by", "coverage", "error"]].to_dict(
            "records"
        )
        shown = rows.assign(cell=[f"{c:.3f}/{w:.1f}" for c, w in zip(rows["coverage"], rows["width"], strict=True)])
        table = shown.pivot_table(
            index=["level", "table", "by"], columns="size", values="cell", aggfunc="first", sort=False
        )
        print(f"\n{name}: coverage/mean width of 90 % intervals by size, {arguments.keys} keys")
        print(table.fillna("").sort_index(axis=1).to_string())
        wrong = rows[missed(rows)]
        print(f"{len(rows) - len(wrong)} of {len(rows)} classes within {LEAST} and, from 10 on, {MOST}; all others,")
        print(f"of which {failed(rows).sum()} by more than two standard errors:")
        shown = wrong.assign(fails=failed(wrong))[
            ["level", "table", "by", "size", "numbers", "coverage", "error", "fails"]
        ]
        print(shown.round(3).to_string(index=False), flush=True)
        of_all = together(classes)[["coverage", "width"]].itertuples()
        print("All numbers:", "; ".join(f"{' '.join(of)} {c:.3f}/{w:.1f}" for of, c, w in of_all))
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
