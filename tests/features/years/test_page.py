"""The page of a revision in a real browser: its numbers are those of the tables, and everybody can read it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.browser import Opened, opened
from releases.policy import runs_its_own_scripts_alone
from releases.series_town import YEARS, MadeSeries

from features.years.revision import DIRECTION_SUFFIX, revised, series_at
from features.years.vintage import PAGE, write_revision

#: As signs and numbers are shown.
_MINUS, _TO = "\N{MINUS SIGN}", "\N{EN DASH}"


@pytest.fixture(scope="module")
def revision(town_series: MadeSeries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_revision(revised(series_at(town_series.out)), tmp_path_factory.mktemp("revision"))


def _number(text: str) -> int:
    return int(text.replace(_MINUS, "-").replace("+", "").replace(",", ""))


def _stored(path: Path, *keys: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The rows of a file of the revision."""
    rows: list[dict[str, Any]] = json.loads(str(pd.read_parquet(path).to_json(orient="records")))
    return {tuple(row[key] for key in keys): row for row in rows}


def _cells(shown: Opened, table: str) -> list[list[str]]:
    """Each row of a table of the page; what stands below a number is a text of its own."""
    script = (
        "(id) => [...document.querySelectorAll(`#${id} tbody tr`)].map(row => [...row.children].flatMap("
        "cell => [...cell.childNodes].map(one => one.textContent)))"
    )
    found: list[list[str]] = shown.page.evaluate(script, table)
    return found


def _choose(shown: Opened, code: str) -> None:
    shown.page.fill("#search", code)
    shown.page.wait_for_selector("#found-0")
    shown.wait("press", "#search", "Enter")


def _compare(shown: Opened, revision: Path, table: str, level: str, code: str, label: str) -> set[str]:
    """Compare what the page says of an area with the files; the verdicts."""
    numbers = _stored(revision / "tables" / table / f"{level}.parquet", "geocode", "period")
    changes = _stored(revision / "changes" / table / f"{level}.parquet", "geocode", "from", "to")
    first, *rest = _cells(shown, "changes")
    for year, cells in zip(YEARS, (first, *rest), strict=True):
        stored = numbers[code, year]
        assert (cells[0], _number(cells[1])) == (year, stored[label])
        assert list(map(_number, cells[2].split(_TO))) == [stored[label + ":low90"], stored[label + ":high90"]]
    said = set()
    for (before, year), cells in zip(pairwise(YEARS), rest, strict=True):
        stored = changes[code, before, year]
        low, high = map(_number, cells[4].split(" to "))
        assert (_number(cells[3]), low, high) == tuple(stored[label + end] for end in ("", ":low90", ":high90"))
        assert cells[5] == stored[label + DIRECTION_SUFFIX]
        said.add(cells[5])
    whole = changes[code, YEARS[0], YEARS[-1]]
    verdict = shown.page.inner_text("#verdict")
    words = {"rose": "the number rose by ", "fell": "the number fell by ", "cannot tell": "It cannot be told whether"}
    assert words[whole[label + DIRECTION_SUFFIX]] in verdict
    signed = [
        f"{value:+}".replace("-", _MINUS) if value else "0"
        for value in (whole[label + ":low90"], whole[label + ":high90"])
    ]
    assert f"(90 % interval: {signed[0]} to {signed[1]})" in verdict
    return said


@pytest.mark.slow
def test_every_number_of_the_page_is_that_of_the_tables(browser: Any, revision: Path) -> None:
    """Every area and answer, the line and its band too; the parent and the areas within are a press away."""
    shown = opened(browser, revision / PAGE)
    said = set()
    spine = pd.read_parquet(revision / "tables" / "total" / "block.parquet")["geocode"].unique()
    areas = {
        "county": sorted({code[:1] for code in spine}),
        "tract": sorted({code[:3] for code in spine}),
        "block": list(spine),
    }
    for level, codes in areas.items():
        for code in codes:
            _choose(shown, code)
            assert code in shown.page.text_content("#area-title")
            shown.wait("select_option", "#table", "0")
            said |= _compare(shown, revision, "total", level, code, "total")
            if level == "block":
                assert shown.page.locator("#table option").count() == 1
                continue
            for number, sex in enumerate(("f", "m")):
                shown.wait("select_option", "#table", "1")
                shown.wait("select_option", "#cell", str(number))
                said |= _compare(shown, revision, "sex", level, code, sex)
    assert len(said) > 1, "the town has areas of which nothing can be told, and others"
    _choose(shown, "A")
    inside = _cells(shown, "inside")
    changes = _stored(revision / "changes" / "total" / "tract.parquet", "geocode", "from", "to")
    for row in inside:
        stored = changes[row[0], YEARS[0], YEARS[-1]]
        assert (_number(row[3]), row[5]) == (stored["total"], stored["total" + DIRECTION_SUFFIX])
    shown.wait("click", "#inside tbody tr:nth-child(2) button")
    assert "A02" in shown.page.text_content("#area-title")
    assert shown.page.evaluate("document.activeElement.id") == "area-title"
    shown.wait("click", "#above button")
    assert shown.page.text_content("#area-title").endswith(" A")
    assert shown.complaints == []
    assert shown.requests == []
    shown.page.context.close()


@pytest.mark.slow
def test_everybody_can_read_it(browser: Any, revision: Path) -> None:
    """No rule of axe-core is broken, nothing is wider than a telephone, and paper has the table and no controls."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    for width, dark in ((390, False), (1280, True)):
        shown = opened(browser, revision / PAGE, width=width, dark=dark)
        _choose(shown, "B")
        found = axe.Axe().run(shown.page).response["violations"]
        assert [f"{one['id']}: {[node['target'] for node in one['nodes']]}" for one in found] == []
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
        shown.page.emulate_media(media="print")
        assert not shown.page.locator("#search").is_visible()
        for kept in ("#line", "#changes", "#verdict", "#area-title"):
            assert shown.page.locator(kept).is_visible()
        assert shown.complaints == []
        shown.page.context.close()


def test_what_is_put_into_the_page_does_not_run(revision: Path, browser: Any, tmp_path: Path) -> None:
    runs_its_own_scripts_alone(browser, revision / PAGE, tmp_path)
