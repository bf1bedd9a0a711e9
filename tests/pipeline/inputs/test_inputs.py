"""Public inputs are read as they are, or refused with the file and the place; what is published reads back the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import write_town

from geography.spine import Spine
from pipeline.errors import InputError, ReleaseError, SpineError
from pipeline.inputs.facilities import read_facilities
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Bound
from pipeline.release.facilities import read_public_facilities, write_facilities
from pipeline.release.spine import read_public_spine, write_spine
from pipeline.spec.release_spec import load_spec
from pipeline.spec.sections import GeographySection


@pytest.fixture
def town_files(tmp_path: Path) -> tuple[Bound, Spine]:
    spec = load_spec(write_town(tmp_path))
    return spec.universes()[0].bounds[0], read_spine(spec.geography)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_three_forms_of_a_geography_give_the_same_spine(tmp_path: Path, suffix: str) -> None:
    blocks = ["A0101", "A0102", "A0201", "B0101"]

    def spine(content: dict[str, list[str]], **section: object) -> Spine:
        path = tmp_path / f"geography{suffix}"
        frame = pd.DataFrame(content)
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
        return read_spine(GeographySection.model_validate({"file": str(path), **section}))

    prefixes = spine({"block": blocks[::-1]}, column="block", levels={"county": 1, "tract": 3, "block": 5})
    table = spine(
        {"block": blocks, "tract": [b[:3] for b in blocks], "county": [b[0] for b in blocks]},
        levels=["county", "tract", "block"],
    )
    children = [*"AB", "A01", "A02", "B01", *blocks]
    parents = ["", "", "A", "A", "B", *(b[:3] for b in blocks)]
    pairs = spine({"of": parents, "code": children}, child="code", parent="of", levels=["county", "tract", "block"])
    assert prefixes.fingerprint() == table.fingerprint() == pairs.fingerprint()


def test_a_wrong_geography_names_its_file(tmp_path: Path) -> None:
    def read(name: str) -> Spine:
        section = {"file": str(tmp_path / name), "column": "block", "levels": {"county": 1, "block": 5}}
        return read_spine(GeographySection.model_validate(section))

    with pytest.raises(InputError, match=r"none\.csv: the file of the geography does not exist"):
        read("none.csv")
    (tmp_path / "short.csv").write_text("block\nA0101\nA01\n")
    with pytest.raises(SpineError, match=r"short\.csv: level 'block': 1 code of the wrong length: 'A01'"):
        read("short.csv")
    (tmp_path / "other.csv").write_text("code\nA0101\n")
    with pytest.raises(InputError, match=r"other\.csv: no column 'block'"):
        read("other.csv")


def test_facilities_read_back_as_they_were_published(town_files: tuple[Bound, Spine], tmp_path: Path) -> None:
    bound, spine = town_files
    found = read_facilities(bound, spine)
    frame = pd.read_csv(bound.file).sort_values("block")
    assert np.array_equal(found, frame[["dorms", "prisons"]])
    path, geocodes = tmp_path / "bound.parquet", spine.leaf_level.geocodes
    write_facilities(path, tmp_path, bound, geocodes, found)
    assert list(pd.read_parquet(path)) == ["geocode", "dorm", "prison"]
    assert np.array_equal(read_public_facilities(path, bound, geocodes), found)
    with pytest.raises(ReleaseError, match="its rows are not the geounits of level 'block'"):
        read_public_facilities(path, bound, geocodes[::-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("A0101", "X0101", 1), "a geocode that is no leaf of the spine in 1 row"),
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


def test_a_spine_reads_back_as_it_was_published(town_files: tuple[Bound, Spine], tmp_path: Path) -> None:
    _, spine = town_files
    path = tmp_path / "spine.parquet"
    write_spine(path, tmp_path, spine)
    assert read_public_spine(path, spine.level_names).fingerprint() == spine.fingerprint()
    with pytest.raises(ReleaseError, match="is damaged: level 'district'"):
        read_public_spine(path, ["county", "district"])
    pd.DataFrame({"county": ["A"]}).to_parquet(path)
    with pytest.raises(ReleaseError, match="header is missing"):
        read_public_spine(path, ["county"])
