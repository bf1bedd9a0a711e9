"""The report in a real browser: it opens without complaint, answers to mouse and keyboard, and asks for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.browser import Opened, opened

from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory


@pytest.fixture
def shown(browser: Any, town: Path) -> Iterator[Opened]:
    """The town's report; whatever a test does with it, it must not complain or ask for anything."""
    found = opened(browser, RunDirectory(town).report)
    yield found
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("blob:")] == []


def rows(shown: Opened) -> list[list[str]]:
    """The texts of the table of counts, a list a row; without symbols."""
    cells = shown.page.evaluate(
        "[...document.querySelectorAll('#counts-body tr')].map(row => [...row.children].map(cell => cell.textContent))"
    )
    return [[cell.split(" ")[0].replace(",", "") for cell in row] for row in cells]


def test_search_finds_an_area_by_keyboard(shown: Opened, town: Path) -> None:
    shown.page.focus("#search")
    shown.page.keyboard.type("b02")
    shown.page.wait_for_selector("#found li[role=option]")
    found = shown.page.locator("#found li").all_text_contents()
    assert found[0] == "tract B02"
    assert all(text.startswith("block B02") for text in found[1:])
    shown.page.keyboard.press("ArrowDown")
    assert shown.page.get_attribute("#search", "aria-activedescendant") == "found-0"
    shown.wait("press", "#search", "Enter")
    assert shown.page.locator("#area h3").text_content() == "tract B02"
    stored = pd.read_parquet(RunDirectory(town).main.table("total", "tract")).set_index("geocode").loc["B02"]
    cells = shown.page.locator("#area tbody td").all_text_contents()
    assert cells[0] == f"{int(stored['total'].item()):,}"
    interval = f"({stored['total:low90']:,.0f}\N{EN DASH}{stored['total:high90']:,.0f})"
    assert open_release(town).query("total").ranks_at("tract").loc[["B02"]].to_numpy().tolist() == [[5, 5, 5]]
    assert cells[1] == f"{interval} rank 5"
    shown.wait("click", "text=Show each block in it")
    assert "in tract B02" in shown.page.locator("#counts-caption").text_content()
    blocks = pd.read_parquet(RunDirectory(town).main.table("total", "block"))["geocode"]
    assert [row[0] for row in rows(shown)] == [code for code in blocks if code.startswith("B02")]
    shown.wait("click", "#everywhere")
    assert len(rows(shown)) == len(blocks)
    shown.page.fill("#search", "nowhere")
    shown.page.wait_for_selector("text=No such area in this page.")


def test_search_and_answer_are_in_the_first_view(browser: Any, town: Path) -> None:
    """On a screen of 844 pixels, without scrolling: the search, the answer in one sentence, and its bar to scale."""
    shown = opened(browser, RunDirectory(town).report, width=390)
    shown.page.set_viewport_size({"width": 390, "height": 844})
    assert shown.page.locator("#search").bounding_box()["y"] < 400
    shown.page.fill("#search", "B02")
    shown.page.wait_for_selector("#found-0")
    shown.wait("press", "#search", "Enter")
    row = open_release(town).table("total", "tract").loc["B02"]
    low, high = row["total:low90"], row["total:high90"]
    sentences = shown.page.locator("#answer strong").all_text_contents()
    assert sentences == [f"People in B02: {row['total']:,.0f} (90 % interval: {low:,.0f} to {high:,.0f})."]
    assert shown.page.evaluate("scrollY") == 0
    place = shown.page.locator("#answer").bounding_box()
    assert place["y"] + place["height"] < 844
    widths = "[...document.querySelectorAll('#answer .bar i')].map((one) => one.getBoundingClientRect().width)"
    sure, open_ended = shown.page.evaluate(widths)
    assert sure / (sure + open_ended) == pytest.approx(low / high, abs=0.02)
    assert shown.complaints == []


@pytest.mark.slow
def test_on_paper_there_are_tables_and_no_controls(browser: Any, town: Path) -> None:
    found = opened(browser, RunDirectory(town).report, width=700)
    found.page.emulate_media(media="print")
    for gone in ("nav", "#download", "#takeaway", "#as-svg", "#fade"):
        assert not found.page.locator(gone).is_visible(), gone
    assert found.page.locator("#counts").is_visible()
    assert found.page.pdf()[:5] == b"%PDF-"


#: A view of the report, as its address has it.
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
