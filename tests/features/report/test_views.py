"""A view of the report has an address: it can be linked, gone back to, embedded, and taken along as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from releases.browser import Opened, opened

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
