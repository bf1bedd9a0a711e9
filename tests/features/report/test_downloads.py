"""What is in the report by a name does no harm, and what leaves it says what it is and how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest
from releases.browser import Opened, opened
from releases.named import FORMULA, SCRIPT, TURNED

from pipeline.published import release_at
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
