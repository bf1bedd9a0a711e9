"""Margins from a sample cover the truth, and those of a level of only children are of the level above."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.again import computed_again
from releases.small import run

from pipeline.estimation import margins
from pipeline.publishing.steps import perform_public_steps
from pipeline.release.layout import RunDirectory
from postprocess.downward.simulation import Rates

#: Of three runs, each simulates some of the tracts.
RATES = Rates(3, (3.0, 3.0, 1.3), 1)


def for_a_town(patch: pytest.MonkeyPatch) -> None:
    """Have a sample drawn of a town, too."""
    patch.setattr("pipeline.estimation.margins.rates_of", lambda *_: RATES)
    # A town is too small for errors of each size; here a few are enough.
    for module in ("ranges", "intervals"):
        patch.setattr(f"postprocess.downward.{module}.ENOUGH", 5)
    # One tract at a time.
    patch.setattr("pipeline.estimation.margins.GROUP_CELLS", 1)


def computed(town: Path, root: Path) -> Path:
    """The release computed again in parts of some villages."""
    with computed_again(town, root, 1, 500) as job:
        perform_public_steps(job)
    return root


def write_villages(folder: Path) -> tuple[Path, pd.DataFrame]:
    """A spec of 60 villages of 25 blocks, some dense and some sparse, and the people of each block by kind."""
    rng = np.random.default_rng(3)
    folder.mkdir()
    codes = [f"1{village:02}{block:02}" for village in range(60) for block in range(25)]
    dense = np.repeat(np.where(np.arange(60) % 3 == 0, 40.0, 3.0), 25)
    counts = rng.poisson(rng.gamma(0.5, dense)[:, None] * np.array([0.6, 0.3, 0.08, 0.02]))
    truth = pd.DataFrame(counts, columns=["a", "b", "c", "d"]).assign(block=codes)
    truth.to_csv(folder / "blocks.csv", index=False)
    spec = folder / "release.toml"
    spec.write_text(VILLAGES)
    return spec, truth


VILLAGES = """
name = "villages"
privacy = { rho = "0.5", key = "insecure-test:1" }
geography = { file = "blocks.csv", column = "block", levels = { district = 1, village = 3, block = 5 } }
schema.attributes.kind = ["a", "b", "c", "d"]
input = { file = "blocks.csv", form = "wide", geocode = "block", cells = [ { counts = "{kind}" } ] }
tables.kind = "kind"
[strategy]
queries = { total = "1/3", detailed = "2/3" }
levels = { district = "1/4", village = "1/4", block = "1/2" }
"""


def share_covered(root: Path, truth: pd.DataFrame, level: str, length: int, least: int = 0) -> float:
    """The share of a level's true counts, of `least` or more, that are within the margin of the published ones."""
    table = pd.read_parquet(RunDirectory(root).main.table("kind", level)).set_index("geocode")
    true = truth.groupby(truth["block"].str[:length])[["a", "b", "c", "d"]].sum()
    published = table.loc[true.index]
    kinds = [str(column) for column in true]
    off = (published[kinds] - true).abs().to_numpy()
    inside = off <= published[[f"{kind}:moe90" for kind in kinds]].to_numpy()
    return float(inside[true.to_numpy() >= least].mean())


@pytest.mark.slow
def test_margins_of_a_cut_spine_cover_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, truth = write_villages(tmp_path / "in")
    released = run(spec, tmp_path / "out")
    monkeypatch.setattr("pipeline.estimation.margins.rates_of", lambda *_: Rates(8, (8.0, 8.0, 1.5), 1))
    cut = computed(released, tmp_path / "cut")
    for level, length in (("village", 3), ("block", 5)):
        assert share_covered(cut, truth, level, length) >= 0.87
    right = share_covered(cut, truth, "block", 5, least=3)
    assert right >= 0.87
    # Power: without noise in what is simulated, they do not.
    monkeypatch.setattr(margins.PublicNoise, "draw", lambda *a: np.zeros(a[-1], dtype=np.int64))
    assert share_covered(computed(released, tmp_path / "silent"), truth, "block", 5, least=3) < right - 0.05


#: Counties of one district of one ward each.
PADDED = """
name = "padded"
privacy = { framework = "zcdp", rho = "1/8", delta = "1e-10", key = "insecure-test:3" }
input = { file = "areas.csv", form = "wide", geocode = "block", cells = [{ counts = "{age}" }] }
schema.attributes.age = ["child", "adult", "old"]
tables = { total = "total", age = "age", ends = { query = "age", levels = ["county", "ward"] } }
[geography]
file = "areas.csv"
column = "block"
levels = { state = 1, county = 3, district = 4, ward = 5, block = 7 }
[strategy]
queries = { total = "1/4", age = "3/4" }
levels = { state = "1/4", county = "1/4", district = "0", ward = "1/4", block = "1/4" }
"""


def intervals_of_padded(folder: Path) -> dict[str, pd.DataFrame]:
    """The numbers of ages and their intervals in counties, in districts and in wards, and of another table in wards."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    blocks = [f"S{county:02}DW{block:02}" for county in range(40) for block in range(5)]
    ages = pd.DataFrame(rng.poisson([3, 12, 40], (len(blocks), 3)), columns=["child", "adult", "old"])
    ages.assign(block=blocks).to_csv(folder / "areas.csv", index=False)
    (folder / "release.toml").write_text(PADDED, "utf-8")
    directory = RunDirectory(run(folder / "release.toml", folder))
    places = [("age", "county"), ("age", "district"), ("age", "ward"), ("ends", "ward")]
    return {" ".join(place): pd.read_parquet(directory.main.table(*place)).drop(columns="geocode") for place in places}


def test_a_level_of_only_children_has_the_intervals_of_the_level_above(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for_a_town(patch)
        patch.setattr("pipeline.estimation.margins.rates_of", lambda *_: Rates(4, (4.0, 4.0, 1.3, 1.3, 1.3), 1))
        found = intervals_of_padded(tmp_path / "padded")
        for place in found:
            pd.testing.assert_frame_equal(found[place], found["age county"])
        # Their own few runs would say something else of the same numbers.
        patch.setattr("geography.spine.Spine.repeats", lambda *_: False)
        alone = intervals_of_padded(tmp_path / "alone")
        pd.testing.assert_frame_equal(alone["age county"], found["age county"])
        for place in ("age district", "age ward", "ends ward"):
            other = (alone[place] != found["age county"]).any()
            assert other.any()
            assert not other[["child", "adult", "old"]].any()
