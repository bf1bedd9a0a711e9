"""What is in the report by a name does no harm, and what leaves it says what it is and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import openpyxl
import pandas as pd
import pytest
from releases.browser import WEBSITE, Opened, opened
from releases.named import FORMULA, SCRIPT, TURNED

from pipeline.published import release_at
from pipeline.reading.reader import open_reader
from pipeline.reading.release import open_release, reader_of
from pipeline.release.layout import RunDirectory

_STATUS = "NOT FOR RELEASE: insecure test key"


@pytest.fixture
def shown(browser: Any, named_town: Path) -> Iterator[Opened]:
    found = opened(browser, RunDirectory(named_town).report)
    yield found
    assert found.complaints == []


def taken(shown: Opened, button: str, folder: Path) -> Path:
    with shown.page.expect_download() as waiting:
        shown.page.click(button)
    target = folder / waiting.value.suggested_filename
    waiting.value.save_as(target)
    return target


def notes(path: Path) -> list[str]:
    found = pd.read_csv(path)["notes"].dropna()
    assert found.index.tolist() == [0]
    return str(found[0]).split(" | ")


def stored(root: Path, table: str) -> pd.DataFrame:
    """All areas of all levels, from the Parquet files, with the names of the areas."""
    release, parts = open_release(root), []
    levels = next(one.levels for one in reader_of(release).universe.tables if one.name == table)
    for level in (name for name in release.levels if name in levels):
        part = pd.read_parquet(RunDirectory(root).main.table(table, level))
        part.insert(0, "level", level)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def test_the_whole_table_is_every_area_of_every_level(shown: Opened, named_town: Path, tmp_path: Path) -> None:
    """As CSV and as a workbook, with the numbers of the Parquet files; what is not known is empty in both."""
    release = open_release(named_town)
    for number, table in enumerate(reader_of(release).universe.tables):
        shown.wait("select_option", "#table", str(number)) if number else None
        expected = stored(named_town, table.name)
        text = taken(shown, "#all-csv", tmp_path)
        assert text.name == f"{reader_of(release).spec.name}-{table.name}.csv"
        found = pd.read_csv(text, dtype={"geocode": str})
        assert found.columns[-1] == "notes"
        book = openpyxl.load_workbook(taken(shown, "#all-xlsx", tmp_path))
        assert book.sheetnames == ["numbers", "notes"]
        head, *rows = book["numbers"].iter_rows(values_only=True)
        sheet = pd.DataFrame(rows, columns=list(head))
        for frame in (found, sheet):
            totals = [one for one in frame if str(one).split(":")[0] == "total"]
            has_total = len(table.query.answer_labels()) > 1
            numbers = frame.drop(columns=["name", "notes", *(totals if has_total else [])], errors="ignore")
            pd.testing.assert_frame_equal(numbers, expected, check_dtype=False)
            if has_total:
                sums = expected[list(table.query.answer_labels())].sum(axis=1)
                assert frame["total"].tolist() == sums.tolist()
                of_the_table = frame.merge(stored(named_town, "total"), on=["level", "geocode"])
                assert len(of_the_table) >= 5  # at least the tracts
                for one in totals:
                    assert of_the_table[f"{one}_x"].tolist() == of_the_table[f"{one}_y"].tolist()
        assert book["notes"]["A2"].value == _STATUS
        assert all(isinstance(one, int) for one in rows[0][3:7])


@pytest.mark.slow
def test_a_file_says_what_it_is(shown: Opened, named_town: Path, tmp_path: Path) -> None:
    about = open_reader(named_town).spec.about
    title = shown.page.locator("h1").text_content()
    shown.wait("select_option", "#table", "1")
    view = taken(shown, "#download", tmp_path)
    lines = notes(view)
    assert lines[0].startswith("Table ")
    assert _STATUS in lines
    assert title in lines
    assert f"Publisher: {about.publisher}" in lines
    assert any(line.startswith("Reference date: ") for line in lines) == bool(about.reference_date)
    assert lines[-1].startswith("90 % intervals contain the true count in 90 % of cases. Half of the margins")
    margins = pd.read_csv(view).filter(like=":moe90").to_numpy().ravel()
    half = float(lines[-1].rstrip(".").rsplit(" ", 1)[1].replace(",", ""))
    assert (margins <= half).mean() >= 0.5 > (margins < half).mean()
    picture = ElementTree.parse(taken(shown, "#as-svg", tmp_path)).getroot()
    words = " ".join(" ".join(picture.itertext()).split())
    for line in (shown.page.locator("#picture-title").text_content(), *lines[1:]):
        assert " ".join(line.split()) in words


@pytest.mark.slow
def test_from_a_disk_nothing_shows_its_address_and_online_all_is_copied(
    browser: Any, shown: Opened, named_town: Path, tmp_path: Path
) -> None:
    shown.page.evaluate("document.getElementById('takeaway').open = true")
    assert not shown.page.locator("#link").is_visible()
    assert not shown.page.locator("#embed-code").is_visible()
    assert shown.page.locator("#on-disk").is_visible()
    assert "file:" not in shown.page.locator("main").inner_text() + shown.page.input_value("#citation")
    assert "file:" not in taken(shown, "#download", tmp_path).read_text("utf-8")

    online = opened(browser, RunDirectory(named_town).report, online=True)
    online.page.evaluate("document.getElementById('takeaway').open = true")
    assert not online.page.locator("#on-disk").is_visible()
    online.page.evaluate(
        "document.addEventListener('copy', () => { window.copied = String(document.activeElement.value); })"
    )
    for button, place in (("link", "link"), ("embed-code", "embed-code"), ("citation", "citation")):
        online.page.click(f"[data-copy={button}]")
        online.page.wait_for_function("() => document.getElementById('said').textContent === 'Copied'")
        copied = online.page.evaluate("window.copied")
        assert copied == online.page.input_value(f"#{place}")
        assert WEBSITE in copied
    assert f"From: {WEBSITE}report.html" in "\n".join(notes(taken(online, "#download", tmp_path)))
    assert online.complaints == []


@pytest.mark.slow
def test_an_area_is_found_though_its_name_is_misspelt_and_what_is_no_name_finds_nothing(shown: Opened) -> None:
    for typed in ("Aldr", "adler county", "County Alder", "ALDER COUNTRY", "spingfield", "Sprngfeild", "tract a01"):
        shown.page.fill("#search", "")
        shown.page.fill("#search", typed)
        shown.page.wait_for_selector("#found li[role=option]")
        first = shown.page.locator("#found li").first.text_content()
        wanted = "Springfield" if typed.lower().startswith("sp") else "Alder County"
        assert first.startswith(wanted) or (typed == "tract a01" and "(tract A01)" in first), typed
    for typed in ("qqqq", "Oldenburg", "xx"):
        shown.page.fill("#search", typed)
        shown.page.wait_for_selector("text=No such area in this page.")


def test_the_page_escapes_every_word(named_town: Path) -> None:
    """The script of a name is in compressed data alone; title, notes and labels are text."""
    page = release_at(named_town).report.read_text()
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
    restricted = release_at(named_town).accuracy_page.read_text()
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
