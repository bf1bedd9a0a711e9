"""The report in another language: no English is left in it, and numbers and days are as that language writes them."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from releases.browser import opened
from releases.pages import english_in, marked_texts, outside_of_signs, report_in, visible

from pipeline.model.texts.catalogue import Numerals
from pipeline.published import open_finished

#: Every text of the explorer and of the pictures, and what is said aloud of their parts.
SPOKEN = r"""() => {
  const found = [];
  for (const place of document.querySelectorAll('#explorer, .chart')) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) found.push(walker.currentNode.data);
    for (const one of place.querySelectorAll('[aria-label]')) found.push(one.getAttribute('aria-label'));
  }
  return found.join('\n');
}"""

#: Words of the town's spec and its units: names of levels, tables, queries and attributes, and what is in the notes.
DATA = set(
    re.findall(
        r"\w+",
        "county tract block total sex detail detailed grown status units Adults Sexo Condado habitantes edad "
        "Office of Towns counts town example CC BY The town people The first note is too building students dorm "
        "abril de",
    )
)


@pytest.fixture(scope="module")
def spanish(named_town: Path) -> str:
    return report_in(named_town, "es")


def test_whatever_the_page_says_is_from_the_catalogue(named_town: Path) -> None:
    """Every text is between signs; what is not is a word of the spec."""
    page = report_in(named_town, "es", marked_texts())
    text = visible(page)
    assert text.count("\u27e6") > 150
    assert outside_of_signs(text) - DATA == set()


def test_no_english_is_left_in_the_spanish_page(named_town: Path, spanish: str) -> None:
    text = re.sub(r"\s+", " ", visible(spanish))
    assert english_in(text) == []
    assert len(english_in(visible(report_in(named_town, "en")))) > 80
    assert '<html lang="es">' in spanish
    assert "Los números" in text
    assert "Fecha de referencia: 1 de abril de 2030." in text


def words_of(town: Path) -> set[str]:
    """The words of the town's spec, names and notes."""
    release = open_finished(town, check_hashes=False)
    names = [name for level in release.names.values() for name in level.in_language("es")]
    text = " ".join([str(release.manifest.spec), *names])
    return set(re.findall(r"[^\W\d_]{2,}", text))


@pytest.mark.slow
def test_whatever_the_scripts_write_is_from_the_catalogue(browser: Any, named_town: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_in(named_town, "es", marked_texts()), "utf-8")
    shown = opened(browser, path)
    page = shown.page
    page.fill("#search", "nowhere at all")
    page.wait_for_selector("#found .hint")
    page.fill("#search", "A0")
    page.wait_for_selector("#found [role=option]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#area h3")
    for measure in ("margin", "share", "count"):
        if page.locator(f'#measure option[value="{measure}"]').count():
            shown.wait("select_option", "#measure", measure)
        spoken = re.sub(r"\w+…", "", page.evaluate(SPOKEN))  # a long label in a picture is cut
        assert spoken.count("\u27e6") > 30
        assert outside_of_signs(spoken) - words_of(named_town) - {"PNG", "SVG", "CSV"} == set()
    assert shown.complaints == []


def test_scripts_and_pages_write_numbers_alike(browser: Any) -> None:
    page = browser.new_page()
    numbers = [0, 999, 1234, 9999, 12345, 1234567, 12.5, 1234.5]
    written = (
        "([language, numbers]) => numbers.map(one => new Intl.NumberFormat(language, "
        "{ maximumFractionDigits: 1, numberingSystem: 'latn' }).format(one))"
    )
    for language in ("en", "es", "es-MX", "de", "pt-PT", "hi"):
        found = page.evaluate(written, [language, numbers])
        assert found == [Numerals(language).decimal(Decimal(str(one))) for one in numbers], language
    page.close()
