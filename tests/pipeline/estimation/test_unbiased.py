"""Unbiased estimates add up over the spine and centre on the truth, with the variances that they state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import run, write_town

from pipeline.estimation.unbiased import unbiased_leaves
from pipeline.reading.reader import open_reader
from pipeline.release.layout import RunDirectory


def estimates(root: Path, level: str, column: str) -> np.ndarray:
    frame = pd.read_parquet(RunDirectory(root).main.estimates(level))
    return np.stack(frame.sort_values("geocode")[column].tolist())


def truth(root: Path, level: str) -> np.ndarray:
    frame = pd.read_parquet(RunDirectory(root).main.true_histogram(level))
    return frame.groupby("geocode", observed=False)["count"].sum().sort_index().to_numpy()


def test_estimates_add_up_and_keep_invariants(town: Path) -> None:
    root = town
    blocks = pd.read_parquet(RunDirectory(root).main.estimates("block"))["geocode"].sort_values()
    for level, length in (("tract", 3), ("county", 1)):
        parents = np.unique(blocks.str[:length], return_inverse=True)[1]
        summed = np.zeros_like(estimates(root, level, "detail"))
        np.add.at(summed, parents, estimates(root, "block", "detail"))
        assert np.abs(summed - estimates(root, level, "detail")).max() < 0.02  # rounded to 0.001 in each block
    assert np.array_equal(estimates(root, "county", "total")[:, 0], truth(root, "county"))
    assert (estimates(root, "county", "total:variance") == 0).all()


@pytest.mark.slow
def test_errors_have_the_variance_that_is_stated(tmp_path: Path) -> None:
    scores = []
    for number in range(6):
        changes = [("test:1", f"test:{number + 10}"), ("replicates = 3", "margins = false")]
        root = run(write_town(tmp_path / f"in{number}", *changes), tmp_path / f"out{number}")
        frame = pd.read_parquet(RunDirectory(root).main.estimates("block")).sort_values("geocode")
        frame = frame.set_index("geocode")
        true = pd.read_parquet(RunDirectory(root).main.true_histogram("block")).groupby("geocode", observed=True)
        counts = true["count"].sum().reindex(frame.index, fill_value=0).to_numpy()
        error = np.stack(frame["total"].tolist())[:, 0] - counts
        variance = np.stack(frame["total:variance"].tolist())[:, 0]
        scores.append(error / np.sqrt(variance))
    z = np.concatenate(scores)
    # About 130 standard normal scores: their standard deviation is within 0.75 to 1.25 but for 1 case in 10,000.
    assert 0.75 < z.std() < 1.25
    assert abs(z.mean()) < 0.35


def test_estimates_of_a_finished_release_are_those_that_it_publishes(town: Path) -> None:
    """From the published measurements alone; sums over areas are those of their leaves."""
    release = open_reader(town)
    found = unbiased_leaves(release.universe, release.files, release.spine)
    leaves = release.spine.leaf_level
    assert np.abs(found[np.argsort(leaves.geocodes)] - estimates(town, leaves.name, "detail")).max() < 0.001
    inside = np.arange(release.spine.n_leaves) % 3 > 0
    groups = release.query("sex").query.groups
    expected = release.query("sex").query.answer(found[inside]).sum(axis=0)
    assert np.allclose(release.half_widths.estimate_of_area(inside, groups), expected)
