"""What a release of a series exports says of which period it is, read by libraries of others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from csvw import CSVW
from frictionless import Package
from pyld import jsonld
from releases.command import feature_module, needs
from releases.series_town import MadeSeries

from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory

export_release = feature_module("features.exports.release").export_release


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
