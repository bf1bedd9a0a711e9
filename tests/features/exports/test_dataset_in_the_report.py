"""The JSON-LD in the report's head, expanded by a library: what search engines and data portals see of a release."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyld import jsonld
from releases.command import needs

from pipeline.metadata.json_ld import dataset
from pipeline.model.about import About
from pipeline.release.layout import RunDirectory

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


@needs("report")
def test_every_address_is_that_of_a_file(surveyed: Path) -> None:
    run = RunDirectory(surveyed)
    node = expanded(run.report.read_text("utf-8"))
    addresses = [one["@id"] for one in node[DCAT + "distribution"]]
    assert addresses == [one["@id"] for one in node[S + "distribution"]]
    top = PLACE.removesuffix("report.html")
    found = {address.removeprefix(top) for address in addresses}
    wanted = {
        run.name_of(path) for name in ("tables", "household_*") for path in run.public.rglob(f"{name}/**/*.parquet")
    }
    assert found == wanted
    for one in node[S + "distribution"]:
        assert one[DCAT + "accessURL"] == [{"@id": one["@id"]}]
        assert one[DCAT + "mediaType"][0]["@id"].endswith("application/vnd.apache.parquet")


@pytest.mark.parametrize("about", [About(), About(licence="ask us", contact="Room 7"), About(licence="https://x.y/z")])
def test_what_is_not_stated_is_not_made_up(about: About) -> None:
    (node,) = jsonld.expand(dataset("town", about, "Counts.", []))
    assert node[DCT + "title"] == [{"@value": "town"}]
    assert not {DCT + "publisher", DCT + "temporal", S + "creator"} & node.keys()
    if about.licence == "ask us":
        assert node[DCT + "rights"] == [{"@value": "ask us"}]
        assert DCT + "license" not in node
    elif about.licence:
        assert node[DCT + "license"] == [{"@id": "https://x.y/z"}]
