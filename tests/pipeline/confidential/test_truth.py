"""Errors against the truth equal those by brute force, whatever the parts the tables come in."""

from __future__ import annotations

import numpy as np
import pytest
from releases.drawn import drawn_table, parts_of

from pipeline.confidential.accuracy import TableErrors


@pytest.mark.parametrize("step", [13, 1000])
def test_errors_by_brute_force(step: int) -> None:
    whole = drawn_table(300, 4, seed=3)
    assert whole.margins is not None
    rng = np.random.default_rng(4)
    truth = np.maximum(0, whole.counts + rng.integers(-40, 41, whole.counts.shape))
    errors = TableErrors("t", "level")
    for start, part in zip(range(0, 300, step), parts_of(whole, step), strict=True):
        errors.add(part, truth[start : start + step])
    error = whole.counts - truth
    found = errors.whole
    assert (found.areas, found.numbers, found.largest) == (300, 1200, np.abs(error).max())
    assert found.l1 == pytest.approx(np.abs(error).sum(axis=1).mean())
    assert found.bias == pytest.approx(error.mean())
    assert found.rmse == pytest.approx(np.sqrt((error.astype(float) ** 2).mean()))
    expected = np.quantile(np.abs(error), [0.5, 0.9, 0.99], method="inverted_cdf")
    assert (found.half, found.nine, found.ninetynine) == tuple(expected)
    assert whole.lows is not None
    assert whole.highs is not None
    known = ~np.isnan(whole.lows)
    inside = (whole.lows <= truth) & (truth <= whole.highs)
    assert 0.1 < inside[known].mean() < 0.9
    assert found.covered == pytest.approx(inside[known].mean())
    assert sum(one.areas for one in errors.by_size) == 300
    assert [abs(one.error) for one in errors.largest] == np.sort(np.abs(error).ravel())[::-1][:5].tolist()
    fitness = errors.fitness
    assert fitness is not None
    people = truth.sum(axis=1)
    fit = [
        abs(c[t.argmax()] / max(1, c.sum()) - t.max() / max(1, t.sum())) <= 0.05
        for c, t in zip(whole.counts, truth, strict=True)
    ]
    assert (fitness.areas, fitness.fit) == ((people >= 500).sum(), np.array(fit)[people >= 500].sum())
    assert (fitness.all_areas, fitness.all_fit) == ((people > 0).sum(), np.array(fit)[people > 0].sum())
