"""The report follows from public files, says what they say, and is verified; its twin stays restricted."""

from __future__ import annotations

import html
import re
import shutil
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matrix.shown import content_of, numbers_of, page_shows_the_tables
from releases.mapped import write_mapped_town
from releases.pages import report_in
from releases.small import QUICK, run, write_town

import features.report.explorer
import features.report.workers
from pipeline.errors import InputError, SpecError
from pipeline.execution.progress import Silent
from pipeline.published import release_at
from pipeline.reading.release import Release, open_release
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release


def test_the_page_holds_every_number_and_says_which_are_exact_and_which_unknown(town: Path) -> None:
    assert page_shows_the_tables(town) == 3 + 2 + 3 + 3 + 3
    page, release = RunDirectory(town).report.read_text("utf-8"), open_release(town)
    certain = 0
    for table in content_of(page)["tables"]:
        for level, where in table["levels"].items():
            universe = release.companion(table["universe"]) if table["universe"] else release
            exact = universe.exact_table(table["name"], level).to_numpy()
            stored = universe.table(table["name"], level)
            unknown = stored[[f"{label}:low90" for label in table["labels"]]].isna().to_numpy()
            below = numbers_of(page, where["numbers"]).reshape(3, -1, len(stored))[1].T
            assert np.array_equal(below == 0, exact)
            assert np.array_equal(below == 1, unknown & ~exact)
            certain += exact.sum()
    assert certain > 20


def test_the_page_loads_nothing_and_says_what_it_is(town: Path) -> None:
    page = RunDirectory(town).report.read_text("utf-8")
    assert "default-src 'none'" in html.unescape(page)
    assert "NOT FOR RELEASE: insecure test key" in page
    markup = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.S)
    assert not re.search(r"""(src|href)=["'](?!#)""", markup)
    assert "://" not in markup
    assert "rho = 2" in markup
    assert "Impossible combinations" in markup


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


def test_of_very_many_areas_the_intervals_say_what_is_exact(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices for each of them would not fit: the page has the same numbers and marks, and no covariances."""
    usual = RunDirectory(town).report.read_text("utf-8")
    monkeypatch.setattr(features.report.workers, "MOST_HELD", 0)
    bare = report_in(town, "en")
    for one, other in zip(content_of(usual)["tables"], content_of(bare)["tables"], strict=True):
        for level, where in one["levels"].items():
            assert ("moments" in where, "moments" in other["levels"][level]) == (True, False)
            numbers = numbers_of(usual, where["numbers"]), numbers_of(bare, other["levels"][level]["numbers"])
            assert np.array_equal(*numbers)


def test_a_table_that_is_too_large_for_files_too_is_named(town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features.report.workers, "_MOST_NUMBERS", 100)
    monkeypatch.setattr(features.report.explorer, "_MOST_BESIDE", 200)
    told = report_in(town, "en").split("that are too large for this page")[1]
    assert "tables/detail/block.parquet" in told
    assert "tables/detail/tract.parquet" not in told


def test_outlines_are_a_public_input_of_the_run(mapped_town: Release, tmp_path: Path) -> None:
    """Changed afterwards they are found; with others the same folder would be another run's."""
    content = content_of(mapped_town.report.read_text("utf-8"))
    assert [level["map"] and level["map"]["areas"] for level in content["levels"]] == [None, 6, None]
    copy = RunDirectory(Path(shutil.copytree(mapped_town.directory, tmp_path / "out" / "town")))
    outlines = copy.polygons("tract")
    kept = outlines.read_text()
    outlines.write_text(kept + "\n")
    (problem,) = verify_release(release_at(copy.root), 1, Silent())
    assert "polygons/tract.geojson" in problem
    outlines.write_text(kept)
    spec = write_mapped_town(tmp_path / "in")
    file = tmp_path / "in" / "tracts.geojson"
    file.write_text(file.read_text().replace("[1, 0]", "[1, 0.5]"))
    with pytest.raises(InputError, match="holds another run: it differs in the polygons"):
        run(spec, tmp_path / "out")
    named = ("[companions.units]", '[report.polygons.tracts]\nfile = "x"\ncode = "id"\n\n[companions.units]')
    with pytest.raises(SpecError, match=r"report\.polygons\.tracts: 'tracts' is not a level; did you mean 'tract'\?"):
        run(write_town(tmp_path / "wrong", QUICK[0], named), tmp_path / "out")
