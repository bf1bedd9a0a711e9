"""A small state whose wide queries are drawn only where the released area above is positive, and the same without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from releases.small import changed

BLOCKS = tuple(f"1{county}{block}" for county in range(3) for block in range(6))
AGES = tuple(str(age) for age in range(12))
RACES = tuple("abcdef")
POSITIVE = '{ share = "1/4", where = "parent positive" }'
SPEC = f"""
name = "state"
privacy = {{ rho = "4", key = "insecure-test:1" }}
geography = {{ file = "blocks.csv", column = "block", levels = {{ state = 1, county = 2, block = 3 }} }}
schema.attributes = {{ age = {list(AGES)}, sex = ["f", "m"], race = {list(RACES)} }}
input = {{ file = "persons.csv", form = "microdata", geocode = "block" }}
tables = {{ total = "total", sex = "sex" }}
publish = {{ margins = false }}

[strategy]
levels = {{ state = "1/3", county = "1/3", block = "1/3" }}
queries = {{ total = "1/4", "sex * race" = "1/4", "age * race" = {POSITIVE}, detailed = {POSITIVE} }}
"""
#: Changes of the spec: all answers are drawn; each level is estimated from its own answers alone, in one pass.
EVERYWHERE = (POSITIVE, '"1/4"')
TOPDOWN = ("publish =", 'postprocess = { estimator = "topdown", passes = [] }\npublish =')


def write_positive(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the files and the spec; `changes` are texts of the spec and what stands in their place."""
    rng = np.random.default_rng(5)
    weights = np.arange(len(AGES), 0, -1) / np.arange(len(AGES), 0, -1).sum()
    n = 700
    pd.DataFrame({"block": BLOCKS}).to_csv(folder / "blocks.csv", index=False)
    pd.DataFrame(
        {
            "block": rng.choice(BLOCKS, n),
            "age": rng.choice(AGES, n, p=weights),
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(RACES, n, p=[0.7, 0.2, 0.05, 0.03, 0.01, 0.01]),
        }
    ).to_csv(folder / "persons.csv", index=False)
    path = folder / "state.toml"
    path.write_text(changed(SPEC, changes), encoding="utf-8")
    return path
