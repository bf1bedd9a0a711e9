"""The small town of households with all that a publisher can say of it: names, labels, polygons, terms, notes."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from releases.homes import write_homes

NAMES = {"A01": "Río Arriba", "A02": "=SUM(1)", "A03": "Old Town", "B01": "b, c", "B02": "Mill", "B03": "Mill"}
CHANGES = (
    (
        "levels = { county = 1, tract = 3, block = 5 }\n",
        'levels = { county = 1, tract = 3, block = 5 }\nnames = { tract = "place" }\n'
        'labels = { tract = "Neighbourhood" }\n',
    ),
    (
        'residence = ["household", "quarters"]\n',
        'residence = ["household", "quarters"]\n\n[schema.labels]\nrecords = "residents"\n'
        'attributes = { age = "Age group" }\nvalues.age = { child = "Under 18", old = "65 and over" }\n'
        'tables = { detailed = "Age by residence" }\n',
    ),
    (
        "\n[input]\n",
        '\n[report]\ntitle = "People & homes"\npublisher = "Office of Towns"\nreference_date = 2030-04-01\n'
        'contact = "counts@town.example"\nlicence = "CC-BY-4.0"\ncitation = "Office of Towns (2031): People & homes"\n'
        'notes = ["A note.", "=2+2"]\ndefinitions = { resident = "Who lives here." }\n\n'
        '[report.polygons.tract]\nfile = "tracts.geojson"\ncode = "code"\n\n[input]\n',
    ),
    (
        "\n[companions.homes]\n",
        '\n[household_tables]\nage_by_size = { persons = "age", households = "size" }\n\n[companions.homes]\n',
    ),
)


def write_surveyed(folder: Path) -> Path:
    """Write the town's files and spec; the last tract has no polygon."""
    spec = write_homes(folder, *CHANGES)
    blocks = pd.read_csv(folder / "blocks.csv", dtype=str)
    blocks.assign(place=blocks["block"].str[:3].map(NAMES)).to_csv(folder / "blocks.csv", index=False)
    features = [
        {"type": "Feature", "properties": {"code": code}, "geometry": {"type": "Polygon", "coordinates": [_square(at)]}}
        for at, code in enumerate(list(NAMES)[:-1])
    ]
    text = json.dumps({"type": "FeatureCollection", "features": features})
    (folder / "tracts.geojson").write_text(text, encoding="utf-8")
    return spec


def _square(at: int) -> list[list[float]]:
    """A square of a hundredth of a degree; they stand side by side."""
    west, south = 10 + at * 0.01, 50.0
    return [[west, south], [west + 0.01, south], [west + 0.01, south + 0.01], [west, south + 0.01], [west, south]]
