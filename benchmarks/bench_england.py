"""A wide schema on many leaves: 91 ages x 2 sexes x 19 ethnic groups (3,458 cells), a made-up England and Wales.

    python benchmarks/bench_england.py [--share 64 32] [--without-margins] [--keep FOLDER]

For each share it makes up the population of one n-th of the 35,000 leaves (LSOAs, of 1,700 persons on average, below
MSOAs, authorities, regions and the country), releases it, and prints time, and peak memory of all processes beside
the plan's bound. In every authority the ethnic groups have shares of their own, which scatter from leaf to leaf: few of
the 3,458 cells of a leaf have persons, and most cells of an authority. Figures are in docs/scaling.md: 1/128 takes
about 16 core seconds, 1/32 about 28, 1/8 about 75 and the whole about 324.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measured_run import each_share, measured_beside_plan, with_shares
from numpy.typing import NDArray
from synthetic_spine import leaf_codes

#: Geounits of each level of the whole: country, regions, authorities, MSOAs, LSOAs.
WHOLE = (1, 10, 331, 7264, 35000)
LEVELS = ("country", "region", "authority", "msoa", "lsoa")
AGES, SEXES, GROUPS = 91, 2, 19
#: Persons of a leaf, on average.
PEOPLE = 1700.0
#: Leaves whose numbers are drawn together.
TOGETHER = 2000
SPEC = """name = "england-{share}"

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


def write_population(folder: Path, share: int, *, margins: bool) -> Path:
    """Write leaves, counts and spec of one n-th of the whole to `folder`; the spec."""
    rng = np.random.default_rng([share, 19])
    codes = leaves_of(share, rng)
    pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
    _, authority = np.unique([code[:15] for code in codes], return_inverse=True)
    typical = np.concatenate([[14.0, 0.6], np.geomspace(1.0, 0.02, GROUPS - 2)])
    of_authority = rng.gamma(typical, size=(authority.max() + 1, GROUPS))
    ages = np.linspace(1.3, 0.7, AGES) * (np.arange(AGES) < 70) + (np.arange(AGES) >= 70) * np.linspace(4.0, 0.1, AGES)
    writer = None
    for first in range(0, len(codes), TOGETHER):
        own = codes[first : first + TOGETHER]
        people = rng.gamma(20.0, PEOPLE / 20.0, len(own))
        groups = rng.gamma(0.02 + 2.0 * of_authority[authority[first : first + TOGETHER]])
        groups /= groups.sum(axis=1, keepdims=True)
        mean = people[:, None, None] * (ages / ages.sum())[None, :, None] / SEXES * groups[:, None, :]
        counts = rng.poisson(np.repeat(mean[:, :, None, :], SEXES, axis=2))
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
    path.write_text(spec_text(share, margins=margins), encoding="utf-8")
    return path


def leaves_of(share: int, rng: np.random.Generator) -> NDArray[np.str_]:
    """Codes of the leaves of one n-th of the whole."""
    return leaf_codes((1, *(max(1, round(n / share)) for n in WHOLE[1:])), rng)


def spec_text(share: int, *, margins: bool) -> str:
    """The spec of one n-th of the whole."""
    return SPEC.format(
        share=share,
        ages=", ".join(f'"{age}"' for age in range(AGES)),
        groups=", ".join(f'"{group}"' for group in range(GROUPS)),
        age_groups=", ".join(
            f"g{first} = [{', '.join(f'{chr(34)}{age}{chr(34)}' for age in range(first, min(first + 5, AGES)))}]"
            for first in range(0, AGES, 5)
        ),
        margins=str(margins).lower(),
    )


def measure(folder: Path, share: int, *, margins: bool) -> None:
    """One release: prints what it took, beside the plan's bound on memory."""
    path = write_population(folder, share, margins=margins)
    measured_beside_plan(path, folder / "out", f"1/{share}, margins {margins}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-margins", action="store_true")
    arguments = with_shares(parser, (64, 32))
    for one, place in each_share(arguments):
        measure(place, one, margins=not arguments.without_margins)
