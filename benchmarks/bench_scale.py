"""Wide schemas at the size of a state, a country and a nation, for made-up people: time, memory, and what is foretold.

    python benchmarks/bench_scale.py [--part england|nation|dhc] [--share 64 32] [--margins] [--keep FOLDER]
                                     [--workers 2] [--strategy PRESET]

For each share one n-th of the areas and people is made up and released; printed are time, peak memory of all processes
and what the plan foretold, and how the whole would grow on from the last two shares. Figures are in docs/scaling.md.

england: 91 ages x 2 sexes x 19 ethnic groups (3,458 cells) in 35,000 leaves (LSOAs, of 1,700 persons on average, below
MSOAs, authorities, regions and the country). In every authority the ethnic groups have shares of their own, which
scatter from leaf to leaf: few of the cells of a leaf have persons, and most cells of an authority.

nation: the Bureau's test on the census of 1940, 44,544 cells, with its 158,374 geounits of five levels: a nation, 49
states, 3,108 counties, 3,500 supervisors' districts and 151,716 enumeration districts of 870 persons on average. A
district's persons are drawn from three districts of ../shared/data/wide_1940_like.parquet that its county is like, and
from all of them; ages are shifted by up to two years, so that cells fill up as they do in a census; no more than 5,698
can. Without that file it says so and ends.

dhc: 42 x 2 x 116 x 2 x 63 = 1,227,744 cells of the persons of a state: a million in 25,000 blocks, 800 block groups,
250 tracts and 5 counties, by the preset `dhc-persons-county` or another; the L1 errors of its ten queries, and how many
answers were drawn where the area above is positive, are printed too. Households have one to seven members: a
householder, a spouse or partner, children of ages that fit, other relatives; one block in eighty is a group quarter of
one kind. Race and origin have shares of their own in each county and tract, and are those of the household; the public
shares of 2020 (ages, sizes of households, races alone and in combination) are followed roughly.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from bench_wide import DATA, EXAMPLE, histograms
from measured_run import PROJECT, Used, measured_beside_plan
from numpy.typing import ArrayLike, NDArray

from pipeline.spec.preset import load_preset
from pipeline.spec.release_spec import load_spec

sys.path[:0] = [str(PROJECT / name) for name in ("", "tests")]
from releases.plan_shapes import leaf_codes  # noqa: E402 - after the path to it

#: Geounits of each level of the whole: country, regions, authorities, MSOAs, LSOAs.
ENGLAND_AREAS = (1, 10, 331, 7264, 35000)
ENGLAND_AGES, ENGLAND_SEXES, ENGLAND_GROUPS = 91, 2, 19
#: Persons of a leaf, on average.
ENGLAND_PEOPLE = 1700.0
#: Leaves whose numbers are drawn together.
LEAVES_TOGETHER = 2000
ENGLAND_SPEC = """name = "england-{share}"

[privacy]
rho = "2"
key = "insecure-test:1"

[geography]
file = "leaves.parquet"
column = "leaf"
levels = {{ country = 5, region = 10, authority = 15, msoa = 20, lsoa = 25 }}

[schema.attributes]
age = [{ages}]
sex = ["0", "1"]
ethnic = [{groups}]

[schema.recodes.age_groups]
attribute = "age"
groups = {{ {age_groups} }}

[strategy.queries]
total = "1/20"
ethnic = "2/20"
"sex * age_groups" = "3/20"
"sex * age" = "4/20"
detailed = "10/20"

[strategy.levels]
country = "1/20"
region = "2/20"
authority = "4/20"
msoa = "5/20"
lsoa = "8/20"

[input]
file = "counts.parquet"
form = "long"
geocode = "leaf"

[tables]
total = "total"
ages = "sex * age"
origins = "ethnic * age_groups"
all = {{ query = "detailed", levels = ["country", "region", "authority"] }}

[publish]
margins = {margins}
microdata = false
"""


def write_england(folder: Path, share: int, *, margins: bool) -> Path:
    """Write leaves, counts and spec of one n-th of the whole to `folder`; the spec."""
    rng = np.random.default_rng([share, 19])
    codes = england_leaves(share, rng)
    pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
    _, authority = np.unique([code[:15] for code in codes], return_inverse=True)
    typical = np.concatenate([[14.0, 0.6], np.geomspace(1.0, 0.02, ENGLAND_GROUPS - 2)])
    of_authority = rng.gamma(typical, size=(authority.max() + 1, ENGLAND_GROUPS))
    old = np.arange(ENGLAND_AGES) >= 70
    ages = np.where(old, np.linspace(4.0, 0.1, ENGLAND_AGES), np.linspace(1.3, 0.7, ENGLAND_AGES))
    writer = None
    for first in range(0, len(codes), LEAVES_TOGETHER):
        own = codes[first : first + LEAVES_TOGETHER]
        people = rng.gamma(20.0, ENGLAND_PEOPLE / 20.0, len(own))
        groups = rng.gamma(0.02 + 2.0 * of_authority[authority[first : first + LEAVES_TOGETHER]])
        groups /= groups.sum(axis=1, keepdims=True)
        mean = people[:, None, None] * (ages / ages.sum())[None, :, None] / ENGLAND_SEXES * groups[:, None, :]
        counts = rng.poisson(np.repeat(mean[:, :, None, :], ENGLAND_SEXES, axis=2))
        leaf, age, sex, group = np.nonzero(counts)
        columns = {"leaf": pa.array(own[leaf], pa.string())}
        for name, values in (("age", age), ("sex", sex), ("ethnic", group)):
            columns[name] = pa.array(values.astype(str), pa.string())
        table = pa.table(columns | {"count": pa.array(counts[leaf, age, sex, group].astype(np.int64))})
        writer = writer or pq.ParquetWriter(folder / "counts.parquet", table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    path = folder / "release.toml"
    path.write_text(england_spec(share, margins=margins), encoding="utf-8")
    return path


def england_leaves(share: int, rng: np.random.Generator) -> NDArray[np.str_]:
    """Codes of the leaves of one n-th of the whole."""
    return leaf_codes((1, *(max(1, round(n / share)) for n in ENGLAND_AREAS[1:])), rng)


def england_spec(share: int, *, margins: bool) -> str:
    """The spec of one n-th of the whole."""
    return ENGLAND_SPEC.format(
        share=share,
        ages=", ".join(f'"{age}"' for age in range(ENGLAND_AGES)),
        groups=", ".join(f'"{group}"' for group in range(ENGLAND_GROUPS)),
        age_groups=", ".join(
            f"g{first} = {[str(age) for age in range(first, min(first + 5, ENGLAND_AGES))]}".replace("'", '"')
            for first in range(0, ENGLAND_AGES, 5)
        ),
        margins=str(margins).lower(),
    )


#: Geounits of each level of the whole: nation, states, counties, supervisors' districts, enumeration districts.
NATION_AREAS = (1, 49, 3108, 3500, 151716)
NATION_LEVELS = "{ nation = 5, state = 10, county = 15, supdist = 20, enumdist = 25 }"
#: Persons of a district, on average.
NATION_PEOPLE = 870.0
#: Of a district's persons, the part that is like its county; the others are like the nation.
LIKE_COUNTY = 0.7
#: Districts of the file that a county is like.
TEMPLATES = 3
#: Districts whose persons are drawn together.
DISTRICTS_TOGETHER = 1000
NATION_COLUMNS = ("hhgq", "sex", "age", "hispanic", "race", "citizen")
NATION_SIZES = (8, 2, 116, 2, 6, 2)


def write_nation_1940(folder: Path, share: int, *, margins: bool) -> Path:
    """Write districts, counts and spec of one n-th of the whole to `folder`; the spec."""
    rng = np.random.default_rng([share, 40])
    codes = leaf_codes((1, *(max(1, round(n / share)) for n in NATION_AREAS[1:])), rng)
    pq.write_table(pa.table({"district": pa.array(codes, pa.string())}), folder / "districts.parquet")
    records = pq.read_table(DATA).to_pandas().sort_values("ed", kind="stable")
    persons = records[list(NATION_COLUMNS)].to_numpy(np.int64)
    _, first, size = np.unique(records["ed"], return_index=True, return_counts=True)
    _, county = np.unique([code[:15] for code in codes], return_inverse=True)
    templates = rng.integers(len(first), size=(county.max() + 1, TEMPLATES))
    schema = pa.schema(
        [("district", pa.string()), *((name, pa.int16()) for name in NATION_COLUMNS), ("count", pa.int64())]
    )
    with pq.ParquetWriter(folder / "counts.parquet", schema) as writer:
        for start in range(0, len(codes), DISTRICTS_TOGETHER):
            own = np.arange(start, min(start + DISTRICTS_TOGETHER, len(codes)))
            district = np.repeat(own, rng.poisson(rng.gamma(10.0, NATION_PEOPLE / 10.0, len(own))))
            of = templates[county[district], rng.integers(TEMPLATES, size=len(district))]
            like = first[of] + (rng.random(len(district)) * size[of]).astype(np.int64)
            anywhere = rng.integers(len(persons), size=len(district))
            values = persons[np.where(rng.random(len(district)) < LIKE_COUNTY, like, anywhere)].T
            values[2] = np.clip(values[2] + rng.integers(-2, 3, len(district)), 0, NATION_SIZES[2] - 1)
            cells, counts = np.unique(
                (district - start) * np.prod(NATION_SIZES) + np.ravel_multi_index(values, NATION_SIZES),
                return_counts=True,
            )
            of_district, cell = np.divmod(cells, np.prod(NATION_SIZES))
            columns = [pa.array(codes[start + of_district], pa.string())]
            columns += [pa.array(value, pa.int16()) for value in np.unravel_index(cell, NATION_SIZES)]
            writer.write_table(pa.table([*columns, pa.array(counts, pa.int64())], schema=schema))
    text = EXAMPLE.read_text(encoding="utf-8")
    text = re.sub(
        r"(?s)\[geography\].*?\n\n",
        f'[geography]\nfile = "districts.parquet"\ncolumn = "district"\nlevels = {NATION_LEVELS}\n\n',
        text,
    )
    text = re.sub(
        r"(?s)\[input\].*?\n\n",
        '[input]\nfile = "counts.parquet"\nform = "long"\ngeocode = "district"\ncoded = true\n\n',
        text,
    )
    path = folder / "release.toml"
    path.write_text(text.replace("margins = false", f"margins = {str(margins).lower()}"), encoding="utf-8")
    return path


#: Geounits of each level of the whole.
DHC_AREAS = (1, 5, 250, 800, 25_000)
#: Persons of the whole.
DHC_PEOPLE = 1_000_000
#: Ages, the six races alone and their combinations.
DHC_AGES, DHC_RACES = 116, 6
#: Shares of households of one to seven members.
HOUSEHOLD_SIZES = np.array([0.28, 0.34, 0.15, 0.13, 0.06, 0.025, 0.015])
#: Shares of races alone, and of combinations by their number of races.
ALONE = np.array([0.62, 0.124, 0.011, 0.06, 0.002, 0.084])
COMBINED = {2: 0.092, 3: 0.006, 4: 0.0008, 5: 0.0001, 6: 0.00002}
#: Share of households of Hispanic origin, and of blocks that are a group quarter.
HISPANIC, QUARTERS = 0.187, 1 / 80
DHC_SPEC = """name = "dhc-{share}"
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
    values = [one for size in range(1, DHC_RACES + 1) for one in combinations(range(DHC_RACES), size)]
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


def dhc_persons(codes: NDArray[np.str_], people: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Made-up persons: `leaf` numbers the codes, the other columns the values of the attributes."""
    rng = np.random.default_rng([seed, 42])
    names = {name: number for number, name in enumerate(relations())}
    _, tract = np.unique([code[:15] for code in codes], return_inverse=True)
    shares = np.cumsum(_races(rng, tract.max() + 1), axis=1)
    origin = rng.beta(2.0, 2.0 * (1 - HISPANIC) / HISPANIC, tract.max() + 1)
    quarters = rng.random(len(codes)) < QUARTERS
    weights = rng.gamma(1.2, size=len(codes)) * np.where(quarters, 0.0, 1.0)
    n_quarters = round(0.025 * people)
    households = round((people - n_quarters) / float(HOUSEHOLD_SIZES @ np.arange(1, 8)))
    leaf = np.repeat(np.arange(len(codes)), rng.multinomial(households, weights / weights.sum()))
    size = 1 + rng.choice(len(HOUSEHOLD_SIZES), p=HOUSEHOLD_SIZES, size=len(leaf))
    race = (rng.random(len(leaf))[:, None] > shares[tract[leaf]]).sum(axis=1)
    hispanic = rng.random(len(leaf)) < origin[tract[leaf]]
    head_age = np.clip(rng.normal(50, 17, len(leaf)), 18, 100).astype(np.int64)
    head_sex = rng.integers(0, 2, len(leaf))
    couple = (size > 1) & (rng.random(len(leaf)) < 0.72)
    rows = []

    def add(which: NDArray[np.int64], relgq: ArrayLike, sex: ArrayLike, age: ArrayLike) -> None:
        n = len(which)
        own = np.where(rng.random(n) < 0.93, race[which], (rng.random(n)[:, None] > shares[tract[leaf[which]]]).sum(1))
        columns = (
            leaf[which],
            relgq,
            sex,
            np.clip(np.asarray(age), 0, DHC_AGES - 1),
            hispanic[which],
            np.minimum(own, 62),
        )
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


def write_dhc(folder: Path, share: int, strategy: str = "dhc-persons-county") -> Path:
    """Write leaves, persons and spec of one n-th of the whole to `folder`; the spec."""
    codes = dhc_leaves(share)
    pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
    made = dhc_persons(codes, round(DHC_PEOPLE / share), share)
    columns = {"leaf": pa.array(codes[made["leaf"]], pa.string())}
    columns |= {name: pa.array(made[name].astype(np.int16)) for name in ("relgq", "sex", "age", "hispanic", "cenrace")}
    pq.write_table(pa.table(columns), folder / "persons.parquet")
    path = folder / "release.toml"
    path.write_text(dhc_spec(share, strategy), encoding="utf-8")
    return path


def dhc_leaves(share: int) -> NDArray[np.str_]:
    """Codes of the leaves of one n-th of the whole."""
    sizes = (1, min(5, max(2, round(50 / share))), *(max(4, round(n / share)) for n in DHC_AREAS[2:]))
    return leaf_codes(sizes, np.random.default_rng([share, 7]))


def dhc_spec(share: int, strategy: str = "dhc-persons-county") -> str:
    """The spec of one n-th of the whole."""
    quoted = {
        "relgq": relations(),
        "ages": [str(age) for age in range(DHC_AGES)],
        "cenrace": [
            "".join(map(str, one)) for size in range(1, DHC_RACES + 1) for one in combinations(range(DHC_RACES), size)
        ],
    }
    lists = {name: ", ".join(f'"{value}"' for value in values) for name, values in quoted.items()}
    return DHC_SPEC.format(share=share, strategy=strategy, **lists)


def dhc_errors(spec: Path, release: Path) -> pd.DataFrame:
    """Cells with persons, and mean L1 errors of an area in each of the ten queries, level by level."""
    universe = load_spec(spec).universes()[0]
    queries = [measured.query for measured in universe.strategy.levels[0].queries]
    rows = {}
    for level, released, true in histograms(spec, release):
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


def grown(done: list[tuple[int, Used]]) -> None:
    """Print what the whole would take by the growth of the last two shares."""
    (before, less), (last, more) = done[-2:]
    parts = 1 / last - 1 / before
    for what, one, other in (
        ("core seconds", less.core_seconds, more.core_seconds),
        ("seconds elapsed", less.seconds, more.seconds),
        ("MB", less.peak_mb, more.peak_mb),
    ):
        whole = other + (other - one) / parts * (1 - 1 / last)
        print(f"the whole, if it grows on as from 1/{before} to 1/{last}: {whole:,.0f} {what}")


def measure(folder: Path, share: int, arguments: argparse.Namespace) -> Used:
    """One release: prints what it took, beside what was foretold, and of the state's persons its errors."""
    if arguments.part == "england":
        spec = write_england(folder, share, margins=arguments.margins)
    elif arguments.part == "nation":
        spec = write_nation_1940(folder, share, margins=arguments.margins)
    else:
        spec = write_dhc(folder, share, arguments.strategy)
    used = measured_beside_plan(spec, folder / "out", f"1/{share}", arguments.workers)
    if arguments.part == "dhc":
        release = next(path for path in (folder / "out").iterdir() if path.is_dir())
        print(dhc_errors(spec, release).to_string(), flush=True)
        print(f"drawn where the area above is positive: {drawn(release)}", flush=True)
    return used


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("england", "nation", "dhc"), default="england")
    parser.add_argument("--share", nargs="+", type=int, help="n of each n-th; 64 32 by default, of dhc 100")
    parser.add_argument("--margins", action="store_true", help="with margins of error; the state's persons have none")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--strategy", default="dhc-persons-county", help="of the state's persons")
    parser.add_argument("--keep", type=Path, help="folder that the releases are left in")
    arguments = parser.parse_args()
    if arguments.part == "nation" and not DATA.exists():
        print(f"{DATA} is not there; nothing was measured")
        return
    done: list[tuple[int, Used]] = []
    for share in arguments.share or ((100,) if arguments.part == "dhc" else (64, 32)):
        with tempfile.TemporaryDirectory() as name:
            place = Path(name) if arguments.keep is None else arguments.keep / f"share-{share}"
            place.mkdir(parents=True, exist_ok=True)
            done.append((share, measure(place, share, arguments)))
    if len(done) > 1:
        grown(done)


if __name__ == "__main__":
    main()
