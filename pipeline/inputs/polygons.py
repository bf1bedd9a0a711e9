"""Polygons of geounits for the maps of the report: public inputs, drawn on a grid, kept as GeoJSON under public/.

Coordinates are moved to a grid of `GRID` steps across the map. Borders that two areas share stay shared, since equal
points move alike; points that fall together or lie on a straight line are left out. So the file is as small as a map on
a screen needs, and its bytes follow from the input alone.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError, ReleaseError
from pipeline.missing import install_command
from pipeline.storage.files import write_bytes
from pipeline.storage.guard import GuardedFile
from pipeline.storage.paths import Readable, is_file, local_name
from postprocess.arrays import FloatArray

#: Steps of the grid across the longer side of a map.
GRID = 4000
#: Degrees of longitude or latitude in which no coordinate can be: it is of another system.
_MOST_LONGITUDE, _MOST_LATITUDE = 360.0, 90.0
_GEOJSON = (".geojson", ".json", ".geojson.gz", ".json.gz")
_DECIMALS = 6
#: A compressed GeoJSON may hold so many bytes, and so many times its own size.
_UNZIPPED_BYTES, _UNZIPPED_RATIO = 16 << 20, 60

#: A closed line of points `(n, 2)`, longitude and latitude in degrees.
Ring = FloatArray


@dataclass(frozen=True, eq=False)
class Area:
    """The polygons of one geounit: each an outer ring and its holes.

    Attributes:
        name: for people, "" where there is none.
    """

    geocode: str
    name: str
    polygons: tuple[tuple[Ring, ...], ...]


@dataclass(frozen=True)
class PolygonSource:
    """Where a level's polygons come from.

    Attributes:
        key: of the spec, for messages.
        code: the property or column that holds the geocode.
        name: the one with the area's name, or None.
    """

    key: str
    file: Path
    code: str
    name: str | None = None


def read_areas(source: PolygonSource, geocodes: NDArray[np.str_]) -> list[Area]:
    """The areas of `source` that are among `geocodes`, in their order, on the grid.

    Areas without a polygon are left out (an area of water alone has none); other areas of the file are passed over.

    Raises:
        InputError: the file cannot be read, has no such property, not one area of the level, or one of them twice, or
            its coordinates are not degrees.
    """
    place = {code: number for number, code in enumerate(geocodes.tolist())}
    areas: dict[int, Area] = {}
    seen: list[str] = []
    for number, (properties, geometry) in enumerate(_features(source)):
        if source.code not in properties:
            raise InputError(
                f"{source.key}.code: {source.file}: feature {number + 1} has no property {source.code!r}; "
                f"it has {', '.join(map(repr, properties)) or 'none'}"
            )
        code = str(properties[source.code])
        seen.append(code)
        if code not in place or geometry is None:
            continue
        if place[code] in areas:
            raise InputError(f"{source.key}: {source.file} has the area {code!r} twice; one feature an area is allowed")
        name = properties.get(source.name) if source.name else None
        areas[place[code]] = Area(code, "" if name is None else str(name), _polygons(source, code, geometry))
    if not areas:
        raise InputError(
            f"{source.key}: {source.file} has none of the level's {len(place):,} areas; its {source.code!r} are like "
            f"{', '.join(map(repr, seen[:3])) or 'nothing'}, the level's geocodes like "
            f"{', '.join(map(repr, geocodes[:3].tolist()))}"
        )
    return on_grid([areas[number] for number in sorted(areas)])


def _features(source: PolygonSource) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Properties and GeoJSON geometry of each feature of the file."""
    name = source.file.name.lower()
    try:
        if name.endswith(_GEOJSON):
            data = source.file.read_bytes()
            content = json.loads(_unzipped(source, data) if name.endswith(".gz") else data)
            if not isinstance(content, dict) or not isinstance(content.get("features"), list):
                raise InputError(f"{source.key}: {source.file} is not GeoJSON: a FeatureCollection is needed")
            return [(dict(feature.get("properties") or {}), feature.get("geometry")) for feature in content["features"]]
        return _with_geopandas(source)
    except OSError as error:
        raise InputError(f"{source.key}: {source.file} cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, AttributeError) as error:
        raise InputError(f"{source.key}: {source.file} is not what its name says: {str(error)[:200]}") from None


def _unzipped(source: PolygonSource, data: bytes) -> bytes:
    """The content of a gzip file; InputError where it is far more than coordinates can be compressed to."""
    most = _UNZIPPED_BYTES + _UNZIPPED_RATIO * len(data)
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(
            f"{source.key}: {source.file} has {len(data):,} bytes, and more than {most:,} are in it, which only a file "
            "that was made to do harm has; it is not read"
        )
    return content


def _with_geopandas(source: PolygonSource) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """The features of a GeoPackage, Parquet or other file that geopandas reads, in longitude and latitude."""
    try:
        import geopandas
    except ImportError:
        raise InputError(
            f"{source.key}: {source.file}: polygons other than GeoJSON (.geojson, .geojson.gz) need geopandas; "
            f"install it with {install_command('geopandas', 'pyogrio')}, or convert the file"
        ) from None
    if not is_file(source.file):
        raise InputError(f"{source.key}: {source.file}: no such file")
    try:
        if source.file.suffix == ".parquet":
            with GuardedFile(source.file, own_groups=False) as file:
                file.check_whole()
            frame = geopandas.read_parquet(local_name(source.file))
        else:
            frame = geopandas.read_file(local_name(source.file))
        frame = frame if frame.crs is None else frame.to_crs(4326)
        features = json.loads(frame.to_json(drop_id=True))["features"]
    except Exception as error:  # whatever the libraries below raise is about this file
        raise InputError(
            f"{source.key}: {source.file} cannot be read: {(str(error).splitlines() or ['?'])[0]}"
        ) from None
    return [(feature["properties"], feature["geometry"]) for feature in features]


def _polygons(source: PolygonSource, code: str, geometry: Mapping[str, Any]) -> tuple[tuple[Ring, ...], ...]:
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    if kind not in ("Polygon", "MultiPolygon"):
        raise InputError(f"{source.key}: {source.file}: area {code!r} is a {kind}; polygons are needed")
    try:
        polygons = tuple(
            tuple(np.array(ring, dtype=np.float64)[:, :2] for ring in polygon)
            for polygon in cast("list[Any]", [coordinates] if kind == "Polygon" else coordinates)
        )
    except (TypeError, ValueError, IndexError):
        raise InputError(f"{source.key}: {source.file}: area {code!r} has coordinates that are no rings") from None
    for ring in (ring for polygon in polygons for ring in polygon):
        if not np.isfinite(ring).all() or (np.abs(ring) > (_MOST_LONGITUDE, _MOST_LATITUDE)).any():
            raise InputError(
                f"{source.key}: {source.file}: area {code!r} has the point {ring[0].tolist()}; longitude and latitude "
                "in degrees (EPSG:4326) are needed"
            )
    return polygons


def on_grid(areas: Sequence[Area]) -> list[Area]:
    """The same areas with their points on the grid; rings that fall together on less than a triangle are left out."""
    rings = [ring for area in areas for polygon in area.polygons for ring in polygon]
    if not rings:
        return list(areas)
    points = np.concatenate(rings)
    step = max(float(np.ptp(points, axis=0).max()), 10.0**-_DECIMALS * GRID) / GRID
    return [
        Area(
            area.geocode,
            area.name,
            tuple(kept for polygon in area.polygons if (kept := _polygon_on_grid(polygon, step))),
        )
        for area in areas
    ]


def _polygon_on_grid(polygon: Sequence[Ring], step: float) -> tuple[Ring, ...]:
    outer, *holes = polygon if polygon else (np.zeros((0, 2)),)
    if (kept := _ring_on_grid(outer, step)) is None:
        return ()
    inner = (_ring_on_grid(hole, step) for hole in holes)
    return (kept, *(hole for hole in inner if hole is not None))


def _ring_on_grid(ring: Ring, step: float) -> Ring | None:
    """A closed ring on the grid without repeated points and points on a straight line; None where nothing is left."""
    steps = np.rint(ring / step).astype(np.int64)
    if len(steps) and (steps[0] == steps[-1]).all():
        steps = steps[:-1]
    for _ in range(2):
        if len(steps) < 3:
            return None
        steps = steps[(steps != np.roll(steps, 1, axis=0)).any(axis=1)]
        before, after = steps - np.roll(steps, 1, axis=0), np.roll(steps, -1, axis=0) - steps
        straight = before[:, 0] * after[:, 1] == before[:, 1] * after[:, 0]
        steps = steps[~straight]
    if len(steps) < 3:
        return None
    closed = np.concatenate([steps, steps[:1]])
    return np.asarray(np.round(closed * step, _DECIMALS), dtype=np.float64)


def write_areas(target: Path, staging: Path, areas: Sequence[Area]) -> None:
    """Write areas as GeoJSON, one feature a line."""
    write_bytes(target, _geojson(areas), staging)


def fingerprint(areas: Sequence[Area]) -> str:
    """SHA-256 of the file that `write_areas` writes, in hexadecimal."""
    return hashlib.sha256(_geojson(areas)).hexdigest()


def _geojson(areas: Sequence[Area]) -> bytes:
    lines = []
    for area in areas:
        polygons = [[ring.tolist() for ring in polygon] for polygon in area.polygons]
        feature = {
            "type": "Feature",
            "properties": {"geocode": area.geocode, "name": area.name},
            "geometry": {"type": "MultiPolygon", "coordinates": polygons},
        }
        lines.append(json.dumps(feature, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    return ('{"type":"FeatureCollection","features":[\n' + ",\n".join(lines) + "\n]}\n").encode()


def read_public_areas(path: Readable) -> list[Area]:
    """The areas written by `write_areas`; ReleaseError where the file is missing or damaged."""
    try:
        features = json.loads(path.read_bytes())["features"]
        return [
            Area(
                feature["properties"]["geocode"],
                feature["properties"]["name"],
                tuple(
                    tuple(np.array(ring, dtype=np.float64).reshape(-1, 2) for ring in polygon)
                    for polygon in feature["geometry"]["coordinates"]
                ),
            )
            for feature in features
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"{path} is damaged: it does not hold the polygons of a level") from error


def flattening(areas: Sequence[Area]) -> float:
    """How much shorter a degree of longitude is than one of latitude at the middle of the map, to three decimals."""
    latitudes = [ring[:, 1] for area in areas for polygon in area.polygons for ring in polygon]
    if not latitudes:
        return 1.0
    middle = (min(float(ring.min()) for ring in latitudes) + max(float(ring.max()) for ring in latitudes)) / 2
    return round(max(0.05, math.cos(math.radians(middle))), 3)
