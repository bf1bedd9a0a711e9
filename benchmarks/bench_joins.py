"""Joins: how far persons and households agree, and what a join does to the errors of either.

    python benchmarks/bench_joins.py [--part semcog|block_groups|example] [--keys 20] [--states 43] [--json PATH]

The example `examples/one_population.toml` is released with its joins and without, by the same keys, from the same
measurements. For every level: the share of geounits in which the persons agree with every join; the mean L1 errors of
persons and of households, as ratios of the errors without joins.

block_groups: the same for the block groups of 2000, whose persons (by age and sex) are not told apart by whether they
live in households: sizes are then the least persons that there can be. Age and sex, and size and tenure, are crossed in
proportion, since they are published apart.

example: the state of `spinewise example --households`, 25,000 blocks and a million people, with margins, microdata and
report: core seconds and peak memory of the whole command with the joins and without; the joined one is then checked,
each household too.

The first two need the real data in ../shared/data beside the project; without it they say so and end.
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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from features.joins.mathematics.bounds import joined_bounds
from features.joins.mathematics.composition import Composition
from features.joins.resolve import stated_joins
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.runs.request import Request, check_stated
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from pipeline.storage.readable import unchecked

Counted = NDArray[np.int64]
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


BLOCK_GROUPS = """
name = "block_groups"
[privacy]
rho = "1"
key = "insecure-test:1"
[geography]
file = "areas.parquet"
levels = ["nation", "state", "county", "tract", "block_group"]
[schema.attributes]
age = ["0-4", "5-17", "18-21", "22-29", "30-39", "40-49", "50-64", "65+"]
sex = ["male", "female"]
[strategy]
queries = { "total" = "1/5", "detailed" = "4/5" }
levels = { nation = "1/10", state = "1/10", county = "1/5", tract = "1/5", block_group = "2/5" }
[input]
file = "persons.parquet"
form = "long"
geocode = "block_group"
[companions.households.privacy]
rho = "1"
[companions.households.schema.attributes]
size = ["1", "2", "3", "4", "5", "6", "7+"]
tenure = ["owner", "renter"]
[companions.households.strategy]
queries = { "total" = "1/5", "size" = "2/5", "detailed" = "2/5" }
levels = { nation = "1/10", state = "1/10", county = "1/5", tract = "1/5", block_group = "2/5" }
[companions.households.input]
file = "households.parquet"
form = "long"
geocode = "block_group"
[[join]]
companion = "households"
size = "size"
others = true
"""
AGES = ("0_4", "5_17", "18_21", "22_29", "30_39", "40_49", "50_64", "65_up")


def crossed(rows: Counted, first: Counted) -> Counted:
    """Whole numbers `(n, k)` at most `rows`, whose sums are `first` `(n,)`: in proportion, by largest remainders."""
    total = np.maximum(rows.sum(axis=1), 1)
    exact = rows * (first / total)[:, None]
    out = np.floor(exact).astype(np.int64)
    left = first - out.sum(axis=1)
    rank = np.argsort(np.argsort(-(exact - out), axis=1, kind="stable"), axis=1)
    return np.asarray(out + (rank < left[:, None]))


def write_block_groups(folder: Path, states: int) -> None:
    """The records of some states as files of the long form, and the list of block groups."""
    table = pq.read_table(SHARED / "us_2000_block_groups.parquet").to_pandas()
    chosen = sorted(table.block_group.str[:2].unique())[:states]
    table = table[table.block_group.str[:2].isin(chosen)].sort_values("block_group")
    codes = table.block_group.to_numpy(dtype=str)
    areas = {"nation": ["US"] * len(codes)}
    areas |= {name: [code[:n] for code in codes] for name, n in (("state", 2), ("county", 5), ("tract", 11))}
    pq.write_table(pa.table({**areas, "block_group": codes}), folder / "areas.parquet")
    ages = table[[f"age_{age}" for age in AGES]].to_numpy(dtype=np.int64)
    sizes = table[[f"hh_{size}" for size in range(1, 8)]].to_numpy(dtype=np.int64)
    spec = parse_spec(BLOCK_GROUPS, folder=folder)
    for universe, rows, first, name in zip(
        spec.universes(), (ages, sizes), ("male", "owner"), ("persons", "households"), strict=True
    ):
        one = crossed(rows, table[first].to_numpy(dtype=np.int64))
        cells = np.stack([one, rows - one], axis=2)
        at = np.nonzero(cells)
        (a, b) = universe.schema.attributes
        columns = {"block_group": codes[at[0]], a.name: np.array(a.values)[at[1]], b.name: np.array(b.values)[at[2]]}
        pq.write_table(pa.table({**columns, "count": cells[at]}), folder / f"{name}.parquet")


def run_command(*words: str) -> tuple[float, float]:
    """Core seconds and peak memory (MB) of a command; it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "flows.entry", *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1000


def example_figures(repeats: int) -> dict[str, Any]:
    """The example state with its joins and without: medians of core seconds, and the larger peak so far."""
    seconds: dict[str, list[float]] = {"joined": [], "apart": []}
    peak = {"joined": 0.0, "apart": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        run_command("example", str(state), "--households")
        text = (state / "release.toml").read_text("utf-8")
        begin, end = text.index("[[join]]"), text.index("[report]")
        (state / "apart.toml").write_text(text[:begin] + text[end:], "utf-8")
        for number in range(repeats):
            for name, spec in (("apart", "apart.toml"), ("joined", "release.toml")):
                out = Path(folder) / f"{name}{number}"
                words = ("run", str(state / spec), "--out", str(out), "--workers", "1", "--no-prefect", "--i-know")
                used, memory = run_command(*words)
                seconds[name].append(used)
                peak[name] = max(peak[name], memory)
        run_command("verify", "--constraints", str(out / "example"))
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return {"core seconds": medians, "ratio": medians["joined"] / medians["apart"], "peak MB": peak}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=["semcog", "block_groups", "example"], default="semcog")
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--states", type=int, default=43)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=3, help="runs of the example")
    arguments = parser.parse_args()
    if arguments.part == "example":
        print(json.dumps(example_figures(arguments.repeats), indent=1))
        return
    if not SHARED.exists():
        print("the real data is not there: ../shared/data")
        return
    if arguments.part == "semcog":
        figures = measured(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE.parent, arguments.keys)
    else:
        with tempfile.TemporaryDirectory() as folder:
            write_block_groups(Path(folder), arguments.states)
            figures = measured(BLOCK_GROUPS, Path(folder), arguments.keys)
    print(f"{'':24}" + "".join(f"{level:>12}" for level in figures["levels"]))
    for name, shares in figures["agree"].items():
        print(f"{'agree, ' + name:24}" + "".join(f"{share:12.3f}" for share in shares))
    for query, ratios in figures["ratios"].items():
        apart = figures["errors apart"][query]
        print(f"{query:24}" + "".join(f"{a:7.1f} x{r:4.2f}" for a, r in zip(apart, ratios, strict=True)))
    print("seconds", figures["seconds"])
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
