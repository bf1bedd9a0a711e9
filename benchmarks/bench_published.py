"""Tables that others protected, made into one set that adds up: errors beside those of what was published, and cost.

    python benchmarks/bench_published.py [--part state|grid] [--methods M ...] [--keys 5] [--squares N ...] [--json F]

state: Rhode Island 2010, four tables at five levels, protected by `examples/protect_tables.py`. Mean absolute errors
divided by those of the published numbers, for levels and for areas of one's own (20 block groups); whether all numbers
add up, and how many are outside of what the published number allows; what the 90 % intervals hold, by level, table and
size, of the released and of the true number; core seconds and memory with one worker.

grid: squares of 100 m < 1 km < 10 km with the same tables, made up, three in ten inhabited; without intervals, with two
workers. It shows how cost grows with the number of squares.
"""

from __future__ import annotations

import argparse
import json
import runpy
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from measured_run import PROJECT, Used, measured_run
from numpy.typing import NDArray

DATA: Final = PROJECT.parent / "shared" / "data" / "ri_2010_blocks.parquet"
SCRIPT: Final = runpy.run_path(str(PROJECT / "examples" / "protect_tables.py"))
LEVELS: Final[Mapping[str, int]] = SCRIPT["LEVELS"]
TABLES: Final[Mapping[str, tuple[list[str], NDArray[np.int64]]]] = SCRIPT["TABLES"]
METHODS: Final = tuple(SCRIPT["STATED"])
#: Of areas of one's own: block groups in each, and how many are drawn.
OWN, DRAWN = 20, 400
#: Numbers from which on a size begins; a class has so many numbers at least.
SIZES, CLASS = (1, 3, 10, 100), 300
#: What 90 % intervals are to hold in each class, but for two standard errors.
HELD: Final = 0.87

Ints = NDArray[np.int64]
Row = dict[str, Any]


class Measures:
    """Errors and coverage of one method, added up over keys."""

    def __init__(self) -> None:
        self.errors: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.held: dict[tuple[str, str, str, int], list[int]] = defaultdict(lambda: [0, 0])
        self.outside = self.numbers = self.not_additive = 0
        self.used: list[Used] = []

    def add(self, level: str, table: str, true: Ints, published: Ints, released: Ints) -> None:
        """Errors of numbers `(n, size)`."""
        for at, numbers in enumerate((released, published)):
            self.errors[level, table][at] += float(np.abs(numbers - true).sum())

    def add_intervals(self, level: str, table: str, true: Ints, released: Ints, inside: NDArray[np.bool_]) -> None:
        """What intervals hold, by the size of both numbers."""
        for of, numbers in (("released", released), ("true", true)):
            sizes = np.searchsorted(SIZES, numbers, side="right")
            for size in range(len(SIZES) + 1):
                here = sizes == size
                self.held[level, table, of, size][0] += int(inside[here].sum())
                self.held[level, table, of, size][1] += int(here.sum())


def allowed(method: str, published: Ints) -> tuple[Ints, Ints]:
    """The least and the most that true counts can be; of suppressed numbers, which are -1 here, too."""
    base = int(method[-1]) if method[-1].isdigit() else 0
    if method.startswith("suppression"):
        return np.where(published < 0, 1, published), np.where(published < 0, base - 1, published)
    if method.startswith("gaussian"):
        return np.zeros_like(published), np.full_like(published, 1 << 40)
    most = {"rounding": base // 2, "random": base - 1, "cell": 5}[method.split("-")[0]]
    return np.maximum(published - most, 0), published + most


def compared(folder: Path, release: Path, method: str, measures: Measures) -> None:
    """Compare a release with what was published and with the truth."""
    truth, rng = np.load(folder / "truth.npz"), np.random.default_rng(1)
    for level in LEVELS:
        published_file = pd.read_csv(folder / f"{level}.csv", dtype={"geocode": str}, na_values="x")
        found: dict[str, Ints] = {}
        for table, (labels, _) in TABLES.items():
            true = truth[f"{level} {table}"]
            columns = published_file[[f"{table}.{label}" for label in labels]].fillna(-1).to_numpy().astype(np.int64)
            frame = pd.read_parquet(release / "public" / "tables" / table / f"{level}.parquet")
            assert frame["geocode"].astype(str).tolist() == published_file["geocode"].tolist()
            released = found[table] = frame[labels].to_numpy().astype(np.int64)
            low, high = allowed(method, columns)
            measures.outside += int(((released < np.maximum(low, 0)) | (released > high)).sum())
            measures.numbers += released.size
            if method.startswith("suppression"):
                columns = np.where(columns < 0, int(method[-1]) // 2, columns)
            measures.add(level, table, true, columns, released)
            ends = (frame[[f"{label}:{end}90" for label in labels]].to_numpy() for end in ("low", "high"))
            low90, high90 = ends
            measures.add_intervals(level, table, true, released, (low90 <= true) & (true <= high90))
            if level == "block_group":
                for _ in range(DRAWN):
                    some = rng.choice(len(true), OWN, replace=False)
                    measures.add("own", table, *(one[some].sum(axis=0) for one in (true, columns, released)))
        measures.not_additive += sum(
            int((found["detail"] @ sums != found[table]).sum()) for table, (_, sums) in TABLES.items()
        )


def state(methods: list[str], keys: int) -> list[Row]:
    """Rhode Island."""
    rows: list[Row] = []
    for method in methods:
        measures = Measures()
        for key in range(1, keys + 1):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                SCRIPT["main"](DATA, method, folder, key)
                measures.used.append(measured_run(folder / "published.toml", folder / "out", workers=1))
                compared(folder, folder / "out" / method, method, measures)
        rows.append(shown(method, measures))
    return rows


def shown(method: str, measures: Measures) -> Row:
    """Print and return what was found."""
    ratios = {
        level: {table: measures.errors[level, table][0] / measures.errors[level, table][1] for table in TABLES}
        for level in [*LEVELS, "own"]
        if all(measures.errors[level, table][1] for table in TABLES)
    }
    print(f"{method}: error / published   " + "  ".join(f"{table:>6}" for table in TABLES))
    for level, one in ratios.items():
        print(f"  {level:<26}" + "  ".join(f"{ratio:6.3f}" for ratio in one.values()))
    core, peak = np.mean([one.core_seconds for one in measures.used]), max(one.peak_mb for one in measures.used)
    print(
        f"  not additive: {measures.not_additive:,}; outside of what is allowed: {measures.outside:,} of "
        f"{measures.numbers:,}; {core:.0f} core seconds, {peak:.0f} MB"
    )
    classes: list[Row] = []
    for (level, table, of, size), (held, numbers) in measures.held.items():
        if numbers >= CLASS:
            share = held / numbers
            short = share + 2 * (share * (1 - share) / numbers) ** 0.5 < HELD
            classes.append({"level": level, "table": table, "of": of, "size": size, "held": share, "n": numbers})
            if short:
                least = 0 if size == 0 else SIZES[size - 1]
                print(f"  too few held: {level} {table}, {of} numbers from {least} on: {share:.3f} of {numbers:,}")
    shares = [one["held"] for one in classes]
    print(f"  intervals: {len(classes)} classes, {min(shares):.3f} to {max(shares):.3f}", flush=True)
    return {
        "method": method,
        "ratios": ratios,
        "not additive": measures.not_additive,
        "outside": measures.outside,
        "classes": classes,
        "core seconds": core,
        "peak MB": peak,
    }


def grid(method: str, squares: int) -> Row:
    """A made-up grid."""
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_km = -(-squares // 30)
        of_km = np.repeat(np.arange(n_km), 30)[:squares]
        inside = np.argsort(rng.random((n_km, 100)), axis=1)[:, :30].ravel()[:squares]
        # 10 km: five digits, 1 km: two more, 100 m: two more.
        codes = pd.Series((of_km * 100 + inside).astype(str)).str.zfill(9)
        people = rng.lognormal(1.5, 1.2, n_km)[of_km] * rng.gamma(1.0, 1.0, squares)
        shares = 1 / np.arange(1, 17)
        leaves = rng.poisson(people[:, None] * shares / shares.sum())
        keys = np.where(leaves > 0, rng.random(leaves.shape), 0.0)
        widths = {"km10": 5, "km1": 7, "m100": 9}
        for level, width in widths.items():
            areas, row = np.unique(codes.str[:width], return_inverse=True)
            cells, of_cells = np.zeros((len(areas), 16), dtype=np.int64), np.zeros((len(areas), 16))
            np.add.at(cells, row, leaves)
            np.add.at(of_cells, row, keys)
            columns = {"geocode": areas}
            for table, (labels, sums) in TABLES.items():
                published = SCRIPT["protect"](cells @ sums, of_cells @ sums, method, rng)
                columns |= {f"{table}.{label}": one for label, one in zip(labels, published.T, strict=True)}
            pd.DataFrame(columns).to_parquet(folder / f"{level}.parquet", index=False)
        codes.to_frame("square").to_parquet(folder / "areas.parquet", index=False)
        stated = SCRIPT["STATED"][method]
        files = ", ".join(f'{level} = "{level}.parquet"' for level in widths)
        levels = ", ".join(f"{level} = {width}" for level, width in widths.items())
        spec = folder / "grid.toml"
        spec.write_text(
            f'name = "grid"\n[published]\nby = "a made-up office"\n{stated}\nfiles = {{ {files} }}\n'
            f'[geography]\nfile = "areas.parquet"\ncolumn = "square"\nlevels = {{ {levels} }}\n'
            f"[schema.attributes]\nvotingage = {json.dumps(SCRIPT['AGES'])}\nrace = {json.dumps(SCRIPT['RACES'])}\n"
            '[tables]\ntotal = "total"\nage = "votingage"\nrace = "race"\ndetail = "votingage * race"\n'
            "[publish]\nmargins = false\nmicrodata = false\n"
        )
        del leaves, keys, cells, of_cells, columns
        used = measured_run(spec, folder / "out", workers=2)
    print(
        f"{method}, {squares:,} squares: {used.core_seconds:.0f} core seconds, {used.seconds:.0f} s, "
        f"{used.peak_mb:.0f} MB",
        flush=True,
    )
    return {"method": method, "squares": squares, "core seconds": used.core_seconds, "peak MB": used.peak_mb}


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("state", "grid"), default="state")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="all but suppression, which is exact by itself")
    parser.add_argument("--keys", type=int, default=5)
    parser.add_argument("--squares", type=int, nargs="+", default=[30_000, 300_000, 3_000_000])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.part == "state":
        rows = state(given.methods or [one for one in METHODS if not one.startswith("suppression")], given.keys)
    else:
        rows = [grid(method, n) for method in given.methods or ["cell-keys"] for n in given.squares]
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
