"""Names and labels in the report: shown, found by its search, and harmless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from releases.browser import Opened, opened
from releases.named import FORMULA, SCRIPT, TURNED

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
    restricted = release_at(town).accuracy_page.read_text()
    assert "<script>alert" not in restricted
    assert "Errors: residents" in restricted


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
