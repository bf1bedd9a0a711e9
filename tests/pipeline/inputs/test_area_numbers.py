"""Counts of facilities are read as they are, or refused with the file and the place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import write_town

from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Bound
from pipeline.spec.release_spec import load_spec


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
