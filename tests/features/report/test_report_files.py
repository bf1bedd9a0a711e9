"""What is too large for the report's page is in files beside it, verified, and said when missing; a real state."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.browser import Opened, chromium, opened
from releases.examples import rhode_island
from releases.large_report import large_report
from releases.small import QUICK, request_of, run, write_town

import features.report.moments
import pipeline.pages.areas
import pipeline.pages.chunks
from pipeline.errors import InputError
from pipeline.execution.progress import Silent
from pipeline.execution.steps import Notes, Step
from pipeline.published import release_at
from pipeline.release.layout import RunDirectory
from pipeline.runs.run import run_release
from pipeline.runs.verify import verify_release

#: A page with room for little, and pieces of a few areas.
SMALL = (
    (pipeline.pages.chunks, "LARGEST", 700),
    (features.report.moments, "LARGEST", 2000),
    (pipeline.pages.areas, "WHOLE", 12),
    (pipeline.pages.areas, "_AREAS", 4),
    (pipeline.pages.areas, "_NUMBERS", 70),
)


@pytest.fixture
def small_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)


def shown_rows(shown: Opened) -> list[list[str]]:
    cells = shown.page.evaluate(
        "[...document.querySelectorAll('#counts-body tr')].map(row => [...row.children].map(cell => cell.textContent))"
    )
    return [[cell.split(" ")[0].replace(",", "") for cell in row] for row in cells]


@pytest.mark.slow
@pytest.mark.usefixtures("small_page")
def test_files_beside_the_page_are_verified_and_resumed_after(tmp_path: Path) -> None:
    """They are listed with their hashes, computed again byte for byte, and missing ones are written again."""
    spec = write_town(tmp_path / "in", *QUICK)
    directory = RunDirectory(run(spec, tmp_path / "out"))
    files = directory.report_files()
    assert len(files) > 10
    page = directory.report.read_text("utf-8")
    assert sum(map(len, re.findall(r'id="chunk-\d+">([^<]*)<', page))) <= 700 + 2000
    listed = json.loads(directory.manifest.read_text())["files"]
    assert {directory.name_of(path) for path in files} == {name for name in listed if name.startswith("report/")}
    shutil.copytree(directory.public, tmp_path / "copy" / "public")
    copy = RunDirectory(tmp_path / "copy")
    assert verify_release(release_at(copy.root), 1, Silent()) == []
    changed = copy.report_files()[3]
    changed.write_text(changed.read_text().replace("H4s", "H4t"))
    (problem,) = verify_release(release_at(copy.root), 1, Silent())
    assert f"report/{changed.name}" in problem

    # A run that was stopped before its manifest writes what is missing, and nothing else is let in.
    kept = {path: path.read_bytes() for path in files}
    directory.manifest.unlink()
    files[0].unlink()
    performed: list[str] = []

    def perform(step: Step) -> Notes | None:
        performed.append(step.stage)
        return step.perform()

    run_release(request_of(spec, tmp_path / "out"), Silent(), perform)
    assert ("report" in performed, "tables" in performed) == (True, False)
    assert {path: path.read_bytes() for path in directory.report_files()} == kept
    directory.manifest.unlink()
    (directory.public / "report" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"public/report/notes\.txt"):
        run(spec, tmp_path / "out")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Tables of which hardly anything is in the page."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name, value in SMALL:
            patched.setattr(module, name, value)
        return large_report(tmp_path_factory.mktemp("large") / "in", tracts=6, blocks=30, cells=5).run


def test_the_page_shows_what_the_tables_have_from_files(browser: Any, large: RunDirectory) -> None:
    """It opens with what is in it, reads pieces as they are asked for, and finds areas of levels that are in pieces."""
    stored = pd.read_parquet(large.main.table("age", "block"))
    shown = opened(browser, large.report)
    assert shown.requests == []
    shown.wait("select_option", "#table", "1")
    shown.wait("select_option", "#level", "2")
    counts = [name for name in stored.columns if ":" not in name]
    stored_rows = stored[counts].astype(str).to_numpy().tolist()
    totals = stored[counts[1:]].sum(axis=1).astype(str)
    expected = [[code, total, *row] for (code, *row), total in zip(stored_rows, totals, strict=True)]
    assert shown_rows(shown) == expected[:25]
    shown.wait("click", "#next")
    assert shown_rows(shown) == expected[25:50]
    before = len(shown.requests)
    assert {url.rsplit("/", 2)[1] for url in shown.requests} == {"report"}
    shown.page.context.close()

    # Only what is beside the wanted area is read; its numbers and interval are the table's.
    shown = opened(browser, large.report)
    shown.wait("select_option", "#table", "1")
    wanted = stored.iloc[100]
    shown.page.fill("#search", wanted["geocode"])
    shown.page.wait_for_selector("#found li[role=option]")
    shown.wait("press", "#search", "Enter")
    assert len(shown.requests) < before
    cells = shown.page.locator("#area tbody tr").nth(2).locator("td").all_text_contents()
    assert cells[0] == str(wanted["a02"])
    rank = 1 + int((stored["a02"] > wanted["a02"]).sum())
    assert cells[1].startswith(f"({wanted['a02:low90']:.0f}\N{EN DASH}{wanted['a02:high90']:.0f}) rank {rank} (")
    # A sum of areas of which one was not looked at yet, with its interval, from the address.
    other = stored.iloc[7]["geocode"]
    address = shown.page.url.split("#")[0] + f"#table=age&level=block&compare=block:{wanted['geocode']},block:{other}"
    shown.page.goto("about:blank")
    shown.page.goto(address)
    shown.page.wait_for_selector("html[data-ready]")
    total = shown.page.locator("#compare-body .sum-row td").first.text_content()
    assert int(total.split(" ")[0]) == wanted["a00"] + stored.iloc[7]["a00"]
    assert "(" in total
    assert shown.complaints == []


@pytest.mark.slow
def test_rhode_island_with_maps_of_tracts(shared_data: Path, tmp_path: Path) -> None:
    """Under 5 MB with all five levels, blocks too; what is not looked at is not drawn."""
    (tmp_path / "spec.toml").write_text(f"{rhode_island(shared_data)}\n[publish]\nreplicates = 2\n")
    directory = RunDirectory(run(tmp_path / "spec.toml", tmp_path / "out", workers=2))
    assert directory.report.stat().st_size < 5_000_000
    names = json.loads(directory.report.read_text("utf-8").split('id="content">')[1].split("</script>")[0])
    assert {tuple(table["levels"]) for table in names["tables"]} == {
        ("state", "county", "tract", "block_group", "block")
    }
    with chromium() as browser:
        shown = opened(browser, directory.report)
        assert shown.page.locator("*").count() < 2_500  # there are 25,000 blocks
        assert shown.page.locator("#picture svg path[aria-roledescription]").count() == 0
        assert shown.page.locator("#picture svg .mark-shape path:not([fill^=url])").count() == 243
        shown.wait("select_option", "#table", "1")
        shown.wait("select_option", "#level", "4")
        stored = pd.read_parquet(directory.main.table("race", "block"))
        shown.wait("click", "#next")
        first = shown.page.locator("#counts-body tr").first.locator("th, td").all_text_contents()
        expected = (
            stored[[name for name in stored.columns if not name.endswith((":moe90", ":low90", ":high90"))]]
            .iloc[25]
            .astype(str)
            .tolist()
        )
        expected.insert(1, str(sum(map(int, expected[1:]))))
        assert [cell.split(" ")[0].replace(",", "") for cell in first] == expected
        shown.page.fill("#search", "Newport")
        shown.page.wait_for_selector("#found li[role=option]")
        shown.wait("press", "#search", "Enter")
        assert shown.page.locator("#area h3").text_content() == "Newport (county 44005)"
        assert shown.complaints == []
        assert shown.requests == []
