"""Tabulating microdata: seconds and peak memory, Spinewise beside pandas on the same files.

    python benchmarks/bench_tabulate.py [--rows 10000000] [--json PATH]

Writes synthetic records (one row a person: block and the four P.L. 94-171 attributes as value numbers, 2,016 cells) to
a temporary Parquet and CSV file, and counts them by block and cell, each time in a process of its own. Both must find
the same number of nonzero cells and of persons. Spinewise also checks every row and builds the matrix that the release
starts from; pandas (`groupby(...).size()`) only counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

SIZES = {"hhgq": 8, "votingage": 2, "hispanic": 2, "cenrace": 63}
LEVELS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}
ROWS_AT_ONCE = 1_000_000
ENGINES = ("spinewise", "pandas")


def block_codes(n_blocks: int) -> np.ndarray:
    """Codes of 15 digits: 60 blocks a tract, 100 tracts a county."""
    number = np.arange(n_blocks)
    county, tract, block = number // 6000, number // 60 % 100, number % 60
    return np.array(
        [f"09{c:03d}{t:06d}{1 + b // 20}{b % 20:03d}" for c, t, b in zip(county, tract, block, strict=True)]
    )


def write_records(folder: Path, n_rows: int, n_blocks: int) -> None:
    """persons.parquet and persons.csv of the same records in `folder`."""
    rng = np.random.default_rng(20)
    dictionary = pa.array(block_codes(n_blocks).tolist())
    columns = {"block": pa.string(), **dict.fromkeys(SIZES, pa.int8())}
    schema = pa.schema(list(columns.items()))
    with (
        pq.ParquetWriter(folder / "persons.parquet", schema) as parquet,
        pa_csv.CSVWriter(folder / "persons.csv", schema) as text,
    ):
        for start in range(0, n_rows, ROWS_AT_ONCE):
            n = min(ROWS_AT_ONCE, n_rows - start)
            blocks = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, n_blocks, n, dtype=np.int32)), dictionary)
            codes = [pa.array(rng.integers(0, size, n, dtype=np.int8)) for size in SIZES.values()]
            table = pa.table([blocks.cast(pa.string()), *codes], schema=schema)
            parquet.write_table(table)
            text.write_table(table)


def peak_mb() -> float:
    """Largest resident memory of this process so far, MB (of this program alone, not of the one that started it)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("the peak memory cannot be read from /proc/self/status; run on Linux")


def count_with_spinewise(path: Path, n_blocks: int) -> tuple[int, int]:
    """The non-zero cells and the persons that Spinewise counts."""
    from geography.build import spine_from_prefixes
    from pipeline.model.record_source import RecordSource
    from pipeline.model.schema import Attribute, Schema
    from pipeline.records.tabulate import tabulate

    schema = Schema(tuple(Attribute(name, tuple(f"v{i}" for i in range(size))) for name, size in SIZES.items()))
    spine = spine_from_prefixes(block_codes(n_blocks), LEVELS)
    counts = tabulate(RecordSource(file=path, form="microdata", geocode="block", coded=True), schema, spine)
    return int(counts.nnz), int(counts.sum())


def count_with_pandas(path: Path, _n_blocks: int) -> tuple[int, int]:
    """The non-zero cells and the persons that pandas counts."""
    import pandas as pd

    if path.suffix == ".csv":
        frame = pd.read_csv(path, dtype={"block": "str", **dict.fromkeys(SIZES, "int8")})
    else:
        frame = pd.read_parquet(path)
    counts = frame.groupby(["block", *SIZES], sort=True).size()
    return len(counts), int(counts.sum())


def measure(engine: str, path: Path, n_blocks: int) -> dict[str, object]:
    """Seconds (from opening the file; imports and the start of Python apart) and peak memory of one engine."""
    import pandas  # noqa: F401  both engines start with the same modules loaded

    import pipeline.records.tabulate  # noqa: F401

    count = {"spinewise": count_with_spinewise, "pandas": count_with_pandas}[engine]
    start = time.perf_counter()
    n_nonzero, n_persons = count(path, n_blocks)
    seconds = time.perf_counter() - start
    return {
        "engine": engine,
        "file": path.suffix[1:],
        "seconds": round(seconds, 2),
        "peak_mb": round(peak_mb()),
        "nonzero_cells": n_nonzero,
        "persons": n_persons,
    }


def run(n_rows: int, n_blocks: int, engines: tuple[str, ...] = ENGINES) -> list[dict[str, object]]:
    """One result for each engine and file; RuntimeError where they disagree."""
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_records(folder, n_rows, n_blocks)
        for file in ("persons.parquet", "persons.csv"):
            for engine in engines:
                command = [sys.executable, __file__, "--blocks", str(n_blocks), "--measure", engine, str(folder / file)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                results.append(json.loads(done.stdout))
    totals = {(result["nonzero_cells"], result["persons"]) for result in results}
    if len(totals) != 1 or results[0]["persons"] != n_rows:
        raise RuntimeError(f"the engines disagree: {results}")
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="records to count")
    parser.add_argument("--blocks", type=int, default=200_000, help="leaves of the spine")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--measure", nargs=2, metavar=("ENGINE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        engine, file = options.measure
        print(json.dumps(measure(engine, Path(file), options.blocks)))
        return
    results = run(options.rows, options.blocks)
    if options.json is not None:
        text = json.dumps({"rows": options.rows, "results": results}, indent=2)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    print(f"{options.rows:,} records in {options.blocks:,} blocks, {results[0]['nonzero_cells']:,} nonzero cells")
    print(f"{'engine':<12}{'file':<10}{'seconds':>9}{'peak MB':>10}")
    for result in results:
        print(f"{result['engine']:<12}{result['file']:<10}{result['seconds']:>9}{result['peak_mb']:>10,}")


if __name__ == "__main__":
    main()
