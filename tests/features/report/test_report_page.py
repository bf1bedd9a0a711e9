"""The report in a real browser: it opens without complaint, answers to mouse and keyboard, and asks for nothing."""

from __future__ import annotations

import itertools
import re
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


def test_table_and_level_are_chosen(shown: Opened, town: Path) -> None:
    shown.wait("select_option", "#table", "2")  # detail
    shown.wait("select_option", "#level", "2")  # block
    stored = pd.read_parquet(RunDirectory(town).main.table("detail", "block"))
    counts = [name for name in stored.columns if not name.endswith((":moe90", ":low90", ":high90"))]
    expected = stored[counts].astype(object).astype(str).to_numpy().tolist()
    totals = stored[counts[1:]].sum(axis=1).astype(str)
    assert rows(shown) == [[code, total, *row] for (code, *row), total in zip(expected, totals, strict=True)]
    shown.wait("select_option", "#sort", "most")
    assert [int(row[2]) for row in rows(shown)] == sorted((int(row[1]) for row in expected), reverse=True)
    found = shown.page.locator("#counts-caption").text_content()
    assert found == f"Table detail, level block, areas: {len(stored)}"


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


def test_the_view_is_downloaded(shown: Opened, town: Path, tmp_path: Path) -> None:
    shown.wait("select_option", "#table", "1")  # sex
    with shown.page.expect_download() as waiting:
        shown.page.click("#download")
    assert waiting.value.suggested_filename == "town-sex-tract.csv"
    waiting.value.save_as(tmp_path / "view.csv")
    found = pd.read_csv(tmp_path / "view.csv")
    stored = pd.read_parquet(RunDirectory(town).main.table("sex", "tract"))
    shown_too = [one for one in found if str(one).split(":")[0] in ("total", "notes")]
    pd.testing.assert_frame_equal(found.drop(columns=shown_too), stored, check_dtype=False)


def test_the_place_among_others_is_an_ordinal(shown: Opened, town: Path) -> None:
    """Of every block, such as "People: 3rd of 29 areas at level block (true rank: 1 to 5)"."""
    ranks = open_release(town).query("total").ranks_at("block")
    shown.wait("select_option", "#level", "2")
    endings = {1: "st", 2: "nd", 3: "rd"}
    found = set()
    for code, (rank, low, high) in zip(ranks.index, ranks.to_numpy().tolist(), strict=True):
        shown.wait("click", f"#counts-body button:text-is('{code}')")
        ordinal = f"{rank}{'th' if rank in (11, 12, 13) else endings.get(rank % 10, 'th')}"
        true = "" if low == high else f" (true rank: {low} to {high})"
        said = shown.page.locator("#area p").all_text_contents()
        assert f"People: {ordinal} of {len(ranks)} areas at level block{true}." in said
        found |= {ordinal}
    assert {"1st", "2nd", "3rd", "4th", "11th", "12th"} <= found


@pytest.mark.parametrize("width", [1280, 390])
def test_search_and_answer_are_in_the_first_view(browser: Any, town: Path, width: int) -> None:
    """On a screen of 844 pixels, without scrolling: the search, the answer in one sentence, and its bar to scale."""
    shown = opened(browser, RunDirectory(town).report, width=width)
    shown.page.set_viewport_size({"width": width, "height": 844})
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


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_a_wide_table_ends_with_a_whole_column_and_says_that_more_follow(browser: Any, town: Path, width: int) -> None:
    """Columns of any width: none is cut at the right, and the line above the table counts those that follow."""
    shown = opened(browser, RunDirectory(town).report, width=width)
    shown.wait("select_option", "#table", "2")
    for number in (100, 180):
        shown.page.add_style_tag(content=f"#counts th:not(:first-child) {{ min-width: {number}px !important; }}")
        shown.wait("select_option", "#sort", "most" if number == 100 else "least")
        place, edges, more = shown.page.evaluate(
            """() => {
              const place = document.getElementById("counts-region"), box = place.getBoundingClientRect();
              const edges = [...place.querySelector("tr").cells].map((one) => one.getBoundingClientRect().right);
              const more = place.previousElementSibling;
              return [box.right, edges, more.className === "more" ? more.textContent : ""];
            }"""
        )
        after = sum(edge > place + 1 for edge in edges)
        assert (f": {after}." in more) == (after > 0)
        assert after or not more
        if edges[1] <= place + 1:
            assert min(abs(edge - place) for edge in edges) <= 1.5 or not after
    assert after or width == 1280
    cut = shown.page.evaluate(
        """() => [...document.querySelectorAll(".scroll > table > caption")].filter((caption) => {
          const words = document.createRange();
          words.selectNodeContents(caption);
          return words.getBoundingClientRect().right > caption.closest(".scroll").getBoundingClientRect().right + 1;
        }).map((caption) => caption.textContent)"""
    )
    assert cut == []
    assert shown.complaints == []


def test_hovering_shows_the_margin_and_clicking_chooses(shown: Opened) -> None:
    point = shown.page.locator("#picture svg .mark-symbol path").first
    point.hover()
    shown.page.wait_for_selector("#tip:not([hidden])")
    assert "tract" in shown.page.locator("#tip").text_content()
    assert re.search(r"\(\d+\N{EN DASH}\d+\)", shown.page.locator("#tip").text_content())
    shown.wait("click", "#picture svg .mark-symbol path >> nth=0")
    assert shown.page.locator("#area h3").count() == 1


def test_everything_has_a_name_and_can_be_reached(shown: Opened) -> None:
    nameless = shown.page.evaluate(
        """[...document.querySelectorAll('button, select, input, a, [role=img], [role=region]')]
           .filter(one => !(one.textContent.trim() || one.getAttribute('aria-label') || one.closest('label')))
           .map(one => one.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    headings = shown.page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(one => Number(one.tagName[1]))")
    assert headings[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    assert shown.page.evaluate("[...document.querySelectorAll('table')].every(one => one.querySelector('th[scope]'))")
    assert shown.page.evaluate("document.documentElement.lang") == "en"
    shown.page.keyboard.press("Tab")
    assert shown.page.evaluate("document.activeElement.className") == "skip"


_CONTRAST = (Path(__file__).parents[2] / "releases" / "contrast.js").read_text("utf-8")


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_light_and_dark(browser: Any, town: Path, dark: bool) -> None:
    """Every text has the contrast of WCAG 2 AA with what is behind it."""
    found = opened(browser, RunDirectory(town).report, dark=dark)
    assert found.page.evaluate(_CONTRAST) == []
    assert found.complaints == []


def test_it_fits_a_telephone_and_a_sheet_of_paper(browser: Any, town: Path) -> None:
    found = opened(browser, RunDirectory(town).report, width=360)
    assert found.page.evaluate("document.documentElement.scrollWidth") <= 360
    found.page.emulate_media(media="print")
    assert not found.page.locator("nav").is_visible()
    assert not found.page.locator("#download").is_visible()
    assert found.page.locator("#counts").is_visible()
    assert found.page.pdf()[:5] == b"%PDF-"


def test_on_paper_nothing_is_alone_or_cut(browser: Any, town: Path) -> None:
    """On a sheet of letter paper: tiles and advice side by side, file names whole."""
    found = opened(browser, RunDirectory(town).report, width=695)
    found.page.emulate_media(media="print")
    assert not found.page.locator("#printed-page").is_visible()  # the table has no second page
    tops = "(all) => new Set([...document.querySelectorAll(all)].map(one => one.getBoundingClientRect().top)).size"
    assert found.page.evaluate(tops, ".tiles li") == 1
    assert found.page.evaluate(tops, ".guide li") == 1
    lines = "[...document.querySelectorAll('#files tbody th code')].map(one => one.getClientRects().length)"
    assert set(found.page.evaluate(lines)) == {1}
    whole = "[...document.querySelectorAll('#use table, pre')].map(one => getComputedStyle(one).breakInside)"
    assert set(found.page.evaluate(whole)) == {"avoid"}
    style = "(row) => getComputedStyle(document.querySelector(`#counts-body tr:${row}-child`))"
    assert found.page.evaluate(f"({style})('first').breakAfter") == "avoid"
    assert found.page.evaluate(f"({style})('last').breakBefore") == "avoid"
    assert found.page.evaluate("getComputedStyle(document.querySelector('footer')).breakBefore") == "avoid"


def test_pictures_of_a_dark_page_are_printed_in_light_colours(browser: Any, town: Path) -> None:
    """And are as they were when it is back on the screen; nothing of the dark picture is left on paper."""
    colours = (
        "[...document.querySelectorAll('#picture [fill], #picture [stroke]')].map(one => one.getAttribute('fill'))"
    )
    painted = f"JSON.stringify([...new Set({colours})].filter(one => one && one.startsWith('#')).sort())"
    light, dark = (opened(browser, RunDirectory(town).report, dark=look) for look in (False, True))
    on_screen = dark.page.evaluate(painted)
    assert on_screen != light.page.evaluate(painted)
    dark.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert dark.page.evaluate(painted) == light.page.evaluate(painted)
    dark.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert dark.page.evaluate(painted) == on_screen
    assert light.complaints == dark.complaints == []


def test_the_restricted_twin_opens(browser: Any, town: Path) -> None:
    found = opened(browser, RunDirectory(town).accuracy_page, ready=False)
    assert found.page.locator("h1").text_content() == "Accuracy of town"
    assert (found.complaints, found.requests) == ([], [])


def test_a_telephone_shows_an_area_with_nothing_cut(browser: Any, town: Path) -> None:
    """At 390 pixels the last column, whose sign says what a number is fit for, is inside its place; long names too."""
    shown = opened(browser, RunDirectory(town).report, width=390)
    shown.page.fill("#search", "B02")
    shown.page.wait_for_selector("#found-0")
    shown.wait("press", "#search", "Enter")
    over = shown.page.evaluate("""() => {
        const heads = document.querySelectorAll("#area tbody th"), places = document.querySelectorAll("#area .scroll");
        for (const head of heads) head.textContent = "Native Hawaiian or Pacific Islander";
        return [...places].map((one) => one.scrollWidth - one.clientWidth);
    }""")
    assert over
    assert max(over) <= 0
