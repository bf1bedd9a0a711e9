"""Pages beside the report, and workbooks, in another language and with names of areas: all is from the catalogue."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import geopandas
import pandas as pd
import pytest
from releases.command import needs, printed, spinewise
from releases.small import run

from features.exports.release import export_release
from pipeline.published import open_finished
from pipeline.reading.release import open_release

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
