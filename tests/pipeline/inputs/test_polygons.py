"""Polygons of every format become the same areas; shared borders stay shared; what does not fit is told."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import InputError, ReleaseError
from pipeline.inputs.polygons import (
    Area,
    PolygonSource,
    flattening,
    on_grid,
    read_areas,
    read_public_areas,
    write_areas,
)
from pipeline.storage.readable import unchecked

CODES = np.array(["01", "02", "03"])


def square(x: float, y: float, side: float = 1.0) -> list[list[float]]:
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]


def collection(*features: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "FeatureCollection",
        "features": [
            {"type": "Feature", "properties": {"code": code, "label": f"Area {code}"}, "geometry": geometry}
            for code, geometry in features
        ],
    }


def polygon(*rings: list[list[float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


TWO = collection(("02", polygon(square(1, 0))), ("01", polygon(square(0, 0), square(0.25, 0.25, 0.5))), ("99", None))


def source(path: Path, code: str = "code", name: str | None = "label") -> PolygonSource:
    return PolygonSource("report.polygons.tract", path, code, name)


def geojson(folder: Path, content: object, name: str = "areas.geojson") -> Path:
    path = folder / name
    data = json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def shown(areas: list[Area]) -> list[tuple[str, str, list[list[list[list[float]]]]]]:
    return [(a.geocode, a.name, [[ring.tolist() for ring in polygon] for polygon in a.polygons]) for a in areas]


def test_areas_come_in_the_order_of_the_level_with_names_and_holes(tmp_path: Path) -> None:
    first, second = read_areas(source(geojson(tmp_path, TWO)), CODES)
    assert (first.geocode, first.name, second.geocode) == ("01", "Area 01", "02")
    assert [len(polygon) for polygon in first.polygons] == [2]
    assert sorted(map(tuple, second.polygons[0][0][:-1].tolist())) == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_every_format_gives_the_same_areas(tmp_path: Path) -> None:
    geopandas = pytest.importorskip("geopandas", reason="the extra maps is not installed")
    expected = shown(read_areas(source(geojson(tmp_path, TWO)), CODES))
    assert shown(read_areas(source(geojson(tmp_path, TWO, "areas.geojson.gz")), CODES)) == expected
    frame = geopandas.GeoDataFrame.from_features(TWO["features"], crs=4326)
    frame.to_parquet(tmp_path / "areas.parquet")
    frame.to_file(tmp_path / "areas.gpkg", driver="GPKG")
    for name in ("areas.parquet", "areas.gpkg"):
        assert shown(read_areas(source(tmp_path / name), CODES)) == expected, name
    frame.to_crs(3857).to_parquet(tmp_path / "projected.parquet")
    projected = read_areas(source(tmp_path / "projected.parquet"), CODES)
    for one, (_, _, polygons) in zip(projected, expected, strict=True):
        assert np.allclose(one.polygons[0][0], polygons[0][0], atol=1e-5)


def test_shared_borders_stay_shared_and_straight_lines_are_short() -> None:
    rng = np.random.default_rng(1)
    border = np.stack([rng.uniform(0.9, 1.1, 500), np.linspace(0, 1, 500)], axis=1)
    left = np.concatenate([border, [[0, 1], [0, 0.5], [0, 0]], border[:1]])
    right = np.concatenate([border[::-1], [[2, 0], [2, 1]], border[-1:]])
    areas = on_grid([Area("01", "", ((left,),)), Area("02", "", ((right,),))])
    first, second = ({tuple(point) for point in area.polygons[0][0].tolist()} for area in areas)
    inner = {point for point in first if 0.5 < point[0] < 1.5}
    assert inner == {point for point in second if 0.5 < point[0] < 1.5}
    assert len(inner) > 400
    assert (0.0, 0.5) not in first  # on a straight line


def test_what_is_too_small_for_the_grid_is_left_out() -> None:
    large, tiny = np.array(square(0, 0, 10.0)), np.array(square(3, 3, 1e-5))
    (area,) = on_grid([Area("01", "", ((large, tiny), (tiny,)))])
    assert [len(polygon) for polygon in area.polygons] == [1]


def test_files_come_back_as_they_were_written(tmp_path: Path) -> None:
    areas = read_areas(source(geojson(tmp_path, TWO)), CODES)
    target = tmp_path / "public.geojson"
    write_areas(target, tmp_path, areas)
    again = read_public_areas(unchecked(target))
    assert shown(again) == shown(areas)
    write_areas(tmp_path / "again.geojson", tmp_path, again)
    assert (tmp_path / "again.geojson").read_bytes() == target.read_bytes()
    assert flattening(areas) == 1.0
    target.write_text("{}")
    with pytest.raises(ReleaseError, match="is damaged"):
        read_public_areas(unchecked(target))


@pytest.mark.parametrize(
    ("content", "code", "told"),
    [
        ({"type": "Feature"}, "code", "is not GeoJSON: a FeatureCollection is needed"),
        (TWO, "geoid", r"feature 1 has no property 'geoid'; it has 'code', 'label'"),
        (collection(("7", polygon(square(0, 0)))), "code", r"none of the level's 3 areas; its 'code' are like '7'"),
        (collection(*[("01", polygon(square(0, 0)))] * 2), "code", "has the area '01' twice"),
        (collection(("01", {"type": "Point", "coordinates": [0, 0]})), "code", "area '01' is a Point; polygons"),
        (collection(("01", polygon(square(500_000, 0)))), "code", r"longitude and latitude in degrees \(EPSG:4326\)"),
        (collection(("01", polygon([["a"]]))), "code", "area '01' has coordinates that are no rings"),  # type: ignore[list-item]
    ],
)
def test_what_does_not_fit_is_told(tmp_path: Path, content: object, code: str, told: str) -> None:
    path = geojson(tmp_path, content)
    with pytest.raises(InputError, match=told) as error:
        read_areas(source(path, code), CODES)
    assert str(error.value).startswith("report.polygons.tract")
    assert str(path) in str(error.value)


def test_a_small_file_with_gigabytes_in_it_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed spaces before the brackets; and what an honest file of the same size is let through by."""
    monkeypatch.setattr("pipeline.inputs.polygons._UNZIPPED_BYTES", 1 << 16)
    source = PolygonSource("report.polygons.county", tmp_path / "a.geojson.gz", "code", None)
    geometry = {"type": "Polygon", "coordinates": [[[0, 0], [0, 1], [1, 1], [0, 0]]]}
    feature = {"type": "Feature", "properties": {"code": "a"}, "geometry": geometry}
    content = json.dumps({"type": "FeatureCollection", "features": [feature]}).encode()
    source.file.write_bytes(gzip.compress(content))
    assert [area.geocode for area in read_areas(source, np.array(["a"]))] == ["a"]
    source.file.write_bytes(gzip.compress(b" " * (1 << 24) + content))
    assert source.file.stat().st_size < 20_000
    with pytest.raises(InputError, match=r"are in it, which only a file that was made to do harm has; it is not read"):
        read_areas(source, np.array(["a"]))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("none.geojson", "none.geojson cannot be read: No such file"),
        ("text.geojson", "text.geojson is not what its name says"),
        ("text.geojson.gz", "text.geojson.gz is not what its name says"),
        ("text.gpkg", r"polygons other than GeoJSON \(.geojson, .geojson.gz\) need geopandas"),
    ],
)
def test_files_that_cannot_be_read_are_told(
    tmp_path: Path, name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "geopandas", None)
    if not name.startswith("none"):
        content = gzip.compress(b"{")[:-4] if name.endswith("gz") else b"{"
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=told):
        read_areas(source(tmp_path / name), CODES)
