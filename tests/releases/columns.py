"""Releases whose attributes and values are called like columns of what is printed of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from releases.small import run


def release_with_names(folder: Path, names: Mapping[str, Sequence[str]]) -> Path:
    """A release of two counties and three blocks whose attributes and values are called so."""
    choice = np.random.default_rng(1).choice
    persons = {"block": choice(["901", "902", "911"], 90), **{name: choice(of, 90) for name, of in names.items()}}
    pd.DataFrame(persons).to_csv(folder / "persons.csv", index=False)
    (folder / "blocks.csv").write_text("block\n901\n902\n911\n")
    attributes = "\n".join(f"{name} = {json.dumps(of)}" for name, of in names.items())
    tables = "\n".join(f'{name} = "{name}"' for name in names)
    (folder / "release.toml").write_text(
        f"""
name = "named"
privacy = {{ rho = "1", key = "insecure-test:1" }}
geography = {{ file = "blocks.csv", column = "block", levels = {{ county = 2, block = 3 }} }}
schema.attributes = {{ {attributes.replace(chr(10), ", ")} }}
strategy = {{ levels = {{ county = "1/2", block = "1/2" }}, queries = {{ detailed = "1" }} }}
input = {{ file = "persons.csv", form = "microdata", geocode = "block" }}
publish = {{ margins = false }}
[tables]
{tables}
"""
    )
    return run(folder / "release.toml", folder / "out")
