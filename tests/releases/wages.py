"""A small town with the wages of its persons: an amount on the spine, clipped and in units of 10.

One block has a single person, who earns far more than the clip. The balance of a person is the wage less 150, which is
below 0 for many.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from releases.small import changed

#: The answers of the detailed table.
LABELS = [f"{sex} * {job}" for sex, job in itertools.product("fm", ("none", "part", "full"))]
SPEC = """
name = "wages"
privacy = { rho = "2", key = "insecure-test:1" }
geography = { file = "blocks.csv", column = "block", levels = { county = 1, tract = 2, block = 3 } }
schema.attributes = { sex = ["f", "m"], job = ["none", "part", "full"] }
input = { file = "persons.csv", form = "microdata", geocode = "block" }
publish = { replicates = 4, microdata = false }

[strategy]
queries = { total = "1/4", sex = "1/4", detailed = "1/2" }
levels = { county = "1/4", tract = "1/4", block = "1/2" }

[companions.wages]
amount = "wage"
between = ["0", "500"]
unit = "10"
missing = "0"
privacy = { rho = "2" }
schema.attributes = { sex = ["f", "m"], job = ["none", "part", "full"] }
strategy.queries = { total = "1/4", sex = "1/4", detailed = "1/2" }
strategy.levels = { county = "1/4", tract = "1/4", block = "1/2" }
"""


#: What makes it a release of balances, between a loss of 300 and a gain of 400.
BALANCES = (('amount = "wage"', 'amount = "balance"'), ('between = ["0", "500"]', 'between = ["-300", "400"]'))

#: What adds a companion that counts the records that the clip of wages cuts off.
OVER = (
    "[companions.wages]\n",
    """[companions.over]
count_clipped = "wage"
between = ["0", "500"]
missing = "0"
privacy = { rho = "1" }
schema.attributes = { sex = ["f", "m"], clipped = ["below", "within", "above"] }
strategy.queries = { clipped = "1/2", detailed = "1/2" }
strategy.levels = { county = "1/2", tract = "1/4", block = "1/4" }

[companions.wages]
""",
)


def write_wages(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the files and the spec; `changes` are texts of the spec and what stands in their place."""
    rng = np.random.default_rng(19)
    blocks = [f"A{tract}{block}" for tract in range(3) for block in range(4)]
    (folder / "blocks.csv").write_text("block\n" + "\n".join([*blocks, "A30", "A31"]) + "\n", encoding="utf-8")
    lines = []
    for number in range(600):
        job = ("none", "part", "full")[int(rng.integers(3))]
        wage = "" if job == "none" else f"{rng.gamma(2.0, 60.0 if job == 'part' else 120.0):.2f}"
        lines.append(f"{blocks[int(rng.integers(len(blocks)))]},{'fm'[number % 2]},{job},{wage}")
    lines += ["A30,m,full,9000.00", "A31,f,part,104.999", "A31,f,full,105"]
    lines = [f"{line},{_balance(line.rpartition(',')[2])}" for line in lines]
    header = "block,sex,job,wage,balance"
    (folder / "persons.csv").write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    path = folder / "wages.toml"
    path.write_text(changed(SPEC, changes), encoding="utf-8")
    return path


def detailed(release: Path, level: str, universe: str = "companions/wages/") -> pd.DataFrame:
    """The detailed table of a level, of the sums or, with "", of the records: `LABELS` by geocode."""
    return pd.read_parquet(release / f"public/{universe}tables/detailed/{level}.parquet").set_index("geocode")[LABELS]


def _balance(wage: str) -> str:
    if not wage:
        return ""
    whole, _, part = wage.partition(".")
    thousandths = int(whole) * 1000 + int(part.ljust(3, "0")) - 150_000
    return f"{'-' if thousandths < 0 else ''}{abs(thousandths) // 1000}.{abs(thousandths) % 1000:03d}"


def true_units(folder: Path, column: str = "wage", low: int = 0, high: int = 500) -> dict[tuple[str, str, str], int]:
    """Units by block, sex and job, by hand in whole thousandths: clipped, rounded to tens with halves up."""
    sums: dict[tuple[str, str, str], int] = {}
    for line in (folder / "persons.csv").read_text("utf-8").splitlines()[1:]:
        block, sex, job, wage, balance = line.split(",")
        stated = (wage if column == "wage" else balance) or "0"
        whole, _, part = stated.lstrip("-").partition(".")
        thousandths = (int(whole) * 1000 + int(part.ljust(3, "0"))) * (-1 if stated.startswith("-") else 1)
        clipped = min(max(thousandths, low * 1000), high * 1000)
        sums[block, sex, job] = sums.get((block, sex, job), 0) + (clipped + 5000) // 10_000
    return sums
