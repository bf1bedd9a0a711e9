"""Outlines for the areas of the example: an island cut into counties and tracts, on which no real place lies.

A grid with shaken corners covers the island. It is cut in two again and again, along lines of random direction, in
proportion to what the areas on each side are to have, until each tract has its cells; the edges between cells of
different areas are the borders. So areas that touch share their points.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from features.example.population import county_name
from postprocess.arrays import BoolArray, FloatArray, IntArray

_COLUMNS, _ROWS = 132, 104
#: Degrees of a cell, and where the island lies: in the open Atlantic.
_CELL, _WEST, _SOUTH = 0.012, -41.3, 31.2
#: How far a corner is shaken, in cells.
_SHAKEN = 0.34
#: Standard deviation of the logarithm of the land of a tract.
_LAND_SPREAD = 0.45


def example_polygons(counties: Sequence[str], tracts: Sequence[str], county_of: IntArray, seed: int) -> tuple[str, str]:
    """GeoJSON of the counties and of the tracts.

    Args:
        counties: the counties' codes.
        tracts: the tracts' codes.
        county_of: number of each tract's county, `(n_tracts,)`, increasing.
        seed: not negative.
    """
    rng = np.random.default_rng(seed)
    cells = _island(rng)
    n_in_county = np.bincount(county_of)
    land = n_in_county[county_of] ** -0.55 * rng.lognormal(0.0, _LAND_SPREAD, len(tracts))
    owner = np.full((_ROWS, _COLUMNS), -1, dtype=np.int64)
    _cut(cells, np.arange(len(tracts)), county_of, land, owner, rng)
    corners = np.stack(np.meshgrid(np.arange(_COLUMNS + 1.0), np.arange(_ROWS + 1.0)), axis=-1)
    corners += rng.uniform(-_SHAKEN, _SHAKEN, corners.shape)
    points = np.round(corners * (_CELL, _CELL * 0.86) + (_WEST, _SOUTH), 5)
    in_county = np.where(owner >= 0, county_of[owner], -1)
    names = [county_name(number) for number in range(len(counties))]
    return _geojson("county", counties, names, in_county, points), _geojson("tract", tracts, None, owner, points)


def _island(rng: np.random.Generator) -> IntArray:
    """Rows and columns of the cells on land, `(n, 2)`."""
    row, column = np.meshgrid(np.arange(_ROWS), np.arange(_COLUMNS), indexing="ij")
    y, x = (row + 0.5) / _ROWS * 2 - 1, (column + 0.5) / _COLUMNS * 2 - 1
    angle = np.arctan2(y, x)
    coast = np.full(angle.shape, 0.82)
    for wave in range(2, 9):
        coast += rng.normal(0.0, 0.14 / wave) * np.cos(wave * angle + rng.uniform(0, 2 * np.pi))
    return np.argwhere(np.hypot(x, y) < np.minimum(coast, 0.97))


def _cut(
    cells: IntArray,
    areas: IntArray,
    county_of: IntArray,
    land: FloatArray,
    owner: IntArray,
    rng: np.random.Generator,
) -> None:
    """Give each of `areas` a connected part of `cells`; counties are cut apart before they are cut themselves."""
    if len(areas) == 1:
        owner[cells[:, 0], cells[:, 1]] = areas[0]
        return
    borders = np.flatnonzero(np.diff(county_of[areas])) + 1
    shares = np.cumsum(land[areas])[:-1] / land[areas].sum()
    places = borders if len(borders) else np.arange(1, len(areas))
    middle = int(places[np.argmin(np.abs(shares[places - 1] - 0.5))])
    spread = np.ptp(cells, axis=0)
    turn = rng.uniform(-0.5, 0.5)
    direction = (
        np.array([np.cos(turn), np.sin(turn)]) if spread[0] > spread[1] else np.array([np.sin(turn), np.cos(turn)])
    )
    order = np.argsort(cells @ direction, kind="stable")
    n_first = int(np.clip(round(shares[middle - 1] * len(cells)), middle, len(cells) - (len(areas) - middle)))
    _cut(cells[order[:n_first]], areas[:middle], county_of, land, owner, rng)
    _cut(cells[order[n_first:]], areas[middle:], county_of, land, owner, rng)


def _geojson(level: str, codes: Sequence[str], names: Sequence[str] | None, owner: IntArray, points: FloatArray) -> str:
    features = []
    for number, code in enumerate(codes):
        rings = [[points[y, x].tolist() for y, x in ring] for ring in _borders(owner == number)]
        properties = {level: code} if names is None else {level: code, "name": names[number]}
        geometry = {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    lines = ",\n".join(json.dumps(feature, separators=(",", ":")) for feature in features)
    return '{"type":"FeatureCollection","features":[\n' + lines + "\n]}\n"


def _borders(inside: BoolArray) -> list[list[tuple[int, int]]]:
    """The closed lines of corners `(row, column)` around the cells of an area."""
    after: dict[tuple[int, int], list[tuple[int, int]]] = {}
    padded = np.pad(inside, 1)
    for row, column in np.argwhere(inside).tolist():
        around = (
            (padded[row, column + 1], (row, column), (row, column + 1)),
            (padded[row + 1, column + 2], (row, column + 1), (row + 1, column + 1)),
            (padded[row + 2, column + 1], (row + 1, column + 1), (row + 1, column)),
            (padded[row + 1, column], (row + 1, column), (row, column)),
        )
        for neighbour, start, end in around:
            if not neighbour:
                after.setdefault(start, []).append(end)
    rings = []
    while after:
        first = next(iter(after))
        ring = [first]
        while (following := after[ring[-1]].pop()) != first:
            if not after[ring[-1]]:
                del after[ring[-1]]
            ring.append(following)
        if not after[ring[-1]]:
            del after[ring[-1]]
        rings.append([*ring, first])
    return rings
