"""A database of all tables and files for maps, each opened by a library that knows nothing of this program."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import duckdb
import geopandas
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.surveyed import NAMES

from features.exports.release import export_release
from features.exports.rows import check_columns
from pipeline.errors import InputError
from pipeline.metadata.contents import Column, DataFile
from pipeline.published import PublishedRelease, open_finished
from pipeline.release.layout import RunDirectory


@pytest.fixture(scope="module")
def release(surveyed: Path) -> PublishedRelease:
    return open_finished(surveyed, check_hashes=True)


@pytest.fixture(scope="module")
def database(release: PublishedRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_release(release, "duckdb", tmp_path_factory.mktemp("duckdb") / "out") / "homes.duckdb"


def test_the_database_explains_itself(database: Path) -> None:
    with duckdb.connect(str(database), read_only=True) as opened:
        titles = opened.sql(
            "select title from release_columns where \"table\" = 'detailed' and \"column\" = 'old * quarters'"
        )
        assert titles.fetchall() == [("65 and over * quarters",)]
        assert ("licence", "CC-BY-4.0") in opened.sql("select * from release_about").fetchall()
        above = opened.sql("select geocode, above from release_areas where level = 'tract'").fetchall()
        assert all(code.startswith(county) and county for code, county in above)
        whole = opened.sql("select sum(total) from total group by level").fetchall()
        assert len(whole) == 3
        assert len(set(whole)) == 1
        joined = opened.sql(
            "select a.name from residence_block b join release_areas c using (geocode) "
            "join release_areas a on a.geocode = c.above and a.level = 'tract' where b.geocode = 'A0101'"
        )
        assert joined.fetchall() == [("Río Arriba",)]


def test_a_geopackage_has_a_layer_for_each_table_with_polygons(
    release: PublishedRelease, surveyed: Path, tmp_path: Path
) -> None:
    one = export_release(release, "gpkg", tmp_path / "one") / "homes.gpkg"
    layers = geopandas.list_layers(one)["name"].tolist()
    assert set(layers) >= {"total_tract", "detailed_tract", "homes_size_tract", "household_sizes_homes_tract"}
    assert not any(layer.endswith(("_block", "_county")) for layer in layers)
    found = geopandas.read_file(one, layer="detailed_tract").set_index("geocode")
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("detailed", "tract")).set_index("geocode")
    pd.testing.assert_frame_equal(pd.DataFrame(found[list(stored)]), stored, check_dtype=False)
    assert found["name"].to_dict() == NAMES
    assert found.crs.to_epsg() == 4326
    assert found.loc["B03", "geometry"] is None
    west, south, east, north = found.loc["A02", "geometry"].bounds
    assert (west, south, east, north) == pytest.approx((10.01, 50.0, 10.02, 50.01), abs=1e-4)
    two = export_release(release, "gpkg", tmp_path / "two") / "homes.gpkg"
    assert one.read_bytes() == two.read_bytes()


def test_geoparquet_is_read_with_its_polygons(release: PublishedRelease, surveyed: Path, tmp_path: Path) -> None:
    out = export_release(release, "geoparquet", tmp_path / "out", tables=["detailed", "age_by_size"])
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.parquet")) == [
        "companions/homes/detailed/tract.parquet",
        "detailed/tract.parquet",
        "household_tables/age_by_size/tract.parquet",
    ]
    path = out / "detailed" / "tract.parquet"
    found = geopandas.read_parquet(path)
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("detailed", "tract"))
    assert found["adult * household"].tolist() == stored["adult * household"].tolist()
    bounds = found.geometry.iloc[:5].bounds
    assert (bounds["maxx"] - bounds["minx"]).to_numpy() == pytest.approx(np.full(5, 1e-2), rel=1e-2)
    header = json.loads(pq.read_schema(path).metadata[b"geo"])
    assert (header["version"], header["primary_column"]) == ("1.0.0", "geometry")


def test_what_is_missing_is_said(release: PublishedRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no level that was chosen has polygons; those that have: tract"):
        export_release(release, "gpkg", tmp_path / "x", levels=["block"])
    for layout, package, extra in (("duckdb", "duckdb", "duckdb>=1"), ("geoparquet", "geopandas", "geopandas>=1")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(InputError, match=f'pip install "{extra}'):
            export_release(release, layout, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_columns_that_a_database_does_not_tell_apart_are_refused(tmp_path: Path) -> None:
    """DuckDB would call the second one A_1, without a word."""
    columns = (Column("geocode", "string", "Code"), Column("a", "integer", "a"), Column("A", "integer", "A"))
    file = DataFile("t/block", "table", tmp_path, "", "t", "block", "T", "T", columns)
    with pytest.raises(InputError, match="'t' at level 'block' has answers that differ in capital letters only"):
        check_columns("duckdb", file)
    check_columns("duckdb", dataclasses.replace(file, columns=columns[:2]))
    with pytest.raises(InputError, match="has 2 columns, of at most 1"):
        check_columns("gpkg", dataclasses.replace(file, columns=columns[:2]), 1)
