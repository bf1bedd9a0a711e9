"""A small table of seven attributes, and of two amounts, on a small spine, and the specs of its releases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from releases.small import write_spec

SPEC = """
name = "wide"

[privacy]
rho = "3"
key = "insecure-test:7"

[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 3, block = 5 }

[schema.attributes]
age = ["child", "young", "middle", "old"]
sex = ["f", "m"]
school = ["none", "first", "second", "third"]
work = ["no", "part", "full"]
tenure = ["owner", "renter"]
rooms = ["1", "2", "3", "4", "5"]
car = ["no", "yes"]

[marginals]
cliques = [["age", "sex", "school"], ["school", "work"], ["work", "tenure", "car"], ["tenure", "rooms"]]

[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"

[input]
file = "persons.csv"
form = "microdata"
geocode = "block"

[publish]
replicates = 2
"""
ATTRIBUTES = {
    "age": ("child", "young", "middle", "old"),
    "sex": ("f", "m"),
    "school": ("none", "first", "second", "third"),
    "work": ("no", "part", "full"),
    "tenure": ("owner", "renter"),
    "rooms": ("1", "2", "3", "4", "5"),
    "car": ("no", "yes"),
}

#: Those of the spec, attributes in the schema's order.
CLIQUES = (("school", "work"), ("age", "sex", "school"), ("work", "tenure", "car"), ("tenure", "rooms"))
LEVELS: Final = {"county": 1, "tract": 3, "block": 5}
DECLARED: Final = (
    'cliques = [["age", "sex", "school"], ["school", "work"], ["work", "tenure", "car"], ["tenure", "rooms"]]'
)
CHARGED: Final = ('key = "insecure-test:7"', 'dataset = "people"')
#: What leaves the cliques to a private choice of pairs.
CHOSEN: Final = (DECLARED, 'choose = { share = "1/10", attributes_share = "1/20" }')
#: Amounts, and the ends of their bins.
ENDS: Final = {"wages": ((0, 0), (1, 9999), (10000, 49999), (50000, 999999)), "hours": ((-5, -1), (0, 39), (40, 99))}
BINS: Final = {name: [f"{first}..{last}" for first, last in ends] for name, ends in ENDS.items()}
VALUES: Final = {**ATTRIBUTES, **{name: tuple(bins) for name, bins in BINS.items()}}
AMOUNTS: Final = ("[marginals]\ncliques = [", '[marginals]\ncliques = [["work", "wages"], ["wages", "hours"], ')
STATED: Final = "\n".join(["[marginals.amounts]", *(f"{name} = {json.dumps(bins)}" for name, bins in BINS.items()), ""])
#: Three pairs beyond a tree, of records with amounts, of which no microdata are published.
FURTHER: Final = 'choose = { share = "1/10", attributes_share = "1/20", further = 3, all_cells = 300 }'
CHOICE: Final = ((DECLARED, f"{FURTHER}\n{STATED}"), CHARGED, ("[publish]", "[publish]\nmicrodata = false"))

#: No record has these; that nobody has the third school follows for the table of school and work.
_ZEROS = """name = "wide"
structural_zeros = [
    { age = ["child", "young", "middle", "old"], school = "third" },
    { work = "no", car = "yes" },
    "age in (middle, old) and school == none",
    'work == no and wages != "0..0"',
]
"""
#: Two attributes at the top, one of them below, and how many there are in each block; values made from the records.
_EXACT = """[invariants]
county = ["tenure * rooms"]
tract = ["tenure"]
block = ["total"]
[provenance]
inputs.schema = { source = "records" }
accept = ["schema"]
[publish]"""
#: The clique that is exact at the top has 2 of 7 parts there and none at the blocks.
_PARTS = """[marginals.parts_at]
county = { "tenure * rooms" = 2 }
block = { "tenure * rooms" = 0 }
"""
KNOWN: Final = (
    ('name = "wide"\n', _ZEROS),
    AMOUNTS,
    ("[strategy.levels]", f"{STATED}{_PARTS}[strategy.levels]"),
    CHARGED,
    ("[publish]", _EXACT),
)
#: The tables of its universes, the one that is exact first.
KNOWN_CLIQUES: Final = (
    ("tenure", "rooms"),
    ("work", "tenure", "car"),
    ("work", "wages"),
    ("school", "work"),
    ("wages", "hours"),
    ("age", "sex", "school"),
)


def records(seed: int = 3, n: int = 1500) -> pd.DataFrame:
    """Records in eleven blocks of five tracts of two counties, one of them empty; attributes hang together."""
    rng = np.random.default_rng(seed)
    blocks = np.array(leaves())
    place = rng.choice(len(blocks) - 1, n)
    codes = {"age": rng.choice(4, n, p=[0.2, 0.25, 0.35, 0.2]), "sex": rng.choice(2, n)}
    codes["school"] = np.minimum((codes["age"] + rng.choice(3, n)) // 2, 3)
    codes["work"] = (codes["school"] + rng.choice(2, n, p=[0.7, 0.3])) % 3
    codes["tenure"] = ((codes["work"] + place) % 3 == 0).astype(int) ^ (rng.random(n) < 0.2)
    codes["rooms"] = np.minimum(codes["tenure"] * 2 + rng.choice(3, n), 4)
    codes["car"] = ((codes["work"] > 0) & (rng.random(n) < 0.8)).astype(int)
    table = {name: np.array(values)[codes[name]] for name, values in ATTRIBUTES.items()}
    return pd.DataFrame({"block": blocks[place], **table})


def leaves() -> list[str]:
    """Geocodes of the blocks."""
    return [
        f"{tract}{block:02d}"
        for tract, n in (("A01", 3), ("A02", 2), ("B01", 2), ("B02", 3), ("B03", 1))
        for block in range(n)
    ]


def write_wide(folder: Path, *changes: tuple[str, str], seed: int = 3) -> Path:
    """Write records, blocks and spec; `changes` are texts of the spec and what stands in their place."""
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"block": leaves()}).to_csv(folder / "blocks.csv", index=False)
    records(seed).to_csv(folder / "persons.csv", index=False)
    return write_spec(folder, SPEC, changes)


def with_amounts(n: int = 1500) -> pd.DataFrame:
    """The records of `records`, with wages by work, and hours, some of them below 0."""
    rng, table = np.random.default_rng(8), records(n=n)
    earned = np.minimum(np.exp(rng.normal(10, 1.2, n)).astype(np.int64), 999_999)
    table["wages"] = np.where(table["work"] == "no", 0, earned)
    table["hours"] = np.where(table["wages"] > 0, rng.integers(10, 100, n), rng.integers(-5, 3, n))
    return table


def write_amounts(folder: Path, *changes: tuple[str, str]) -> Path:
    """Spec, records with amounts and a key; `changes` as of `write_wide`."""
    spec = write_wide(folder, *changes)
    with_amounts().to_csv(folder / "persons.csv", index=False)
    return spec


def binned(table: pd.DataFrame) -> pd.DataFrame:
    """The records with the bins of their amounts, by cutting at the ends."""
    found = table.copy()
    for name, ends in ENDS.items():
        cuts = [first for first, _ in ends] + [ends[-1][1] + 1]
        found[name] = pd.cut(table[name], cuts, right=False, labels=BINS[name]).astype(str)
    return found


def counted(table: pd.DataFrame, clique: Sequence[str], level: str) -> pd.DataFrame:
    """Counts of records by area of a level, a column for each combination of the values of a clique."""
    area = table.iloc[:, 0].astype(str).str[: LEVELS[level]]
    labels = table[list(clique)].astype(str).agg(" * ".join, axis=1)
    columns = [" * ".join(one) for one in product(*(VALUES[name] for name in clique))]
    areas = sorted({leaf[: LEVELS[level]] for leaf in leaves()})
    return pd.crosstab(area, labels).reindex(index=areas, columns=columns, fill_value=0)


def manifest_of(root: Path) -> dict[str, Any]:
    """The manifest of a release."""
    return dict(json.loads((root / "public" / "manifest.json").read_text("utf-8")))


def microdata_of(root: Path) -> pd.DataFrame:
    """The whole records of a release."""
    return pq.read_table(root / "public" / "microdata.parquet").to_pandas()
