"""Cliques that are chosen privately, by whole runs: the Adult data beside CensusDP's cliques.

    python benchmarks/bench_choice.py [--keys 3] [--share 1/10] [--attributes-share 1/20] [--most-cells 2500]
                                      [--further N] [--all-cells N] [--nation] [--only-chosen]

Makes releases of examples/adult.toml (rho 1) with `spinewise run`, with its cliques and with [marginals.choose] in
their place, each with the test keys 1, 2, ...; and prints the mean total variation distance of all 91 two-way tables
over the areas of each level, of the published records. Standard errors are over keys. With --nation the spine is the
nation alone, and a record is added or removed, as in others' figures: `--nation --share 1/50 --attributes-share 1/50
--further 18` is what the README has. Needs ../shared/data beside the
project, as bench_marginals.py, whose `--part files` it calls where they are not there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_marginals import ADULT, CENSUS_DP_CLIQUES, YEARS, adult, mean_and_error, two_way

from features.marginals.records import Population, WholeRecords
from postprocess.arrays import IntArray

PROJECT = Path(__file__).resolve().parents[1]
SPEC = PROJECT / "examples" / "adult.toml"


def spec_text(key: int, choose: str | None, *, nation: bool = False) -> str:
    """The example with a key, without margins, and with pairs that are chosen where `choose` says how."""
    text = SPEC.read_text("utf-8").replace("insecure-test:1", f"insecure-test:{key}")
    if nation:
        text = text.replace('["all", "years20", "years10", "years5"]', '["all"]').replace('"years5"', '"all"')
        text = text.replace("areas.csv", "nation.csv")
        text = text.replace('"change-one"', '"add-remove"')
        shares = text[text.index("[strategy.levels]") : text.index("[tables]")]
        text = text.replace(shares, '[strategy.levels]\nall = "1"\n\n')
    text = text.replace('"../adult_files', f'"{PROJECT}/adult_files').replace("replicates = 3", "margins = false")
    if choose is None:
        return text
    cliques, tables = text.index("[marginals]"), text.index("[tables]")
    return (
        f"{text[:cliques]}[marginals.choose]\n{choose}\n{text[text.index('[strategy.levels]') : tables]}"
        f"{text[text.index('[publish]') :]}"
    )


def distances(people: Population, root: Path) -> list[float]:
    """Of the published records at each level."""
    table = pq.read_table(root / "public" / "microdata.parquet")
    # Areas without anybody are none of those that are compared; few published records are in them.
    present = np.unique(people.records.values[:, 0] // YEARS[-1])
    if len(people.sizes) == 1:
        return [two_way(people, WholeRecords(np.zeros(len(table), dtype=np.int64), _codes(people, table)), 0)]
    years = np.array([int(code.rpartition("-")[2]) for code in table["geocode"].to_pylist()])
    table = table.filter(pa.array(np.isin(years, present)))
    leaf = np.searchsorted(present, years[np.isin(years, present)])
    order = np.argsort(leaf, kind="stable")
    records = WholeRecords(leaf[order], _codes(people, table)[order])
    return [two_way(people, records, level) for level in range(len(people.sizes))]


def _codes(people: Population, table: pa.Table) -> IntArray:
    columns = [np.asarray(table[name].to_pylist(), dtype=np.int64) for name in people.tree.domain.names]
    return np.stack(columns, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--share", default="1/10")
    parser.add_argument("--attributes-share", default="1/20")
    parser.add_argument("--most-cells", type=int, default=2500)
    parser.add_argument("--further", type=int)
    parser.add_argument("--all-cells", type=int)
    parser.add_argument("--nation", action="store_true")
    parser.add_argument("--only-chosen", action="store_true")
    arguments = parser.parse_args()
    if not ADULT.is_file():
        print(f"needs {ADULT}")
        return
    if not (PROJECT / "adult_files").is_dir():
        subprocess.run([sys.executable, Path(__file__).with_name("bench_marginals.py"), "--part", "files"], check=True)
    people = adult(CENSUS_DP_CLIQUES)
    if arguments.nation:
        leaf = np.zeros_like(people.records.leaf)
        people = replace(people, records=WholeRecords(leaf, people.records.values), parents=(), sizes=(1,))
    choose = (
        f'share = "{arguments.share}"\nattributes_share = "{arguments.attributes_share}"\n'
        f"most_cells = {arguments.most_cells}"
    )
    for key, value in (("further", arguments.further), ("all_cells", arguments.all_cells)):
        choose += "" if value is None else f"\n{key} = {value}"
    for name, stated in (("its cliques", None), ("chosen privately", choose)):
        if arguments.only_chosen and stated is None:
            continue
        found, seconds = [], []
        for number in range(1, arguments.keys + 1):
            with tempfile.TemporaryDirectory() as folder:
                spec = Path(folder) / "adult.toml"
                spec.write_text(spec_text(number, stated, nation=arguments.nation))
                begun = time.perf_counter()
                command = [
                    sys.executable,
                    "-m",
                    "flows.cli",
                    "run",
                    str(spec),
                    "--out",
                    folder,
                    "--no-prefect",
                    "--quiet",
                ]
                subprocess.run(command, check=True, cwd=PROJECT, stdout=subprocess.DEVNULL)
                seconds.append(time.perf_counter() - begun)
                root = Path(folder) / "adult"
                found.append(distances(people, root))
                cliques = json.loads((root / "public" / "manifest.json").read_text("utf-8"))["spec"]["marginals"]
                print(number, " ".join(f"{one:.4f}" for one in found[-1]), f"{seconds[-1]:.1f} s")
                print("  ", "; ".join(" x ".join(clique) for clique in cliques["cliques"]), flush=True)
        levels = [mean_and_error(level) for level in zip(*found, strict=True)]
        print(f"{name}:", " ".join(f"{mean:.4f} +- {error:.4f}" for mean, error in levels), flush=True)


if __name__ == "__main__":
    main()
