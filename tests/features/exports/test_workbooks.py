"""Workbooks, opened with another library's reader: a sheet for each level, flags, titles, notes, and households."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest
from python_calamine import CalamineWorkbook

from features.exports.release import export_release
from features.exports.workbook import Sheet, write_workbook
from pipeline.published import open_finished
from pipeline.release.reliability import CLASSES


@pytest.fixture(scope="module")
def books(surveyed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_release(open_finished(surveyed, check_hashes=True), "xlsx", tmp_path_factory.mktemp("xlsx") / "out")


def test_every_table_and_what_is_published_of_households_has_its_book(books: Path) -> None:
    found = {path.relative_to(books).as_posix() for path in books.rglob("*.xlsx")}
    persons, homes = {"total", "detailed", "residence"}, {"size", "detailed", "total"}
    assert found == {
        *(f"{name}.xlsx" for name in persons),
        *(f"companions/homes/{name}.xlsx" for name in homes),
        "household_sizes/homes.xlsx",
        "household_tables/age_by_size.xlsx",
    }
    for path in books.rglob("*.xlsx"):
        assert openpyxl.load_workbook(path).sheetnames == ["county", "Neighbourhood", "block", "labels", "about"]


def test_each_number_says_what_it_can_be_used_for(books: Path) -> None:
    """By the rules as they are written, computed once more here."""
    sheet = pd.read_excel(books / "detailed.xlsx", sheet_name="block")
    seen = set()
    for label in ("Under 18 * household", "adult * quarters"):
        for count, margin, use in sheet[[label, f"{label}:moe90", f"{label}:use"]].itertuples(index=False):
            if pd.isna(margin):
                wanted = "unreliable"
            elif margin == 0:
                wanted = "good"
            else:
                relative = max(margin, 1) / count if count else 9.0
                wanted = "good" if relative <= 0.1 else "care" if relative <= 0.5 else "unreliable"
            assert use == wanted, (label, count, margin)
            seen.add(use)
    assert len(seen) > 1
    about = pd.read_excel(books / "detailed.xlsx", sheet_name="about").set_index("key")["text"]
    for one in CLASSES:
        assert about[f"columns :use: {one.key}"].startswith(one.label)


def test_titles_and_notes_are_in_the_book_and_no_text_is_a_formula(books: Path) -> None:
    book = openpyxl.load_workbook(books / "detailed.xlsx")
    assert book.properties.title == "People & homes: Age by residence of residents"
    assert book["Neighbourhood"].oddHeader.center.text == "People && homes: Age by residence of residents"
    about = [tuple(cell.value for cell in row) for row in book["about"].iter_rows()]
    assert about[:2] == [("key", "text"), ("status", "NOT FOR RELEASE: insecure test key")]
    assert ("table", "People & homes: Age by residence of residents") in about
    assert ("note", "=2+2") in about
    assert {cell.data_type for row in book["about"].iter_rows() for cell in row} == {"s"}
    assert book["Neighbourhood"]["B3"].value == "=SUM(1)"
    assert book["Neighbourhood"]["B3"].data_type == "s"
    table = openpyxl.load_workbook(books / "household_tables" / "age_by_size.xlsx")["about"]
    assert any("was drawn" in str(row[1].value) for row in table.iter_rows())


def test_every_cell_is_read_as_it_was_by_two_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text that XML must write in another way, numbers to the last place, empty cells, and more rows than one part."""
    monkeypatch.setattr("features.exports.workbook._AT_ONCE", 100)
    rng, n = np.random.default_rng(1), 60
    counts, widths = rng.integers(-(2**53), 2**53, n), rng.random(n) * 10.0 ** rng.integers(-9, 9, n)
    widths[::7] = np.nan
    names = ["a & b", " <t>", "&amp;", "é\n\u2028ü", "=1", "", '"', "]]>", "x\x07y", "000"] * 6
    codes = np.array([f"{number:03}" for number in range(n)])
    sheet = Sheet("s", ("geocode", "name"), codes, names, (("count", counts), ("width", widths), ("use", codes)))
    write_workbook(tmp_path / "a.xlsx", "title", [sheet])
    read = [name.replace("\x07", "") for name in names]
    wanted = [
        (code, name or None, count, None if np.isnan(width) else width, code)
        for code, name, count, width in zip(codes.tolist(), read, counts.tolist(), widths.tolist(), strict=True)
    ]
    head = ("geocode", "name", "count", "width", "use")
    found = openpyxl.load_workbook(tmp_path / "a.xlsx")["s"]
    assert [tuple(None if cell == "" else cell for cell in row) for row in found.values] == [head, *wanted]
    others = CalamineWorkbook.from_path(tmp_path / "a.xlsx").get_sheet_by_name("s").to_python()
    assert [tuple(None if cell == "" else cell for cell in row) for row in others] == [head, *wanted]
