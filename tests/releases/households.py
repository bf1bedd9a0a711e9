"""A made-up population in households and quarters, and a spec that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

AGES = ("child", "adult", "old")

SPEC = """
name = "quarter"
[privacy]
rho = "RHO"
key = "insecure-test:1"
[geography]
file = "blocks.csv"
levels = ["city", "tract", "block"]
[schema.attributes]
residence = ["household", "quarters"]
age = ["child", "adult", "old"]
sex = ["female", "male"]
[strategy]
queries = { "total" = "1/10", "residence * age" = "4/10", "detailed" = "5/10" }
levels = { city = "1/4", tract = "1/4", block = "1/2" }
[input]
file = "persons.parquet"
form = "microdata"
geocode = "block"
[publish]
replicates = 4
[companions.households]
[companions.households.privacy]
rho = "RHO"
[companions.households.schema.attributes]
size = ["1", "2", "3", "4", "5+"]
head = ["adult", "old"]
children = ["no", "yes"]
[companions.households.strategy]
queries = { "total" = "1/5", "detailed" = "4/5" }
levels = { city = "1/4", tract = "1/4", block = "1/2" }
[companions.households.input]
file = "households.parquet"
form = "microdata"
geocode = "block"
[[companions.households.structural_zeros]]
size = "1"
children = "yes"
[[join]]
companion = "households"
where = { residence = "household" }
size = "size"
most = 9
[[join]]
companion = "households"
where = { residence = "household" }
householder = { age = "head" }
[[join]]
companion = "households"
where = { residence = "household" }
present = { children = "yes" }
members = { age = "child" }
"""


def write_quarter(folder: Path, *, tracts: int = 4, blocks: int = 5, per_block: float = 9.0, rho: str = "2") -> Path:
    """Write persons, households, blocks and the spec; returns the spec."""
    rng = np.random.default_rng(1)
    codes = [(f"t{t}", f"t{t}b{b}") for t in range(tracts) for b in range(blocks)]
    persons: list[tuple[str, str, str, str]] = []
    households: list[tuple[str, str, str, str]] = []
    for number, (_, block) in enumerate(codes):
        for _ in range(0 if number == 1 else rng.poisson(per_block)):
            size = int(rng.choice([1, 2, 3, 4, 5, 6, 8], p=[0.28, 0.34, 0.15, 0.13, 0.06, 0.03, 0.01]))
            head = str(rng.choice(["adult", "old"], p=[0.7, 0.3]))
            others = rng.choice(AGES, size=size - 1, p=[0.5, 0.45, 0.05]).tolist()
            ages = [head, *others]
            households.append((block, str(size) if size < 5 else "5+", head, "yes" if "child" in ages else "no"))
            persons += [(block, "household", age, str(rng.choice(["female", "male"]))) for age in ages]
        if number % 7 == 3:
            persons += [(block, "quarters", "old", "female")] * int(rng.poisson(12))
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "persons.parquet", ["block", "residence", "age", "sex"], persons)
    _write(folder / "households.parquet", ["block", "size", "head", "children"], households)
    lines = ["city,tract,block", *(f"c,{tract},{block}" for tract, block in codes)]
    (folder / "blocks.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    spec = folder / "quarter.toml"
    spec.write_text(SPEC.replace("RHO", rho), encoding="utf-8")
    return spec


def _write(path: Path, names: list[str], rows: Sequence[tuple[str, ...]]) -> None:
    columns = list(zip(*rows, strict=True))
    pq.write_table(pa.table({name: list(column) for name, column in zip(names, columns, strict=True)}), path)


def broken(root: Path, levels: Sequence[str] = ("city", "tract", "block")) -> list[str]:
    """What of a quarter does not agree with its joins, from the public files alone and in plain arithmetic."""
    sizes = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4": (4, 4), "5+": (5, 9)}
    found = []
    for level in levels:
        persons = pq.read_table(root / "public" / "histograms" / f"{level}.parquet").to_pylist()
        households = pq.read_table(root / "public/companions/households/histograms" / f"{level}.parquet").to_pylist()
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
