"""Reading files of ten million rows: seconds and peak memory, beside pandas or DuckDB on the same files.

    python benchmarks/bench_records.py [--part count|validate|import] [--rows 10000000] [--json PATH]

Each engine works in a process of its own; what it finds must be what was written.

count: synthetic records (one row a person: block and the four P.L. 94-171 attributes as value numbers, 2,016 cells) in
Parquet and CSV, counted by block and cell. Spinewise also checks every row and builds the matrix that the release
starts from; pandas (`groupby(...).size()`) only counts.

validate: the same records with a known number of faults of each kind: geocodes against the list of blocks, each
attribute against its values, and a combination that is impossible. pandas holds the whole file; `spinewise validate`
reads chunks and also says in which rows and lines the faults are. The limit is 60 seconds for 10 million records.

import: `spinewise import table` of a long table in CSV, areas by 2 sexes and 101 ages; DuckDB reads it and adds it up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

SIZES = {"hhgq": 8, "votingage": 2, "hispanic": 2, "cenrace": 63}
LEVELS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
ROWS_AT_ONCE = 1_000_000
#: Rows between two faults; every fault spoils one column of its row.
EVERY = 100_003
#: What is impossible: nobody under 18 in a nursing facility.
IMPOSSIBLE = {"hhgq": 3, "votingage": 0}
#: Kinds of faults.
FAULTS = ("block", *SIZES, "impossible")
#: Sexes and ages of the table that is imported.
SEXES, AGES = ("female", "male"), 101
OTHERS = {"count": "pandas", "validate": "pandas", "import": "duckdb"}
Found = dict[str, int]


def block_codes(n_blocks: int) -> np.ndarray:
    """Codes of 15 digits: 60 blocks a tract, 100 tracts a county."""
    number = np.arange(n_blocks)
    county, tract, block = number // 6000, number // 60 % 100, number % 60
    return np.array(
        [f"09{c:03d}{t:06d}{1 + b // 20}{b % 20:03d}" for c, t, b in zip(county, tract, block, strict=True)]
    )


def spec_text() -> str:
    """The spec of the records that are validated."""
    attributes = "\n".join(f"{name} = {json.dumps([f'v{i}' for i in range(n)])}" for name, n in SIZES.items())
    zero = ", ".join(f'{name} = "v{code}"' for name, code in IMPOSSIBLE.items())
    levels = ", ".join(f"{name} = {length}" for name, length in LEVELS.items())
    shares = "\n".join(f'{name} = "1/5"' for name in LEVELS)
    return f"""name = "bench"
structural_zeros = [ {{ {zero} }} ]
[privacy]
rho = "1"
[geography]
file = "blocks.parquet"
column = "block"
levels = {{ {levels} }}
[schema.attributes]
{attributes}
[strategy]
queries = {{ total = "1" }}
[strategy.levels]
{shares}
[input]
file = "persons.parquet"
form = "microdata"
geocode = "block"
coded = true
"""


def write_records(folder: Path, n_rows: int, n_blocks: int, *, faults: bool) -> Found:
    """Spec, blocks and records as Parquet and CSV; the rows, or where there are faults the number of each kind."""
    rng = np.random.default_rng(21)
    codes = block_codes(n_blocks)
    dictionary = pa.array([*codes.tolist(), "x"])
    pq.write_table(pa.table({"block": pa.array(codes.tolist())}), folder / "blocks.parquet")
    (folder / "release.toml").write_text(spec_text())
    schema = pa.schema([("block", pa.string()), *((name, pa.int8()) for name in SIZES)])
    planted = dict.fromkeys(FAULTS, 0)
    with (
        pq.ParquetWriter(folder / "persons.parquet", schema) as parquet,
        pa_csv.CSVWriter(folder / "persons.csv", schema) as text,
    ):
        for start in range(0, n_rows, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, n_rows - start)
            columns = {"block": rng.integers(0, n_blocks, n, dtype=np.int32)}
            columns.update({name: rng.integers(0, size, n, dtype=np.int8) for name, size in SIZES.items()})
            minors = (columns["hhgq"] == IMPOSSIBLE["hhgq"]) & (columns["votingage"] == IMPOSSIBLE["votingage"])
            columns["votingage"][minors] = 1
            for row in range(-start % EVERY, n, EVERY) if faults else ():
                kind = FAULTS[(start + row) // EVERY % len(FAULTS)]
                planted[kind] += 1
                if kind == "impossible":
                    for name, code in IMPOSSIBLE.items():
                        columns[name][row] = code
                else:
                    columns[kind][row] = n_blocks if kind == "block" else 99
            blocks = pa.DictionaryArray.from_arrays(pa.array(columns.pop("block")), dictionary).cast(pa.string())
            table = pa.table([blocks, *(pa.array(column) for column in columns.values())], schema=schema)
            parquet.write_table(table)
            text.write_table(table)
    return planted if faults else {"persons": n_rows}


def write_table(folder: Path, n_rows: int) -> Found:
    """A long table of areas, sexes and ages with a count each; the people and the areas in it."""
    n_cells = len(SEXES) * AGES
    n_areas = max(1, n_rows // n_cells)
    rng = np.random.default_rng(1)
    area, cell = np.repeat(np.arange(n_areas), n_cells), np.tile(np.arange(n_cells), n_areas)
    table = pa.table(
        {
            "area": pa.array([f"A{i:06d}" for i in range(n_areas)]).take(pa.array(area)),
            "sex": pa.array(SEXES).take(pa.array(cell // AGES)),
            "age": cell % AGES,
            "people": rng.poisson(8.0, len(cell)),
        }
    )
    pa_csv.write_csv(table, folder / "table.csv")
    return {"people": int(table["people"].to_numpy().sum()), "areas": n_areas}


def count_with_spinewise(path: Path) -> Found:
    """The records that Spinewise counts."""
    from geography.build import spine_from_prefixes
    from pipeline.model.record_source import RecordSource
    from pipeline.model.schema import Attribute, Schema
    from pipeline.records.tabulate import tabulate

    schema = Schema(tuple(Attribute(name, tuple(f"v{i}" for i in range(size))) for name, size in SIZES.items()))
    spine = spine_from_prefixes(pq.read_table(path.parent / "blocks.parquet")["block"].to_numpy(), LEVELS)
    counts = tabulate(RecordSource(file=path, form="microdata", geocode="block", coded=True), schema, spine)
    return {"persons": int(counts.sum()), "cells": int(counts.nnz)}


def count_with_pandas(path: Path) -> Found:
    """The records that pandas counts."""
    import pandas as pd

    if path.suffix == ".csv":
        frame = pd.read_csv(path, dtype={"block": "str", **dict.fromkeys(SIZES, "int8")})
    else:
        frame = pd.read_parquet(path)
    counts = frame.groupby(["block", *SIZES], sort=True).size()
    return {"persons": int(counts.sum()), "cells": len(counts)}


def validate_with_spinewise(path: Path) -> Found:
    """The number of wrong rows by column, found by Spinewise."""
    from flows.checks.validation import validate

    counts = dict.fromkeys(FAULTS, 0)
    for finding in validate(path, path.parent / "release.toml").findings:
        name = finding.where.removeprefix("column ").strip("'")
        counts["impossible" if name == "structural_zeros" else name] += finding.n_rows
    return counts


def validate_with_pandas(path: Path) -> Found:
    """The number of wrong rows by column, found by pandas."""
    import pandas as pd

    allowed = pd.read_parquet(path.parent / "blocks.parquet")["block"]
    if path.suffix == ".csv":
        frame = pd.read_csv(path, dtype={"block": "str", **dict.fromkeys(SIZES, "int8")})
    else:
        frame = pd.read_parquet(path)
    counts = {"block": int((~frame["block"].isin(allowed)).sum())}
    for name, size in SIZES.items():
        counts[name] = int((~frame[name].isin(range(size))).sum())
    impossible = np.ones(len(frame), dtype=bool)
    for name, code in IMPOSSIBLE.items():
        impossible &= frame[name].to_numpy() == code
    return counts | {"impossible": int(impossible.sum())}


def import_with_spinewise(path: Path) -> Found:
    """People and areas that the importer has checked against what is expected of them."""
    from features.imports.tables.importer import import_table
    from features.imports.tables.statement import TableStatement

    expected: Found = json.loads((path.parent / "expected.json").read_text())
    stated = TableStatement(
        str(path),
        geography="area",
        count="people",
        attributes="sex=sex,age=ages single",
        expect_records=expected["people"],
        expect_areas=expected["areas"],
    )
    import_table(stated, path.parent / "imported")
    return expected


def import_with_duckdb(path: Path) -> Found:
    """People and areas that DuckDB counts; no cell is there twice."""
    import duckdb

    asked = "select sum(people), count(distinct area), count(*) - count(distinct (area, sex, age)) from read_csv(?)"
    (row,) = duckdb.connect().execute(asked, [str(path)]).fetchall()
    return {"people": int(row[0]), "areas": int(row[1])} | ({"doubled": int(row[2])} if row[2] else {})


ENGINES: dict[tuple[str, str], Callable[[Path], Found]] = {
    ("count", "spinewise"): count_with_spinewise,
    ("count", "pandas"): count_with_pandas,
    ("validate", "spinewise"): validate_with_spinewise,
    ("validate", "pandas"): validate_with_pandas,
    ("import", "spinewise"): import_with_spinewise,
    ("import", "duckdb"): import_with_duckdb,
}


def peak_mb() -> float:
    """Largest resident memory of this process so far, MB (of this program alone, not of the one that started it)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the peak memory cannot be read from /proc/self/status; run on Linux")


def measure(part: str, engine: str, path: Path) -> dict[str, object]:
    """Seconds, of the clock and of processors, from opening the file on, and peak memory of one engine."""
    import pandas  # noqa: F401  all engines start with the same modules loaded

    import flows.checks.validation  # noqa: F401
    import pipeline.records.tabulate  # noqa: F401

    began = time.perf_counter(), time.process_time()
    found = ENGINES[part, engine](path)
    return {
        "engine": engine,
        "file": path.suffix[1:],
        "seconds": round(time.perf_counter() - began[0], 2),
        "cpu_seconds": round(time.process_time() - began[1], 2),
        "peak_mb": round(peak_mb()),
        "found": found,
    }


def run(part: str, n_rows: int, n_blocks: int) -> list[dict[str, object]]:
    """One result for each engine and file; RuntimeError where one does not find what was written."""
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if part == "import":
            files, written = ["table.csv"], write_table(folder, n_rows)
        else:
            files = ["persons.parquet", "persons.csv"]
            written = write_records(folder, n_rows, n_blocks, faults=part == "validate")
        (folder / "expected.json").write_text(json.dumps(written))
        cells = set()
        for file in files:
            for engine in ("spinewise", OTHERS[part]):
                command = [sys.executable, __file__, "--measure", part, engine, str(folder / file)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                results.append(json.loads(done.stdout))
                found = json.loads(done.stdout)["found"]
                cells.add(found.pop("cells", None))
                if found != written or len(cells) > 1:
                    raise RuntimeError(f"{engine} found {found} in {file}, written were {written}")
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=sorted(OTHERS), action="append")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of each file")
    parser.add_argument("--blocks", type=int, default=200_000, help="leaves of the spine")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--measure", nargs=3, metavar=("PART", "ENGINE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        part, engine, file = options.measure
        print(json.dumps(measure(part, engine, Path(file))))
        return
    figures: dict[str, object] = {"rows": options.rows}
    for part in options.part or OTHERS:
        results = run(part, options.rows, options.blocks)
        figures[part] = results
        print(f"{part}: {options.rows:,} rows")
        print(f"{'engine':<12}{'file':<10}{'seconds':>9}{'CPU s':>9}{'peak MB':>10}")
        for one in results:
            print(
                f"{one['engine']:<12}{one['file']:<10}{one['seconds']:>9}{one['cpu_seconds']:>9}{one['peak_mb']:>10,}"
            )
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
