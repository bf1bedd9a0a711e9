"""The numbers that the report's pictures, cards and tables show are those of the files; no page says NaN."""

from __future__ import annotations

import itertools
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


@pytest.mark.parametrize(("table", "level"), [("total", "tract"), ("quarters", "block")])
def test_tooltips_say_what_the_file_says(shown: Opened, release: Release, table: str, level: str) -> None:
    """With a real mouse, over every area of the map and every dot."""
    names = [one.name for one in reader_of(release).universe.tables]
    if table != "total":
        shown.wait("select_option", "#table", str(names.index(table)))
    number = str(release.levels.index(level))
    if shown.page.input_value("#level") != number:
        shown.wait("select_option", "#level", number)
    label = next(iter(release.table(table, level).columns))
    mark = ".mark-shape path" if level == "tract" else ".mark-symbol path"
    places = shown.page.locator(f"#picture svg {mark}")
    codes = set()
    for place in range(places.count()):
        shown.page.mouse.move(0, 0)
        places.nth(place).hover(force=True)
        shown.page.wait_for_selector("#tip:not([hidden])")
        title, *lines = shown.page.locator("#tip > *").all_text_contents()
        code = title.removeprefix(f"{level} ")
        assert lines[0] == f"{label}: {words(release, table, level, code, label)}"
        assert lines[-1].split(" ", 1)[1] == reliability(release, table, level, code, label)
        codes.add(code)
    assert len(codes) >= (6 if level == "tract" else 10)


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
