"""The target of 2020, area by area."""

from __future__ import annotations

import numpy as np
import pytest

from postprocess.largest_group import Target, TargetSums, fits


def target_of(people: list[int], fit: list[bool]) -> Target:
    sums = TargetSums()
    sums.add(np.array(people), np.array(fit))
    found = sums.target()
    assert found is not None
    return found


def test_which_areas_fit() -> None:
    """The group that is truly the largest, wherever the published one is; five points are still within."""
    truth = np.array([[60, 40, 0], [50, 45, 5], [20, 0, 0], [40, 60, 0]])
    published = np.array([[65, 35, 0], [44, 50, 6], [0, 0, 0], [46, 54, 0]])
    assert fits(published, truth).tolist() == [True, False, False, False]


def test_every_area_is_counted_as_by_hand() -> None:
    rng = np.random.default_rng(2)
    truth = rng.poisson(rng.uniform(0, 700, (300, 1)) * [0.5, 0.3, 0.2])
    published = np.maximum(truth + rng.integers(-25, 26, truth.shape), 0)
    fit = []
    for own, true in zip(published.tolist(), truth.tolist(), strict=True):
        group = true.index(max(true))
        there = abs(own[group] / max(1, sum(own)) - true[group] / max(1, sum(true))) <= 0.05 + 1e-12
        fit.append(there)
    assert fits(published, truth).tolist() == fit
    assert 0.2 < np.mean(fit) < 0.95
    people = truth.sum(axis=1)
    found = target_of(people.tolist(), fit)
    large = people >= 500
    assert (found.areas, found.fit) == (large.sum(), np.array(fit)[large].sum())
    assert (found.all_areas, found.all_fit) == ((people > 0).sum(), np.array(fit)[people > 0].sum())
    assert found.share == pytest.approx(np.array(fit)[large].mean())


@pytest.mark.parametrize(
    ("people", "fit", "met", "reliable"),
    [
        ([10, 460, 460, 510], [False, True, True, True], True, 50),
        ([10, 460, 460, 510], [False, True, False, True], True, 500),
        ([10, 5000], [True, False], False, None),
        ([10, 60], [True, True], None, 0),
        ([499, 500], [False, True], True, 500),
        ([600] * 20, [False] + [True] * 19, True, 0),
        ([600] * 20, [False] * 2 + [True] * 18, False, None),
    ],
)
def test_reliability(people: list[int], fit: list[bool], met: bool | None, reliable: int | None) -> None:
    found = target_of(people, fit)
    assert (found.met, found.reliable_from) == (met, reliable)
