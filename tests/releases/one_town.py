"""A small town whose persons are joined with their households: sizes, householders, children."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from oracles.households import HOUSEHOLDS, PERSONS, drawn_town, records

from releases.small import write_spec

PERSON_VALUES = {
    "quarters": ("home", "dorm"),
    "role": ("holder", "other"),
    "age": ("baby", "teen", "adult", "senior"),
    "sex": ("f", "m"),
}
HOUSEHOLD_VALUES = {
    "size": ("1", "2", "3", "4", "5+"),
    "holder_age": ("adult", "senior"),
    "kids": ("none", "some"),
    "tenure": ("owned", "rented"),
}

SPEC = """
name = "one-town"
structural_zeros = [ { role = "holder", quarters = "dorm" }, { role = "holder", age = ["baby", "teen"] } ]

[privacy]
rho = "4"
key = "insecure-test:1"

[geography]
file = "blocks.csv"
column = "block"
levels = { county = 1, tract = 3, block = 5 }

[schema.attributes]
quarters = ["home", "dorm"]
role = ["holder", "other"]
age = ["baby", "teen", "adult", "senior"]
sex = ["f", "m"]

[schema.recodes.grown]
attribute = "age"
groups = { child = ["baby", "teen"], grown = ["adult", "senior"] }

[strategy.queries]
"quarters * role * age" = "1/2"
detailed = "1/2"

[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"

[input]
file = "persons.csv"
form = "microdata"
geocode = "block"

[tables]
age = "quarters * age"

[publish]
margins = false

[companions.homes]
structural_zeros = [ { size = "1", kids = "some" } ]
privacy = { rho = "4" }
input = { file = "homes.csv", form = "microdata", geocode = "block" }
strategy.queries = { "size * holder_age * kids" = "1/2", detailed = "1/2" }
strategy.levels = { county = "1/4", tract = "1/4", block = "1/2" }

[companions.homes.schema.attributes]
size = ["1", "2", "3", "4", "5+"]
holder_age = ["adult", "senior"]
kids = ["none", "some"]
tenure = ["owned", "rented"]

[[join]]
companion = "homes"
size = "size"
most = 7
where = { quarters = "home" }

[[join]]
companion = "homes"
householder = { age = "holder_age" }
where = { quarters = "home", role = "holder" }
exactly = true

[[join]]
companion = "homes"
present = { kids = "some" }
members = { grown = "child" }
where = { quarters = "home" }
"""


def write_one_town(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the town's files and spec; `changes` are texts of the spec and what stands in their place."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = np.array([f"{c}{t:02d}{b:02d}" for c in "AB" for t in range(1, 4) for b in range(1, 6)])
    persons, households = drawn_town(len(blocks), 5)
    _write(folder / "persons.csv", blocks, *records(persons), PERSONS, PERSON_VALUES)
    _write(folder / "homes.csv", blocks, *records(households), HOUSEHOLDS, HOUSEHOLD_VALUES)
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    return write_spec(folder, SPEC, changes)


def _write(
    path: Path,
    blocks: np.ndarray,
    leaf: np.ndarray,
    cell: np.ndarray,
    shape: tuple[int, ...],
    values: dict[str, tuple[str, ...]],
) -> None:
    codes = np.unravel_index(cell, shape)
    columns = {name: np.array(labels)[code] for (name, labels), code in zip(values.items(), codes, strict=True)}
    pd.DataFrame({"block": blocks[leaf], **columns}).to_csv(path, index=False)
