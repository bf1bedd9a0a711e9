"""Small tables that an office protected, each number by itself, with the spec that makes one set of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.disclosure.method import KEYS, DisclosureMethod
from pipeline.disclosure.rounding import RandomRounding

#: 3 counties of 4 tracts of 6 blocks.
CODES: Final = [f"{county}{tract}{block}" for county in "ABC" for tract in "1234" for block in "123456"]
WIDTHS: Final = {"county": 1, "tract": 2, "block": 3}
CELLS: Final = [f"{age} * {sex}" for age in ("child", "adult", "old") for sex in "fm"]
#: Table -> columns and which of them each cell is counted in, `(6, size)`.
TABLES: Final = {
    "people": (CELLS, np.eye(6, dtype=np.int64)),
    "sexes": (["f", "m"], np.tile(np.eye(2, dtype=np.int64), (3, 1))),
    "all": (["total"], np.ones((6, 1), dtype=np.int64)),
}
SPEC: Final = """name = "mended"

[geography]
file = "areas.csv"
column = "block"
levels = { county = 1, tract = 2, block = 3 }

[schema.attributes]
age = ["child", "adult", "old"]
sex = ["f", "m"]

[tables]
people = "age * sex"
sexes = "sex"
all = "total"

[published]
by = "the office"
method = "random-rounding"
base = 5
exact = ["county.all"]
absent = ["tract.people"]
files = { county = "counties.csv", tract = "tracts.csv", block = "blocks.csv" }
"""
FILES: Final = {"county": "counties.csv", "tract": "tracts.csv", "block": "blocks.csv"}


def truth(mean: float = 8, seed: int = 3) -> NDArray[np.int64]:
    """Counts of the blocks `(72, 6)`."""
    rng = np.random.default_rng(seed)
    return rng.poisson(mean * rng.gamma(1.0, 1.0, (len(CODES), 6)))


def of_level(values: NDArray[np.int64], level: str) -> tuple[list[str], NDArray[np.int64]]:
    """The geocodes of a level, and sums `(n, 6)` of blocks."""
    frame = pd.DataFrame(values).groupby([code[: WIDTHS[level]] for code in CODES]).sum()
    return frame.index.tolist(), frame.to_numpy()


def write_tables(
    folder: Path,
    method: DisclosureMethod = RandomRounding(5),  # noqa: B008 - frozen
    counts: NDArray[np.int64] | None = None,
    text: str = SPEC,
) -> None:
    """The spec, and its files; rows are in no order. Totals of counties are exact; people are not told of tracts."""
    rng, leaves = np.random.default_rng(5), truth() if counts is None else counts
    keys = np.where(leaves > 0, rng.integers(0, KEYS, leaves.shape), 0)
    for level, name in FILES.items():
        codes, true = of_level(leaves, level)
        columns: dict[str, Any] = {"geocode": codes}
        for table, (labels, member) in TABLES.items():
            answers, own = true @ member, of_level(keys, level)[1] @ member % KEYS
            own = own if method.by_records else np.asarray(rng.integers(0, KEYS, answers.shape))
            shown = answers if (level, table) == ("county", "all") else method.publish(answers, own)
            if (level, table) != ("tract", "people"):
                columns |= {f"{table}.{label}": shown[:, i] for i, label in enumerate(labels)}
        pd.DataFrame(columns).sample(frac=1, random_state=1).to_csv(folder / name, index=False)
    pd.DataFrame({"block": CODES}).to_csv(folder / "areas.csv", index=False)
    (folder / "mended.toml").write_text(text, encoding="utf-8")
