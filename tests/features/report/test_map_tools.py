"""Map of the report: what it begins with, square kilometres, zoom, names, and areas chosen on it with their sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from releases.browser import Opened

from pipeline.reading.release import Release, reader_of


@pytest.fixture
def release(mapped_town: Release) -> Release:
    return mapped_town


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


def lasso(shown: Opened, corners: list[tuple[float, float]]) -> None:
    """Draw a line around a part of the map; corners are parts of its width and height."""
    shown.page.locator("#picture svg").scroll_into_view_if_needed()
    place = shown.page.locator("#picture svg").bounding_box()
    points = [(place["x"] + x * place["width"], place["y"] + y * place["height"]) for x, y in corners]
    before = shown.page.evaluate("document.documentElement.dataset.ready")
    shown.page.mouse.move(*points[0])
    shown.page.mouse.down()
    for point in points[1:]:
        shown.page.mouse.move(*point, steps=5)
    shown.page.mouse.up()
    shown.page.wait_for_selector(f'html:not([data-ready="{before}"])')


@pytest.mark.slow
def test_areas_chosen_on_the_map_have_their_sum_with_its_interval(shown: Opened, release: Release) -> None:
    """A line around the upper three squares, then a click puts another in and takes it out; the sum is the reader's."""
    shown.page.click("#several")
    lasso(shown, [(0.02, 0.05), (0.98, 0.05), (0.98, 0.45), (0.02, 0.45)])
    codes = release.table("total", "tract").index.tolist()
    assert [one.rpartition(" ")[2] for one in compared(shown)] == codes[3:]
    says_the_readers(shown, release, codes[3:])
    place = shown.page.locator("#picture svg").bounding_box()
    shown.wait("click", "#picture .mark-shape path >> nth=0")
    assert len(compared(shown)) == 4
    row = next(code for code in codes[:3] if code in " ".join(compared(shown)))
    says_the_readers(shown, release, [*codes[3:], row])
    shown.wait("click", f"[data-key=row-{codes.index(row)}]")  # from the table, as by keyboard
    assert [one.rpartition(" ")[2] for one in compared(shown)] == codes[3:]
    assert place["width"] > 200


def compared(shown: Opened) -> list[str]:
    return list(shown.page.locator("#compare-body tr:not(.sum-row) th").all_text_contents())


def says_the_readers(shown: Opened, release: Release, codes: list[str]) -> None:
    """The sum in words: of whole areas the published interval, else around the sum with the reader's half width."""
    said = shown.page.locator("#compare-sum").text_content()
    inside = np.zeros(reader_of(release).spine.n_leaves, dtype=bool)
    leaves = reader_of(release).spine.levels[-1].geocodes
    inside[[str(code)[:3] in codes for code in leaves]] = True
    query = release.query("total")
    total = int(release.table("total", "tract").loc[codes, "total"].sum())
    if reader_of(release).geounit_of(inside) is not None:
        over = query.over({"x": codes})
        (low,), (high,) = over["total:low90"].astype(int).tolist(), over["total:high90"].astype(int).tolist()
    else:
        (half,) = reader_of(release).half_widths.of_area(inside, query.query.groups)
        low, high = total - round(half), total + round(half)
    interval = "exact" if low == high else f"90 % interval: {low:,} to {high:,}"
    assert said == f"These {len(codes)} areas together: total, {total:,} ({interval})."
