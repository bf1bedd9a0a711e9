"""Validating microdata: seconds and peak memory, `spinewise validate` beside pandas doing the same checks.

    python benchmarks/bench_validate.py [--rows 10000000] [--json PATH]

Writes synthetic records (one row a person: block and the four P.L. 94-171 attributes as value numbers, 2,016 cells)
with a known number of faults of each kind to a temporary Parquet and CSV file, a spec and the list of blocks. Each
engine checks them in a process of its own: geocodes against the list, each attribute against its values, and a
combination that is impossible. Both must find the planted numbers. pandas holds the whole file; `validate` reads chunks
and also says in which rows and lines the faults are. The limit is 60 seconds for 10 million records.
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
from bench_tabulate import LEVELS, ROWS_AT_ONCE, SIZES, block_codes, peak_mb

ENGINES = ("spinewise", "pandas")
LIMIT_SECONDS = 60.0
#: Rows between two faults; every fault spoils one column of its row.
EVERY = 100_003
#: What is impossible: nobody under 18 in a nursing facility.
IMPOSSIBLE = {"hhgq": 3, "votingage": 0}


def spec_text() -> str:
    """The spec of the records that are checked."""
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


def write_case(folder: Path, n_rows: int, n_blocks: int) -> dict[str, int]:
    """Spec, blocks, and records with faults as Parquet and CSV; the number of faults of each kind."""
    rng = np.random.default_rng(21)
    codes = block_codes(n_blocks)
    dictionary = pa.array([*codes.tolist(), "x"])
    pq.write_table(pa.table({"block": pa.array(codes.tolist())}), folder / "blocks.parquet")
    (folder / "release.toml").write_text(spec_text())
    schema = pa.schema([("block", pa.string()), *((name, pa.int8()) for name in SIZES)])
    planted = dict.fromkeys(["block", *SIZES, "impossible"], 0)
    kinds = list(planted)
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
            for row in range(-start % EVERY, n, EVERY):
                kind = kinds[(start + row) // EVERY % len(kinds)]
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
    return planted


def check_with_spinewise(path: Path) -> dict[str, int]:
    """The number of wrong rows by column, found by Spinewise."""
    from flows.checks.validation import validate

    counts = dict.fromkeys(["block", *SIZES, "impossible"], 0)
    for finding in validate(path, path.parent / "release.toml").findings:
        name = finding.where.removeprefix("column ").strip("'")
        counts["impossible" if name == "structural_zeros" else name] += finding.n_rows
    return counts


def check_with_pandas(path: Path) -> dict[str, int]:
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
    counts["impossible"] = int(impossible.sum())
    return counts


def measure(engine: str, path: Path) -> dict[str, object]:
    """Seconds (from opening the file; imports and the start of Python apart) and peak memory of one engine."""
    import pandas  # noqa: F401  both engines start with the same modules loaded

    import flows.checks.validation  # noqa: F401

    check = {"spinewise": check_with_spinewise, "pandas": check_with_pandas}[engine]
    before = peak_mb()
    start = time.perf_counter()
    counts = check(path)
    seconds = time.perf_counter() - start
    return {
        "engine": engine,
        "file": path.suffix[1:],
        "seconds": round(seconds, 2),
        "peak_mb": round(peak_mb()),
        "before_mb": round(before),
        "found": counts,
    }


def run(n_rows: int, n_blocks: int) -> list[dict[str, object]]:
    """One result for each engine and file; RuntimeError where one does not find what was planted."""
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planted = write_case(folder, n_rows, n_blocks)
        for file in ("persons.parquet", "persons.csv"):
            for engine in ENGINES:
                command = [sys.executable, __file__, "--measure", engine, str(folder / file)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                results.append(json.loads(done.stdout))
                if results[-1]["found"] != planted:
                    raise RuntimeError(f"{engine} found {results[-1]['found']}, planted were {planted}")
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="records to check")
    parser.add_argument("--blocks", type=int, default=200_000, help="leaves of the spine")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--measure", nargs=2, metavar=("ENGINE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        engine, file = options.measure
        print(json.dumps(measure(engine, Path(file))))
        return
    results = run(options.rows, options.blocks)
    if options.json is not None:
        text = json.dumps({"rows": options.rows, "results": results}, indent=2)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    print(f"{options.rows:,} records in {options.blocks:,} blocks; each engine found all planted faults")
    print(f"{'engine':<12}{'file':<10}{'seconds':>9}{'peak MB':>10}{'before MB':>11}")
    for result in results:
        print(
            f"{result['engine']:<12}{result['file']:<10}{result['seconds']:>9}{result['peak_mb']:>10,}"
            f"{result['before_mb']:>11,}"
        )
    for own, pandas_row in zip(results[::2], results[1::2], strict=True):
        print(f"{own['file']}: {float(str(own['seconds'])) / float(str(pandas_row['seconds'])):.2f} of pandas' time")


if __name__ == "__main__":
    main()
