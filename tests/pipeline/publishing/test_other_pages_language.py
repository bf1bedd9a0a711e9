"""Pages beside the report, and workbooks, in another language and with names of areas: all is from the catalogue."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import geopandas
import openpyxl
import pandas as pd
import pytest
from releases.command import feature_module, needs, printed, spinewise
from releases.pages import (
    OPEN,
    data_of,
    english_in,
    english_words,
    everything_marked,
    marked_texts,
    outside_of_signs,
    visible,
)
from releases.small import run

from features.exports.release import export_release
from pipeline.confidential.accuracy import accuracy_page, errors_of
from pipeline.confidential.custody import KeySource
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.published import open_finished
from pipeline.reading.compare import compare, comparison_html
from pipeline.reading.reader import open_reader
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory


def test_the_page_of_errors(spanish_town: Path) -> None:
    release = open_finished(spanish_town, check_hashes=False)
    job = Job(release.run, release.spec, release.universes, release.spine, Workers(1), Silent(), status="official")
    universes = [("habitantes", errors_of(job, universe)) for universe in release.universes]
    text = visible(accuracy_page("town", release.manifest.status, universes, marked_texts()))
    assert text.count(OPEN) > 100
    assert outside_of_signs(text) - data_of(spanish_town) == set()
    spanish = visible(RunDirectory(spanish_town).accuracy_page.read_text("utf-8"))
    assert english_in(spanish) == []
    assert english_words(spanish) == set()
    assert "Errores: habitantes" in spanish


@pytest.mark.usefixtures("marked")
def test_the_comparison_of_two_releases(spanish_town: Path, named_town: Path) -> None:
    first, second = open_reader(spanish_town), open_reader(named_town)
    text = visible(comparison_html(compare(first, second)))
    assert text.count(OPEN) > 30
    assert '<html lang="en">' in comparison_html(compare(second, first)), "it is in the language of the first"
    assert outside_of_signs(text) - data_of(spanish_town) == set()


@pytest.mark.slow
def test_the_audit_of_a_release(spanish_town: Path, tmp_path: Path) -> None:
    run_directory = RunDirectory(spanish_town)
    finished, audit_html = feature_module("features.audit.finished"), feature_module("features.audit.report").audit_html
    audit = finished.audit_release(run_directory, KeySource(), None, 1, lambda _: None)
    audit = finished.with_attacks(audit, run_directory, tmp_path, lambda _: None)
    spanish = visible(audit_html(audit))
    assert english_in(spanish) == []
    assert english_words(spanish) == set()
    with everything_marked():
        text = visible(audit_html(audit))
    assert text.count(OPEN) > 100
    versions = set(re.findall(r"[^\W\d_]{2,}", " ".join(audit.about.values())))
    assert outside_of_signs(text) - data_of(spanish_town) - versions == set()


def test_workbooks(spanish_town: Path, tmp_path: Path) -> None:
    release = open_finished(spanish_town, check_hashes=False)
    with everything_marked():
        folder = export_release(release, "xlsx", tmp_path / "marked")
    words = []
    for path in sorted(folder.rglob("*.xlsx")):
        book = openpyxl.load_workbook(path)
        words += [book.properties.title, *book.sheetnames]
        for sheet in book:
            words += [str(cell) for row in sheet.iter_rows(values_only=True) for cell in row if isinstance(cell, str)]
    assert outside_of_signs("\n".join(words)) - data_of(spanish_town) == set()
    folder = export_release(release, "xlsx", tmp_path / "spanish")
    book = openpyxl.load_workbook(folder / "sex.xlsx")
    assert book.sheetnames == ["Condado", "tract", "etiquetas", "sobre"]
    assert book.properties.title == "The town's <people>: Sexo y edad de habitantes"
    sheet = book["Condado"]
    assert [cell.value for cell in sheet[1]][:3] == ["geocódigo", "nombre", "young * Mujeres"]
    assert {cell.value for row in sheet.iter_rows() for cell in row} & {"buena", "cautela", "suma"}


SPEC = """
name = "iowa-2000"

[geography]
file = "areas.parquet"
column = "block_group"
levels = { state = 2, county = 5, tract = 11, block_group = 12 }
labels = { county = { en = "County", es = "Condado" } }

[geography.names]
county = { file = "names.csv", code = "code", name = { en = "name", es = "nombre" } }

[schema.attributes]
age = ["0_4", "5_17", "18_21", "22_29", "30_39", "40_49", "50_64", "65_up"]

[schema.labels]
values.age = { 0_4 = "Under 5", 65_up = "65 and older" }
tables = { age = "Residents by age" }

[strategy]
levels = { state = "1/4", county = "1/4", tract = "1/4", block_group = "1/4" }
queries = { age = "3/4", total = "1/4" }

[privacy]
framework = "zcdp"
rho = "1/10"
key = "insecure-test:1"

[input]
file = "areas.parquet"
form = "wide"
geocode = "block_group"
cells = [{ counts = "age_{age}" }]

[tables]
total = "total"
age = { query = "age", levels = ["county"] }

[report.polygons.county]
file = "counties.geojson"
code = "county"
"""


@needs("report")
@pytest.mark.slow
@needs("fitness")
@needs("plan")
def test_names_of_counties_are_everywhere(shared_data: Path, tmp_path: Path) -> None:
    """All 99, each beside its own code; an area is asked for by its name in either language."""
    areas = pd.read_parquet(shared_data / "us_2000_block_groups.parquet")
    areas[areas["block_group"].str.startswith("19")].to_parquet(tmp_path / "areas.parquet")
    with gzip.open(shared_data / "us_counties_10m.geojson.gz") as file:
        features = [one for one in json.load(file)["features"] if one["properties"]["county"].startswith("19")]
    plain = {one["properties"]["county"]: one["properties"]["name"] for one in features}
    names = {code: f"{name} County" for code, name in plain.items()}
    rows = [(code, f"{name} County", f"Condado de {name}") for code, name in plain.items()]
    pd.DataFrame(rows, columns=["code", "name", "nombre"]).to_csv(tmp_path / "names.csv", index=False)
    (tmp_path / "counties.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    (tmp_path / "release.toml").write_text(SPEC)
    assert "county (County) 99" in printed("plan", str(tmp_path / "release.toml"))
    root = Path(run(tmp_path / "release.toml", tmp_path / "out"))

    release = open_release(root)
    assert release.names("county").to_dict() == names
    polk = release.table("age", "county").loc["19153"]
    for asked in ("Polk County", "condado de polk"):
        found = json.loads(printed("query", root, "age", "--area", asked, "--format", "json"))
        assert found[0]["0_4"] == polk["0_4"]
    assert "did you mean 'Polk County'" in spinewise("query", root, "age", "--area", "Pok County").stderr
    assert "Residents by age" in printed("fitness", root)
    finished = open_finished(root, check_hashes=True)
    out = {form: export_release(finished, form, tmp_path / form) for form in ("csv", "gpkg", "sdmx")}
    frame = pd.read_csv(out["csv"] / "age" / "county.csv", dtype={"geocode": str})
    assert dict(zip(frame["geocode"], frame["name"], strict=True)) == names
    layer = geopandas.read_file(next(out["gpkg"].glob("*.gpkg")), layer="age_county")
    assert dict(zip(layer["geocode"], layer["name"], strict=True)) == names
    series = pd.read_csv(out["sdmx"] / "age.csv.gz", dtype=str)
    assert dict(zip(series["REF_AREA"], series["AREA_NAME"], strict=True)) == names
    page = finished.run.report.read_text("utf-8")
    assert "Residents by age" in page
