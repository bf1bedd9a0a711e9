"""The report follows from public files, says what they say, and is verified; its twin stays restricted."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.small import QUICK, public_bytes, run, write_town

import features.report.explorer
import features.report.workers
from pipeline.errors import InputError, SpecError
from pipeline.execution.progress import Silent
from pipeline.published import release_at
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release


def content_of(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)
    return dict(json.loads(text))


def chunk_of(page: str, number: int) -> bytes:
    (text,) = re.findall(rf'id="chunk-{number}">([^<]*)</script>', page)
    return gzip.decompress(base64.b64decode(text))


def numbers_of(page: str, number: int) -> np.ndarray:
    data = np.frombuffer(chunk_of(page, number), dtype=np.uint8).astype(np.int64)
    planes = data[1:].reshape(data[0], -1)
    return (planes << 8 * np.arange(len(planes))[:, None]).sum(axis=0)


def test_the_page_holds_every_count_and_margin_that_the_files_hold(town: Path) -> None:
    directory, release = RunDirectory(town), open_release(town)
    page = directory.report.read_text("utf-8")
    content = content_of(page)
    sizes = {level["name"]: level["n"] for level in content["levels"]}
    codes: list[str] = []
    for number, level in enumerate(content["levels"]):
        lines = chunk_of(page, level["codes"]).decode().split("\n")
        parents = np.repeat(np.arange(len(codes)), numbers_of(page, level["children"])) if number else None
        if level["prefixed"]:
            assert parents is not None
            lines = [codes[parent] + line for parent, line in zip(parents, lines, strict=True)]
        codes = lines
        stored = pd.read_parquet(directory.main.table("detail" if level["name"] == "block" else "total", level["name"]))
        assert codes == stored["geocode"].tolist()
    compared = 0
    for table in content["tables"]:
        for level, where in table["levels"].items():
            stored = pd.read_parquet(directory.universe(table["universe"]).table(table["name"], level))
            assert where["rows"] == sizes[level]
            stacked = numbers_of(page, where["numbers"]).reshape(3, -1, sizes[level])
            counts, below, above = (part.T for part in stacked)
            assert np.array_equal(counts, stored[table["labels"]])
            lows, highs = (
                stored[[f"{label}:{end}90" for label in table["labels"]]].to_numpy() for end in ("low", "high")
            )
            universe = release.companion(table["universe"]) if table["universe"] else release
            exact = universe.exact_table(table["name"], level).to_numpy()
            assert np.array_equal(below == 0, exact)
            assert np.array_equal(below == 1, np.isnan(lows) & ~exact)
            free = below >= 2
            assert np.array_equal((counts - below + 2)[free], lows[free])
            assert np.array_equal((counts + above)[free], highs[free])
            compared += 1
    assert compared == 3 + 2 + 3 + 3 + 3


def test_the_page_loads_nothing_and_says_what_it_is(town: Path) -> None:
    page = RunDirectory(town).report.read_text("utf-8")
    assert "default-src 'none'" in html.unescape(page)
    assert "NOT FOR RELEASE: insecure test key" in page
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)
    assert not re.search(r"""(src|href)=["'](?!#)""", markup)
    assert "://" not in markup
    assert "rho = 2" in markup
    assert "Impossible combinations" in markup
    assert "group quarters" in markup


def test_the_restricted_twin_is_closed_and_is_not_public(town: Path) -> None:
    directory = RunDirectory(town)
    assert stat.S_IMODE(directory.accuracy_page.stat().st_mode) == 0o600
    page = directory.accuracy_page.read_text("utf-8")
    stored = pd.read_parquet(directory.main.table("total", "block")).set_index("geocode")["total"]
    truth = pd.read_parquet(directory.main.true_histogram("block")).groupby("geocode", observed=True)["count"].sum()
    error = (stored - truth.reindex(stored.index).fillna(0)).abs()
    rows = re.findall(r'<tr><th scope="row">total</th><td class="text">block</td>(.*)', page)
    cells = re.findall(r"<td>([^<]*)</td>", rows[0])
    assert cells[:2] == [str(len(stored)), f"{error.mean():.2f}"]
    assert cells[7] == str(int(error.max()))


def test_without_margins_the_page_says_so(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", ("[publish]\nreplicates = 3", "[publish]\nmargins = false"))
    page = RunDirectory(run(spec, tmp_path / "out")).report.read_text("utf-8")
    assert "has no margins of error" in page
    assert not any(where["ends"] for table in content_of(page)["tables"] for where in table["levels"].values())


def test_of_very_many_areas_the_intervals_say_what_is_exact(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matrices for each of them would not fit: the page has the same numbers and marks, and no covariances."""
    monkeypatch.setattr(features.report.workers, "MOST_HELD", 0)
    root = run(write_town(tmp_path), tmp_path / "out")
    assert not verify_release(RunDirectory(root), 1, Silent())
    pages = [RunDirectory(folder).report.read_text("utf-8") for folder in (town, root)]
    tables = [content_of(page)["tables"] for page in pages]
    exact = 0
    for usual, bare in zip(*tables, strict=True):
        for level, where in usual["levels"].items():
            assert "moments" in where
            assert "moments" not in bare["levels"][level]
            numbers = [
                numbers_of(page, one["levels"][level]["numbers"])
                for page, one in zip(pages, (usual, bare), strict=True)
            ]
            assert np.array_equal(numbers[0], numbers[1])
            exact += int((numbers[0].reshape(3, -1)[1] == 0).sum())
    assert exact > 20


def test_a_table_that_is_too_large_for_files_too_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features.report.workers, "_MOST_NUMBERS", 100)
    monkeypatch.setattr(features.report.explorer, "_MOST_BESIDE", 200)
    page = RunDirectory(run(write_town(tmp_path / "in", *QUICK), tmp_path / "out")).report.read_text("utf-8")
    assert "tables/detail/block.parquet" in page.split("that are too large for this page")[1]
    assert "tables/detail/tract.parquet" not in page.split("that are too large for this page")[1]


def squares(folder: Path) -> None:
    """Polygons of the town's tracts, one beside the other; the last has none."""
    tracts = [f"{county}{number:02d}" for county in "AB" for number in range(1, 4)][:-1]
    features = [
        {
            "type": "Feature",
            "properties": {"id": tract, "called": f"<{tract}>"},
            "geometry": {"type": "Polygon", "coordinates": [[[x, 50], [x + 1, 50], [x + 1, 51], [x, 51], [x, 50]]]},
        }
        for x, tract in enumerate(tracts)
    ]
    (folder / "tracts.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))


POLYGONS = '[report.polygons.tract]\nfile = "tracts.geojson"\ncode = "id"\nname = "called"\n\n[publish]'


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the town with polygons of its tracts."""
    folder = tmp_path_factory.mktemp("mapped")
    spec = write_town(folder / "in", ("[publish]", POLYGONS))
    squares(folder / "in")
    return run(spec, folder / "out")


def test_polygons_are_public_inputs(mapped: Path, town: Path, tmp_path: Path) -> None:
    directory = RunDirectory(mapped)
    assert directory.polygons("tract").is_file()
    content = content_of(directory.report.read_text("utf-8"))
    assert [bool(level["map"]) for level in content["levels"]] == [False, True, False]
    assert content["levels"][1]["map"]["areas"] == 5
    shutil.copytree(mapped / "public", tmp_path / "public")
    assert verify_release(release_at(tmp_path), 1, Silent()) == []
    path = RunDirectory(tmp_path).polygons("tract")
    path.write_text(path.read_text().replace("<A01>", "<A1>"))
    (problem,) = verify_release(release_at(tmp_path), 1, Silent())
    assert "polygons/tract.geojson" in problem
    same = {name for name, data in public_bytes(town).items() if public_bytes(mapped).get(name) == data}
    assert {name.split("/")[1] for name in set(public_bytes(town)) - same} == {"report.html", "manifest.json"}


def test_other_polygons_are_another_run(mapped: Path) -> None:
    folder = mapped.parent.parent / "in"
    path = folder / "tracts.geojson"
    before = path.read_text()
    path.write_text(before.replace("51", "52"))
    try:
        with pytest.raises(InputError, match="holds another run: it differs in the polygons"):
            run(folder / "release.toml", mapped.parent)
    finally:
        path.write_text(before)


def test_polygons_of_no_level_are_refused(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", ("[publish]", POLYGONS.replace("polygons.tract", "polygons.tracts")))
    with pytest.raises(SpecError, match=r"report\.polygons\.tracts: 'tracts' is not a level; did you mean 'tract'\?"):
        run(spec, tmp_path / "out")
