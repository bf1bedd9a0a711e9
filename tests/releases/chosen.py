"""A small county of 60 blocks, of which a run chooses privately how detailed a table is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from releases.small import write_spec

SPEC = """
name = "chosen"
[privacy]
rho = "1"
dataset = "people"
[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, block = 3 }
[schema.attributes]
race = ["a", "b", "c", "d"]
sex = ["f", "m"]
[schema.recodes.some]
attribute = "race"
groups = { ab = ["a", "b"], cd = ["c", "d"] }
[strategy]
queries = { race = "1" }
levels = { county = "1/2", block = "1/2" }
[select.detail]
level = "block"
versions = ["total", "some", "race * sex"]
thresholds = [0, 30, 60]
share = "1/5"
choice_share = "1/4"
[input]
file = "persons.csv"
form = "long"
geocode = "block"
[publish]
margins = false
microdata = false
"""
BLOCKS = [f"{county}{block:02d}" for county in "AB" for block in range(30)]


def write_chosen(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write blocks of 0 to 100 persons and the spec; `changes` are texts of the spec and what stands in their place."""
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({"block": BLOCKS}).to_csv(folder / "blocks.csv", index=False)
    cells = [(block, race, sex) for block in BLOCKS for race in "abcd" for sex in "fm"]
    persons = pd.DataFrame(cells, columns=["block", "race", "sex"])
    means = np.repeat(np.linspace(0, 100 / 8, len(BLOCKS)), 8)
    persons["count"] = np.random.default_rng(1).poisson(means)
    persons.to_csv(folder / "persons.csv", index=False)
    return write_spec(folder, SPEC, changes)
