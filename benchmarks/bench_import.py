"""Time and memory of `import table` on a long table, beside DuckDB reading and adding up the same file.

python benchmarks/bench_import.py --rows 10000000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

_IMPORT = """
import sys
from pathlib import Path
from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
people, areas = map(int, sys.argv[3:])
stated = Statement(
    sys.argv[1], geography="area", count="people", attributes="sex=sex,age=ages single", expect_records=people,
    expect_areas=areas,
)
print(import_table(stated, Path(sys.argv[2])).messages[0])
"""
_DUCKDB = """
import sys, duckdb
query = "select sum(people), count(distinct area), count(*) - count(distinct (area, sex, age)) from read_csv(?)"
print(duckdb.connect().execute(query, [sys.argv[1]]).fetchall())
"""


def write_table(path: Path, n_rows: int) -> tuple[int, int]:
    """Areas by 2 sexes and 101 ages, with a count each; the people and the areas in it."""
    n_cells = 202
    n_areas = max(1, n_rows // n_cells)
    rng = np.random.default_rng(1)
    area = np.repeat(np.arange(n_areas), n_cells)
    cell = np.tile(np.arange(n_cells), n_areas)
    table = pa.table(
        {
            "area": pa.array([f"A{i:06d}" for i in range(n_areas)]).take(pa.array(area)),
            "sex": pa.array(["female", "male"]).take(pa.array(cell // 101)),
            "age": cell % 101,
            "people": rng.poisson(8.0, len(cell)),
        }
    )
    pa_csv.write_csv(table, path)
    return int(table["people"].to_numpy().sum()), n_areas


def measured(code: str, *arguments: str) -> tuple[float, float]:
    """CPU seconds and peak memory in MB of a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    wrapped = f"{code}\nimport resource; print('PEAK', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    shown = subprocess.run(
        [sys.executable, "-c", wrapped, *arguments], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  {shown[0]}  ({time.perf_counter() - started:.1f} s of wall clock)")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, float(shown[-1].split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    n_rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        people, n_areas = write_table(path, n_rows)
        print(f"{n_rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        own, own_memory = measured(_IMPORT, str(path), str(Path(folder) / "out"), str(people), str(n_areas))
        other, other_memory = measured(_DUCKDB, str(path))
        print(f"import table: {own:.1f} s of CPU, {own_memory:,.0f} MB")
        print(f"duckdb, read and add up: {other:.1f} s of CPU, {other_memory:,.0f} MB")
        print(f"ratio: {own / other:.2f} in time, {own_memory / other_memory:.2f} in memory")


if __name__ == "__main__":
    main()
