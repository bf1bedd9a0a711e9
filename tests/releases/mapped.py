"""The town with a map: its tracts are squares of a degree, and detail is measured in counties alone."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from releases.small import DETAIL_EVERYWHERE, DETAIL_IN_COUNTIES, QUICK, write_town

#: A map of tracts, and detail that is measured in counties alone.
MAPPED = (
    ("[companions.units]", '[report.polygons.tract]\nfile = "tracts.geojson"\ncode = "code"\n\n[companions.units]'),
    DETAIL_IN_COUNTIES,
    DETAIL_EVERYWHERE,
    ('sex = { query = "sex * grown", levels = ["county", "tract"] }',
     'sex = { query = "sex * grown", levels = ["county", "tract"] }\n'
     'quarters = { query = "quarters", levels = ["tract", "block"] }'),
)  # fmt: skip


def write_mapped_town(folder: Path) -> Path:
    """Write its files and spec, and give its path. The tract of number n is at n % 3 degrees east, n // 3 north."""
    changes = [(old, new) for old, new in QUICK if old != "[companions.units]"]
    (old, report), *others = MAPPED
    spec = write_town(folder, *changes, (old, '[postprocess]\nsolver = "batched"\n\n' + report), *others)
    features = []
    for number, code in enumerate(pd.read_csv(folder / "blocks.csv")["block"].str[:3].unique()):
        x, y = number % 3, number // 3
        ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
        features.append(
            {"type": "Feature", "properties": {"code": code}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
        )
    (folder / "tracts.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return spec
