"""A small table of seven attributes on a small spine, and the spec of its release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

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


#: What leaves the cliques to a private choice of pairs.
CHOSEN = (
    'cliques = [["age", "sex", "school"], ["school", "work"], ["work", "tenure", "car"], ["tenure", "rooms"]]',
    'choose = { share = "1/10", attributes_share = "1/20" }',
)

#: Those of the spec, attributes in the schema's order.
CLIQUES = (("school", "work"), ("age", "sex", "school"), ("work", "tenure", "car"), ("tenure", "rooms"))


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
    spec = SPEC
    for old, new in changes:
        assert spec.count(old) == 1, f"{old!r} stands {spec.count(old)} times in the spec"
        spec = spec.replace(old, new)
    path = folder / "release.toml"
    path.write_text(spec)
    return path
