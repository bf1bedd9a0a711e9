"""The page of the town with maps in it; what is open in it has nothing to complain of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.browser import Opened, opened
from releases.once import release_once, spec_once
from releases.small import DETAIL_EVERYWHERE, DETAIL_IN_COUNTIES, QUICK, write_town

from pipeline.reading.release import Release, open_release

_POLYGONS = '[report.polygons.tract]\nfile = "tracts.geojson"\ncode = "code"'
_SEX = 'sex = { query = "sex * grown", levels = ["county", "tract"] }'
_CHANGES = (
    ("[companions.units]", f'[postprocess]\nsolver = "batched"\n\n{_POLYGONS}\n\n[companions.units]'),
    (_SEX, f'{_SEX}\nquarters = {{ query = "quarters", levels = ["tract", "block"] }}'),
)


def write_mapped_town(folder: Path) -> Path:
    """The town with a map: its tract of number n is a square, n % 3 degrees east and n // 3 north."""
    spec = write_town(folder, QUICK[0], DETAIL_IN_COUNTIES, DETAIL_EVERYWHERE, *_CHANGES)
    features = []
    for number, code in enumerate(pd.read_csv(folder / "blocks.csv")["block"].str[:3].unique()):
        x, y = number % 3, number // 3
        polygon = {"type": "Polygon", "coordinates": [[[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]]}
        features.append({"type": "Feature", "properties": {"code": code}, "geometry": polygon})
    (folder / "tracts.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return spec


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of the town with outlines of its areas."""
    spec = spec_once(tmp_path_factory, "mapped", write_mapped_town)
    return open_release(release_once(tmp_path_factory, "mapped", spec))


@pytest.fixture
def shown(browser: Any, release: Release) -> Iterator[Opened]:
    """Its report, opened."""
    found = opened(browser, release.report)
    yield found
    assert found.complaints == []
