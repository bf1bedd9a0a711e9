"""Tables together with the polygons of their areas: a GeoPackage, or GeoParquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from features.exports.database import table_name
from features.exports.plain_files import describe, titles_of
from features.exports.rows import FileRows, check_columns, required
from features.exports.words import facts
from pipeline.errors import InputError
from pipeline.inputs.polygons import read_public_areas
from pipeline.metadata.contents import Column, DataFile
from pipeline.model.texts.catalogue import texts_in
from pipeline.published import PublishedRelease
from pipeline.storage.paths import local_name
from pipeline.storage.plain_tables import with_titles, without_nan

#: Longitude and latitude in degrees, as polygons of a release are.
_SYSTEM = "EPSG:4326"
#: Of a layer: SQLite's limit without columns for the row's number, the name and the polygon.
_MOST_COLUMNS = 1_997
#: In place of the time of writing, so that the same release gives the same bytes.
_MOMENT = "1980-01-01T00:00:00.000Z"


def write_geopackage(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write `NAME.gpkg` with a layer TABLE_LEVEL for each table at each level that has polygons.

    Raises:
        InputError: geopandas is not installed, or no level that was chosen has polygons.
    """
    geopandas = required("gpkg", "geopandas", "geopandas", "pyogrio")
    import pyogrio

    target = folder / f"{release.spec.name}.gpkg"
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": _MOMENT})
    try:
        for file, frame in _frames(release, files, geopandas, "gpkg"):
            check_columns("gpkg", file, _MOST_COLUMNS)
            layer = f"{table_name(file)}_{file.level}"
            stated = {"DESCRIPTION": file.title} | {key.upper(): text for key, text in facts(release).items()}
            frame.to_file(local_name(target), layer=layer, driver="GPKG", engine="pyogrio", metadata=stated)
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})


def write_geoparquet(release: PublishedRelease, folder: Path, files: Sequence[DataFile]) -> None:
    """Write `TABLE/LEVEL.parquet` with the column geometry (GeoParquet 1.0) for each table and level with polygons.

    Columns have their titles in the metadata of fields, and in datapackage.json.

    Raises:
        InputError: as `write_geopackage`.
    """
    geopandas = required("geoparquet", "geopandas", "geopandas", "pyogrio")
    texts, written, rows = texts_in(release.spec.report.language), [], FileRows(release)
    for file, frame in _frames(release, files, geopandas, "geoparquet"):
        target = folder / f"{file.path}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        frame.to_parquet(local_name(target), index=False, compression="zstd", schema_version="1.0.0")
        polygon = Column(frame.geometry.name, "any", texts("Polygon of the area"), filled=False)
        described = rows.described(file)
        described = replace(described, columns=(*described.columns, polygon))
        table = pq.read_table(local_name(target))
        schema = with_titles(table.schema, titles_of(described))
        stated = {key.encode(): text.encode() for key, text in facts(release).items()}
        schema = schema.with_metadata({**(schema.metadata or {}), **stated})
        pq.write_table(table.cast(schema), local_name(target), compression="zstd")
        written.append(described)
    describe(release, folder, written, "parquet")


def _frames(
    release: PublishedRelease, files: Sequence[DataFile], geopandas: Any, layout: str
) -> Iterator[tuple[DataFile, Any]]:
    """Each file whose level has polygons, as a frame; an area without a polygon has an empty geometry."""
    with_polygons = [file for file in files if file.level in release.spec.report.polygons]
    if not with_polygons:
        known = ", ".join(release.spec.report.polygons) or "none"
        raise InputError(f"--format {layout}: no level that was chosen has polygons; those that have: {known}")
    rows = FileRows(release)
    shapes = {level: _shapes(release, level, geopandas) for level in {file.level for file in with_polygons}}
    for file in (file if file.wide is None else file.wide() for file in with_polygons):
        table = without_nan(pa.concat_tables(rows.parts(file)))
        codes = table.column("geocode").to_pylist()
        taken = {name.casefold() for name in table.column_names}
        column = "geometry" if "geometry" not in taken else "geometry of the area"
        frame = table.to_pandas()
        frame[column] = geopandas.GeoSeries([shapes[file.level].get(code) for code in codes], crs=_SYSTEM)
        yield file, geopandas.GeoDataFrame(frame, geometry=column, crs=_SYSTEM)


def _shapes(release: PublishedRelease, level: str, geopandas: Any) -> dict[str, Any]:
    """Geocode -> polygon, for the areas of a level that have one."""
    areas = read_public_areas(release.unchanged(release.run.polygons(level)))
    features = [
        {
            "properties": {},
            "geometry": {
                "type": "MultiPolygon",
                "coordinates": [[ring.tolist() for ring in polygon] for polygon in area.polygons],
            },
        }
        for area in areas
    ]
    shapes = geopandas.GeoDataFrame.from_features(features).geometry.tolist()
    return dict(zip((area.geocode for area in areas), shapes, strict=True))
