"""Geographies, names, facilities and polygons are read as they are, or refused with the file and the place."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from releases.small import write_town

from geography.spine import Spine
from pipeline.errors import InputError, SpineError
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.inputs.names import read_names
from pipeline.inputs.polygons import (
    Area,
    PolygonSource,
    read_areas,
)
from pipeline.model.area_names import AreaNames
from pipeline.model.universe import Bound
from pipeline.spec.release_spec import load_spec
from pipeline.spec.sections import GeographySection


@pytest.fixture
def town_files(tmp_path: Path) -> tuple[Bound, Spine]:
    spec = load_spec(write_town(tmp_path))
    return spec.universes()[0].bounds[0], read_spine(spec.geography)


def test_facilities_are_read_in_the_order_of_the_spine(town_files: tuple[Bound, Spine]) -> None:
    bound, spine = town_files
    found = read_facilities(bound, spine)
    frame = pd.read_csv(bound.file).sort_values("block")
    assert np.array_equal(found, frame[["dorms", "prisons"]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("A0101", "X0101", 1), "a geocode that is not a leaf of the spine in 1 row"),
        (lambda text: "\n".join(text.splitlines()[:-1]), "1 geounits of level 'block' have no row: "),
        (lambda text: text + text.splitlines()[-1] + "\n", "1 geounits of level 'block' have several rows: "),
        (lambda text: text.replace(",0", ",-2", 1), "a negative count in 1 row"),
        (lambda text: text.replace("dorms", "halls", 1), "no column 'dorms'"),
    ],
)
def test_a_wrong_file_of_facilities_is_refused(town_files: tuple[Bound, Spine], change, message: str) -> None:  # type: ignore[no-untyped-def]
    bound, spine = town_files
    bound.file.write_text(change(bound.file.read_text()))
    with pytest.raises(InputError, match=message) as error:
        read_facilities(bound, spine)
    assert "facilities.csv" in str(error.value)


def test_bounds_may_be_on_a_level_above_the_leaves(town_files: tuple[Bound, Spine], tmp_path: Path) -> None:
    bound, spine = town_files
    path = tmp_path / "tracts.parquet"
    tracts = spine.levels[1].geocodes
    pd.DataFrame({"tract": tracts[::-1], "dorms": np.arange(len(tracts)), "prisons": 1}).to_parquet(path)
    found = read_facilities(replace(bound, level="tract", file=path, geocode="tract"), spine)
    assert found[:, 0].tolist() == list(range(len(tracts)))[::-1]


@pytest.mark.parametrize(("upper", "allowed"), [(10**9, True), (10**10, False)])
def test_so_many_persons_are_refused_that_their_sums_could_wrap(
    town_files: tuple[Bound, Spine], upper: int, allowed: bool
) -> None:
    """A million facilities of as many persons each: 10^15 in all are allowed."""
    bound, spine = town_files
    frame = pd.read_csv(bound.file)
    frame[["dorms", "prisons"]] = 0
    frame.loc[0, "dorms"] = 10**6
    frame.to_csv(bound.file, index=False)
    large = replace(bound, upper=upper)
    if allowed:
        assert read_facilities(large, spine).sum() == 10**6
        return
    with pytest.raises(InputError, match=r"upper: found 10,000,000,000 persons .*, 10,000,000,000,000,000 in all"):
        read_facilities(large, spine)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_three_forms_of_a_geography_give_the_same_spine(tmp_path: Path, suffix: str) -> None:
    blocks = ["A0101", "A0102", "A0201", "B0101"]

    def spine(content: dict[str, list[str]], **section: object) -> Spine:
        path = tmp_path / f"geography{suffix}"
        frame = pd.DataFrame(content)
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
        return read_spine(GeographySection.model_validate({"file": str(path), **section}))

    prefixes = spine({"block": blocks[::-1]}, column="block", levels={"county": 1, "tract": 3, "block": 5})
    table = spine(
        {"block": blocks, "tract": [b[:3] for b in blocks], "county": [b[0] for b in blocks]},
        levels=["county", "tract", "block"],
    )
    children = [*"AB", "A01", "A02", "B01", *blocks]
    parents = ["", "", "A", "A", "B", *(b[:3] for b in blocks)]
    pairs = spine({"of": parents, "code": children}, column="code", parent="of", levels=["county", "tract", "block"])
    assert prefixes.fingerprint() == table.fingerprint() == pairs.fingerprint()


def test_a_leaf_may_have_several_rows_where_the_spec_says_so(tmp_path: Path) -> None:
    (tmp_path / "zones.csv").write_text("county,zone\n1,a\n1,b\n1,a\n2,c\n", encoding="utf-8")
    section = {"file": tmp_path / "zones.csv", "levels": ["county", "zone"]}
    with pytest.raises(SpineError, match="given twice"):
        read_spine(GeographySection.model_validate(section))
    spine = read_spine(GeographySection.model_validate({**section, "repeated": True}))
    assert spine.leaf_level.geocodes.tolist() == ["a", "b", "c"]
    (tmp_path / "zones.csv").write_text("county,zone\n1,a\n2,a\n", encoding="utf-8")
    with pytest.raises(SpineError, match="a under 1 and 2"):
        read_spine(GeographySection.model_validate({**section, "repeated": True}))
    with pytest.raises(ValidationError, match="only for a list of levels"):
        GeographySection.model_validate(
            {"file": tmp_path / "zones.csv", "column": "zone", "levels": {"zone": 1}, "repeated": True}
        )


def test_names_in_a_table_of_levels_and_of_pairs(tmp_path: Path) -> None:
    def names(text: str, **section: object) -> tuple[Spine, AreaNames]:
        (tmp_path / "areas.csv").write_text(text)
        geography = GeographySection.model_validate({"file": str(tmp_path / "areas.csv"), **section})
        spine = read_spine(geography)
        return spine, read_names(geography, spine)

    # Tract 2 has no blocks of its own: its branch is padded, and its name is that of the area below, too.
    text = "county,tract,block,called\n1,1,7,One\n1,2,,Two\n"
    spine, found = names(text, levels=["county", "tract", "block"], names={"tract": "called", "block": "called"})
    assert spine.level("block").geocodes.tolist() == ["7", "2"]
    assert found["block"].in_language() == found["tract"].in_language() == ["One", "Two"]
    pairs = "child,parent,called\n1,,Top\n11,1,Left\n12,1,Right\n"
    section = {"levels": ["county", "block"], "column": "child", "parent": "parent"}
    _, found = names(pairs, **section, names={"county": "called", "block": "called"})
    assert [found[level].in_language() for level in ("county", "block")] == [["Top"], ["Left", "Right"]]


# Polygons of every format become the same areas

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
