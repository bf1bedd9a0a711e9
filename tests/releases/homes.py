"""A small town whose persons live in households: a spec with joins, and records that keep them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from releases.small import write_spec

SPEC = """
name = "homes"

[privacy]
rho = "2"
key = "insecure-test:1"

[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 3, block = 5 }

[schema.attributes]
age = ["child", "adult", "old"]
residence = ["household", "quarters"]

[strategy]
queries = { total = "1/4", detailed = "3/4" }
levels = { county = "1/4", tract = "1/4", block = "1/2" }

[invariants]
county = ["total"]

[input]
file = "persons.csv"
form = "microdata"
geocode = "block"

[publish]
replicates = 2

[postprocess]
solver = "batched"

[companions.homes]
records_per_person = 2
structural_zeros = [ { size = "1", children = "yes" } ]
privacy = { rho = "2" }
schema.attributes = { size = ["1", "2", "3", "4+"], head = ["adult", "old"], children = ["yes", "no"] }
strategy = { queries = { size = "1/2", detailed = "1/2" }, levels = { county = "1/4", tract = "1/4", block = "1/2" } }
input = { file = "homes.csv", form = "microdata", geocode = "block" }

[[join]]
companion = "homes"
where = { residence = "household" }
size = "size"
most = 8

[[join]]
companion = "homes"
where = { residence = "household" }
householder = { age = "head" }

[[join]]
companion = "homes"
where = { residence = "household" }
present = { children = "yes" }
members = { age = "child" }
"""


def write_homes(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the town's files and spec; `changes` are texts of the spec and what stands in their place."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    blocks = [f"{county}{tract:02d}{block:02d}" for county in "AB" for tract in range(1, 4) for block in range(1, 5)]
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    persons, homes = [], []
    for block in blocks:
        for _ in range(int(rng.poisson(8)) if rng.random() < 0.8 else 0):
            head = str(rng.choice(["adult", "old"]))
            others = rng.choice(
                ["child", "adult", "old"], int(rng.choice(8, p=np.array([8, 8, 4, 4, 2, 1, 1, 1]) / 29))
            )
            size = min(len(others) + 1, 4)
            children = "yes" if "child" in others else "no"
            homes.append((block, f"{size}+" if size == 4 else str(size), head, children))
            persons += [(block, str(age), "household") for age in (head, *others)]
        persons += [(block, "adult", "quarters") for _ in range(int(rng.poisson(20)) if rng.random() < 0.2 else 0)]
    columns = ["block", "age", "residence"]
    pd.DataFrame(persons, columns=columns).sample(frac=1, random_state=5).to_csv(folder / "persons.csv", index=False)
    pd.DataFrame(homes, columns=["block", "size", "head", "children"]).to_csv(folder / "homes.csv", index=False)
    return write_spec(folder, SPEC, changes)


def broken(root: Path, levels: Sequence[str] = ("county", "tract", "block")) -> list[str]:
    """What of a release does not agree with its joins, from the public files alone and in plain arithmetic."""
    sizes = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4+": (4, 8)}
    found = []
    for level in levels:
        persons = pq.read_table(root / "public" / "histograms" / f"{level}.parquet").to_pylist()
        households = pq.read_table(root / "public/companions/homes/histograms" / f"{level}.parquet").to_pylist()
        for code in {row["geocode"] for row in [*persons, *households]}:
            here = [row for row in persons if row["geocode"] == code and row["residence"] == "household"]
            homes = [row for row in households if row["geocode"] == code]
            members = sum(row["count"] for row in here)
            least, most = (sum(sizes[row["size"]][end] * row["count"] for row in homes) for end in (0, 1))
            if not least <= members <= most:
                found.append(f"{level} {code}: {members} members, {least} to {most} allowed")
            for age in ("adult", "old"):
                of_age = sum(row["count"] for row in here if row["age"] == age)
                if of_age < (heads := sum(row["count"] for row in homes if row["head"] == age)):
                    found.append(f"{level} {code}: {of_age} {age}, {heads} householders")
            children = sum(row["count"] for row in here if row["age"] == "child")
            families = [row for row in homes if row["children"] == "yes"]
            low = sum(row["count"] for row in families)
            high = sum((sizes[row["size"]][1] - 1) * row["count"] for row in families)
            if not low <= children <= high:
                found.append(f"{level} {code}: {children} children, {low} to {high} allowed")
    return found
