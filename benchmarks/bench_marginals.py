"""Marginals on a spine: records with many attributes in every area.

    python benchmarks/bench_marginals.py [--part adult|chosen|wide|files] [--keys 5] [--replicates 5] [--json PATH]
                                         [--others FILE]

adult: the Adult data (48,842 records, 14 attributes) on the spine age // 20 < // 10 < // 5 with the cliques, rho 1 and
the split of CensusDP (2026), whose published figures are beside ours: mean total variation distance of all 91 two-way
tables, over the areas of a level, of records drawn in the leaves. Ways: as CensusDP measures; each area for itself
(`alike = false`). Standard errors are over keys, which are independent. "no noise" is what these cliques can say.
Intervals: coverage of true counts of clique tables by their size, mean width. Needs ../shared/data beside the project;
without it says so and ends.

wide: 27 attributes of a million made-up persons in the 25,000 blocks of the example state, 13 cliques, rho 1: seconds,
memory, and intervals.

chosen: Adult again, with pairs of attributes that are chosen privately at the top (rho 1/10) from noisy tables of each
attribute (rho 1/20), and measured in place of CensusDP's cliques with what is left of rho 1.

--others: the distance at the top of others' synthetic records, a Parquet file with the attributes' codes, and no more.
How to make them with MST and AIM of github.com/ryan112358/mbi, which are no part of the package mbi, each in an
environment of its own, from shared/data/adult.parquet with the sizes of ADULT_SIZES. Both count records that are added
or removed, not replaced. They take epsilon and delta: set rho itself, `mechanism.rho = 1.0` for AIM, and `cdp_rho` in
the module mst for MST.

- MST: mbi 1.1.0, jax 0.6.2 and mechanisms/ of commit af93103 (March 2026) run as they are; matplotlib is needed, too.
- AIM: commit 4152cc5 (June 2024), which is numpy alone: Python 3.11, numpy 1.26, scipy, pandas 2.2, networkx,
  disjoint-set, matplotlib; src/, the root and mechanisms/ on the path. It imports hdmm for an identity matrix
  (scipy.sparse.eye serves as well) and autodp for what is not used here. The workload is all pairs. The README's figure
  is AIM(1.0, 1e-9, max_model_size=4, max_iters=100) with max_iters 1,000 for the last estimate, numpy's seed 1.
- mbi 2.0.0 with jax 0.10: mechanisms/ of July 2026 still call `Domain.attrs`, now `attributes`, and `potentials=` of
  `estimate`, now `warm_start=`. With both names bridged AIM runs, but compiles for each of up to 91 tables in each of
  up to 224 rounds: more than 45 core seconds for the first one.

files: writes adult_files/ for examples/adult.toml: the public list of areas, which are groups of ages, and the records.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.example.example import LEVELS, block_codes
from features.example.population import populate
from features.marginals.choice import Pairs, largest_epsilon
from features.marginals.cliques import AttributeSizes, Clique, junction_tree
from features.marginals.confidential import chosen_pairs
from features.marginals.intervals import CliqueDesign, CliqueRelease, SimulatedErrors, Tables, simulated_errors
from features.marginals.records import WholeRecords, draw_records
from features.marginals.whole import Seed
from geography.build import spine_from_prefixes
from pipeline.model.public_key import public_key
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("", "tests")]
from oracles.clique_population import Population, details, ends_of  # noqa: E402 - beside the tests

Ints = NDArray[np.int64]
ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.parquet"
ADULT_SIZES = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
CENSUS_DP_CLIQUES = (
    ("marital_status", "relationship", "sex", "income_over_50k"),
    ("workclass", "occupation", "education_num", "income_over_50k"),
    ("capital_gain", "capital_loss", "income_over_50k"),
    ("race", "native_country", "income_over_50k"),
    ("age", "marital_status"),
    ("hours_per_week", "occupation"),
    ("fnlwgt", "income_over_50k"),
)
CENSUS_DP = (0.0452, 0.1443, 0.1860, 0.1746)
#: Years of age in an area of each level below the top.
YEARS = (20, 10, 5)
#: Classes of true counts whose intervals are looked at.
CLASSES = ((0, 0), (1, 4), (5, 9), (10, 99), (100, 999), (1000, 10**9))
WIDE_SIZES = (10, 6, 5, 2, 8, 4, 3, 9, 2, 7, 5, 4, 2, 12, 3, 6, 2, 5, 8, 4, 3, 2, 10, 4, 6, 3, 5)


def measured(people: Population, noise: Sequence[dict[Clique, NoiseSpec]], key: int) -> list[Tables]:
    """Noisy tables of all levels; a key of the benchmark's own stands for the agency's."""
    out: list[Tables] = []
    for level, specs in enumerate(noise):
        here = {}
        for number, (clique, spec) in enumerate(specs.items()):
            truth = people.table(clique, level)
            stream = public_key("benchmark", key, "", level, number)
            here[clique] = truth + sampler_for(spec).draw(stream, 0, truth.size).reshape(truth.shape)
        out.append(here)
    return out


def adult(cliques: Sequence[Sequence[str]]) -> Population:
    table = pq.read_table(ADULT)
    domain = AttributeSizes(tuple(table.column_names), ADULT_SIZES)
    values = np.stack([np.asarray(table[name]) for name in table.column_names], axis=1).astype(np.int64)
    # Areas are numbered by the ages that there are.
    age = values[:, 0]
    areas = [np.zeros(len(age), dtype=np.int64)]
    areas += [np.unique(age // years, return_inverse=True)[1].astype(np.int64) for years in YEARS]
    sizes = tuple(int(area.max()) + 1 for area in areas)
    parents = []
    for above, below, n in zip(areas, areas[1:], sizes[1:], strict=False):
        parent = np.zeros(n, dtype=np.int64)
        parent[below] = above
        parents.append(parent)
    order = np.argsort(areas[-1], kind="stable")
    tree = junction_tree(domain, [domain.clique(names) for names in cliques])
    return Population(tree, WholeRecords(areas[-1][order], values[order]), tuple(parents), sizes)


def split_by_nodes(people: Population, cliques: Sequence[Clique], rho: Fraction) -> list[dict[Clique, NoiseSpec]]:
    """Levels by the square root of their areas, to a ten-thousandth; cliques alike; a record is replaced."""
    roots = np.sqrt(np.array(people.sizes))
    out: list[dict[Clique, NoiseSpec]] = []
    for root in roots:
        share = Fraction(round(10_000 * float(root / roots.sum())), 10_000) * rho / len(cliques)
        out.append(dict.fromkeys(cliques, DiscreteGaussian(1 / share)))
    return out


def two_way(people: Population, records: WholeRecords, level: int) -> float:
    """Mean total variation distance of all two-way tables, over the areas of a level; an empty area is 1 away."""
    distances = []
    released = replace(people, records=records)
    for pair in combinations(range(len(people.tree.domain.names)), 2):
        tables = (one.table(pair, level) for one in (people, released))
        truth, found = (table / np.maximum(table.sum(axis=1, keepdims=True), 1) for table in tables)
        away = 0.5 * np.abs(truth - found).sum(axis=1)
        distances.append(np.where(found.any(axis=1), away, 1.0).mean())
    return float(np.mean(distances))


def coverage(people: Population, errors: SimulatedErrors) -> Iterator[tuple[int, tuple[int, int], int, float, float]]:
    """Level, class of true counts, how many there are, how many of their intervals hold them, mean width."""
    for level in range(len(people.sizes)):
        sums = np.zeros((len(CLASSES), 3))
        for number, bag in enumerate(people.tree.bags):
            truth = people.table(bag, level)
            low, high = ends_of(errors, level, number)
            held = (low <= truth) & (truth <= high)
            for row, (least, most) in zip(sums, CLASSES, strict=True):
                some = (truth >= least) & (truth <= most)
                row += some.sum(), (held & some).sum(), (high - low)[some].sum()
        for row, of_class in zip(sums, CLASSES, strict=True):
            if row[0]:
                yield level, of_class, int(row[0]), float(row[1] / row[0]), float(row[2] / row[0])


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def bench_adult(keys: int, replicates: int) -> dict[str, Any]:
    out: dict[str, Any] = {"published": CENSUS_DP}
    plain = adult(CENSUS_DP_CLIQUES)
    nothing = draw_records(plain.tree, plain.tables(3), Seed(1))
    out["no noise"] = [two_way(plain, nothing, level) for level in range(4)]
    print("no noise", " ".join(f"{value:.4f}" for value in out["no noise"]))
    ways = (
        ("as CensusDP", plain, True),
        ("each area for itself", plain, False),
    )
    for name, people, alike in ways:
        noise = split_by_nodes(people, people.tree.bags, Fraction(1))
        design = CliqueDesign(people.tree, people.parents, noise, alike=alike)
        distances, seconds = [], []
        for key in range(keys):
            noisy = measured(people, noise, key)
            begun = time.perf_counter()
            release = design.release(noisy, Seed(key))
            records = draw_records(people.tree, release.whole[-1], Seed(key))
            seconds.append(time.perf_counter() - begun)
            distances.append([two_way(people, records, level) for level in range(4)])
        found = [mean_and_error(level) for level in zip(*distances, strict=True)]
        out[name] = {"distance": found, "seconds": mean_and_error(seconds)}
        texts = [
            f"{mean:.4f} +- {error:.4f} ({mean / CENSUS_DP[level]:.2f})" for level, (mean, error) in enumerate(found)
        ]
        print(f"{name}: {' '.join(texts)}; {np.mean(seconds):.1f} s")
        if replicates:
            out[name]["intervals"] = _intervals(people, design, noisy, release, replicates)
    return out


def bench_chosen(keys: int) -> dict[str, Any]:
    alone = adult([[name] for name in adult(CENSUS_DP_CLIQUES).tree.domain.names])
    domain, singles = alone.tree.domain, tuple((a,) for a in range(len(alone.tree.domain.names)))
    of_single = DiscreteGaussian(20 * Fraction(len(singles)))
    distances = []
    for key in range(keys):
        (ones,) = measured(alone, [dict.fromkeys(singles, of_single)], 1000 + key)
        pairs = Pairs(domain, penalty=Fraction(8), most_cells=2500)
        stream = public_key("benchmark", key, "choice")
        values = alone.records.values
        sizes, epsilon = domain.sizes, largest_epsilon(Fraction(1, 10) / pairs.rounds)
        tables: dict[Clique, NDArray[np.int64]] = {
            (a, b): np.bincount(values[:, a] * sizes[b] + values[:, b], minlength=domain.size((a, b))).astype(np.int64)
            for a, b in pairs.possible
        }
        scale = epsilon / pairs.sensitivity("change-one")
        choice = chosen_pairs(pairs, tables, [ones[one][0] for one in singles], scale, stream)
        people = replace(alone, tree=junction_tree(domain, choice))
        noise = split_by_nodes(people, choice, 1 - Fraction(1, 20) - pairs.rounds * epsilon**2 / 8)
        noise[0] |= dict.fromkeys(singles, of_single)
        noisy = measured(people, noise, key)
        noisy[0] = {**noisy[0], **ones}
        release = CliqueDesign(people.tree, people.parents, noise).release(noisy, Seed(key))
        records = draw_records(people.tree, release.whole[-1], Seed(key))
        distances.append([two_way(people, records, level) for level in range(4)])
        if key == 0:
            print("; ".join(domain.text(pair) for pair in choice))
    found = [mean_and_error(level) for level in zip(*distances, strict=True)]
    print("chosen privately:", " ".join(f"{mean:.4f} +- {error:.4f}" for mean, error in found))
    return {"chosen": found}


def _intervals(
    people: Population, design: CliqueDesign, noisy: Sequence[Tables], release: CliqueRelease, replicates: int
) -> list[Any]:
    begun = time.perf_counter()
    errors = simulated_errors(design, noisy, release, Seed(1), replicates, details(design))
    rows = list(coverage(people, errors))
    print(f"  intervals of the last key, {replicates} simulated releases, {time.perf_counter() - begun:.0f} s")
    for level in range(len(people.sizes)):
        texts = [
            f"{least}-{most} {held:.3f} ({width:.1f})" for at, (least, most), _, held, width in rows if at == level
        ]
        print(f"  level {level}: {', '.join(texts).replace('-1000000000', ' and more')}")
    return rows


def wide_population() -> Population:
    """27 attributes in cliques of three, each drawn given the others of its clique, and differently in each area."""
    spine = spine_from_prefixes(block_codes(1), LEVELS)
    parents = tuple(np.asarray(level.parents, dtype=np.int64) for level in spine.levels[1:])
    sizes = tuple(len(level) for level in spine.levels)
    leaf = np.repeat(np.arange(sizes[-1]), np.asarray(populate(spine, 1_000_000, 2).sum(axis=1)).ravel())
    rng = np.random.default_rng(3)
    values = np.zeros((len(leaf), len(WIDE_SIZES)), dtype=np.int64)

    def drawn(attribute: int, given: Ints, n_given: int) -> Ints:
        size = WIDE_SIZES[attribute]
        base = np.log(rng.dirichlet(np.full(size, 0.8), n_given) + 0.01)
        tract, group, block = (rng.normal(0, 0.5, (n, size)) for n in sizes[2:])
        by_area = block + (group + tract[parents[2]])[parents[3]]
        parts = []
        for rows in np.array_split(np.arange(len(leaf)), 10):
            score = base[given[rows]] + by_area[leaf[rows]] + rng.gumbel(size=(len(rows), size))
            parts.append(np.argmax(score, axis=1))
        return np.concatenate(parts)

    cliques = []
    values[:, 0] = drawn(0, np.zeros(len(leaf), dtype=np.int64), 1)
    for one in range(1, len(WIDE_SIZES), 2):
        shared = int(rng.integers(0, one))
        cliques.append((shared, one, one + 1))
        values[:, one] = drawn(one, values[:, shared], WIDE_SIZES[shared])
        both = values[:, shared] * WIDE_SIZES[one] + values[:, one]
        values[:, one + 1] = drawn(one + 1, both, WIDE_SIZES[shared] * WIDE_SIZES[one])
    domain = AttributeSizes(tuple(f"a{number:02d}" for number in range(len(WIDE_SIZES))), WIDE_SIZES)
    return Population(junction_tree(domain, cliques), WholeRecords(leaf, values), parents, sizes)


def bench_wide(replicates: int) -> dict[str, Any]:
    people = wide_population()
    cells = sum(map(people.tree.domain.size, people.tree.bags))
    print(f"{len(people.tree.bags)} cliques, {cells:,} cells, areas {people.sizes}; made with {_memory():.1f} GB")
    share = Fraction(1, len(people.sizes) * len(people.tree.bags))
    noise: list[dict[Clique, NoiseSpec]] = [
        dict.fromkeys(people.tree.bags, DiscreteGaussian(1 / share)) for _ in people.sizes
    ]
    design = CliqueDesign(people.tree, people.parents, noise)
    seconds = {}
    begun = time.perf_counter()
    noisy = measured(people, noise, 0)
    seconds["count and measure"] = time.perf_counter() - begun
    begun = time.perf_counter()
    release = design.release(noisy, Seed(0))
    seconds["estimate"] = time.perf_counter() - begun
    begun = time.perf_counter()
    records = draw_records(people.tree, release.whole[-1], Seed(0))
    seconds["records"] = time.perf_counter() - begun
    for table, found in zip(release.whole[-1], replace(people, records=records).tables(4), strict=True):
        assert np.array_equal(table, found)
    print(", ".join(f"{name} {value:.0f} s" for name, value in seconds.items()), f"{_memory():.1f} GB")
    out: dict[str, Any] = {"seconds": seconds, "gb": _memory()}
    if replicates:
        out["intervals"] = _intervals(people, design, noisy, release, replicates)
        print(f"{_memory():.1f} GB")
    return out


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def bench_others(file: Path) -> dict[str, Any]:
    people = adult(CENSUS_DP_CLIQUES)
    table = pd.read_parquet(file)[list(people.tree.domain.names)]
    records = WholeRecords(np.zeros(len(table), dtype=np.int64), table.to_numpy(dtype=np.int64))
    distance = two_way(people, records, 0)
    print(f"{file.name}: {len(table):,} records, mean distance of all two-way tables {distance:.4f}")
    return {"others": distance}


def write_files(folder: Path) -> None:
    """The list of areas and the records of examples/adult.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    ages = np.arange(ADULT_SIZES[0])
    names = [f"years{years}" for years in YEARS]
    codes = {"all": np.full(len(ages), "adult")}
    codes |= {
        name: np.char.add(f"{name}-", (ages // years).astype(str)) for name, years in zip(names, YEARS, strict=True)
    }
    pd.DataFrame(codes).drop_duplicates().to_csv(folder / "areas.csv", index=False)
    pd.DataFrame({"all": ["adult"]}).to_csv(folder / "nation.csv", index=False)
    records = pd.read_parquet(ADULT)
    records.assign(all="adult", years5=codes["years5"][records["age"]]).to_parquet(folder / "persons.parquet")
    print(f"written: {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("adult", "chosen", "wide", "files"), default="adult")
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--others", type=Path)
    options = parser.parse_args()
    if options.part != "wide" and not ADULT.exists():
        print(f"skipped: {ADULT} is not there")
        return
    if options.part == "files":
        write_files(Path(__file__).resolve().parents[1] / "adult_files")
        return
    if options.others:
        found = bench_others(options.others)
    elif options.part == "adult":
        found = bench_adult(options.keys, options.replicates)
    elif options.part == "chosen":
        found = bench_chosen(options.keys)
    else:
        found = bench_wide(options.replicates)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
