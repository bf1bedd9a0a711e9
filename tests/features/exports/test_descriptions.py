"""Exported CSV files, read by programs of others that know what the descriptions beside them say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from csvw import CSVW
from frictionless import Package
from releases.surveyed import NAMES

from features.exports.release import export_release
from pipeline.errors import InputError
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.storage.readable import unchecked

LICENCE = "https://creativecommons.org/licenses/by/4.0/"


@pytest.fixture(scope="module")
def csv(surveyed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything as CSV."""
    out = tmp_path_factory.mktemp("csv") / "out"
    release = open_finished(surveyed, check_hashes=True)
    return export_release(release, "csv", out, microdata=True, measurements=True)


def test_frictionless_finds_every_file_as_the_package_says(csv: Path) -> None:
    """Names, types, keys, values, sizes and hashes hold; labels, terms and publisher are where the standard wants."""
    package = Package(str(csv / "datapackage.json"))
    assert {resource.path for resource in package.resources} == {
        path.relative_to(csv).as_posix() for path in csv.rglob("*.csv")
    }
    report = package.validate()
    assert report.valid, report.flatten(["name", "note"])
    assert sum(task.stats["rows"] for task in report.tasks) > 500
    descriptor = json.loads((csv / "datapackage.json").read_bytes())
    assert [one["path"] for one in descriptor["licenses"]] == [LICENCE]
    publisher = {"title": "Office of Towns", "email": "counts@town.example"}
    assert publisher.items() <= descriptor["contributors"][0].items()
    assert package.get_resource("detailed.tract").schema.primary_key == ["geocode"]


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (b'Arriba",8', b'Arriba",x', "type-error"),
        (b'"A02"', b'"A01"', "primary-key"),
        (b"\n", b"\r\n", "hash-count"),
    ],
)
def test_frictionless_finds_what_is_not_as_the_package_says(
    csv: Path, tmp_path: Path, old: bytes, new: bytes, wrong: str
) -> None:
    """A number that is text, an area that is there twice, a byte more."""
    package = json.loads((csv / "datapackage.json").read_bytes())
    resource = next(one for one in package["resources"] if one["path"] == "total/tract.csv")
    text = (csv / "total" / "tract.csv").read_bytes()
    assert old in text
    (tmp_path / "total").mkdir()
    (tmp_path / "total" / "tract.csv").write_bytes(text.replace(old, new, 1))
    (tmp_path / "datapackage.json").write_text(json.dumps(package | {"resources": [resource]}))
    report = Package(str(tmp_path / "datapackage.json")).validate()
    assert wrong in {error for (error,) in report.flatten(["type"])}


def test_a_reader_of_csvw_reads_every_file_and_number(csv: Path, surveyed: Path) -> None:
    group = CSVW(str(csv / "csv-metadata.json"), validate=True)
    assert group.is_valid, [str(warning.message) for warning in group.warnings]
    assert len(group.tables) == len(list(csv.rglob("*.csv")))
    assert group.common_props["dc:license"] == {"@id": LICENCE}
    rows = list(next(one for one in group.tables if str(one.url) == "total/tract.csv"))
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("total", "tract"))
    assert [row["total"] for row in rows] == stored["total"].tolist()
    assert [row["name"] for row in rows] == ["'" + name if name.startswith("=") else name for name in NAMES.values()]


def test_records_and_measurements_are_there_only_if_they_were_asked_for(
    csv: Path, surveyed: Path, tmp_path: Path
) -> None:
    """Measurements with a column for each answer."""
    found = pd.read_csv(csv / "measurements" / "tract" / "detailed.csv", dtype={"geocode": str})
    stored = read_measurement(unchecked(RunDirectory(surveyed).main.measurement("tract", "detailed")))
    assert list(found)[:3] == ["geocode", "child * household", "child * quarters"]
    assert np.array_equal(found.drop(columns=["geocode", "variance"]).to_numpy(), stored.values)
    assert found["variance"].tolist() == stored.variances.tolist()
    release = open_finished(surveyed, check_hashes=True)
    parquet = export_release(release, "parquet", tmp_path / "p", tables=["total"], levels=["tract"])
    described = json.loads((parquet / "datapackage.json").read_bytes())["resources"]
    assert [one["path"] for one in described] == ["total/tract.parquet", "companions/homes/total/tract.parquet"]
    assert not [path for path in parquet.rglob("*") if path.stem in ("microdata", "measurements")]
    with pytest.raises(InputError, match="--microdata and --measurements are for csv and parquet"):
        export_release(release, "xlsx", tmp_path / "x", microdata=True)


def test_the_release_describes_its_own_files(surveyed: Path) -> None:
    """The columns are those of the files, one by one; the places of a measurement's list are those of its query."""
    run = RunDirectory(surveyed)
    described = {resource["path"]: resource for resource in json.loads(run.package.read_bytes())["resources"]}
    tables = [run.name_of(path) for path in run.public.rglob("*.parquet") if "histograms" not in path.parts]
    assert set(tables) - set(described) == {"spine.parquet", "names/tract.parquet"}
    for name, resource in described.items():
        fields = resource["schema"]["fields"]
        assert [field["name"] for field in fields] == pq.read_schema(run.public / name).names, name
    value = described["measurements/tract/detailed.parquet"]["schema"]["fields"][1]
    labels = open_finished(surveyed, check_hashes=True).universes[0].strategy.level("tract")
    (query,) = [one.query for one in labels.queries if one.query.name == "detailed"]
    assert [answer["name"] for answer in value["answers"]] == list(query.answer_labels())
    assert value["constraints"]["maxLength"] == query.size


@pytest.mark.parametrize("layout", ["parquet", "geoparquet"])
def test_parquet_files_carry_names_and_labels(surveyed: Path, tmp_path: Path, layout: str) -> None:
    """Areas by name in a column, and columns by label: in the file, to pyarrow, and in the package, to frictionless."""
    if layout == "geoparquet":
        pytest.importorskip("geopandas")
    out = export_release(open_finished(surveyed, check_hashes=False), layout, tmp_path / "out", tables=["detailed"])
    path = out / "detailed" / "tract.parquet"
    table = pq.read_table(path)
    assert dict(zip(table["geocode"].to_pylist(), table["name"].to_pylist(), strict=True)) == NAMES
    titles = {field.name: (field.metadata or {}).get(b"title", b"").decode() for field in table.schema}
    ages = {"child": "Under 18", "adult": "adult", "old": "65 and over"}
    words = {
        "": "",
        "moe90": ": margin of error (90 %)",
        "low90": ": lower end of the 90 % interval",
        "high90": ": upper end of the 90 % interval",
    }
    wanted = {"geocode": "Code of the Neighbourhood", "name": "Name of the area"}
    for column in set(titles) - {*wanted, "geometry"}:
        answer, _, suffix = column.partition(":")
        age, home = answer.split(" * ")
        wanted[column] = f"{ages[age]} * {home}{words[suffix]}"
    if layout == "geoparquet":
        wanted["geometry"] = "Polygon of the area"
    assert titles == wanted
    assert len(titles) > 20
    found = Package(str(out / "datapackage.json")).get_resource("detailed.tract")
    assert {field.name: field.title for field in found.schema.fields} == wanted
    assert found.title == "Age by residence of residents, by Neighbourhood"
