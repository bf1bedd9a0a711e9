"""Why a series has one spine: what areas that are merged or split would cost is more than the reach of its design."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.histories import all_pairs, distances, n_spells

from features.years.best import best
from pipeline.privacy.budget import Neighbours

Floats = NDArray[np.float64]


def _partitions(n: int) -> list[tuple[int, ...]]:
    """All ways to put n areas into larger ones, each as the number of the larger area of each."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(n):
        found = [(*one, group) for one in found for group in range(max(one, default=-1) + 2)]
    return found


def _refines(fine: tuple[int, ...], coarse: tuple[int, ...]) -> bool:
    return len(set(zip(fine, coarse, strict=True))) == len(set(fine))


def _costs(pairs: NDArray[np.int64], matrix: Floats, partitions: list[tuple[int, ...]]) -> Floats:
    """`(n, partitions, T)`: what each period adds to the distance of a pair, with its answers put together."""
    n_answers = len(partitions[0])
    lives = np.stack([(pairs[:, 0] == one).astype(float) - (pairs[:, 1] == one) for one in range(n_answers)], axis=1)
    mixed = np.einsum("ts,nas->nat", matrix, lives)
    return np.stack(
        [
            (np.stack([mixed[:, np.array(one) == group].sum(axis=1) for group in range(max(one) + 1)]) ** 2).sum(axis=0)
            for one in partitions
        ],
        axis=1,
    )


@pytest.mark.parametrize(
    ("neighbours", "spells", "merged", "split"),
    [("change-one", 1, 1.085, 1.016), ("change-one", 2, 1.123, 1.122), ("add-remove", 2, 1.074, 1.0)],
)
def test_one_change_of_the_spine_costs_more_than_the_reach(
    neighbours: Neighbours, spells: int, merged: float, split: float
) -> None:
    """All pairs of histories over three periods, all ways to merge areas once, or to split them once."""
    design = best(3, spells, neighbours)
    pairs = all_pairs(3)
    kept = np.maximum(n_spells(pairs[:, 0].copy()), n_spells(pairs[:, 1].copy())) <= spells
    pairs = pairs[kept & ((neighbours == "change-one") | (pairs[:, 1].max(axis=1) < 0))]
    partitions = _partitions(int(pairs.max()) + 1)
    costs = _costs(pairs, design.matrix.astype(float), partitions)
    fixed = float(distances(pairs, design.gram).max())
    assert costs.sum(axis=2).max() == pytest.approx(fixed), "as long as areas stay, it is the reach"
    found = {"merged": 0.0, "split": 0.0}
    for i, fine in enumerate(partitions):
        for j, coarse in enumerate(partitions):
            if not _refines(fine, coarse):
                continue
            for last in (1, 2):
                before_after = {"merged": (i, j), "split": (j, i)}
                for name, (before, after) in before_after.items():
                    cost = costs[:, before, :last].sum(axis=1) + costs[:, after, last:].sum(axis=1)
                    found[name] = max(found[name], float(cost.max()))
    assert found["merged"] / fixed == pytest.approx(merged, abs=0.001)
    assert found["split"] / fixed == pytest.approx(split, abs=0.001)
