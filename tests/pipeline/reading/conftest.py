"""A country of large counts, released once: errors are those of the linear estimate there, and the truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import run

SPEC = """
name = "country"

[privacy]
rho = "1/10"
key = "insecure-test:3"

[geography]
file = "blocks.csv"
column = "block"
levels = { state = 1, county = 2, tract = 4, block = 7 }

[schema.attributes]
age = ["child", "adult", "old"]
sex = ["f", "m"]

[schema.recodes.grown]
attribute = "age"
groups = { young = ["child"], grown = ["adult", "old"] }

[strategy]
levels = { state = "1/10", county = "1/5", tract = "3/10", block = "2/5" }
queries = { total = "1/4", sex = "1/4", "grown * sex" = "1/4", detailed = "1/4" }

[invariants]
state = ["total"]

[input]
file = "persons.csv"
form = "long"
geocode = "block"

[tables]
sex = "sex"
detail = { query = "detailed", levels = ["county", "tract"] }

[publish]
replicates = 2
microdata = false
"""


@pytest.fixture(scope="session")
def country(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release: 6 counties, 36 tracts, some 400 blocks of thousands of persons."""
    folder = tmp_path_factory.mktemp("country")
    rng = np.random.default_rng(11)
    blocks = [
        f"S{county}{tract:02d}{block:03d}"
        for county in range(6)
        for tract in range(6)
        for block in range(int(rng.integers(4, 19)))
    ]
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    cells = [(age, sex) for age in ("child", "adult", "old") for sex in ("f", "m")]
    frame = pd.DataFrame([(block, age, sex) for block in blocks for age, sex in cells], columns=["block", "age", "sex"])
    frame.assign(count=rng.integers(300, 3000, len(frame))).to_csv(folder / "persons.csv", index=False)
    (folder / "country.toml").write_text(SPEC)
    return run(folder / "country.toml", folder / "releases")
