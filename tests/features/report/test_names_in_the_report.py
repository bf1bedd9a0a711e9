"""Names and labels in the report: shown, found by its search, and harmless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from releases.browser import Opened, opened
from releases.named import FORMULA, SCRIPT, TRACTS, TURNED

from pipeline.published import release_at


@pytest.fixture(scope="module")
def town(named_town: Path) -> Path:
    return named_town


@pytest.fixture
def shown(browser: Any, town: Path) -> Opened:
    return opened(browser, release_at(town).report)


def test_the_page_escapes_every_word(town: Path) -> None:
    """The script of a name is in compressed data alone; title, notes and labels are text."""
    page = release_at(town).report.read_text()
    assert "<script>alert" not in page
    assert "The town&#39;s &lt;people&gt;" in page
    assert "<people>" not in page
    assert "Adults <b>" not in page
    for text in (
        "residents",
        "2030-04-01",
        "counts@town.example",
        "CC-BY-4.0",
        "The first note.",
        "A building of students.",
    ):
        assert text in page, text
    assert page.index("Sex and age") < page.index('<script type="application/json"')


def test_a_name_is_found_and_shown_as_it_is(shown: Opened) -> None:
    page = shown.page
    for typed, code, name in (
        ("SPRINGFIELD", "A03", "Springfield"),
        ("<script", "A01", SCRIPT),
        (FORMULA, "A02", FORMULA),
        (TURNED.replace("\u200f", ""), "B01", f"\u2068{TURNED}\u2069"),
    ):
        page.fill("#search", typed)
        page.wait_for_selector("#found [role=option]")
        assert page.locator("#found [role=option]").first.text_content() == f"{name} (tract {code})"
        shown.wait("press", "#search", "Enter")
        assert page.locator("#area h3").text_content() == f"{name} (tract {code})"
    assert page.locator("#area .path button").first.text_content() == "Birch County"
    page.fill("#search", "Springfield")
    page.wait_for_function("document.querySelectorAll('#found [role=option]').length === 2")
    assert shown.complaints == []
    assert shown.requests == []


def test_tables_levels_and_values_have_their_labels(shown: Opened, tmp_path: Path) -> None:
    page = shown.page
    assert "Sex and age" in page.locator("#table").inner_text()
    shown.wait("select_option", "#table", page.locator("#table option", has_text="Sex and age").get_attribute("value"))
    assert page.locator("#counts-head").inner_text().count("Women") == 2
    assert "Adults <b>" in page.locator("#counts-head").inner_text()
    shown.wait("select_option", "#level", page.locator("#level option", has_text="tract").get_attribute("value"))
    names = page.locator("#counts-body th").all_inner_texts()
    assert [name.strip("\u2068\u2069") for name in names] == list(TRACTS.values())
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "view.csv")
    text = (tmp_path / "view.csv").read_text()
    head = next(line for line in text.splitlines() if not line.startswith("#"))
    assert head.startswith("geocode,name,total,total:moe90,total:low90,total:high90,young * f,")
    assert "A02,\"'=HYPERLINK(" in text
    assert shown.complaints == []


def test_the_page_of_errors_calls_areas_by_their_names(town: Path) -> None:
    """The agency's own page, too: areas with their names, tables, levels and numbers by their labels."""
    page = release_at(town).accuracy_page.read_text()
    assert "Old Town (B03)" in page or "Springfield (A03)" in page or "Springfield (B02)" in page
    assert '<th scope="row">Sex and age</th><td class="text">County</td>' in page
    assert "Errors: residents" in page
    assert "Women" in page
    assert "<script>alert" not in page
