"""A wide schema: the Bureau's test on the census of 1940, 44,544 cells, with and without the detail measured.

    python benchmarks/bench_wide.py [--part with positive without coverage] [--keys 1] [--margins]
                                    [--replicates 20] [--areas]

Runs `examples/wide_1940.toml` and prints time, and peak memory of all processes beside the plan's bound; and the L1
errors of the seven queries and their mean, over the areas of each level, beside the published means of the Bureau's own
code on the whole census of 1940, at epsilon 4: other data, and other levels above, so that only their size can be
compared. "positive" draws the detail where the area above is positive, without margins; "without" gives its share of
the budget to the other queries. "coverage" (some ten minutes) publishes
the 90 % intervals with the detail measured, and prints how many of the true numbers they hold, by true and by released
size; then the same of intervals of half the width, a planted fault that most classes show. `--areas` writes the
list of districts that the example names, and ends. Needs ../shared/data beside the project.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import scipy.sparse as sp
from measured_run import PROJECT, measured_run

from geography.spine import Level
from pipeline.cost.memory import memory_of
from pipeline.inputs.geography import read_spine
from pipeline.release.histograms import read_histogram
from pipeline.release.tables import read_table
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import unchecked

DATA = PROJECT.parent / "shared" / "data" / "wide_1940_like.parquet"
EXAMPLE = PROJECT / "examples" / "wide_1940.toml"
AREAS = PROJECT / "wide_files" / "areas.csv"
#: Mean L1 errors of the Bureau's code over the seven queries, epsilon 4: nation, state, county, district, enumeration
#: district. The nation is not among the levels here.
PUBLISHED = {"nation": 7196, "state": 2817, "county": 1457, "supdist": 1456, "enumdist": 382}
#: Queries and shares where the detail is not measured.
COARSE = {
    "hhgq": "2/9",
    "age * hispanic * race * citizen": "5/9",
    **{f"{age} * sex": "1/18" for age in ("age", "age_4", "age_16", "age_64")},
}
#: The preset's own queries and shares, the detail measured where the area above is positive.
WHERE_POSITIVE = {
    "hhgq": '"1/5"',
    "age * hispanic * race * citizen": '"1/2"',
    **{f"{age} * sex": '"1/20"' for age in ("age", "age_4", "age_16", "age_64")},
    "detailed": '{ share = "1/10", where = "parent positive" }',
}
#: Queries that take the place of those of the preset.
QUERIES = {"without": {query: f'"{share}"' for query, share in COARSE.items()}, "positive": WHERE_POSITIVE}
PARTS = ("with", "positive", "without", "coverage")
#: Lower ends of the classes of counts; what is to be covered, at least and, from ten on, at most; numbers of a class.
SIZES = np.array([0, 1, 5, 10, 100, 1000])
LEAST, MOST, ENOUGH = 0.88, 0.93, 300


def write_areas(path: Path) -> None:
    """The list of the districts of the records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    codes = sorted(set(pq.read_table(DATA, columns=["ed"])["ed"].to_pylist()))
    path.write_text("ed\n" + "".join(f"{code}\n" for code in codes), encoding="utf-8")


def spec_text(part: str, key: int, areas: Path, *, margins: bool) -> str:
    """The example's spec with another key and, of some parts, their queries at every level."""
    text = EXAMPLE.read_text(encoding="utf-8")
    text = re.sub(r'key = "insecure-test:\d+"', f'key = "insecure-test:{key}"', text)
    text = text.replace("../../shared/data", str(DATA.parent)).replace("../wide_files/areas.csv", str(areas))
    text = text.replace("margins = false", f"margins = {str(margins).lower()}")
    if part in QUERIES:
        own = "".join(f'"{query}" = {share}\n' for query, share in QUERIES[part].items())
        strategy = f'[strategy]\npreset = "das-1940"\n\n[strategy.queries]\n{own}'
        text = text.replace("[input]\n", f"{strategy}\n[input]\n")
        text = re.sub(r'(?m)^strategy = "das-1940".*\n', "", text)
    return text


def histograms(spec: Path, release: Path) -> Iterator[tuple[Level, sp.csr_array, sp.csr_array]]:
    """Each level with its released and its true histogram, `(n_geounits, n_cells)`, of the release's own universe."""
    stated = load_spec(spec)
    schema = stated.universes()[0].schema
    for level in read_spine(stated.geography).levels:
        released, true = (
            read_histogram(unchecked(release / side / "histograms" / f"{level.name}.parquet"), level.geocodes, schema)
            for side in ("public", "restricted")
        )
        yield level, released, true


def errors(spec: Path, release: Path) -> pd.DataFrame:
    """Mean L1 errors of the areas of each level: of each of the test's queries, and their mean."""
    universe = load_spec(spec).universes()[0]
    queries = {measured.query.name: measured.query for measured in universe.strategy.levels[0].queries}
    rows = {}
    for level, released, true in histograms(spec, release):
        of_query = {
            name: float(np.abs(query.answer_csr(released) - query.answer_csr(true)).sum(axis=1).mean())
            for name, query in queries.items()
        }
        mean = sum(of_query.values()) / len(of_query)
        rows[level.name] = of_query | {"mean": mean, "published mean": float(PUBLISHED[level.name])}
    return pd.DataFrame(rows).round(0).astype(int)


def classes(spec: Path, release: Path, width: float = 1.0) -> pd.DataFrame:
    """Numbers and share covered by level, table, true or released size; of numbers that are not exact.

    Args:
        spec, release: of a run with margins.
        width: of the intervals, as a share of what is published; less than 1 is a planted fault.
    """
    universe, rows = load_spec(spec).universes()[0], []
    for table in universe.tables:
        for level in table.levels:
            found = read_table(unchecked(release / "public" / "tables" / table.name / f"{level}.parquet"))
            truth = release / "restricted" / "histograms" / f"{level}.parquet"
            true = table.query.answer_csr(read_histogram(unchecked(truth), found.geocodes, universe.schema))
            assert found.lows is not None
            assert found.highs is not None
            free = found.highs > found.lows
            low, high = ((found.counts + width * (end - found.counts))[free] for end in (found.lows, found.highs))
            inside = (low <= true[free]) & (true[free] <= high)
            for by, counts in (("true", true), ("released", found.counts)):
                size = SIZES[np.searchsorted(SIZES, counts[free], side="right") - 1]
                rows.append(
                    pd.DataFrame({"level": level, "table": table.name, "by": by, "size": size, "inside": inside})
                )
    grouped = pd.concat(rows).groupby(["level", "table", "by", "size"], sort=False)["inside"]
    return grouped.agg(numbers="size", inside="sum").reset_index()


def missed(rows: pd.DataFrame) -> pd.DataFrame:
    """The classes of at least `ENOUGH` numbers whose coverage is not as it is to be."""
    rows = rows[rows["numbers"] >= ENOUGH].assign(coverage=lambda frame: frame["inside"] / frame["numbers"])
    return rows[(rows["coverage"] < LEAST) | ((rows["size"] >= 10) & (rows["coverage"] > MOST))]


def cover(keys: int, replicates: int) -> None:
    """Print the coverage over runs with different keys, and of intervals of half the width."""
    published, halved = [], []
    for key in range(1, keys + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_areas(folder / "areas.csv")
            text = spec_text("with", key, folder / "areas.csv", margins=True)
            spec = folder / "release.toml"
            spec.write_text(f"{text}replicates = {replicates}\n", encoding="utf-8")
            measured_run(spec, folder / "out")
            release = next(path for path in (folder / "out").iterdir() if path.is_dir())
            published.append(classes(spec, release))
            halved.append(classes(spec, release, width=0.5))
    keyed = ["level", "table", "by", "size"]
    for what, runs in (("as published", published), ("of half the width", halved)):
        rows = pd.concat(runs).groupby(keyed, sort=False)[["numbers", "inside"]].sum().reset_index()
        enough = rows[rows["numbers"] >= ENOUGH]
        wrong = missed(rows)
        print(f"intervals {what}: {len(wrong)} of {len(enough)} classes not within {LEAST} and, from 10 on, {MOST}")
        shown = enough.assign(coverage=(enough["inside"] / enough["numbers"]).round(3)).drop(columns="inside")
        print(shown.to_string(index=False), flush=True)


def measure(part: str, key: int, *, margins: bool) -> pd.DataFrame:
    """One run: prints what it took, beside the plan's bound on memory; its errors."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_areas(folder / "areas.csv")
        own, whole = folder / "release.toml", folder / "whole.toml"
        own.write_text(spec_text(part, key, folder / "areas.csv", margins=margins), encoding="utf-8")
        whole.write_text(spec_text("with", key, folder / "areas.csv", margins=margins), encoding="utf-8")
        spec = load_spec(own)
        most = memory_of(spec, read_spine(spec.geography), 2, engine=False).peak_mb
        used = measured_run(own, folder / "out")
        print(
            f"{part} the detail, key {key}: {used.seconds:.0f} s, {used.core_seconds:.0f} core seconds, "
            f"{used.peak_mb:.0f} MB of at most {most:.0f}",
            flush=True,
        )
        return errors(whole, next(path for path in (folder / "out").iterdir() if path.is_dir()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=["with", "without"])
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--margins", action="store_true")
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--areas", action="store_true")
    arguments = parser.parse_args()
    if not DATA.exists():
        print(f"{DATA} is not there; nothing was measured")
    elif arguments.areas:
        write_areas(AREAS)
        print(AREAS)
    else:
        if "coverage" in arguments.part:
            cover(arguments.keys, arguments.replicates)
        for each in (part for part in arguments.part if part != "coverage"):
            of_keys = [measure(each, key, margins=arguments.margins) for key in range(1, arguments.keys + 1)]
            means = pd.concat(of_keys).groupby(level=0, sort=False).mean()
            print(means.round(0).astype(int).to_string(), flush=True)
