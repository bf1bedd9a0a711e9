"""Releases of a whole country on one machine, with the targets beside the figures.

    python benchmarks/bench_national.py [--json PATH] [--part 2010|2020] [--minutes 30] [--states 44,10,... | all]
                                        [--without-margins]

2010: all 187,023 leaves of the United States in 2010, six levels, 308,745,538 people, from published counts.
2020: real 2020 block codes of 49 states with a synthetic population, the production redistricting strategy with 2,016
cells: as many whole states as fit into the minutes, the rest extrapolated by blocks and said so; and growth. The
example's generator puts people of eight groups and two ages on the blocks; here each of its cells is divided further:
hispanics by race, those of several races by which, and some blocks have group quarters, in which the block's adults
live. The shares are near the 2010 Census's.

Needs the real census data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from bench_release import DATA, EXAMPLES, PROJECT, estimation, run
from numpy.typing import NDArray

from features.example.population import RACES, SCHEMA, populate
from geography.build import spine_from_prefixes

LEVELS = {"us": 1, "state": 3, "county": 6, "tract": 12, "block_group": 13, "block": 16}
#: Numbers of the 63 races of table P1: white 0, black 1, aian 2, asian 3, nhpi 4, some other 5, then combinations.
_SINGLE = {"white": 0, "black": 1, "aian": 2, "asian": 3, "nhpi": 4, "other": 5}
_HISPANIC = {0: 0.53, 1: 0.025, 2: 0.014, 3: 0.004, 4: 0.001, 5: 0.367, 6: 0.013, 10: 0.03, 14: 0.016}
_SEVERAL = {6: 0.25, 7: 0.2, 8: 0.22, 9: 0.03, 10: 0.12, 11: 0.03, 12: 0.03, 14: 0.04, 16: 0.02, 21: 0.03, 24: 0.03}
#: Share of blocks with a facility, of the facilities' types (1 correctional ... 7 other), and persons in one.
_WITH_FACILITY = 0.022
_TYPES = np.array([0.06, 0.03, 0.2, 0.03, 0.18, 0.01, 0.49])
_HHGQ = (
    "gq_correctional",
    "gq_juvenile",
    "gq_nursing",
    "gq_other_inst",
    "gq_college",
    "gq_military",
    "gq_other_noninst",
)
_ROWS_AT_ONCE = 1 << 22

#: Numbers of states with 25,649, 66,862, 206,311 and 1,204,773 blocks together.
GROWTH = [[44], [10, 15, 33], [9, 24, 54], [1, 5, 17, 18, 19, 21]]
N_BLOCKS = 7_458_086
#: Most that the whole is to take, with margins.
MINUTES, MEGABYTES = 40, 7_000

SPEC_2010 = """
name = "us-2010"

[privacy]
rho = "2.56"
key = "insecure-test:1"

[geography]
file = "leaves.parquet"
levels = ["us", "region", "division", "state", "county", "leaf"]

[schema.attributes]
votingage = ["under18", "18plus"]
race = ["hisp", "white", "black", "aian", "asian", "nhpi", "other_or_two"]

[strategy.queries]
total = "3/10"
votingage = "1/10"
race = "3/10"
detailed = "3/10"

[strategy.levels]
us = "1/20"
region = "1/20"
division = "1/20"
state = "1/5"
county = "1/4"
leaf = "2/5"

[invariants]
state = ["total"]

[input]
file = "leaves.parquet"
form = "wide"
geocode = "leaf"
cells = [
    { counts = "vap_{race}", votingage = "18plus" },
    { counts = "pop_{race} - vap_{race}", votingage = "under18" },
]

[tables]
total = "total"
race = "race"
detail = "votingage * race"

[postprocess]
passes = ["total"]

"""


def _published(*, margins: bool) -> str:
    return f"\n[publish]\nmargins = {str(margins).lower()}\n"


def bench_2010(*, margins: bool = True) -> dict[str, Any]:
    """The whole run on all leaves of 2010: seconds, memory, people."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        leaves = pd.read_parquet(DATA / "us_2010_national_leaves.parquet")
        leaves.insert(0, "us", "us")
        leaves["leaf"] = leaves["county"].str.cat(leaves["leaf"], sep="/")
        leaves.to_parquet(folder / "leaves.parquet")
        done = run(folder, SPEC_2010 + _published(margins=margins))
        root = Path(str(done["directory"]))
        people = int(pd.read_parquet(root / "public" / "histograms" / "leaf.parquet", columns=["count"])["count"].sum())
    return {"leaves": len(leaves), "people": people, **{k: done[k] for k in ("seconds", "peak_mb", "stages")}}


def spec_2020(*, margins: bool = True) -> str:
    """The example of the redistricting data, for persons.parquet and units.parquet of `write_nation`."""
    text = (PROJECT / "examples" / EXAMPLES["ri_pl94"]).read_text(encoding="utf-8")
    text = text.replace("../../shared/data/ri_pl94_", "")
    levels = ", ".join(f"{name} = {length}" for name, length in LEVELS.items())
    text = re.sub(r"(?m)^levels = .*$", f"levels = {{ {levels} }}", text, count=1)
    text = re.sub(r"(?ms)^\[tables\]\n.*?(?=^\[)", '[tables]\ntotal = "total"\nrace = "cenrace"\n\n', text)
    return text + _published(margins=margins) + "microdata = false\n"


def bench_2020(states: list[int], workers: int = 2, *, margins: bool = True) -> dict[str, Any]:
    """One run on the blocks of some states."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        blocks = write_nation(DATA / "us_2020_block_spine_exTXDC.parquet", folder, states)
        done = run(folder, spec_2020(margins=margins), workers)
        free = shutil.disk_usage(folder).free
        size = sum(path.stat().st_size for path in Path(str(done["directory"])).rglob("*") if path.is_file())
    stages = done["stages"]
    return {
        "states": len(states),
        "blocks": blocks,
        "seconds": done["seconds"],
        "peak_mb": done["peak_mb"],
        "post-processing": sum(v for k, v in estimation(stages).items() if k != "measuring"),
        "gigabytes": size / 1e9,
        "free_gigabytes": free / 1e9,
        "stages": stages,
    }


def write_nation(spine_file: Path, folder: Path, states: list[int], people_a_block: float = 41.4, seed: int = 1) -> int:
    """Write persons.parquet and units.parquet for the blocks of some states to `folder`; returns the number of blocks.

    Args:
        spine_file: real block codes as whole numbers.
        folder: in which the files are written.
        states: numbers of the states, as in the first two digits of a code.
        people_a_block: mean number of persons of a block.
        seed: of the population.
    """
    blocks = pq.read_table(spine_file).column(0).to_numpy()
    blocks = np.sort(blocks[np.isin(blocks // 10**13, states)])
    # One digit before the code stands for the nation, so that every level is a prefix.
    codes = (blocks + 10**15).astype("U16")
    spine = spine_from_prefixes(codes, LEVELS)
    rng = np.random.default_rng([seed, 2])
    counts = populate(spine, round(people_a_block * len(codes)), seed)
    facility_of = np.where(rng.random(len(codes)) < _WITH_FACILITY, rng.choice(7, len(codes), p=_TYPES) + 1, 0)
    facility_of[np.diff(counts.indptr) == 0] = 0
    text = pa.array(codes, pa.string())
    _write_persons(folder / "persons.parquet", text, counts, facility_of, rng)
    units = {"block": text, "housing_units": pa.array(np.ceil(np.asarray(counts.sum(axis=1)) / 2.2).astype(np.int64))}
    for number, name in enumerate(_HHGQ):
        units[name] = pa.array((facility_of == number + 1).astype(np.int64))
    units["occupied"] = pa.array((units["housing_units"].to_numpy() * 0.9).astype(np.int64))
    pq.write_table(pa.table(units), folder / "units.parquet", compression="zstd")
    return len(codes)


def _write_persons(
    path: Path, codes: pa.Array, counts: sp.csr_array, facility_of: NDArray[np.int64], rng: np.random.Generator
) -> None:
    """One row for each nonzero cell: block, hhgq, votingage, hispanic, cenrace (numbers), count."""
    fields = [pa.field("block", pa.dictionary(pa.int32(), pa.string()))]
    fields += [pa.field(name, pa.int16()) for name in ("hhgq", "votingage", "hispanic", "cenrace")]
    fields.append(pa.field("count", pa.int64()))
    cell_codes = SCHEMA.cell_codes()
    step = max(1, int(_ROWS_AT_ONCE / max(1.0, counts.nnz / counts.shape[0])))
    with pq.ParquetWriter(path, pa.schema(fields), compression="zstd") as writer:
        for first in range(0, counts.shape[0], step):
            part = counts[first : first + step]
            rows = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            ages, groups = cell_codes[part.indices].T
            cells = [np.zeros((0, 6), dtype=np.int64)]
            for group, name in enumerate(RACES):
                mine = groups == group
                cells.append(_divided(name, rows[mine], ages[mine], part.data[mine], rng))
            persons = np.concatenate(cells)
            persons[:, 1] = _quarters(persons, facility_of[first : first + step])
            persons = persons[np.lexsort(persons[:, :5].T[::-1])]
            leaf = pa.DictionaryArray.from_arrays(
                pa.array(persons[:, 0].astype(np.int32)), codes.slice(first, part.shape[0])
            )
            arrays = [leaf, *(pa.array(persons[:, i].astype(np.int16)) for i in range(1, 5)), pa.array(persons[:, 5])]
            writer.write_table(pa.table(arrays, schema=pa.schema(fields)))


def _divided(
    group: str, rows: NDArray[np.int64], ages: NDArray[np.int64], data: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows (block, hhgq 0, votingage, hispanic, cenrace, count) of one of the generator's groups."""
    if group in _SINGLE:
        races, shares = [_SINGLE[group]], [1.0]
    else:
        divided = _HISPANIC if group == "hispanic" else _SEVERAL
        races, shares = list(divided), list(divided.values())
    drawn = rng.multinomial(data, np.array(shares) / sum(shares))
    area, race = np.nonzero(drawn)
    hispanic = np.full(len(area), int(group == "hispanic"))
    nobody = np.zeros(len(area), dtype=np.int64)
    return np.stack([rows[area], nobody, ages[area], hispanic, np.array(races)[race], drawn[area, race]], axis=1)


def _quarters(persons: NDArray[np.int64], facility_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """The type of quarters of each row: in a block with a facility its adults' largest rows live there."""
    facility = facility_of[persons[:, 0]]
    lives_there = (facility > 0) & (persons[:, 2] == 1)
    return np.where(lives_there, facility, 0)


def states_of_blocks() -> pd.Series:
    """The number of the state of each block."""
    return pd.read_parquet(DATA / "us_2020_block_spine_exTXDC.parquet")["block"] // 10**13


def growth(minutes: float, groups: list[list[int]], *, margins: bool = True) -> list[dict[str, Any]]:
    """Runs on more and more states, as long as the next, by the last one's pace, ends within the minutes."""
    sizes = states_of_blocks().value_counts()
    rows: list[dict[str, Any]] = []
    left = minutes * 60
    for states in groups:
        n_blocks = int(sizes[states].sum())
        if rows and float(rows[-1]["seconds"]) / int(rows[-1]["blocks"]) * n_blocks > left:
            break
        rows.append(bench_2020(states, margins=margins))
        left -= float(rows[-1]["seconds"])
    return rows


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", choices=["2010", "2020"], action="append")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--states", help="numbers of states to run in one go, or all, instead of the growing groups")
    parser.add_argument("--without-margins", action="store_true", help="publish no margins of error")
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print("bench_national: the real census data (../shared/data) is not beside the project; nothing is measured")
        return
    margins = not arguments.without_margins
    told = "with margins" if margins else "without margins"
    figures: dict[str, Any] = {"margins": margins}
    parts = arguments.part or ["2010", "2020"]
    if "2010" in parts:
        result = bench_2010(margins=margins)
        figures["2010"] = result
        print(f"\nUnited States 2010: {result['leaves']:,} leaves, {result['people']:,} people, 2 workers, {told}")
        print(f"  whole command  {result['seconds']:8.1f} s   target  300 s")
        print(f"  peak memory    {result['peak_mb']:8.0f} MB  target 4000 MB (all processes)")
    if "2020" in parts:
        groups = GROWTH
        if arguments.states:
            everything = arguments.states == "all"
            states = sorted(set(states_of_blocks())) if everything else arguments.states.split(",")
            groups = [[int(state) for state in states]]
        rows = growth(arguments.minutes, groups, margins=margins)
        figures["2020"] = rows
        print(f"\nBlocks of 2020, synthetic people, 2,016 cells, the production strategy, 2 workers, {told}")
        print("   states     blocks   seconds  of it post-processing   peak MB  release GB")
        for row in rows:
            print(
                f"  {row['states']:7}  {row['blocks']:9,}  {row['seconds']:8.1f}  {row['post-processing']:21.1f}"
                f"  {row['peak_mb']:8.0f}  {row['gigabytes']:10.2f}"
            )
        if int(rows[-1]["blocks"]) == N_BLOCKS:
            print(
                f"  the whole: {rows[-1]['seconds'] / 60:.1f} minutes, target {MINUTES}; "
                f"{rows[-1]['peak_mb']:,.0f} MB, target {MEGABYTES:,}"
            )
        if len(rows) > 1:
            logs = np.log([[float(row[k]) for row in rows] for k in ("blocks", "seconds", "peak_mb")])
            print(f"  exponent of the seconds in the blocks {np.polyfit(logs[0], logs[1], 1)[0]:.2f}   target 1.05")
            print(f"  exponent of the peak memory           {np.polyfit(logs[0], logs[2], 1)[0]:.2f}   target flat")
            first, last = rows[-2], rows[-1]
            pace = (float(last["seconds"]) - float(first["seconds"])) / (int(last["blocks"]) - int(first["blocks"]))
            total = float(last["seconds"]) + pace * (N_BLOCKS - int(last["blocks"]))
            print(
                f"  all {N_BLOCKS:,} blocks, extrapolated from the last two rows: {total / 60:.0f} minutes, "
                f"target {MINUTES}"
            )
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
