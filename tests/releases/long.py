"""A release with a table of 2,100 numbers an area, most of them zeros, on five tracts of two counties with names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

AGES, GROUPS, SEXES = tuple(f"a{age}" for age in range(70)), tuple(f"g{group}" for group in range(15)), ("f", "m")
SPEC = f"""
name = "long"
privacy = {{ rho = "4", key = "insecure-test:5" }}
input = {{ file = "persons.csv", form = "microdata", geocode = "tract" }}
tables = {{ total = "total", all = "detailed" }}
[geography]
file = "tracts.csv"
column = "tract"
levels = {{ county = 1, tract = 3 }}
names.tract = {{ file = "names.csv", code = "tract", name = "name" }}
[schema.attributes]
age = [{", ".join(f'"{age}"' for age in AGES)}]
sex = ["f", "m"]
group = [{", ".join(f'"{group}"' for group in GROUPS)}]
[strategy]
queries = {{ total = "1/4", "sex * age" = "1/4", detailed = "1/2" }}
levels = {{ county = "1/2", tract = "1/2" }}
[publish]
replicates = 2
"""


def write_long(folder: Path, *, margins: bool = True) -> Path:
    """Write records, tracts and spec; one of the tracts is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    tracts = ["A01", "A02", "B01", "B02", "B03"]
    pd.DataFrame({"tract": tracts}).to_csv(folder / "tracts.csv", index=False)
    pd.DataFrame({"tract": tracts, "name": [f"Tract {code}" for code in tracts]}).to_csv(
        folder / "names.csv", index=False
    )
    rng = np.random.default_rng(4)
    n = 600
    columns = {"tract": np.array(tracts)[rng.choice(4, n)]}
    for name, values, skew in (("age", AGES, 25.0), ("sex", SEXES, 1.0), ("group", GROUPS, 1.5)):
        number = np.minimum(rng.exponential(skew, n).astype(int), len(values) - 1)
        columns[name] = np.array(values)[number]
    pd.DataFrame(columns).to_csv(folder / "persons.csv", index=False)
    path = folder / "release.toml"
    path.write_text(SPEC if margins else SPEC + "margins = false\n", encoding="utf-8")
    return path
