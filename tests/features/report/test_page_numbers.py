"""The numbers that the report's pictures, cards, tables and maps show are those of the files; no page says NaN."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.browser import Opened, opened
from releases.command import printed

from pipeline.reading.release import Release, reader_of
from pipeline.release.layout import RunDirectory

#: What a script writes of a value that it does not have.
_MISSING = re.compile(r"\b(?:NaN|undefined|null|Infinity)\b")


@pytest.fixture
def release(mapped_town: Release) -> Release:
    return mapped_town


def words(release: Release, table: str, level: str, code: str, label: str) -> str:
    """A number with its interval as the page has to say it, from the Parquet file and the exact facts."""
    row = release.table(table, level).loc[code]
    low, high = row[label + ":low90"], row[label + ":high90"]
    if release.exact_table(table, level).loc[code, label]:
        return f"{row[label]:,.0f} exact"
    return f"{row[label]:,.0f} " + ("(not known)" if pd.isna(low) else f"({low:,.0f}\N{EN DASH}{high:,.0f})")


def reliability(release: Release, table: str, level: str, code: str, label: str) -> str:
    row = release.table(table, level).loc[code]
    margin: float = max(1.0, row[label + ":moe90"]) if not pd.isna(row[label + ":moe90"]) else np.inf
    if release.exact_table(table, level).loc[code, label] or 10 * margin <= row[label]:
        return "Good for most uses"
    return "Use with care" if 2 * margin <= row[label] else "Do not use on its own"


@pytest.mark.slow
def test_card_and_table_say_what_the_file_says(shown: Opened, release: Release) -> None:
    names = [one.name for one in reader_of(release).universe.tables]
    for table, level in (("detail", "tract"), ("detail", "block"), ("sex", "tract")):
        shown.page.select_option("#table", str(names.index(table)))
        shown.wait("select_option", "#level", str(release.levels.index(level)))
        stored = release.table(table, level)
        labels = [name for name in stored.columns if not name.endswith((":moe90", ":low90", ":high90"))]
        rows = shown.page.evaluate(
            "[...document.querySelectorAll('#counts-body tr')]"
            ".map(row => [...row.children].map(one => one.textContent))"
        )
        assert len(rows) == min(25, len(stored))
        for code, total, *cells in rows:
            expected = [words(release, table, level, code, label) for label in labels]
            assert total == words(release, "total", level, code, "total")
            assert [re.sub(" [●◐○] ", " ", cell) for cell in cells] == expected
        shown.wait("click", "#counts-body tr:first-child button")
        card = shown.page.locator("#area tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.children].map(one => one.textContent))"
        )
        said = [(value, *margin.partition(" rank ")) for _, value, margin, _ in card]
        assert [f"{value} {margin}" for value, margin, *_ in said] == [
            words(release, table, level, rows[0][0], label) for label in labels
        ]
        query = next(one.query.name for one in reader_of(release).universe.tables if one.name == table)
        ranks = release.query(query).ranks_at(level).loc[[rows[0][0]]].to_numpy().reshape(len(labels), 3).tolist()
        for one, (rank, low, high) in zip(said, ranks, strict=True):
            wanted = f"{rank}" if low == high else f"{rank} ({low}\N{EN DASH}{high})"
            # Where no measurement determines a number, it may have any rank.
            assert one[3] == wanted or (one[3] in ("(not known)", "") and [low, high] == [1, len(stored)])
        assert [kind[2:] for *_, kind in card] == [
            reliability(release, table, level, rows[0][0], label) for label in labels
        ]


@pytest.mark.slow
def test_no_page_shows_what_a_script_does_not_have(browser: Any, release: Release, tmp_path: Path) -> None:
    """All tables, levels and measures of the report, the agency's page beside it, and a comparison."""
    shown = opened(browser, release.report)
    options = "[...document.querySelectorAll('#%s option')].map(one => one.value)"
    for table in shown.page.evaluate(options % "table"):
        shown.page.select_option("#table", table)
        shown.page.wait_for_timeout(50)
        for level in shown.page.evaluate(options % "level"):
            shown.page.select_option("#level", level)
            shown.page.wait_for_timeout(50)
            for measure in shown.page.evaluate(options % "measure"):
                shown.page.select_option("#measure", measure)
                shown.page.wait_for_timeout(50)
                assert not _MISSING.findall(shown.page.locator("body").inner_text()), (table, level, measure)
                legend = shown.page.locator("#legend li").all_text_contents()
                ends = [re.findall(r"[\d.,]+", line) for line in legend if " to " in line and " less " not in line]
                assert all(len(set(pair)) == 2 for pair in ends)
                assert all(one[1] != two[0] for one, two in itertools.pairwise(ends)), legend
    assert shown.complaints == []
    compared, root = tmp_path / "compared.html", release.directory
    printed("compare", root, root, "--html", compared)
    for other in (RunDirectory(root).accuracy_page, compared):
        text = opened(browser, other, ready=False).page.locator("body").inner_text()
        assert text.strip()
        assert not _MISSING.findall(text)


def square(north: int) -> float:
    """Square kilometres of a square of a degree whose southern side is so many degrees north: its exact area."""
    south, top = (math.radians(one) for one in (north, north + 1))
    return 6371.0072**2 * math.radians(1) * (math.sin(top) - math.sin(south))


def test_a_map_begins_with_what_does_not_grow_with_its_areas(shown: Opened, release: Release) -> None:
    """Density of one number, shares of several; densities are those of the exact areas of the squares."""
    assert shown.page.input_value("#measure") == "density"
    assert shown.page.locator("#picture-title").text_content() == "People per km², by tract"
    found = shown.page.evaluate(
        "[...document.querySelectorAll('#picture .mark-shape path')].map(one => one.__data__.datum)"
        ".map(one => [one.row, one.value])"
    )
    counts = release.table("total", "tract")["total"].to_numpy()
    densities = dict(found)
    assert set(densities) == set(range(6))
    for row, value in densities.items():
        assert value == pytest.approx(counts[row] / square(row // 3), rel=1e-3)
    names = [one.name for one in reader_of(release).universe.tables]
    shown.wait("select_option", "#table", str(names.index("quarters")))
    assert shown.page.input_value("#measure") == "share"
    shown.wait("select_option", "#level", "2")  # blocks have no map
    assert shown.page.input_value("#measure") == "count"


def compared(shown: Opened) -> list[str]:
    return list(shown.page.locator("#compare-body tr:not(.sum-row) th").all_text_contents())
