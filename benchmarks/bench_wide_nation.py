"""A wide nation: the Bureau's test on the census of 1940, 44,544 cells, for 132 million made-up persons.

    python benchmarks/bench_wide_nation.py [--share 64 32] [--margins] [--keep FOLDER]

The United States of 1940 as others have run it: 158,374 geounits of five levels, a nation, 49 states, 3,108 counties,
3,500 supervisors' districts and 151,716 enumeration districts of 870 persons on average. For each share, one n-th of
the areas and persons is made up, released with `strategy = "das-1940"`, and time, peak memory of all processes and the
plan's bound on it are printed, with the growth from one share to the next. Persons of a district are drawn from three
districts of ../shared/data/wide_1940_like.parquet that its county is like, and from all of them; ages are shifted by up
to two years, so that cells fill up as they do in a census; no more than 5,698 can. Without that file it says so and
ends. Figures are in docs/scaling.md: 1/256 takes about 39 core seconds and 1/64 about 112.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_wide import DATA, EXAMPLE
from measured_run import Used, each_share, measured_beside_plan, with_shares
from synthetic_spine import leaf_codes

#: Geounits of each level of the whole: nation, states, counties, supervisors' districts, enumeration districts.
WHOLE = (1, 49, 3108, 3500, 151716)
LEVELS = "{ nation = 5, state = 10, county = 15, supdist = 20, enumdist = 25 }"
#: Persons of a district, on average.
PEOPLE = 870.0
#: Of a district's persons, the part that is like its county; the others are like the nation.
LIKE_COUNTY = 0.7
#: Districts of the file that a county is like.
TEMPLATES = 3
#: Districts whose persons are drawn together.
TOGETHER = 1000
COLUMNS = ("hhgq", "sex", "age", "hispanic", "race", "citizen")
SIZES = (8, 2, 116, 2, 6, 2)


def write_population(folder: Path, share: int, *, margins: bool) -> Path:
    """Write districts, counts and spec of one n-th of the whole to `folder`; the spec."""
    rng = np.random.default_rng([share, 40])
    codes = leaf_codes((1, *(max(1, round(n / share)) for n in WHOLE[1:])), rng)
    pq.write_table(pa.table({"district": pa.array(codes, pa.string())}), folder / "districts.parquet")
    records = pq.read_table(DATA).to_pandas().sort_values("ed", kind="stable")
    persons = records[list(COLUMNS)].to_numpy(np.int64)
    _, first, size = np.unique(records["ed"], return_index=True, return_counts=True)
    _, county = np.unique([code[:15] for code in codes], return_inverse=True)
    templates = rng.integers(len(first), size=(county.max() + 1, TEMPLATES))
    schema = pa.schema([("district", pa.string()), *((name, pa.int16()) for name in COLUMNS), ("count", pa.int64())])
    with pq.ParquetWriter(folder / "counts.parquet", schema) as writer:
        for start in range(0, len(codes), TOGETHER):
            own = np.arange(start, min(start + TOGETHER, len(codes)))
            district = np.repeat(own, rng.poisson(rng.gamma(10.0, PEOPLE / 10.0, len(own))))
            of = templates[county[district], rng.integers(TEMPLATES, size=len(district))]
            like = first[of] + (rng.random(len(district)) * size[of]).astype(np.int64)
            anywhere = rng.integers(len(persons), size=len(district))
            values = persons[np.where(rng.random(len(district)) < LIKE_COUNTY, like, anywhere)].T
            values[2] = np.clip(values[2] + rng.integers(-2, 3, len(district)), 0, SIZES[2] - 1)
            cells, counts = np.unique(
                (district - start) * np.prod(SIZES) + np.ravel_multi_index(values, SIZES), return_counts=True
            )
            of_district, cell = np.divmod(cells, np.prod(SIZES))
            columns = [pa.array(codes[start + of_district], pa.string())]
            columns += [pa.array(value, pa.int16()) for value in np.unravel_index(cell, SIZES)]
            writer.write_table(pa.table([*columns, pa.array(counts, pa.int64())], schema=schema))
    text = EXAMPLE.read_text(encoding="utf-8")
    text = re.sub(
        r"(?s)\[geography\].*?\n\n",
        f'[geography]\nfile = "districts.parquet"\ncolumn = "district"\nlevels = {LEVELS}\n\n',
        text,
    )
    text = re.sub(
        r"(?s)\[input\].*?\n\n",
        '[input]\nfile = "counts.parquet"\nform = "long"\ngeocode = "district"\ncoded = true\n\n',
        text,
    )
    path = folder / "release.toml"
    path.write_text(text.replace("margins = false", f"margins = {str(margins).lower()}"), encoding="utf-8")
    return path


def measure(folder: Path, share: int, *, margins: bool) -> Used:
    """One release: prints what it took, beside the plan's bound on memory."""
    path = write_population(folder, share, margins=margins)
    return measured_beside_plan(path, folder / "out", f"1/{share}")


def main(arguments: argparse.Namespace) -> None:
    """All shares, and what the whole would take by the growth of the last two."""
    done: list[tuple[int, Used]] = []
    for share, place in each_share(arguments):
        done.append((share, measure(place, share, margins=arguments.margins)))
    if len(done) > 1:
        (before, less), (last, more) = done[-2:]
        parts = 1 / last - 1 / before
        for what, one, other in (
            ("core seconds", less.core_seconds, more.core_seconds),
            ("seconds elapsed", less.seconds, more.seconds),
            ("MB", less.peak_mb, more.peak_mb),
        ):
            whole = other + (other - one) / parts * (1 - 1 / last)
            print(f"the whole, if it grows on as from 1/{before} to 1/{last}: {whole:,.0f} {what}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--margins", action="store_true")
    stated = with_shares(parser, (64, 32))
    if DATA.exists():
        main(stated)
    else:
        print(f"{DATA} is not there; nothing was measured")
