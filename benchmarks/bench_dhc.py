"""The widest schema: 42 x 2 x 116 x 2 x 63 = 1,227,744 cells of persons, in a made-up state of 25,000 blocks.

    python benchmarks/bench_dhc.py [--share 100 10 1] [--keep FOLDER] [--workers 2] [--strategy PRESET]

For each share it makes up one n-th of a state of a million persons in 25,000 blocks, 800 block groups, 250 tracts and 5
counties, releases it with the preset `dhc-persons-county`, or another, and prints time, peak memory of all processes,
the plan's bound on it, the L1 errors of the ten queries at each level, and how many answers were drawn where the area
above is positive. Households have one to seven members: a householder,
a spouse or partner, children of ages that fit, other relatives; one block in eighty is a group quarter of one kind.
Race and origin have shares of their own in each county and tract, and are those of the household; the public shares of
2020 (ages, sizes of households, races alone and in combination) are followed roughly. Figures are in docs/scaling.md.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from measured_run import each_share, measured_beside_plan, with_shares
from numpy.typing import ArrayLike, NDArray
from synthetic_spine import leaf_codes

from pipeline.inputs.geography import read_spine
from pipeline.release.histograms import read_histogram
from pipeline.spec.preset import load_preset
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked

#: Geounits of each level of the whole.
WHOLE = (1, 5, 250, 800, 25_000)
LEVELS = ("state", "county", "tract", "block_group", "block")
#: Persons of the whole.
PEOPLE = 1_000_000
#: Ages, the six races alone and their combinations.
AGES, RACES = 116, 6
#: Shares of households of one to seven members.
SIZES = np.array([0.28, 0.34, 0.15, 0.13, 0.06, 0.025, 0.015])
#: Shares of races alone, and of combinations by their number of races.
ALONE = np.array([0.62, 0.124, 0.011, 0.06, 0.002, 0.084])
COMBINED = {2: 0.092, 3: 0.006, 4: 0.0008, 5: 0.0001, 6: 0.00002}
#: Share of households of Hispanic origin, and of blocks that are a group quarter.
HISPANIC, QUARTERS = 0.187, 1 / 80
SPEC = """name = "dhc-{share}"
strategy = "{strategy}"

[privacy]
key = "insecure-test:1"

[geography]
file = "leaves.parquet"
column = "leaf"
levels = {{ state = 5, county = 10, tract = 15, block_group = 20, block = 25 }}

[schema.attributes]
relgq = [{relgq}]
sex = ["male", "female"]
age = [{ages}]
hispanic = ["no", "yes"]
cenrace = [{cenrace}]

[input]
file = "persons.parquet"
form = "microdata"
geocode = "leaf"
coded = true

[tables]
total = "total"
sexes = "age_38 * sex"
origin = "hispanic * sex"
households = "relgq_19"

[publish]
margins = false
"""


def relations() -> list[str]:
    """The values of relgq, householders first."""
    recodes = {recode.name: recode for recode in load_preset("dhc-persons").recodes}
    return [value for _, values in recodes["relgq_4"].groups for value in values]


def _races(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Shares of the 63 values in n areas."""
    values = [one for size in range(1, RACES + 1) for one in combinations(range(RACES), size)]
    typical = np.array(
        [
            ALONE[one[0]] if len(one) == 1 else COMBINED[len(one)] * np.prod(ALONE[list(one)]) ** (1 / len(one))
            for one in values
        ]
    )
    for size in COMBINED:
        own = np.array([len(one) == size for one in values])
        typical[own] *= COMBINED[size] / typical[own].sum()
    shares = rng.gamma(np.maximum(8.0 * typical / typical.sum(), 1e-4), size=(n, len(typical)))
    return shares / shares.sum(axis=1, keepdims=True)


def persons(codes: NDArray[np.str_], people: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Made-up persons: `leaf` numbers the codes, the other columns the values of the attributes."""
    rng = np.random.default_rng([seed, 42])
    names = {name: number for number, name in enumerate(relations())}
    _, tract = np.unique([code[:15] for code in codes], return_inverse=True)
    shares = np.cumsum(_races(rng, tract.max() + 1), axis=1)
    origin = rng.beta(2.0, 2.0 * (1 - HISPANIC) / HISPANIC, tract.max() + 1)
    quarters = rng.random(len(codes)) < QUARTERS
    weights = rng.gamma(1.2, size=len(codes)) * np.where(quarters, 0.0, 1.0)
    n_quarters = round(0.025 * people)
    households = round((people - n_quarters) / float(SIZES @ np.arange(1, 8)))
    leaf = np.repeat(np.arange(len(codes)), rng.multinomial(households, weights / weights.sum()))
    size = 1 + rng.choice(len(SIZES), p=SIZES, size=len(leaf))
    race = (rng.random(len(leaf))[:, None] > shares[tract[leaf]]).sum(axis=1)
    hispanic = rng.random(len(leaf)) < origin[tract[leaf]]
    head_age = np.clip(rng.normal(50, 17, len(leaf)), 18, 100).astype(np.int64)
    head_sex = rng.integers(0, 2, len(leaf))
    couple = (size > 1) & (rng.random(len(leaf)) < 0.72)
    rows = []

    def add(which: NDArray[np.int64], relgq: ArrayLike, sex: ArrayLike, age: ArrayLike) -> None:
        n = len(which)
        own = np.where(rng.random(n) < 0.93, race[which], (rng.random(n)[:, None] > shares[tract[leaf[which]]]).sum(1))
        columns = (leaf[which], relgq, sex, np.clip(np.asarray(age), 0, AGES - 1), hispanic[which], np.minimum(own, 62))
        rows.append(np.column_stack([np.broadcast_to(np.asarray(one, dtype=np.int64), n) for one in columns]))

    everyone = np.arange(len(leaf))
    add(everyone, np.where(size == 1, names["householder_alone"], names["householder_not_alone"]), head_sex, head_age)
    both = np.flatnonzero(couple)
    kind = rng.choice(4, p=[0.83, 0.14, 0.015, 0.015], size=len(both))
    same = kind >= 2
    spouse = np.array(
        [names[f"{sexes}_sex_{bond}"] for sexes in ("opposite", "same") for bond in ("spouse", "partner")]
    )
    add(
        both,
        spouse[kind],
        np.where(same, head_sex[both], 1 - head_sex[both]),
        head_age[both] + rng.normal(0, 4, len(both)),
    )
    others = np.repeat(everyone, size - 1 - couple)
    roles = ["biological_child", "adopted_child", "stepchild", "sibling", "parent", "grandchild", "parent_in_law",
             "child_in_law", "other_relative", "roommate", "foster_child", "other_nonrelative"]  # fmt: skip
    role = rng.choice(
        12, p=[0.66, 0.015, 0.03, 0.04, 0.045, 0.08, 0.01, 0.01, 0.045, 0.03, 0.005, 0.03], size=len(others)
    )
    apart = np.array([-28, -30, -26, 0, 25, -52, 26, -25, -5, 0, -35, 2])[role] + rng.normal(0, 6, len(others))
    young = role == 10
    age = np.where(young, rng.integers(0, 18, len(others)), np.abs(head_age[others] + apart))
    add(others, np.array([names[one] for one in roles])[role], rng.integers(0, 2, len(others)), age)
    places = np.flatnonzero(quarters)
    if len(places):
        kinds = list(names)[18:]
        of_place = rng.choice(len(kinds), p=(w := 1.0 / np.arange(1, len(kinds) + 1)) / w.sum(), size=len(places))
        of_place = np.argsort(rng.random(len(kinds)))[of_place]
        at = rng.choice(len(places), p=(w := rng.gamma(0.7, size=len(places))) / w.sum(), size=n_quarters)
        centre = rng.uniform(18, 85, len(kinds))
        centre[[number for number, kind in enumerate(kinds) if "juvenile" in kind]] = 15
        centre[[number for number, kind in enumerate(kinds) if kind in ("college", "military_quarters")]] = 20
        old = np.clip(rng.normal(centre[of_place[at]], 5), 0, 100).astype(np.int64)
        area = tract[places[at]]
        own = np.minimum((rng.random(len(at))[:, None] > shares[area]).sum(axis=1), 62)
        sexes, origins = rng.random(len(at)) < 0.4, rng.random(len(at)) < origin[area]
        columns = (places[at], 18 + of_place[at], sexes, old, origins, own)
        rows.append(np.column_stack([one.astype(np.int64) for one in columns]))
    table = np.vstack(rows)
    return dict(zip(("leaf", "relgq", "sex", "age", "hispanic", "cenrace"), table.T, strict=True))


def write_population(folder: Path, share: int, strategy: str = "dhc-persons-county") -> Path:
    """Write leaves, persons and spec of one n-th of the whole to `folder`; the spec."""
    codes = leaves_of(share)
    pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
    made = persons(codes, round(PEOPLE / share), share)
    columns = {"leaf": pa.array(codes[made["leaf"]], pa.string())}
    columns |= {name: pa.array(made[name].astype(np.int16)) for name in ("relgq", "sex", "age", "hispanic", "cenrace")}
    pq.write_table(pa.table(columns), folder / "persons.parquet")
    path = folder / "release.toml"
    path.write_text(spec_text(share, strategy), encoding="utf-8")
    return path


def leaves_of(share: int) -> NDArray[np.str_]:
    """Codes of the leaves of one n-th of the whole."""
    sizes = (1, min(5, max(2, round(50 / share))), *(max(4, round(n / share)) for n in WHOLE[2:]))
    return leaf_codes(sizes, np.random.default_rng([share, 7]))


def spec_text(share: int, strategy: str = "dhc-persons-county") -> str:
    """The spec of one n-th of the whole."""
    quoted = {
        "relgq": relations(),
        "ages": [str(age) for age in range(AGES)],
        "cenrace": ["".join(map(str, one)) for size in range(1, RACES + 1) for one in combinations(range(RACES), size)],
    }
    lists = {name: ", ".join(f'"{value}"' for value in values) for name, values in quoted.items()}
    return SPEC.format(share=share, strategy=strategy, **lists)


def errors(spec: Path, release: Path) -> pd.DataFrame:
    """Cells with persons, and mean L1 errors of an area in each of the ten queries, level by level."""
    universe = load_spec(spec).universes()[0]
    queries = [measured.query for measured in universe.strategy.levels[0].queries]
    rows = {}
    for level in read_spine(load_spec(spec).geography).levels:
        released, true = (
            read_histogram(
                unchecked(release / side / "histograms" / f"{level.name}.parquet"), level.geocodes, universe.schema
            )
            for side in ("public", "restricted")
        )
        apart = (released - true).tocoo()
        of_query = {"cells": released.nnz / len(level), "true cells": true.nnz / len(level)}
        for query in queries:
            key = apart.row.astype(np.int64) * query.size + query.cell_answer[apart.col]
            sums = np.bincount(np.unique(key, return_inverse=True)[1].ravel(), apart.data)
            of_query[query.name] = float(np.abs(sums).sum() / len(level))
        rows[level.name] = of_query
    return pd.DataFrame(rows).round(1)


def drawn(release: Path) -> dict[str, int]:
    """How many answers of all queries were drawn at each level where the area above is positive."""
    found: dict[str, int] = {}
    for path in sorted((release / "public" / "positive").glob("*/*.parquet")):
        metadata = pq.read_metadata(path)
        groups = (metadata.row_group(group) for group in range(metadata.num_row_groups))
        found[path.parent.name] = found.get(path.parent.name, 0) + sum(group.column(1).num_values for group in groups)
    return found


def measure(folder: Path, share: int, workers: int, strategy: str) -> None:
    """One release: prints what it took, beside the plan's bound on memory, and its errors."""
    spec = write_population(folder, share, strategy)
    measured_beside_plan(spec, folder / "out", f"1/{share}", workers)
    release = next(path for path in (folder / "out").iterdir() if path.is_dir())
    print(errors(spec, release).to_string(), flush=True)
    print(f"drawn where the area above is positive: {drawn(release)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--strategy", default="dhc-persons-county")
    arguments = with_shares(parser, (100,))
    for one, place in each_share(arguments):
        measure(place, one, arguments.workers, arguments.strategy)
