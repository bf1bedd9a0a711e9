"""Published counts of facilities read back the same, and only as those of their geounits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import write_town

from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Bound
from pipeline.release import facilities
from pipeline.release.facilities import read_public_facilities, write_facilities
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked


@pytest.fixture
def town_files(tmp_path: Path) -> tuple[Bound, Spine]:
    spec = load_spec(write_town(tmp_path))
    return spec.universes()[0].bounds[0], read_spine(spec.geography)


def test_facilities_read_back_as_they_were_published(town_files: tuple[Bound, Spine], tmp_path: Path) -> None:
    bound, spine = town_files
    found = read_facilities(bound, spine)
    path, geocodes = tmp_path / "bound.parquet", spine.leaf_level.geocodes
    write_facilities(path, tmp_path, bound, geocodes, found)
    assert list(pd.read_parquet(path)) == ["geocode", "dorm", "prison"]
    assert np.array_equal(read_public_facilities(unchecked(path), bound, geocodes), found)
    with pytest.raises(ReleaseError, match="its rows are not the geounits of level 'block'"):
        read_public_facilities(unchecked(path), bound, geocodes[::-1])


def test_each_row_is_of_its_geounit_wherever_it_stands(
    town_files: tuple[Bound, Spine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes are compared some at a time: also the last ones, and a file with rows beside them is refused."""
    monkeypatch.setattr(facilities, "_AT_ONCE", 3)
    bound, spine = town_files
    found, path, geocodes = read_facilities(bound, spine), tmp_path / "bound.parquet", spine.leaf_level.geocodes
    write_facilities(path, tmp_path, bound, geocodes, found)
    assert np.array_equal(read_public_facilities(unchecked(path), bound, geocodes), found)
    for others in (np.append(geocodes[:-1], "other"), np.append(geocodes, "more"), geocodes[:-1]):
        with pytest.raises(ReleaseError, match=r"its rows are not the geounits|rows"):
            read_public_facilities(unchecked(path), bound, others)
