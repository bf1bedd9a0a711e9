"""Protects census tables as statistical offices do, each number by itself, and writes the spec that makes them add up.

    python examples/protect_tables.py BLOCKS METHOD FOLDER [KEY]

BLOCKS is a Parquet file with a row a census block: its code `block` and, for each of eight groups, `pop_` and `vap_`,
people and people of voting age. METHOD is rounding-5, random-rounding-3, random-rounding-5, cell-keys, suppression-5
or gaussian-2; KEY begins the random numbers. FOLDER gets a CSV file for each level, as offices publish them, the list
of blocks and the spec `published.toml`, and `truth.npz`, the numbers before protection, which an office keeps.

It shares no code with the program, so that tests can compare what both think that a method does.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq

LEVELS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
AGES = ["under18", "18plus"]
RACES = ["hisp", "white", "black", "aian", "asian", "nhpi", "other", "two"]
#: Of each table the labels of its numbers, and which of the 16 cells (age by race) each of them counts.
TABLES = {
    "total": (["total"], np.ones((16, 1), dtype=int)),
    "age": (AGES, np.kron(np.eye(2, dtype=int), np.ones((8, 1), dtype=int))),
    "race": (RACES, np.kron(np.ones((2, 1), dtype=int), np.eye(8, dtype=int))),
    "detail": ([f"{age} * {race}" for age in AGES for race in RACES], np.eye(16, dtype=int)),
}
STATED = {
    "rounding-5": 'method = "rounding"\nbase = 5',
    "random-rounding-3": 'method = "random-rounding"\nbase = 3',
    "random-rounding-5": 'method = "random-rounding"\nbase = 5',
    "cell-keys": 'method = "cell-keys"\nmost = 5\nvariance = "3"\nunpublished = 2',
    "suppression-5": 'method = "suppression"\nunder = 5',
    "gaussian-2": 'method = "gaussian"\nsd = "2"',
}


def errors_of(count, most=5, variance=3.0, unpublished=2):
    """The errors that cell keys give a count, and their probabilities: those of maximum entropy with mean 0."""
    errors = np.arange(-min(count, most), most + 1)
    errors = errors[(count + errors == 0) | (count + errors > unpublished)]

    def with_slope(a, b):
        raw = np.exp(a * errors - b * errors**2)
        return raw / raw.sum()

    def with_mean_0(b):
        return with_slope(brentq(lambda a: with_slope(a, b) @ errors, -60, 60), b)

    shares = with_mean_0(0.0)
    if shares @ errors**2 > variance:
        shares = with_mean_0(brentq(lambda b: with_mean_0(b) @ errors**2 - variance, 0, 5))
    return errors, shares


def protect(counts, keys, method, rng):
    """What is published of true counts; -1 where nothing is. `keys` add up those of the records that each counts."""
    base = int(method[-1]) if method[-1].isdigit() else 0
    if method.startswith("suppression"):
        return np.where((counts > 0) & (counts < base), -1, counts)
    if method.startswith("gaussian"):
        return counts + np.rint(rng.normal(0, base, counts.shape)).astype(int)
    if method.startswith("random"):
        return counts // base * base + base * (rng.random(counts.shape) < counts % base / base)
    if method.startswith("rounding"):
        return (counts + base // 2) // base * base
    published = counts.copy()
    for count in range(1, 9):  # from 8 on all have the same errors
        errors, shares = errors_of(count)
        here = np.minimum(counts, 8) == count
        place = np.searchsorted(np.cumsum(shares), keys[here] % 1, side="right")
        published[here] += errors[np.minimum(place, len(errors) - 1)]
    return published


def main(blocks, method, folder, key=1):
    """Write all files."""
    rng, folder = np.random.default_rng(key), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    people = pd.read_parquet(blocks).sort_values("block")
    adults = people[[f"vap_{race}" for race in RACES]].to_numpy()
    leaves = np.hstack([people[[f"pop_{race}" for race in RACES]].to_numpy() - adults, adults])
    # Each record has a key from 0 to 1. The keys of several add up to one that is as evenly distributed, whole parts
    # left out: one for each cell of each block does as well.
    keys = np.where(leaves > 0, rng.random(leaves.shape), 0.0)
    codes, truth = people["block"].astype(str), {}
    for level, width in LEVELS.items():
        areas, row = np.unique(codes.str[:width], return_inverse=True)
        cells, keys_of_cells = np.zeros((len(areas), 16), dtype=int), np.zeros((len(areas), 16))
        np.add.at(cells, row, leaves)
        np.add.at(keys_of_cells, row, keys)
        columns = {"geocode": areas}
        for table, (labels, sums) in TABLES.items():
            truth[f"{level} {table}"] = cells @ sums
            published = protect(cells @ sums, keys_of_cells @ sums, method, rng)
            for label, numbers in zip(labels, published.T, strict=True):
                hidden = numbers == -1 if method.startswith("suppression") else False
                columns[f"{table}.{label}"] = np.where(hidden, "x", numbers.astype(str))
        pd.DataFrame(columns).to_csv(folder / f"{level}.csv", index=False)
    np.savez_compressed(folder / "truth.npz", **truth)
    codes.to_frame("block").to_csv(folder / "areas.csv", index=False)
    spec = f"""name = "{method}"

[published]
by = "examples/protect_tables.py"
{STATED[method]}
files = {{ {", ".join(f'{level} = "{level}.csv"' for level in LEVELS)} }}

[geography]
file = "areas.csv"
column = "block"
levels = {{ {", ".join(f"{level} = {width}" for level, width in LEVELS.items())} }}

[schema.attributes]
votingage = {AGES}
race = {RACES}

[tables]
total = "total"
age = "votingage"
race = "race"
detail = "votingage * race"
"""
    (folder / "published.toml").write_text(spec.replace("'", '"'), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5) or sys.argv[2] not in STATED:
        sys.exit(__doc__)
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
