"""Exported files say what the release says, real summary files come back; measurements made elsewhere give it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from matrix.shown import SHOWN, export_has_the_numbers, files_of_tables
from releases.command import feature_module, needs, printed
from releases.small import public_bytes, run

from auditor.check.release import check_release
from features.exports.command import Layout
from features.exports.pl94171 import VALUES, CensusTables, SummaryFiles, census_levels, column_names
from features.exports.release import LAYOUTS, export_release
from geography.build import spine_from_prefixes
from pipeline.confidential.custody import check_made_here
from pipeline.errors import InputError
from pipeline.exchange.pl94171_tables import GEO_HEADER, SINGLE_RACES
from pipeline.execution.steps import Silent
from pipeline.model.universe import Universe
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.status import MADE_ELSEWHERE
from pipeline.runs.from_measurements import estimate_release
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import parse_spec


@pytest.fixture(scope="module")
def nmf(town: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town's measurements in the layout of 2020."""
    return export(town, "nmf", tmp_path_factory.mktemp("nmf") / "out")


def export(town: Path, layout: str, out: Path, *, tables: Sequence[str] = (), levels: Sequence[str] = ()) -> Path:
    return export_release(open_finished(town, check_hashes=True), layout, out, tables=tables, levels=levels)


@pytest.mark.parametrize("layout", SHOWN)
def test_tables_are_the_releases(layout: str, surveyed: Path, tmp_path: Path) -> None:
    """Of persons, households and both; the average number of persons is for layouts of columns alone."""
    files = len(files_of_tables(surveyed))
    out = tmp_path / "out"
    done = printed("export", surveyed, "--format", layout, "--out", out)
    assert done == f"{out}\n"
    assert export_has_the_numbers(layout, out, surveyed) == (files - 3 if layout == "sdmx" else files)
    assert set(Layout) == set(LAYOUTS)


@needs("report")
@pytest.mark.slow
def test_measurements_made_elsewhere_give_the_same_release(
    town: Path, town_spec: Path, nmf: Path, tmp_path: Path
) -> None:
    """Rows in any order, the Bureau's names, files in a folder of parts: all but the manifest is the same."""
    folder = tmp_path / "nmf"
    shutil.copytree(nmf, folder)
    rows = pq.read_table(folder / "block.parquet")
    rows = rows.take(pa.array(np.random.default_rng(0).permutation(rows.num_rows)))
    names = [
        f"{name} _dpq" if name == "total" else name.replace("grown * sex", "sex*grown_dpq")
        for name in rows.column("query_name").to_pylist()
    ]
    rows = rows.set_column(1, "query_name", pa.array(names))
    (folder / "block.parquet").unlink()
    (folder / "Block").mkdir()
    half = rows.num_rows // 2
    for number, part in enumerate((rows.slice(0, half), rows.slice(half))):
        pq.write_table(part, folder / "Block" / f"part-{number}.parquet")
    root = estimate_release(folder, town_spec, tmp_path / "out", 1, Silent())
    found, wanted = public_bytes(root), public_bytes(town)
    assert found.keys() == wanted.keys()
    assert b"no noise was drawn here" in found["public/report.html"]
    # These tell who drew the noise.
    differing = {name for name in found if found[name] != wanted[name]}
    assert differing == {"public/datapackage.json", "public/manifest.json", "public/report.html"}
    directory = RunDirectory(root)
    manifest = read_manifest(directory.manifest)
    assert manifest.status == MADE_ELSEWHERE
    assert manifest.input_fingerprints == {}
    assert all("was not drawn by this program" in statement.words for statement in manifest.privacy)
    assert not directory.key.exists()
    assert verify_release(directory, 1, Silent()) == []
    assert check_release(root) == []
    with pytest.raises(InputError, match="no key and no record to repeat it from"):
        check_made_here(directory)
    with pytest.raises(InputError, match="how they were drawn cannot be audited"):
        feature_module("features.audit.finished").open_audited(directory.root)
    with pytest.raises(InputError, match="is not empty; name another folder"):
        estimate_release(folder, town_spec, tmp_path / "out", 1, Silent())


FAULTS: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "variance": (
        lambda rows: rows.assign(variance=rows["variance"] * 1.01),
        r"variance of 'total' at level 'tract' in A01",
    ),
    "missing": (lambda rows: rows.iloc[1:], r"noisy answers of 'total' are missing for 1 of 6 geounits: 'A01'"),
    "twice": (lambda rows: pd.concat([rows, rows.iloc[[3]]]), r"are present several times for 1 of 6"),
    "query": (lambda rows: rows.assign(query_name="sex"), r"row 1: a noisy answer of 'sex' at level 'tract'"),
    "name": (lambda rows: rows.assign(query_name="income"), r"query_name 'income': .*is not an attribute or recode"),
    "geocode": (lambda rows: rows.assign(geocode="X99"), r"geocodes that are not measured there by the spec: 'X99'"),
    "negative": (lambda rows: rows.assign(variance=-1.0), r"row 1: variance: found -1.0; a number from 0 is needed"),
    "column": (lambda rows: rows.drop(columns="value"), r"no column value; noisy measurement files have"),
    "shape": (
        lambda rows: rows.assign(query_shape=[shape[::-1] for shape in rows["query_shape"]]),
        r"query_shape of 'grown \* sex' at level 'tract': found \[1, 2, 2\]",
    ),
    "empty": (
        lambda rows: rows.assign(value=rows["value"].map(lambda value: [None] * len(value))),
        r"value of 'total' at level 'tract': a number is missing or beyond",
    ),
    "huge": (
        lambda rows: rows.assign(value=rows["value"].map(lambda value: [2**60] * len(value))),
        r"a number is missing or beyond 1,125,899,906,842,624",
    ),
    "text": (lambda rows: rows.assign(variance="x"), r"cannot be read as noisy measurements"),
    "length": (
        lambda rows: rows.assign(value=[value[:-1] for value in rows["value"]]),
        r"row 1: value of 'total' at level 'tract': found 0 numbers; 1 are needed",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_measurements_that_are_not_the_specs_are_told_with_their_place(
    fault: str, town_spec: Path, nmf: Path, tmp_path: Path
) -> None:
    change, message = FAULTS[fault]
    folder = Path(shutil.copytree(nmf, tmp_path / "nmf"))
    change(pd.read_parquet(folder / "tract.parquet")).to_parquet(folder / "tract.parquet")
    with pytest.raises(InputError, match=message):
        estimate_release(folder, town_spec, tmp_path / "out", 1, Silent())
    assert not (tmp_path / "out" / "town").exists()


def test_missing_files_and_levels_are_told_at_once(town: Path, town_spec: Path, nmf: Path, tmp_path: Path) -> None:
    shutil.copytree(nmf, tmp_path / "nmf")
    (tmp_path / "nmf" / "tract.parquet").unlink()
    with pytest.raises(InputError, match=r"no file tract\.parquet, nor a folder tract"):
        estimate_release(tmp_path / "nmf", town_spec, tmp_path / "out", 1, Silent())
    with pytest.raises(InputError, match="no such folder; a folder of noisy measurement files"):
        estimate_release(tmp_path / "none", town_spec, tmp_path / "out", 1, Silent())
    with pytest.raises(InputError, match="--level village: no such level; the levels are county, tract, block"):
        export(town, "csv", tmp_path / "x", levels=["village"])
    with pytest.raises(InputError, match="--table x: no such table; the tables are total, sex, detail"):
        export(town, "csv", tmp_path / "x", tables=["x"])
    with pytest.raises(InputError, match="--format nmf: --table and --level choose among tables of csv"):
        export(town, "nmf", tmp_path / "x", tables=["total"])
    with pytest.raises(InputError, match="has no attribute votingage"):
        export(town, "pl94171", tmp_path / "x")
    assert list(tmp_path.iterdir()) == [tmp_path / "nmf"]
    rows = pq.read_table(nmf / "tract.parquet")
    pq.write_table(rows.append_column("variance", rows["variance"]), tmp_path / "nmf" / "tract.parquet")
    with pytest.raises(InputError, match=r"tract\.parquet: several columns are named variance"):
        estimate_release(tmp_path / "nmf", town_spec, tmp_path / "out", 1, Silent())
    assert not (tmp_path / "out" / "town").exists()


SPEC = """
name = "t"
privacy = { rho = "1" }
geography = { file = "b.csv", levels = ["block"] }
strategy = { queries = { total = "1" }, levels = { block = "1" } }
[schema.attributes]
ATTRIBUTES
"""


def universe(attributes: dict[str, tuple[str, ...]], name: str = "") -> Universe:
    text = SPEC.replace("ATTRIBUTES", "\n".join(f"{key} = {list(values)}" for key, values in attributes.items()))
    (found,) = parse_spec(text).universes()
    return replace(found, name=name)


def test_tables_equal_counting_one_by_one() -> None:
    """The attributes stand in another order, and the values of two of them too."""
    rng = np.random.default_rng(1)
    attributes = {
        "cenrace": VALUES["cenrace"],
        "hhgq": tuple(reversed(VALUES["hhgq"])),
        "hispanic": ("hispanic", "not_hispanic"),
        "votingage": VALUES["votingage"],
    }
    main = universe(attributes)
    units = universe({"occupancy": ("vacant", "occupied")}, "units")
    tables = CensusTables.of([main, units])
    assert tables.names == ("P1", "P2", "P3", "P4", "P5", "H1")
    cells = main.schema.n_cells
    counts = rng.integers(0, 4, (3, cells)) * (rng.random((3, cells)) < 0.2)
    housing = np.array([[2, 5], [0, 0], [1, 0]])
    histograms = {"": sp.csr_array(counts), "units": sp.csr_array(housing)}
    found = tables.tables({name: sp.csr_array(one, dtype=np.int64) for name, one in histograms.items()})
    codes = main.schema.cell_codes()
    for row in range(3):
        expected = {name: np.zeros(len(column_names(name)), dtype=int) for name in found}
        for cell in np.flatnonzero(counts[row]):
            race, quarter, hispanic, age = (list(attributes.values())[j][codes[cell, j]] for j in range(4))
            number = int(counts[row, cell])
            for prefix in ("P1", "P3") if age == "18plus" else ("P1",):
                lines = race_lines(race)
                expected[prefix][lines] += number
                second = "P2" if prefix == "P1" else "P4"
                expected[second][0] += number
                if hispanic == "hispanic":
                    expected[second][1] += number
                else:
                    expected[second][[2, *(line + 2 for line in lines if line)]] += number
            if quarter != "household":
                place = VALUES["hhgq"].index(quarter)
                expected["P5"][[0, 1 if place <= 4 else 6, place + 1 if place <= 4 else place + 2]] += number
        expected["H1"][:] = [housing[row].sum(), housing[row, 1], housing[row, 0]]
        for name, table in found.items():
            assert table[row].tolist() == expected[name].tolist(), name


def race_lines(race: str) -> list[int]:
    """The lines of table P1 that a person of these races counts in."""
    some = tuple(race.split("_"))
    starts = {1: 1, 2: 9, 3: 25, 4: 46, 5: 62, 6: 69}
    place = list(combinations(SINGLE_RACES, len(some))).index(some)
    group = starts[len(some)]
    return [0, group, group + 1 + place] if len(some) == 1 else [0, 8, group, group + 1 + place]


def test_summary_files_have_the_layout_of_2020(tmp_path: Path) -> None:
    blocks = ["440070001011000", "440070001011001", "440070001022000", "100010001011000"]
    spine = spine_from_prefixes(blocks, {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15})
    levels = census_levels(spine)
    assert levels == {"state": "040", "county": "050", "tract": "140", "block_group": "150", "block": "750"}
    assert census_levels(spine_from_prefixes(["abc"], {"a": 1, "b": 3})) == {}
    rng = np.random.default_rng(0)
    with SummaryFiles(tmp_path, ("P1", "P2", "P3", "P4", "P5")) as files:
        for level in spine.levels:
            tables = {
                name: rng.integers(0, 9, (len(level), len(column_names(name))))
                for name in ("P1", "P2", "P3", "P4", "P5")
            }
            files.write(levels[level.name], level.geocodes, tables)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{state}{part}2020.pl" for state in ("de", "ri") for part in ("00001", "00002", "00003", "geo")
    ]
    header = [line.split("|") for line in (tmp_path / "rigeo2020.pl").read_text().splitlines()]
    assert {len(line) for line in header} == {len(GEO_HEADER)} == {97}
    last = dict(zip(GEO_HEADER, header[-1], strict=True))
    assert last["GEOID"] == "7500000US440070001022000"
    assert (last["TRACT"], last["BLKGRP"], last["BLOCK"]) == ("000102", "2", "2000")
    numbers = [line[GEO_HEADER.index("LOGRECNO")] for line in header]
    assert numbers == [f"{number:07d}" for number in range(1, len(header) + 1)]
    for segment, width in ((1, 71 + 73), (2, 71 + 73 + 3), (3, 10)):
        lines = [line.split("|") for line in (tmp_path / f"ri0000{segment}2020.pl").read_text().splitlines()]
        assert [line[4] for line in lines] == numbers
        assert {len(line) for line in lines} == {5 + width}
    assert lines[0][:4] == ["PLST", "RI", "000", "03"]


TRACT = "44007000101"

SPEC_OF_PL94171_EXPORT = """
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
    line = [n for n in range(1, 72) if n not in (1, 2, 9, 10, 26, 47, 63, 70)]  # of one combination of races each
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
    text = SPEC_OF_PL94171_EXPORT.replace("SCHEMA", schema).replace("QUARTERS", str(list(VALUES["hhgq"][1:])))
    text = text.replace("STRATEGY", STRATEGY)
    (folder / "release.toml").write_text(text.replace("'", '"'))
