"""A picture of published numbers with their intervals: a map of one number, or bars of one or several."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd

from pipeline.errors import InputError
from pipeline.missing import install_command
from pipeline.reading.reader import Reader
from pipeline.reading.release import Release, reader_of

__all__ = ["plot"]

#: Bars that can be read in one picture.
_MOST_BARS: Final = 400
_BAR, _COLOURS = 18, "blues"


def plot(
    release: Release | Path | str,
    table: str = "total",
    level: str = "",
    *,
    number: str | None = None,
    kind: Literal["map", "bars"] | None = None,
) -> Any:
    """A picture of a published table: a map or bars, with the 90 % interval of each number.

    Bars have their intervals drawn; areas of a map show theirs under the pointer. Needs Vega-Altair
    (`pip install "altair>=5.5"`); a notebook shows what is returned, and `.save("picture.html")` writes it.

    Args:
        release: the release, or its directory.
        table: name of a published table, or a query such as "votingage * race".
        level: of the geounits.
        number: which of the table's numbers, by its column, such as "hispanic"; by default all of them.
        kind: "map" or "bars"; by default a map of one number where the release has the areas' polygons, else bars.

    Returns:
        An `altair.Chart` or layers of several.

    Raises:
        InputError: there is no such table, level or number, or it cannot be drawn in that way.
    """
    opened = reader_of(release)
    frame = _numbers(opened, table, level, number)
    several = frame["number"].nunique() > 1
    has_map = opened.run.name_of(opened.run.polygons(level)) in opened.manifest.files
    if kind not in (None, "map", "bars"):
        raise InputError(f"kind: found {kind!r}; allowed are 'map' and 'bars'")
    if kind == "map" and not has_map:
        raise InputError(f"kind: {opened.name} has no polygons of {level}; kind='bars' needs none")
    if kind == "map" and several:
        raise InputError(f"kind: a map shows one number; name it: number={frame['number'].iloc[0]!r}")
    drawn = kind or ("map" if has_map and not several else "bars")
    alt = _altair()
    what = table if several else str(frame["number"].iloc[0])
    if drawn == "map":
        picture, missing = _map(alt, opened, frame, level)
        said = "The intervals under the pointer hold the truth in 90 % of cases."
        rest = [f"Areas without polygons, which are not shown: {missing:,}."] if missing else []
    else:
        picture, rest = _bars(alt, frame, level, several=several), []
        said = "The black line holds the truth in 90 % of cases."
    status = opened.manifest.status
    below = [said, *rest, *([] if status == "official" else [status])]
    title = alt.Title(f"{opened.name}: {what} by {opened.labels.level(level)}", subtitle=below, anchor="start")
    return picture.properties(title=title)


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise InputError(f"sw.plot needs Vega-Altair: {install_command('altair')}") from None
    return altair


def _numbers(opened: Reader, table: str, level: str, number: str | None) -> pd.DataFrame:
    """One row a number: geocode, area (its name), number, value, low, high."""
    from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX, is_count

    is_table = table in opened.tables
    release = Release(opened)
    wide = release.table(table, level) if is_table else release.query(table).at(level)
    columns = [name for name in wide.columns if is_count(name)]
    if not is_table and len(columns) > 1:
        columns = columns[:-1]  # the last is their sum
    if number is not None and number not in columns:
        raise InputError(f"number: found {number!r}; table {table!r} has {', '.join(map(repr, columns))}")
    chosen = columns if number is None else [number]
    names = opened.names(level).reindex(wide.index) if level in opened.named_levels else wide.index
    nothing = pd.Series(float("nan"), wide.index)
    parts = [
        pd.DataFrame(
            {
                "geocode": wide.index.astype(str),
                "area": [str(name) for name in names],
                "number": column,
                "value": wide[column].to_numpy(),
                "low": wide.get(column + LOW_SUFFIX, nothing).to_numpy(),
                "high": wide.get(column + HIGH_SUFFIX, nothing).to_numpy(),
            }
        )
        for column in chosen
    ]
    return pd.concat(parts, ignore_index=True)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON, in which an unknown end is null."""
    return [
        {str(name): None if value != value else value for name, value in row.items()}
        for row in frame.astype(object).to_dict("records")
    ]


def _tooltip(alt: Any) -> list[Any]:
    return [
        alt.Tooltip("area:N"),
        alt.Tooltip("geocode:N"),
        alt.Tooltip("number:N"),
        alt.Tooltip("value:Q", format=","),
        alt.Tooltip("low:Q", format=",", title="90 % interval from"),
        alt.Tooltip("high:Q", format=",", title="to"),
    ]


def _bars(alt: Any, frame: pd.DataFrame, level: str, *, several: bool) -> Any:
    if len(frame) > _MOST_BARS:
        raise InputError(
            f"bars: {len(frame):,} numbers of {level} do not fit into one picture, {_MOST_BARS} do; name a higher "
            "level, or one number with polygons, which are drawn as a map"
        )
    order = list(dict.fromkeys(frame["area"]))
    if len(order) < frame["geocode"].nunique():  # areas of one name are told apart
        frame = frame.assign(area=frame["area"] + " (" + frame["geocode"] + ")")
        order = list(dict.fromkeys(frame["area"]))
    base = alt.Chart(alt.Data(values=_records(frame))).encode(
        y=alt.Y("area:N", sort=order, title=None), tooltip=_tooltip(alt)
    )
    places = {"yOffset": alt.YOffset("number:N", sort=None)} if several else {}
    colour = {"color": alt.Color("number:N", sort=None, title=None)} if several else {}
    bars = base.mark_bar(opacity=0.7).encode(x=alt.X("value:Q", title=None), **places, **colour)
    intervals = base.mark_rule(strokeWidth=2, color="black").encode(x=alt.X("low:Q", title=None), x2="high:Q", **places)
    height = alt.Step(_BAR if not several else 0.6 * _BAR)
    return (bars + intervals).properties(height=height)


def _map(alt: Any, opened: Reader, frame: pd.DataFrame, level: str) -> tuple[Any, int]:
    """The map, and how many areas have no polygon."""
    from pipeline.inputs.polygons import flattening, read_public_areas

    areas = read_public_areas(opened.files.readable(opened.run.polygons(level)))
    rows, narrower = {row["geocode"]: row for row in _records(frame)}, flattening(areas)

    def place(point: Any) -> list[float]:
        return [float(point[0]) * narrower, float(point[1])]

    shapes = [
        {
            "type": "Feature",
            **rows[area.geocode],
            "geometry": {
                "type": "MultiPolygon",
                "coordinates": [[[*map(place, ring)] for ring in polygon] for polygon in area.polygons],
            },
        }
        for area in areas
        if area.geocode in rows
    ]
    number = str(frame["number"].iloc[0])
    picture = (
        alt.Chart(alt.Data(values=shapes))
        .mark_geoshape(stroke="white", strokeWidth=0.5)
        .encode(color=alt.Color("value:Q", scale=alt.Scale(scheme=_COLOURS), title=number), tooltip=_tooltip(alt))
        .project(type="identity", reflectY=True)
        .properties(width=500, height=400)
    )
    return picture, len(rows) - len(shapes)
