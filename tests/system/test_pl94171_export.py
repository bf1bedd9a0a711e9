"""Real summary files: blocks of them, released with an enormous budget, come out as the lines that went in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from releases.small import run

from features.exports.pl94171 import VALUES, column_names
from features.exports.release import export_release
from pipeline.exchange.pl94171_tables import GEO_HEADER
from pipeline.published import open_finished

TRACT = "44007000101"
SPEC = """
name = "sample"
privacy = { rho = "1e9", key = "insecure-test:1" }
schema.attributes = { SCHEMA }
strategy = STRATEGY
input = { file = "persons.csv", form = "long", geocode = "block" }
publish = { margins = false }

[geography]
file = "blocks.csv"
column = "block"
levels = { state = 2, county = 5, tract = 11, block_group = 12, block = 15 }
bypass = true

[companions.quarters]
privacy = { rho = "1e9" }
schema.attributes.hhgq = QUARTERS
strategy = STRATEGY
input = { file = "quarters.csv", form = "long", geocode = "block" }

[companions.units]
privacy = { rho = "1e9" }
schema.attributes.status = ["occupied", "vacant"]
strategy = STRATEGY
input = { file = "units.csv", form = "long", geocode = "block" }
"""
_SHARES = ", ".join(f'{level} = "1/5"' for level in ("state", "county", "tract", "block_group", "block"))
STRATEGY = f'{{ queries = {{ detailed = "1" }}, levels = {{ {_SHARES} }} }}'


def lines_of(folder: Path, name: str) -> list[list[str]]:
    (path,) = folder.glob(name)
    return [line.split("|") for line in path.read_text("latin-1").splitlines()]


def read_blocks(folder: Path) -> dict[str, list[int]]:
    """Block -> all numbers of tables P1 to P4, H1 and P5, as the files have them."""
    geo = [dict(zip(GEO_HEADER, line, strict=True)) for line in lines_of(folder, "rigeo20*.pl")]
    block_of = {line["LOGRECNO"]: line["GEOCODE"] for line in geo if line["SUMLEV"] == "750"}
    found: dict[str, list[int]] = {}
    for segment in (1, 2, 3):
        for line in lines_of(folder, f"ri0000{segment}20*.pl"):
            if line[4] in block_of:
                found.setdefault(block_of[line[4]], []).extend(int(number) for number in line[5:])
    return found


def test_real_blocks_come_out_as_they_went_in(shared_data: Path, tmp_path: Path) -> None:
    real = {code: values for code, values in read_blocks(shared_data / "ri2018.pl").items() if code.startswith(TRACT)}
    assert len(real) > 40
    names = [name for table in ("P1", "P2", "P3", "P4", "H1", "P5") for name in column_names(table)]
    counts = pd.DataFrame(real, index=names).T
    write_inputs(counts, tmp_path)
    root = run(tmp_path / "release.toml", tmp_path)
    out = export_release(open_finished(root, check_hashes=True), "pl94171", tmp_path / "export")
    assert read_blocks(out) == real
    assert (out / "STATUS.txt").read_text("utf-8").startswith("status: ")
    table = pd.read_csv(out / "tables" / "p2.csv", dtype={"GEOCODE": str, "SUMLEV": str}).set_index("GEOCODE")
    assert table.loc["44", "SUMLEV"] == "040"
    assert table.loc["44", "P0020001"] == counts["P0020001"].sum()
    tract = table.loc[TRACT, list(column_names("P2"))]
    assert tract.to_numpy().tolist() == counts[list(column_names("P2"))].sum().tolist()


def write_inputs(counts: pd.DataFrame, folder: Path) -> None:
    """The histograms that the tables' lines of single cells are, and the spec."""
    pd.DataFrame({"block": counts.index}).to_csv(folder / "blocks.csv", index=False)
    line = race_line_numbers()
    rows = []
    for age, hispanic in ((a, h) for a in VALUES["votingage"] for h in VALUES["hispanic"]):
        adult = [counts[[f"P00{t}{n + more:04d}" for n in line]].to_numpy() for t, more in ((3, 0), (4, 2))]
        every = [counts[[f"P00{t}{n + more:04d}" for n in line]].to_numpy() for t, more in ((1, 0), (2, 2))]
        of_age = adult if age == "18plus" else [one - other for one, other in zip(every, adult, strict=True)]
        cells = of_age[1] if hispanic == "not_hispanic" else of_age[0] - of_age[1]
        for block, race in zip(*np.nonzero(cells), strict=True):
            rows.append((counts.index[block], age, hispanic, VALUES["cenrace"][race], cells[block, race]))
    persons = pd.DataFrame(rows, columns=["block", "votingage", "hispanic", "cenrace", "count"])
    persons.to_csv(folder / "persons.csv", index=False)
    quarters = dict(zip(VALUES["hhgq"][1:], [f"P005{n:04d}" for n in (3, 4, 5, 6, 8, 9, 10)], strict=True))
    units = {"occupied": "H0010002", "vacant": "H0010003"}
    for name, attribute, columns in (("quarters", "hhgq", quarters), ("units", "status", units)):
        long = counts[list(columns.values())].set_axis(list(columns), axis=1).stack().reset_index()
        long.columns = ["block", attribute, "count"]
        long[long["count"] > 0].to_csv(folder / f"{name}.csv", index=False)
    schema = ", ".join(f"{name} = {list(VALUES[name])}" for name in ("votingage", "hispanic", "cenrace"))
    text = SPEC.replace("SCHEMA", schema).replace("QUARTERS", str(list(VALUES["hhgq"][1:])))
    text = text.replace("STRATEGY", STRATEGY)
    (folder / "release.toml").write_text(text.replace("'", '"'))


def race_line_numbers() -> list[int]:
    """The lines of table P1 with one combination of races each, from 1."""
    return [n for n in range(1, 72) if n not in (1, 2, 9, 10, 26, 47, 63, 70)]
