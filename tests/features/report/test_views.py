"""A view of the report has an address: it can be linked, gone back to, embedded, and taken along as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.browser import Opened, opened

from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory

_VIEW = "table=sex&level=tract&cell=young%20*%20m&show=share&order=most&area=tract:B02&compare=tract:A01,tract:B02"


def at(browser: Any, file: Path, fragment: str) -> Opened:
    shown = opened(browser, file)
    shown.page.goto(file.resolve().as_uri() + "#" + fragment)
    shown.page.reload()
    shown.page.wait_for_selector("html[data-ready]")
    return shown


def fragment(shown: Opened) -> str:
    return str(shown.page.url.partition("#")[2])


def test_a_view_is_linked_and_gone_back_to(browser: Any, town: Path) -> None:
    file = RunDirectory(town).report
    shown = at(browser, file, _VIEW)
    assert shown.page.locator("#area-title").text_content() == "tract B02"
    assert shown.page.input_value("#measure") == "share"
    assert shown.page.input_value("#sort") == "most"
    assert shown.page.locator("#compare-body tr").count() == 3
    assert shown.page.input_value("#link").partition("#")[2] == _VIEW
    shown.wait("select_option", "#table", "2")  # detail
    shown.wait("click", "#counts-body tr:first-child button")
    assert "table=detail" in fragment(shown)
    shown.wait("go_back")
    shown.wait("go_back")
    assert (fragment(shown), shown.page.input_value("#table")) == (_VIEW, "1")
    assert shown.page.locator("#area-title").text_content() == "tract B02"
    again = opened(browser, file)
    again.page.goto(shown.page.input_value("#link"))
    again.page.wait_for_function("() => document.getElementById('area-title')?.textContent === 'tract B02'")
    assert shown.complaints + again.complaints == []


@pytest.mark.slow
def test_an_address_of_nothing_shows_the_page_as_it_is(browser: Any, town: Path) -> None:
    """Names that are not there, broken escapes and anchors are no errors."""
    for wrong in (
        "table=nothing&level=&area=tract:ZZ&compare=x,tract:A01,:&page=-3&embed=all",
        "area=%E0%A4%A",
        "guide",
    ):
        shown = at(browser, RunDirectory(town).report, wrong)
        assert shown.page.input_value("#table") == "0"
        assert shown.page.locator("#area-title").count() == 0
        assert shown.complaints == []
        shown.page.context.close()


@pytest.mark.slow
def test_one_part_stands_alone_in_another_page(browser: Any, town: Path, tmp_path: Path) -> None:
    """The HTML that the page offers, in a page beside it; whose numbers and which status is said."""
    shown = at(browser, RunDirectory(town).report, _VIEW)
    shown.page.evaluate("document.getElementById('takeaway').open = true")
    shown.page.evaluate("document.querySelector('.online').hidden = false")  # as on a website
    parts = ("chart", "table", "area", "compare")
    for part in parts:
        shown.page.select_option("#embed-part", part)
        shown.page.wait_for_function(f"() => document.getElementById('embed-code').value.includes('embed={part}')")
        page = tmp_path / f"{part}.html"
        page.write_text("<!doctype html><h1>Other</h1>" + shown.page.input_value("#embed-code"))
        other = opened(browser, page, ready=False)
        frame = other.page.frame_locator("iframe")
        frame.locator(f"[data-part={part}]").wait_for(state="visible")
        assert [one for one in parts if frame.locator(f"[data-part={one}]").is_visible()] == [part]
        assert not frame.locator("nav").is_visible()
        assert "insecure test key" in frame.locator("#embed-source").text_content()
        assert other.complaints == []
        other.page.context.close()


@pytest.mark.slow
def test_the_comparison_is_taken_along(browser: Any, town: Path, tmp_path: Path) -> None:
    shown = at(browser, RunDirectory(town).report, _VIEW)
    with shown.page.expect_download() as waiting:
        shown.page.click("#compare-csv")
    waiting.value.save_as(tmp_path / "comparison.csv")
    found = pd.read_csv(tmp_path / "comparison.csv")
    assert found["geocode"].tolist()[:2] == ["A01", "B02"]
    release = open_release(town)
    row = release.query("sex * grown").compared(["B02"], ["A01"]).loc["young * m"]
    for name in ("difference", "difference:low90", "difference:high90"):
        assert found[name][1] == row[name]
    over = release.query("sex * grown").over({"x": ["A01", "B02"]}).loc["x"]
    assert found["number"][2] == over["young * m"]
