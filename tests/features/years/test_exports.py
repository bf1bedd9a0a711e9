"""What a release of a series exports says of which period it is, read by libraries of others."""

from __future__ import annotations

import gzip
import json
import re
from io import BytesIO
from pathlib import Path

import pandas as pd
import pytest
from csvw import CSVW
from frictionless import Package
from pyld import jsonld
from releases.command import feature_module, needs
from releases.series_town import YEARS, MadeSeries

from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory

sdmx = pytest.importorskip("sdmx")
export_release = feature_module("features.exports.release").export_release


def test_sdmx_has_one_series_of_all_releases(town_series: MadeSeries, tmp_path: Path) -> None:
    """Observations of three exports are told apart by TIME_PERIOD alone, with their numbers."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for year in YEARS:
        out = export_release(open_finished(town_series.release(year), check_hashes=True), "sdmx", tmp_path / year)
        structure = sdmx.read_sdmx(out / "structure.xml")
        content = BytesIO(gzip.decompress((out / "sex.csv.gz").read_bytes()))
        message = sdmx.read_sdmx(content, format="csv", structure=structure.dataflow["DF_sex"])
        for one in (one for data in message.data for one in data.obs):
            key = {name: str(value.value) for name, value in one.dimension.values.items()}
            numbers = found.setdefault((key["sex"], key["LEVEL"], key["REF_AREA"]), {})
            assert numbers.setdefault(key["TIME_PERIOD"], int(one.value)) == int(one.value)
    assert len(found) == 2 * (2 + 4)
    for (sex, level, area), numbers in found.items():
        assert list(numbers) == list(YEARS)
        for year, number in numbers.items():
            path = RunDirectory(town_series.release(year)).main.table("sex", level)
            assert number == pd.read_parquet(path).set_index("geocode").loc[area, sex]


@needs("report")
def test_descriptions_name_the_period_and_its_days(town_series: MadeSeries, tmp_path: Path) -> None:
    """In a data package, in CSV on the Web, and to catalogues."""
    run = RunDirectory(town_series.release("2032"))
    out = export_release(open_finished(run.root, check_hashes=True), "csv", tmp_path / "csv")
    for path in (run.package, out / "datapackage.json"):
        temporal = Package(str(path)).custom["temporal"]
        assert temporal == {"name": "2032", "start": "2032-01-01", "end": "2032-12-31"}
    group = CSVW(str(out / "csv-metadata.json"), validate=True)
    assert group.is_valid, [str(warning.message) for warning in group.warnings]
    period = group.common_props["dc:temporal"]
    assert period == "name=2032; start=2032-01-01; end=2032-12-31; scheme=W3C-DTF;"
    page = run.report.read_text("utf-8")
    (text,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', page, re.DOTALL)
    (node,) = jsonld.expand(json.loads(text), {"base": "https://town.example/report.html"})
    assert node["https://schema.org/temporalCoverage"] == [{"@value": "2032-01-01/2032-12-31"}]
    (period,) = node["http://purl.org/dc/terms/temporal"]
    days = [period[f"http://www.w3.org/ns/dcat#{end}"][0]["@value"] for end in ("startDate", "endDate")]
    assert days == ["2032-01-01", "2032-12-31"]
