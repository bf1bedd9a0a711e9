"""Other spines from spec to release: regrouped for areas, of unequal depth; `plan --spine` says what they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import run, write_town

from auditor.check.release import check_release
from pipeline.errors import InputError, SpineError
from pipeline.execution.progress import Silent
from pipeline.inputs.geography import read_spine
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.release.spine import read_public_spine
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec
from pipeline.storage.readable import unchecked

LEVELS = "levels = { county = 1, tract = 3, block = 5 }"
LIGHT = ("replicates = 3\nunbiased = true", "margins = false")


def town_with_areas(folder: Path, regroup: str = 'file = "areas.csv"') -> Path:
    """The town, and two places that cut through its tracts."""
    spec = write_town(folder, (LEVELS, f"{LEVELS}\nregroup = {{ {regroup} }}"), LIGHT)
    blocks = pd.read_csv(folder / "blocks.csv", dtype=str)["block"]
    rows = [("place", "1", block) for block in blocks[3:9]] + [("reservation", "9", block) for block in blocks[11:15]]
    pd.DataFrame(rows, columns=["kind", "code", "geocode"]).to_csv(folder / "areas.csv", index=False)
    return spec


@pytest.mark.slow
def test_the_spine_of_a_regrouped_release_is_public(tmp_path: Path) -> None:
    spec = town_with_areas(tmp_path / "in")
    root = run(spec, tmp_path / "out")
    directory = RunDirectory(root)
    public = read_public_spine(unchecked(directory.spine), ["county", "tract", "block"])
    assert public.fingerprint() == read_spine(load_spec(spec).geography).fingerprint()
    new = [str(code) for code in public.levels[1].geocodes if "-" in code]
    assert new
    assert new[0].startswith("A-")
    inside = pd.read_csv(tmp_path / "in" / "areas.csv", dtype=str).query("kind == 'place'")["geocode"]
    parents = public.levels[1].geocodes[public.leaf_level.parents]
    unit = dict(zip(public.leaf_level.geocodes.tolist(), parents.tolist(), strict=True))
    whole = {unit[block] for block in inside}
    assert sorted(block for block, of in unit.items() if of in whole) == sorted(inside)


def test_areas_that_do_not_fit_are_told(tmp_path: Path) -> None:
    spec = town_with_areas(tmp_path / "in", 'file = "areas.csv", kinds = ["school"]')
    with pytest.raises(InputError, match=r"has no area of kind 'school'; its kinds are 'place', 'reservation'"):
        read_spine(load_spec(spec).geography)
    spec = town_with_areas(tmp_path / "in")
    areas = tmp_path / "in" / "areas.csv"
    areas.write_text(areas.read_text() + "place,1,Z9999\n")
    with pytest.raises(SpineError, match=r"areas\.csv: 1 leaves are not on the spine: 'Z9999'"):
        read_spine(load_spec(spec).geography)
    spec = write_town(tmp_path / "two", (LEVELS, 'levels = { county = 1, block = 5 }\nregroup = { file = "a.csv" }'))
    with pytest.raises(InputError, match=r"geography\.regroup: found 2 levels; three are needed"):
        load_spec(spec)


SPEC = """
name = "islands"
[privacy]
rho = "1"
key = "insecure-test:1"
[geography]
file = "areas.csv"
column = "code"
parent = "part_of"
levels = ["nation", "province", "district", "village"]
bypass = true
[schema.attributes]
sex = ["f", "m"]
[strategy.queries]
detailed = "1"
[strategy.levels]
nation = "1/4"
province = "1/4"
district = "1/4"
village = "1/4"
[input]
file = "people.csv"
form = "microdata"
geocode = "place"
[publish]
margins = false
"""


def test_a_territory_without_districts_is_one_measurement_of_all_its_shares(tmp_path: Path) -> None:
    """Pairs of unequal depth: the territory "T" is not divided, the province "P" is."""
    pairs = [
        ("N", ""),
        ("T", "N"),
        ("P", "N"),
        ("P1", "P"),
        ("P2", "P"),
        *((f"P{i}{j}", f"P{i}") for i in "12" for j in "ab"),
    ]
    pd.DataFrame(pairs, columns=["code", "part_of"]).to_csv(tmp_path / "areas.csv", index=False)
    rng = np.random.default_rng(1)
    leaves = ["T", "P1a", "P1b", "P2a", "P2b"]
    people = [(str(rng.choice(leaves)), str(rng.choice(["f", "m"]))) for _ in range(400)]
    pd.DataFrame(people, columns=["place", "sex"]).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "islands.toml").write_text(SPEC)
    root = run(tmp_path / "islands.toml", tmp_path / "out")
    directory = RunDirectory(root)
    rows = {
        level: read_measurement(unchecked(directory.main.measurement(level, "detailed")))
        for level in ("province", "district", "village")
    }
    assert rows["province"].geocodes.tolist() == ["P", "T"]
    assert rows["province"].variances.tolist() == pytest.approx([4.0, 4 / 3], rel=1e-3)
    assert rows["district"].geocodes.tolist() == ["P1", "P2"]
    assert "T" not in rows["village"].geocodes.tolist()
    assert verify_release(directory, 1, Silent()) == []
    assert check_release(root) == []
    (tmp_path / "areas.csv").write_text((tmp_path / "areas.csv").read_text() + "P1a,P2\n")
    with pytest.raises(SpineError, match="1 child with several parents: P1a under P1 and P2"):
        read_spine(load_spec(tmp_path / "islands.toml").geography)
