"""The report of a real state: small enough to send, quick to open, and right where it is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from releases.browser import chromium, opened
from releases.examples import rhode_island
from releases.small import run

from pipeline.release.layout import RunDirectory


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
