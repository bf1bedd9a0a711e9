"""What exports and the report say of a release, read by programs of others: descriptions, status, registry."""

from __future__ import annotations

import copy
import json
import re
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from csvw import CSVW
from frictionless import Package
from jsonschema import Draft7Validator
from pyld import jsonld
from releases.command import needs
from releases.surveyed import NAMES

from features.exports.release import FORMATS, LAYOUTS, export_release
from features.exports.words import facts
from pipeline.errors import InputError
from pipeline.published import PublishedRelease, open_finished
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


#: Layouts of census tables or areas, which the town does not have: their own files are left out here.
_REFUSED = ("pl94171",)


def _said(layout: str, folder: Path) -> list[str]:
    """What each place of a layout says: all facts are in every one of them."""
    if layout in FORMATS:
        return [(folder / "STATUS.txt").read_text("utf-8")]
    if layout in ("parquet", "geoparquet"):
        stored = [pq.read_schema(path).metadata or {} for path in folder.rglob("*.parquet")]
        texts = [" ".join(value.decode() for value in one.values()) for one in stored]
        return [*texts, _description(folder)]
    if layout == "csv":
        notes = json.loads((folder / "csv-metadata.json").read_text("utf-8"))["notes"]
        about = " ".join(pd.read_csv(folder / "about.csv", dtype=str)["text"])
        return [" ".join(one["schema:text"] for one in notes), about, _description(folder)]
    if layout == "xlsx":
        books = [pd.read_excel(path, sheet_name="about", header=None, dtype=str) for path in folder.rglob("*.xlsx")]
        return [" ".join(book.fillna("").to_numpy().ravel()) for book in books]
    if layout == "sdmx":
        flows = ElementTree.parse(folder / "structure.xml").iterfind(".//{*}Dataflow")
        return [" ".join(one.text or "" for one in flow.iterfind(".//{*}AnnotationTitle")) for flow in flows]
    if layout == "duckdb":
        import duckdb

        with duckdb.connect(str(next(folder.glob("*.duckdb"))), read_only=True) as database:
            return [" ".join(text for (text,) in database.execute("select text from release_about").fetchall())]
    if layout == "gpkg":
        with closing(sqlite3.connect(next(folder.glob("*.gpkg")))) as package:
            return [unescape(str(text)) for (text,) in package.execute("select metadata from gpkg_metadata")]
    raise AssertionError(f"{layout} has no place for the status of a release")


def _description(folder: Path) -> str:
    return str(json.loads((folder / "datapackage.json").read_text("utf-8"))["description"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_states_the_facts(
    surveyed: Path, tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layout in _REFUSED:
        monkeypatch.setitem(FORMATS, layout, lambda *_: None)
    for module in {"duckdb": ["duckdb"], "gpkg": ["geopandas"], "geoparquet": ["geopandas"]}.get(layout, []):
        pytest.importorskip(module)
    release = open_finished(surveyed, check_hashes=True)
    said = _said(layout, export_release(release, layout, tmp_path / "out"))
    assert said
    stated = facts(release)
    assert stated["status"].startswith("NOT FOR RELEASE")
    for text in said:
        assert [key for key, fact in stated.items() if fact not in text] == []


#: The registry's own, see its first lines.
SCHEMA = Path(__file__).parent / "registry_schema_2026_07.yaml"


def problems(found: object) -> list[str]:
    """What the registry's own check of an entry would print."""
    schema = yaml.safe_load(SCHEMA.read_text("utf-8"))
    validator = Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [f"{'.'.join(map(str, one.path))}: {one.message}" for one in validator.iter_errors(found)]


@pytest.fixture(scope="module")
def release(town: Path) -> PublishedRelease:
    return open_finished(town, check_hashes=True)


def test_the_entry_is_what_the_manifest_promises(release: PublishedRelease, tmp_path: Path) -> None:
    out = export_release(release, "dp-registry", tmp_path / "out")
    (path,) = (one for one in out.iterdir() if one.name != "STATUS.txt")
    assert path.name == "town.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    deployment = found["deployment"]
    joint = release.manifest.joint
    assert joint is not None
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters == {
        "epsilon": float(joint.epsilon),
        "rho": float(Fraction(joint.budget)),
        "delta": float(release.manifest.privacy[0].delta),
    }
    assert deployment["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    exact = deployment["dp_variant"]["unprotected_quantities"].splitlines()
    assert exact == [
        "- total at level county",
        "- total at level block (units)",
        "- group quarters: number of facilities",
    ]
    assert "NOT FOR RELEASE" in path.read_text("utf-8").splitlines()[0]
    # Every section that the registry's schema has, and no key or value that the registry's own tests would refuse.
    assert problems(found) == []
    schema = yaml.safe_load(SCHEMA.read_text("utf-8"))
    assert list(found["deployment"]) == list(schema["properties"]["deployment"]["properties"])
    for section, key, value in (
        ("basic", "data_curators", [{"data_curator_name": "x"}]),
        ("basic", "publication_date", "soon"),
        ("deployment_model", "trust_assumptions", "x"),
        ("privacy_loss", "number_of_privacy_units", 5),
        ("implementation", "composition", "x"),
    ):
        wrong = copy.deepcopy(found)
        wrong["deployment"][section][key] = value
        assert problems(wrong) != [], (section, key)
    assert len(problems({key: one for key, one in found.items() if key not in ("status", "tier")})) == 2


S, DCAT, DCT = "https://schema.org/", "http://www.w3.org/ns/dcat#", "http://purl.org/dc/terms/"


PLACE = "https://town.example/people/report.html"


def expanded(page: str) -> dict[str, Any]:
    """The one node of the page's block; nothing is fetched to understand it."""
    head = page[: page.index("</head>")]
    (text,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', head, re.DOTALL)

    def never(url: str, _: object) -> dict[str, Any]:
        raise AssertionError(f"{url} was asked for")

    (node,) = jsonld.expand(json.loads(text), {"base": PLACE, "documentLoader": never})
    found: dict[str, Any] = node
    return found


@needs("report")
def test_the_report_is_a_dataset_of_both_vocabularies(surveyed: Path) -> None:
    run = RunDirectory(surveyed)
    node = expanded(run.report.read_text("utf-8"))
    assert set(node["@type"]) == {S + "Dataset", DCAT + "Dataset"}
    assert node["@id"] == PLACE
    assert node[S + "name"] == node[DCT + "title"] == [{"@value": "People & homes"}]
    assert len(node[S + "description"][0]["@value"]) > 50  # as search engines demand
    assert "epsilon = " in node[DCT + "description"][0]["@value"]
    assert node[DCT + "license"] == [{"@id": "https://creativecommons.org/licenses/by/4.0/"}]
    assert node[DCT + "publisher"][0]["http://xmlns.com/foaf/0.1/name"] == [{"@value": "Office of Towns"}]
    contact = node[DCAT + "contactPoint"][0]["http://www.w3.org/2006/vcard/ns#hasEmail"]
    assert contact == [{"@id": "mailto:counts@town.example"}]
    day = node[DCT + "temporal"][0][DCAT + "startDate"]
    assert day == [{"@type": "http://www.w3.org/2001/XMLSchema#date", "@value": "2030-04-01"}]
    assert {one["@value"] for one in node[S + "variableMeasured"]} >= {"Age group", "residence", "size"}
