"""`sw.plot` draws the numbers of a table with their intervals, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from releases.once import release_once, spec_once
from releases.surveyed import write_surveyed

import spinewise as sw
from pipeline.reading.release import reader_of

pytest.importorskip("altair", reason="without altair")


@pytest.fixture(scope="module")
def with_polygons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with names and polygons."""
    return release_once(tmp_path_factory, "surveyed", spec_once(tmp_path_factory, "surveyed", write_surveyed))


def drawn(chart: Any) -> list[dict[str, Any]]:
    """The rows of a chart, as its JSON has them."""
    content = chart.to_dict()
    data = content.get("data") or content["layer"][0]["data"]
    return list(content["datasets"][data["name"]] if "name" in data else data["values"])


@pytest.mark.parametrize(("table", "number"), [("total", None), ("sex", None), ("detail", "adult * f * house")])
def test_bars_have_the_numbers_and_their_intervals(town: Path, table: str, number: str | None) -> None:
    release = sw.open_release(town)
    wide = release.table(table, level="tract")
    columns = [name for name in wide.columns if ":" not in name]
    number = number if number in columns else (columns[0] if number else None)
    chart = sw.plot(release, table, "tract", number=number, kind="bars")
    rows = drawn(chart)
    chosen = columns if number is None else [number]
    assert {(row["geocode"], row["number"]) for row in rows} == {(c, n) for c in wide.index for n in chosen}
    assert len(rows) == len(wide) * len(chosen)
    for row in rows:
        found = wide.loc[row["geocode"]]
        assert row["value"] == found[row["number"]]
        assert (row["low"], row["high"]) == (found[f"{row['number']}:low90"], found[f"{row['number']}:high90"])
    bars, intervals = (layer["encoding"] for layer in chart.to_dict()["layer"])
    assert (bars["x"]["field"], intervals["x"]["field"], intervals["x2"]["field"]) == ("value", "low", "high")
    assert "NOT FOR RELEASE" in json.dumps(chart.to_dict()["title"])


def test_a_map_shows_one_number_of_each_area(with_polygons: Path) -> None:
    release = sw.open_release(with_polygons)
    level = next(level for level in release.levels if reader_of(release).run.polygons(level).is_file())
    total = release.table("total", level=level)
    chart = sw.plot(with_polygons, "total", level)
    shapes = drawn(chart)
    assert chart.to_dict()["mark"]["type"] == "geoshape"
    missing = set(total.index) - {shape["geocode"] for shape in shapes}
    assert missing == {"B03"}, "which has no polygon"
    assert len(shapes) == len(total) - 1
    for shape in shapes:
        assert shape["value"] == total.loc[shape["geocode"], "total"]
        assert shape["low"] <= shape["value"] <= shape["high"]
        assert shape["geometry"]["coordinates"]
    assert sw.plot(release, "total", level, kind="bars").to_dict()["layer"]
