"""Clips of the made-up workforce's wages that a question chooses, and specs with sums that end there."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from releases.small import changed

ENDS = [10_000, 20_000, 40_000, 80_000, 160_000]
CLIP = f"clip wages among {', '.join(map(str, ENDS))} above 1/50"


def wages(spec: Path) -> np.ndarray:
    """Those of the file; nothing where one is missing, as the spec says."""
    with (spec.parent / "workers.csv").open() as file:
        return np.array([float(row["pay"] or 0) for row in csv.DictReader(file)])


def chosen(root: Path) -> int:
    """The end that an answer has."""
    (row,) = csv.DictReader((root / "public" / "answer.csv").read_text().splitlines())
    assert int(row["clip:low90"]) <= int(row["clip"]) <= int(row["clip:high90"])
    return int(row["clip"])


AMOUNT = """
[companions.wages]
amount = "pay"
between = ["0", { answer = "answers/NAME" }]
unit = "500"
missing = "0"
[companions.wages.privacy]
rho = "1/2"
dataset = "workers"
[companions.wages.schema.attributes]
sex = ["f", "m"]
[companions.wages.strategy.queries]
total = "1"
[companions.wages.strategy.levels]
county = "1/2"
tract = "1/2"
"""


def with_amount(spec: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A spec beside with sums up to the end that an answer chose."""
    text = changed(AMOUNT.replace("NAME", name), changes)
    path = spec.with_name("wages.toml")
    path.write_text(spec.read_text("utf-8").replace('rho = "1"\ndataset', 'rho = "1/2"\ndataset') + text, "utf-8")
    return path
