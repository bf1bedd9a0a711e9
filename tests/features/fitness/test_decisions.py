"""Thresholds: who is on which side, and how likely noise decides it."""

from __future__ import annotations

import numpy as np
import pytest

from features.fitness.fitness import beyond_zero, threshold


def test_the_probability_is_that_of_simulated_truths() -> None:
    """Noise of known size around known numbers: as many truths are on the other side as is foretold of each area."""
    rng = np.random.default_rng(7)
    published = np.arange(985, 1016)
    spread = np.full(published.shape, 8.0)
    truth = np.rint(rng.normal(published, spread, (40_000, len(published))))
    other = ((truth >= 1000) != (published >= 1000)).mean(axis=0)
    found = threshold("", "tract", 1000, published.astype(np.str_), published, spread)
    assert found.expected_wrong == pytest.approx(other.sum(), rel=0.01)
    foretold = {int(area.geocode): area.probability for area in found.listed}
    for place, people in enumerate(published.tolist()):
        if people in foretold:
            assert foretold[people] == pytest.approx(other[place], abs=0.01)
    assert found.doubtful == (other >= 0.05).sum()
    assert len(found.listed) == 20


def test_sides_by_hand() -> None:
    codes = np.array(["a", "b", "c", "d", "e"])
    published = np.array([999, 1000, 1001, 1002, 5])
    truth = np.array([1000, 999, 1001, 1000, 4])
    spread = np.array([1.0, 1.0, 0.0, np.nan, 2.0])
    found = threshold("", "tract", 1000, codes, published, spread, truth)
    assert (found.areas, found.above, found.lost, found.gained, found.unknown) == (5, 3, 1, 1, 1)
    assert [(area.geocode, area.truth) for area in found.listed] == [("a", 1000), ("b", 999)]
    # Half a person from the other side, one standard error being a person.
    assert [area.probability for area in found.listed] == pytest.approx([0.30853754] * 2)
    assert beyond_zero(np.array([0.5, -3.0, 0.0]), np.zeros(3)).tolist() == [0, 0, 0]
