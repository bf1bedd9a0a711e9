"""Every export says whether its release may be published, at what epsilon and by whom."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import pandas as pd
import pyarrow.parquet as pq
import pytest

from features.exports.release import FORMATS, LAYOUTS, export_release
from features.exports.words import facts
from pipeline.published import open_finished

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


def test_the_data_package_of_the_release_itself_states_the_facts(surveyed: Path) -> None:
    release = open_finished(surveyed, check_hashes=True)
    package, stated = json.loads(release.run.package.read_text("utf-8")), facts(release)
    assert package["description"].splitlines()[: len(stated)] == [f"{key}: {text}" for key, text in stated.items()]
    assert (package["status"], package["epsilon"]) == (stated["status"], stated["epsilon"])
    assert package["sources"] == [{"title": stated["source"]}]
    assert package["citation"] == stated["citation"]
