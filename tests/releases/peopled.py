"""A small state with a schema of more than a million cells: few persons, the detail measured at the top, sums below."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

SIZES = {"age": 116, "relation": 42, "race": 63}
SPEC = """
name = "peopled"
privacy = { rho = "4", key = "insecure-test:1" }
geography = { file = "blocks.csv", column = "block", levels = { state = 1, county = 2, block = 3 } }
input = { file = "persons.csv", form = "microdata", geocode = "block" }
tables = { total = "total", origin = "race * hispanic" }
publish = { margins = false, microdata = false }

[schema.attributes]
ATTRIBUTES
sex = ["f", "m"]
hispanic = ["no", "yes"]

[strategy.levels]
state = { share = "1/3", queries = { total = "1/4", sex = "1/4", detailed = "1/2" } }
county = { share = "1/3", queries = { total = "1/4", sex = "1/4", "race * hispanic" = "1/2" } }
block = { share = "1/3", queries = { total = "1/4", sex = "1/4", "race * hispanic" = "1/2" } }
"""


def write_peopled(folder: Path) -> Path:
    """Write the files and the spec."""
    values = {name: [str(number) for number in range(size)] for name, size in SIZES.items()}
    listed = "\n".join(f"{name} = {of}" for name, of in values.items())
    path = folder / "release.toml"
    path.write_text(SPEC.replace("ATTRIBUTES", listed.replace("'", '"')), encoding="utf-8")
    rng, n = np.random.default_rng(2), 500
    blocks = [f"1{county}{block}" for county in range(3) for block in range(4)]
    pd.DataFrame({"block": blocks}).to_csv(folder / "blocks.csv", index=False)
    columns = {
        "block": blocks,
        **{name: of[:12] for name, of in values.items()},
        "sex": ["f", "m"],
        "hispanic": ["no", "yes"],
    }
    people = {name: rng.choice(of, n) for name, of in columns.items()}
    pd.DataFrame(people).to_csv(folder / "persons.csv", index=False)
    return path
