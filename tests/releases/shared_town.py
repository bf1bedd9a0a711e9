"""The small town with public numbers for its blocks: beds, of which some areas have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from releases.small import QUICK, write_town

SHARES = """[postprocess]
solver = "batched"

[postprocess.shares.beds]
file = "beds.csv"
level = "block"
geocode = "block"
column = "beds"

[postprocess.shares.quarters]
file = "beds.csv"
level = "block"
levels = ["block"]
geocode = "block"
query = "quarters"
columns = { house = "beds", dorm = "rooms" }

[companions.units]"""


def write_shared_town(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the town and its file of beds; the invariant total is left out, and its budget is small."""
    path = write_town(folder, QUICK[0], ('rho = "2"', 'rho = "1/50"'), ("[companions.units]", SHARES), *changes)
    persons = pd.read_csv(folder / "persons.csv")
    blocks = pd.read_csv(folder / "blocks.csv")["block"]
    living = persons.groupby("block").size().reindex(blocks, fill_value=0).to_numpy()
    rng = np.random.default_rng(1)
    beds = np.rint(living * rng.uniform(0.8, 1.2, len(living)))
    pd.DataFrame({"block": blocks, "beds": beds, "rooms": rng.integers(0, 3, len(beds)) / 2}).to_csv(
        folder / "beds.csv", index=False
    )
    return path
