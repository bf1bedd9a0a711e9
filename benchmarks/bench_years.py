"""Ten years of a population register: correlated noise and a history beside ten independent releases.

    python benchmarks/bench_years.py [--keys 5] [--rho 1] [--spells 2] [--changes 0.25] [--json PATH]

Men and women of every Spanish municipality on 1 January, 2003 to 2012; municipality < province < region < country, of
the one query that keeps both, each level a quarter of rho for all ten years. Four ways with the same cost for everybody
with at most two spells (change-one), each estimated with non-negative whole numbers that add up in every year:

    independent      ten releases, each for itself (today)
    revised          the same noise, least squares over areas and years with the model of change
    square root      noise correlated by the square-root factorisation, scaled to be sound; revised likewise
    spells           noise correlated by the best design; revised likewise

Errors are mean absolute ones of totals, over municipalities and years; ratios are to independent releases of the same
key. Standard errors are over keys, which are independent. Coverage is of totals of years and of changes, by the truth's
size, and of the 1 % of municipalities with the largest jump (|change| / root of the size). Needs ../shared/data beside
the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.years.best import CHANGES, best
from features.years.design import Design, independent, triangular, unmixed
from features.years.history import LevelHistory, SeriesQuery, change_precisions, histories, intervals, whole_histories
from geography.spine import Level, Spine
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("", "tests")]
from oracles.series_numbers import mixed, square_root  # noqa: E402 - beside the tests

REGISTER = Path(__file__).resolve().parents[2] / "shared" / "data" / "spain_padron_2003_2012.parquet"
TOTAL = np.ones(2)
SIZES = ((0, 100), (100, 1000), (1000, 10_000), (10_000, math.inf))
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def register() -> tuple[Spine, list[Ints]]:
    """The spine of all municipalities that were ever there, and the truths `(n, T, 2)` of each level."""
    table = pq.read_table(REGISTER)
    names = ("region", "province", "municipality")
    codes = np.array([table.column(name).to_pylist() for name in names])
    paths = np.unique(codes.T, axis=0)
    levels, above = [Level("country", np.array(["ES"]), np.array([-1]))], np.zeros(len(paths), dtype=np.int64)
    for depth, name in enumerate(names):
        units, rows = np.unique(paths[:, : depth + 1], axis=0, return_inverse=True)
        parents = np.zeros(len(units), dtype=np.int64)
        parents[rows.ravel()] = above
        levels.append(Level(name, units[:, depth], parents))
        above = rows.ravel()
    spine = Spine(tuple(levels))
    place = {code: row for row, code in enumerate(spine.leaf_level.geocodes.tolist())}
    years = np.array(table.column("year").to_pylist())
    leaves = np.zeros((spine.n_leaves, int(np.ptp(years)) + 1, 2), dtype=np.int64)
    rows = np.array([place[code] for code in codes[2].tolist()])
    for cell, name in enumerate(("men", "women")):
        np.add.at(leaves[:, :, cell], (rows, years - years.min()), np.array(table.column(name).to_pylist()))
    truths = [leaves]
    for level in reversed(spine.levels[1:]):
        upper = np.zeros((int(level.parents.max()) + 1, *leaves.shape[1:]), dtype=np.int64)
        np.add.at(upper, level.parents, truths[0])
        truths.insert(0, upper)
    return spine, truths


def noisy(design: Design, rho: Fraction, key: int, name: str, truths: list[Ints]) -> list[list[SeriesQuery]]:
    """What a series publishes of each level, unmixed."""
    master, share = MasterKey.from_text(f"insecure-test:{key}"), rho / len(truths)
    out = []
    for level, truth in enumerate(truths):
        years = [np.ascontiguousarray(truth[:, t]) for t in range(design.periods)]
        published = []
        for t in range(design.periods):
            rows = ";".join(",".join(map(str, row)) for row in design.rows)
            place = ("series", name, str(t), "bench" if t else "first", f"{rows} {design.spells} {design.neighbours}")
            stream = master.stream_key(("records", "spine", "spec", *place), str(level), "sex")
            z = sampler_for(design.noise(share)).draw(stream, 0, truth[:, t].size).reshape(truth[:, t].shape)
            published.append(mixed(design.rows, years[: t + 1], z))
        values = np.array(unmixed(design, published))
        out.append([SeriesQuery(np.eye(2), values, design.noise(share).variance)])
    return out


def inside(low: Floats, high: Floats, true: Ints) -> Floats:
    return np.asarray((low <= true) & (true <= high), dtype=np.float64)


def coverages(plain: LevelHistory, modelled: LevelHistory, true: Ints, jumpers: NDArray[np.bool_]) -> dict[str, float]:
    """Shares of intervals that hold the truth: of years and changes, by size, and of areas that jump."""
    (u, v), (w, x) = plain.sums(TOTAL), modelled.sums(TOTAL)
    found: dict[str, float] = {}
    sizes = true.mean(axis=1)
    for what, weights in (("years", np.eye(u.shape[1])), ("changes", np.diff(np.eye(u.shape[1]), axis=0))):
        numbers = [
            (one @ weights.T, np.einsum("ks,nst,kt->nk", weights, many, weights)) for one, many in ((u, v), (w, x))
        ]
        held = inside(*intervals(*numbers), np.rint(true @ weights.T).astype(np.int64))
        found[what] = float(held.mean())
        for least, most in SIZES:
            some = (sizes >= least) & (sizes < most)
            if some.sum() >= 50:
                found[f"{what}, {least:,}+"] = float(held[some].mean())
        if jumpers.any():
            found[f"{what}, jumps"] = float(held[jumpers].mean())
    return found


def one_way(
    spine: Spine, truths: list[Ints], design: Design, rho: Fraction, key: int, name: str, *, model: bool
) -> dict[str, Any]:
    """Errors and coverage of each level by one way with one key."""
    begun = time.perf_counter()
    numbers = noisy(design, rho, key, name, truths)
    plain = modelled = histories(spine, design, numbers)
    if model:
        precisions, changes = change_precisions(spine, plain)
        modelled = histories(spine, design, numbers, precisions)
    whole = whole_histories(spine, modelled, key)
    leaves = truths[-1].sum(axis=2)
    jump = (np.abs(np.diff(leaves, axis=1)) / np.sqrt(np.maximum(leaves.mean(axis=1), 1))[:, None]).max(axis=1)
    out: dict[str, Any] = {"seconds": time.perf_counter() - begun, "levels": {}}
    if model:
        out["variances"] = [None if c is None else (c.linear, c.quadratic, c.correlation) for c in changes]
    for level, true in enumerate(truths):
        error = whole[level].sum(axis=2) - true.sum(axis=2)
        jumpers = jump >= np.quantile(jump, 0.99) if level == len(truths) - 1 else np.zeros(len(true), dtype=bool)
        out["levels"][spine.level_names[level]] = {
            "year": float(np.abs(error).mean()),
            "change": float(np.abs(np.diff(error, axis=1)).mean()),
            "coverage": coverages(plain[level], modelled[level], true.sum(axis=2), jumpers),
        }
    return out


def over(values: list[float]) -> str:
    """A mean over keys and its standard error."""
    numbers = np.array(values)
    spread = f" +- {numbers.std(ddof=1) / math.sqrt(len(numbers)):.3f}" if len(numbers) > 1 else ""
    return f"{numbers.mean():.3f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--rho", type=Fraction, default=Fraction(1))
    parser.add_argument("--spells", type=int, default=2)
    parser.add_argument("--changes", type=float, default=CHANGES)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not REGISTER.is_file():
        print("bench_years: ../shared/data is not beside the project; nothing is measured")
        return
    spine, truths = register()
    periods = truths[0].shape[1]
    own = independent(periods, options.spells, "change-one")
    ways: dict[str, tuple[Design, bool]] = {
        "independent": (own, False),
        "revised": (own, True),
        "square root": (triangular(square_root(periods), options.spells, "change-one"), True),
        "spells": (best(periods, options.spells, "change-one", options.changes), True),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    for key in range(1, options.keys + 1):
        for name, (design, model) in ways.items():
            seed_name = "independent" if name == "revised" else name
            found[name].append(one_way(spine, truths, design, options.rho, key, seed_name, model=model))
    print(f"rho = {options.rho}, {options.keys} keys, {periods} years, at most {options.spells} spells, change-one")
    print(f"{'way':12} {'level':13} {'year':>16} {'ratio':>16} {'change':>16} {'ratio':>16}")
    for name, runs in found.items():
        for level in spine.level_names:
            here, base = [run["levels"][level] for run in runs], [run["levels"][level] for run in found["independent"]]
            columns = []
            for what in ("year", "change"):
                columns.append(over([one[what] for one in here]))
                columns.append(over([one[what] / other[what] for one, other in zip(here, base, strict=True)]))
            print(f"{name:12} {level:13} " + " ".join(f"{column:>16}" for column in columns))
    for name, runs in found.items():
        for level in spine.level_names:
            coverage = [run["levels"][level]["coverage"] for run in runs]
            shown = ", ".join(f"{what} {over([one[what] for one in coverage])}" for what in coverage[0])
            print(f"coverage {name:12} {level:13} {shown}")
        print(f"seconds {name:12} {over([run['seconds'] for run in runs])}  {runs[0].get('variances')}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
