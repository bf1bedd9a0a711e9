"""A release of some areas of its inputs: the same as that of inputs which have no others, and nothing passes unseen."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.small import request_of

from features.registry import is_installed
from flows.checks.validation import validate
from pipeline.errors import RefusedError
from pipeline.execution.steps import Silent
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.run import run_release

SPEC = """
name = "part"
[privacy]
rho = "1/10"
key = "insecure-test:4"
[geography]
file = "areas.csv"
column = "area"
levels = { state = 1, tract = 2, block = 4 }
WITHIN
[schema.attributes]
age = ["young", "old"]
[strategy.queries]
age = "1"
[strategy.levels]
state = "1/4"
tract = "1/4"
block = "1/2"
[[bounds]]
name = "dorms"
level = "tract"
file = "tracts.csv"
geocode = "tract"
query = "age"
lower = 1
upper = 60
columns = { old = "homes" }
[input]
FORM
geocode = "area"
[publish]
microdata = false
replicates = 2
"""
if is_installed("shares"):
    SPEC += """
[postprocess.shares.homes]
file = "areas.csv"
level = "block"
geocode = "area"
query = "total"
column = "homes"
"""
FORMS = {
    "wide": 'file = "areas.csv"\nform = "wide"\ncells = [ { counts = "{age}" } ]',
    "microdata": 'file = "persons.csv"\nform = "microdata"',
    "long": 'file = "long.parquet"\nform = "long"',
}
AREAS = [f"{state}{tract}{block:02}" for state in "123" for tract in "12" for block in range(5)]


def write(folder: Path, areas: list[str], form: str = "wide", within: str = "") -> Path:
    """Inputs of some areas in every form."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(code, 3 + int(code) % 7, 2 + int(code) % 11, 5) for code in areas]
    frame = pd.DataFrame(rows, columns=["area", "young", "old", "homes"])
    frame.to_csv(folder / "areas.csv", index=False)
    tracts = frame.assign(tract=frame["area"].str[:2]).groupby("tract")["homes"].sum().clip(upper=3)
    tracts.reset_index().to_csv(folder / "tracts.csv", index=False)
    long = frame.melt("area", ["young", "old"], "age", "count")
    long.assign(area=long["area"].astype(int)).to_parquet(folder / "long.parquet")  # geocodes as numbers
    long.loc[long.index.repeat(long["count"])].drop(columns="count").to_csv(folder / "persons.csv", index=False)
    path = folder / "part.toml"
    path.write_text(SPEC.replace("WITHIN", within).replace("FORM", FORMS[form]))
    return path


def released(path: Path) -> Path:
    return run_release(request_of(path, path.parent / "out"), Silent())


def tables(root: Path) -> dict[str, bytes]:
    public = root / "public"
    files = [*public.glob("tables/**/*.parquet"), *public.glob("measurements/**/*"), public / "spine.parquet"]
    return {str(file.relative_to(public)): file.read_bytes() for file in files if file.is_file()}


@pytest.mark.parametrize(
    "form", ["wide", *(pytest.param(one, marks=pytest.mark.slow) for one in ("long", "microdata"))]
)
def test_it_is_the_release_of_inputs_without_the_others(tmp_path: Path, form: str) -> None:
    part = released(write(tmp_path / "part", AREAS, form, 'within = { state = "2" }'))
    alone = released(write(tmp_path / "alone", [code for code in AREAS if code[0] == "2"], form))
    assert len(tables(alone)) > 6
    assert tables(part) == tables(alone)
    assert pq.read_table(part / "public/tables/age/block.parquet").num_rows == 10
    manifest = read_manifest(RunDirectory(part).manifest)
    assert manifest.spec["geography"]["within"] == [["state", ["2"]]]  # type: ignore[index,call-overload]


def test_a_record_outside_the_list_is_refused_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, AREAS, "microdata", 'within = { state = ["2", "3"] }')
    found = validate(None, path)
    assert found.findings == []
    assert any(one.startswith("geography.within: only areas of state 2, 3 are released") for one in found.remarks)
    with (tmp_path / "persons.csv").open("a") as file:
        file.write("9900,old\n")
    (finding,) = validate(None, path).findings
    assert "a geocode that is not a leaf of the spine in 1 row" in finding.text
    assert "'9900'" in finding.text
    with pytest.raises(RefusedError):
        released(path)
