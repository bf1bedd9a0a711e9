"""Published intervals of numbers that public shares move: right for places unlike their neighbours, and only they."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from releases.small import request_of

from features.shares.knowledge import SharedIntervals
from pipeline.execution.progress import Silent
from pipeline.runs.run import run_release

SPEC = """
name = "far"
[privacy]
rho = "1/400"
key = "insecure-test:4"
[geography]
file = "areas.csv"
column = "area"
levels = { state = 1, tract = 3, block = 5 }
[schema.attributes]
age = ["young", "old"]
[strategy.queries]
total = "1/2"
age = "1/2"
[strategy.levels]
state = "1/4"
tract = "1/4"
block = "1/2"
[input]
file = "areas.csv"
form = "wide"
geocode = "area"
cells = [ { counts = "{age}" } ]
[publish]
microdata = false
replicates = 4
[postprocess.shares.homes]
file = "areas.csv"
level = "block"
geocode = "area"
column = "homes"
"""
N_TRACTS, N_BLOCKS = 24, 60
PART = 12  # of blocks, one is unlike the others


def write_far(folder: Path) -> Path:
    """Blocks of 2.5 persons a home, but for some that have nobody, or a hundred persons more."""
    rng = np.random.default_rng(2)
    n = N_TRACTS * N_BLOCKS
    homes = rng.integers(20, 61, n)
    people = rng.poisson(2.5 * homes)
    far = np.arange(n) % PART == 0
    people = np.where(far, people + 100, people)
    young = rng.binomial(people, 0.4)
    codes = [f"1{tract:02}{block:02}" for tract in range(N_TRACTS) for block in range(N_BLOCKS)]
    frame = pd.DataFrame({"area": codes, "homes": homes, "young": young, "old": people - young})
    frame.to_csv(folder / "areas.csv", index=False)
    (folder / "far.toml").write_text(SPEC)
    return folder / "far.toml"


def held(root: Path, folder: Path, table: str = "total") -> tuple[float, float, float]:
    """How often the truth is in its interval, of blocks like their neighbours and unlike; mean number of persons."""
    found = pq.read_table(root / f"public/tables/{table}/block.parquet").to_pandas()
    truth = pd.read_csv(folder / "areas.csv", dtype={"area": str}).set_index("area").reindex(found["geocode"])
    true: NDArray[np.int64] = (truth["young"] + truth["old"]).to_numpy()
    low, high, count = (found[name].to_numpy() for name in ("total:low90", "total:high90", "total"))
    assert (low < count).any()
    assert ((low <= count) & (count <= high)).all()
    inside = (low <= true) & (true <= high)
    far = np.arange(len(true)) % PART == 0
    return float(inside[~far].mean()), float(inside[far].mean()), float((high - low + 1).mean())


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("far")
    return run_release(request_of(write_far(folder), folder / "out"), Silent()), folder


def test_nine_of_ten_are_held_in_places_unlike_their_neighbours_too(release: tuple[Path, Path]) -> None:
    alike, unlike, _ = held(*release)
    assert 0.88 <= alike <= 0.92
    assert unlike >= 0.84  # of 120 blocks: 2.2 standard errors


@pytest.mark.slow
def test_simulated_intervals_alone_would_miss_them(
    tmp_path: Path, release: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SharedIntervals, "of", lambda *_: None)
    root = run_release(request_of(write_far(tmp_path), tmp_path / "out"), Silent())
    assert held(root, tmp_path)[1] < 0.75
    kept, other = (pq.read_table(one / "public/tables/age/block.parquet") for one in (root, release[0]))
    assert kept.equals(other)  # answers that are not shared keep theirs
