"""What an office has on its disk is read right, or it stops: tables that once lost or invented people, and options."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from oracles.table_corpus import population
from typer.testing import CliRunner

from features.imports.tables.area_totals import find_area_totals
from features.imports.tables.importer import TableRequest, TableSource, import_table
from flows.cli import app
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import tabulate
from pipeline.spec.release_spec import ReleaseSpec, load_spec

PEOPLE = int(population()["count"].sum())


def by_sex() -> Any:
    """18 rows, nearly all counts different."""
    return population().groupby(["area", "sex"], as_index=False)["count"].sum()


def write(folder: Path, frame: Any, separator: str = ",") -> Path:
    frame.to_csv(folder / "table.csv", index=False, sep=separator)
    return folder / "table.csv"


def run(path: Path, *options: str) -> tuple[int, str, Path]:
    """Status, what was told, and the folder of the command."""
    out = path.parent / f"out{len(list(path.parent.iterdir()))}"
    shown = CliRunner().invoke(app, ["import", "table", str(path), "--out", str(out), *options])
    told = str(shown.exception) if isinstance(shown.exception, InputError) else shown.output
    return shown.exit_code, told, out


def people_of(spec: ReleaseSpec) -> int:
    universe = spec.universes()[0]
    return int(tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).sum())


@pytest.mark.parametrize("name", ["Observation", "count", "population", "value", "persons", "n"])
def test_counts_that_are_all_different(name: str, tmp_path: Path) -> None:
    """A column whose name says that it counts is no identifier, however different its numbers are."""
    path = write(tmp_path, by_sex().rename(columns={"count": name}))
    status, told, out = run(path, "--people", str(PEOPLE))
    assert status == 0, told
    assert people_of(load_spec(out / "release.toml")) == PEOPLE


@pytest.mark.parametrize("mark", ["*", "..", "c", "-", ""])
def test_one_mark_among_numbers(mark: str, tmp_path: Path) -> None:
    """It stops with the line; what the user says of the mark is done, and stands in import.json."""
    frame = population()[["area", "sex", "age", "count"]].astype({"count": object})
    lost = int(frame.loc[5, "count"])
    frame.loc[5, "count"] = mark
    path = write(tmp_path, frame)
    status, told, out = run(path)
    assert (status, out.exists()) == (1, False) or status == 2
    assert "column 'count': no number" in told
    assert "line 7" in told
    status, told, out = run(path, "--marks", f"{mark or 'empty'}=missing")
    assert status == 0, told
    assert people_of(load_spec(out / "release.toml")) == PEOPLE - lost
    kept = json.loads((out / "import.json").read_text())
    assert kept["marks"] == {"count": {mark: {"meaning": "missing", "rows": 1}}}
    assert kept["total"] == PEOPLE - lost
    assert "--marks: no column of numbers has '!'" in run(path, "--marks", "!=0")[1]


@pytest.mark.parametrize(("separator", "between"), [(",", ","), (".", ";"), ("\u202f", ";"), ("'", ",")])
def test_thousands(separator: str, between: str, tmp_path: Path) -> None:
    frame = population()[["area", "sex", "age", "count"]]
    frame["count"] = [f"{n:,}".replace(",", separator) for n in frame["count"]]
    status, told, out = run(write(tmp_path, frame, between))
    assert status == 0, told
    assert "thousands are separated by" in " ".join(told.split())
    assert people_of(load_spec(out / "release.toml")) == PEOPLE


def test_the_country_and_regions_before_their_areas(tmp_path: Path) -> None:
    """They become the levels above, and each has its areas' people."""
    frame = population()
    region = frame.groupby(["region", "sex", "age"], as_index=False)["count"].sum().rename(columns={"region": "area"})
    country = frame.groupby(["sex", "age"], as_index=False)["count"].sum().assign(area="NL00")
    rows = pd.concat([country, region, frame])[["area", "sex", "age", "count"]]
    status, told, out = run(write(tmp_path, rows))
    assert status == 0, told
    spec = load_spec(out / "release.toml")
    assert spec.geography.levels == ("country", "region", "area")
    spine = read_spine(spec.geography)
    assert spine.level("country").geocodes.tolist() == ["NL00"]
    assert spine.level("region").geocodes.tolist() == ["PV21", "PV22", "PV23"]
    assert people_of(spec) == PEOPLE
    rows.iloc[3, 3] += 5
    status, told, _ = run(write(tmp_path, rows))
    assert status != 0
    assert "'NL00' has" in told
    assert "it looks like their sum and is not in every cell" in told


def test_a_level_above_and_passes_are_written(tmp_path: Path) -> None:
    """One level gets a level above; totals are fixed first; the first line says what is to be decided."""
    status, told, out = run(write(tmp_path, population()[["area", "sex", "age", "count"]]), "--counted", "households")
    assert status == 0, told
    assert (
        "\nlevels: area, by the column's name\nlevel 'all' was added above 'area': one area that is the sum of all\n"
        in told
    )
    text = (out / "release.toml").read_text()
    assert text.splitlines()[0].startswith(
        "# To be decided before it runs: whether geography and schema, which were made"
    )
    spec = load_spec(out / "release.toml")
    assert spec.geography.levels == ("all", "area")
    assert spec.postprocess.passes == ("total",)
    assert 'records = "households"' in text


def test_a_reading_is_named_as_it_is_typed(tmp_path: Path) -> None:
    """Names with spaces are in quotes, so that what is told can be copied."""
    areas = population().groupby("area", as_index=False)["count"].sum()
    frame = areas.assign(**{"persons 2019": areas["count"] - 1}).rename(columns={"count": "persons 2020"})
    path = write(tmp_path, frame)
    status, told, _ = run(path)
    assert status != 0
    assert "(--counts 'persons 2020')" in told
    assert run(path, "--counts", "persons 2020")[0] == 0


def test_people_within_a_tolerance(tmp_path: Path) -> None:
    frame = population()[["area", "sex", "age", "count"]].rename(columns={"count": "zz"})
    path = write(tmp_path, frame)
    assert "no reading of the table gives that" in run(path, "--people", str(PEOPLE + 50))[1]
    assert run(path, "--people", str(PEOPLE + 50), "--tolerance", "0.1%")[0] == 0
    assert run(path, "--people", str(PEOPLE + 50), "--tolerance", "50")[0] == 0
    assert "no reading" in run(path, "--people", str(PEOPLE + 50), "--tolerance", "49")[1]
    assert "--tolerance: found '5x'" in run(path, "--people", "1", "--tolerance", "5x")[1]


def test_weights_are_asked_about_and_refused(tmp_path: Path) -> None:
    frame = (
        population().loc[lambda rows: rows.index.repeat(4)][["area", "sex", "age"]].assign(poids=[1.5, 2, 2.5, 3] * 54)
    )
    path = write(tmp_path, frame)
    assert "column 'poids': its name is that of a survey weight" in run(path)[1]
    assert "--weights poids: weighted counts cannot be protected" in run(path, "--weights", "poids")[1]
    status, told, out = run(path, "--ignore", "poids")
    assert status == 0, told
    assert people_of(load_spec(out / "release.toml")) == len(frame)


def test_many_decisions_are_told_in_twenty_lines(tmp_path: Path) -> None:
    frame = population()[["area", "sex", "age", "count"]].assign(**{f"flag {i}": ["a", "b"] * 27 for i in range(40)})
    status, told, out = run(write(tmp_path, frame))
    assert status == 0, told
    result = import_table(TableRequest(TableSource(str(tmp_path / "table.csv"))), tmp_path / "again")
    assert len(result.messages) > 20 >= len(result.summary)
    assert "are counted" in result.summary[0]
    assert len(json.loads((out / "import.json").read_text())["messages"]) == len(result.messages)


@pytest.mark.parametrize("ending", ["dta", "sav", "xpt"])
def test_files_of_statistics_programs(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = population()[["area", "sex", "age", "count"]]
    path = tmp_path / f"table.{ending}"
    getattr(pyreadstat, "write_xport" if ending == "xpt" else f"write_{ending}")(frame, str(path))
    status, told, out = run(path)
    assert status == 0, told
    assert people_of(load_spec(out / "release.toml")) == PEOPLE
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    assert 'pip install "pyreadstat>=1.2"' in run(path)[1]


@pytest.mark.parametrize("ending", ["xls", "px", "json", "rds"])
def test_formats_that_are_refused_by_name(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"t.{ending}").write_text("x")
    assert "save" in run(tmp_path / f"t.{ending}")[1] or "write" in run(tmp_path / f"t.{ending}")[1]


def test_sums_among_areas_are_no_accidents() -> None:
    """Of random areas without totals none is found, and of those with totals all are, in any order of levels."""
    rng = np.random.default_rng(3)
    for seed in range(60):
        counts = rng.integers(0, 400, (20, 6))
        names = [f"A{i:02d}" for i in range(20)]
        found = find_area_totals(names, counts)
        assert (found.totals, found.problem) == ((), ""), seed
        bounds = np.sort(rng.choice(np.arange(1, 20), 3, replace=False))
        blocks = np.split(counts, bounds)
        rows = [row for block in blocks for row in (block.sum(axis=0), *block)]
        codes = [code for b, block in enumerate(blocks) for code in (f"R{b}", *[f"{b}x{i}" for i in range(len(block))])]
        if min(map(len, blocks)) > 1:
            assert set(find_area_totals(codes, np.array(rows)).totals) == {"R0", "R1", "R2", "R3"}, seed
