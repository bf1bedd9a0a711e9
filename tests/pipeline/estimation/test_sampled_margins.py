"""Margins from a sample cover the truth, and those of a level of only children are of the level above."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.again import computed_again
from releases.made_case import made_case
from releases.small import run

from pipeline.estimation import margins
from pipeline.publishing.steps import perform_public_steps
from pipeline.release.layout import RunDirectory
from pipeline.release.tables import read_table
from pipeline.storage.paths import unchecked
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


def read_groups(root: Path, truth: pd.DataFrame, level: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the groups of a level the true counts, those released, and which of the true ones are in their intervals."""
    table = read_table(unchecked(RunDirectory(root).main.table("group", level)))
    assert table.lows is not None
    assert table.highs is not None
    true = truth.groupby(truth.index.str[: len(table.geocodes[0])]).sum().loc[list(table.geocodes)].to_numpy()
    return true, table.counts, (table.lows <= true) & (true <= table.highs)


@pytest.mark.slow
def test_intervals_of_a_sampled_spine_cover(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case of the matrix whose margins are of a sample, with no leaf in the first run: each size is covered.

    In parts of one area it has the same intervals; without noise in what is simulated they hold far less.
    """
    folder = made_case(tmp_path_factory, "sampled")
    released, truth = folder / "out" / "sampled", pd.read_csv(folder / "people.csv").set_index("leaf")
    true, counts, inside = read_groups(released, truth, "leaf")
    for sizes in (true, counts):
        for least, most in ((5, 10), (10, 100), (100, 1000), (1000, math.inf)):
            of_size = (sizes >= least) & (sizes < most)
            assert of_size.sum() > 1000
            assert 0.88 <= inside[of_size].mean() <= 0.95, (least, inside[of_size].mean())
    assert read_groups(released, truth, "area")[2].mean() > 0.85
    for name in ("cut", "silent"):
        with computed_again(released, tmp_path / name, 1, 500) as job:
            perform_public_steps(job)
        held = read_groups(tmp_path / name, truth, "leaf")[2]
        if name == "cut":
            assert np.array_equal(held, inside)
            monkeypatch.setattr(margins.PublicNoise, "draw", lambda *a: np.zeros(a[-1].shape, dtype=np.int64))
        else:
            assert held[true >= 5].mean() < inside[true >= 5].mean() - 0.05


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
