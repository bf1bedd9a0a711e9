"""Intervals of households are as wide as what the persons leave open: wide where many are of an open size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.execution.progress import Silent
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release

SPEC = """
name = "town"
[privacy]
rho = "1"
key = "insecure-test:3"
[geography]
file = "blocks.parquet"
levels = ["town", "tract", "block"]
[schema.attributes]
sex = ["female", "male"]
[strategy]
queries = { total = "1" }
levels = { town = "1/4", tract = "1/4", block = "1/2" }
[input]
file = "persons.parquet"
form = "long"
geocode = "block"
[tables]
total = "total"
[publish]
microdata = false
replicates = 8
[companions.homes.privacy]
rho = "1"
[companions.homes.schema.attributes]
size = ["1", "2", "3", "4", "5+"]
[companions.homes.strategy]
queries = { size = "1" }
levels = { town = "1/4", tract = "1/4", block = "1/2" }
[companions.homes.input]
file = "homes.parquet"
form = "long"
geocode = "block"
[companions.homes.tables]
total = "total"
[[join]]
companion = "homes"
size = "size"
most = 40
mean = "7"
"""


def write_town(folder: Path, *, tracts: int, blocks: int) -> np.ndarray:
    """In every second tract two thirds of the households are of "5+", in the others none; blocks are alike in size.

    Returns:
        `(tracts, blocks, 5)` households by size.
    """
    rng = np.random.default_rng(5)
    shares = np.array([[0.25, 0.25, 0.25, 0.25, 0.0], [0.08, 0.09, 0.08, 0.08, 0.67]])
    sizes = rng.integers(30, 150, (tracts, blocks))
    homes = np.stack([rng.multinomial(own, shares[tract % 2]) for tract, own in enumerate(sizes)])
    # Geometric beyond 5, of a mean that differs by a quarter between tracts.
    mean = 2.0 * rng.gamma(16.0, 1 / 16.0, (tracts, 1))
    beyond = np.where(homes[:, :, 4] > 0, rng.negative_binomial(np.maximum(homes[:, :, 4], 1), 1 / (1 + mean)), 0)
    persons = homes @ np.arange(1, 6) + beyond
    names = np.array([[f"t{tract}b{block}" for block in range(blocks)] for tract in range(tracts)])
    of_tract = [f"t{tract}" for tract in range(tracts) for _ in range(blocks)]
    codes = {"town": ["t"] * names.size, "tract": of_tract, "block": names.ravel()}
    pq.write_table(pa.table(codes), folder / "blocks.parquet")
    for name, attribute, values, counts in (
        ("persons", "sex", ["female", "male"], np.stack([persons // 2, persons - persons // 2], axis=2)),
        ("homes", "size", ["1", "2", "3", "4", "5+"], homes),
    ):
        tract, block, cell = np.nonzero(counts)
        columns = {"block": names[tract, block], attribute: np.array(values)[cell], "count": counts[tract, block, cell]}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return homes


def test_totals_have_wider_intervals_where_many_households_are_of_an_open_size(tmp_path: Path) -> None:
    """Persons tell how many households there are where each has a known size, and little where most are of "5+"."""
    homes = write_town(tmp_path, tracts=12, blocks=14)
    (tmp_path / "town.toml").write_text(SPEC, encoding="utf-8")
    root = run_release(check_request(Request(tmp_path / "town.toml", tmp_path / "out", None, 1, i_know=True)), Silent())
    table = pq.read_table(root / "public/companions/homes/tables/total/block.parquet").to_pandas()
    place = table["geocode"].str.extract(r"t(\d+)b(\d+)").astype(int).to_numpy()
    true = homes.sum(axis=2)[place[:, 0], place[:, 1]]
    half = (table["total:high90"] - table["total:low90"]).to_numpy() / 2
    error = table["total"].to_numpy() - true
    is_open = place[:, 0] % 2 == 1
    assert half[is_open].mean() > 1.4 * half[~is_open].mean()
    for kind in (is_open, ~is_open):
        # 1.645 standard errors of either kind, and what whole numbers add.
        assert 1.4 < half[kind].mean() / np.sqrt(np.mean(error[kind] ** 2)) < 2.0
