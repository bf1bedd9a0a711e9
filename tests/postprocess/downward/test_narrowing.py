"""The union of both intervals covers about what it is to cover, of every group of cells: where the truth is known."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from postprocess.downward.intervals import FIRST, narrowed
from postprocess.downward.ranges import Ranges, narrowest, united
from postprocess.downward.simulated_margins import SIMULATED_COVERAGE, ErrorCounts, PublishedTable, count_errors
from postprocess.linear.downward import AnswerVariances
from postprocess.marginal import Marginal

CELLS, N, NOISE = 3, 8_000, 30.0
MARGINAL = Marginal("group", (np.arange(CELLS, dtype=np.int64),))
TABLE = PublishedTable("group", 0, MARGINAL)
OCTAVES = FIRST * 2 ** np.arange(7)


def population(seed: int, n: int = N) -> np.ndarray:
    """Small areas: two groups with some 30 persons in each, and one of whom few areas have any."""
    rng = np.random.default_rng(seed)
    frequent = rng.poisson(rng.gamma(2.0, 15.0, (n, 2)))
    rare = rng.poisson(rng.gamma(2.0, 15.0, (n, 1))) * (rng.random((n, 1)) < 0.03)
    return np.hstack([frequent, rare]).astype(np.int64)


def release(truth: np.ndarray, seed: int, noise: float = NOISE) -> np.ndarray:
    return np.maximum(np.rint(truth + np.random.default_rng(seed).normal(0, noise, truth.shape)), 0).astype(np.int64)


def errors_of(truth: np.ndarray, noise: float = NOISE) -> ErrorCounts:
    known = AnswerVariances(np.zeros(len(truth), dtype=np.int64), {MARGINAL.key: np.full((1, CELLS), noise**2)})
    return count_errors(TABLE, known, sp.csr_array(truth), sp.csr_array(release(truth, 3, noise)))


def covered(
    ranges: tuple[Ranges, Ranges], unit: int, truth: np.ndarray, released: np.ndarray
) -> tuple[np.ndarray, float]:
    """The share of truths in their intervals by the octave of truth and of release `(2, 7)`, and the mean width.

    NaN for octaves of fewer than 500 counts.
    """
    cells = np.broadcast_to(np.arange(truth.shape[1]), truth.shape).ravel()
    low, high = (ends.reshape(truth.shape) for ends in united(*ranges, unit, cells, released.ravel()))
    low, high = np.maximum(np.minimum(low, released - 1), 0), np.maximum(high, released + 1)
    inside = (low <= truth) & (truth <= high)
    found = np.full((2, len(OCTAVES)), np.nan)
    for row, sizes in zip(found, (truth, released), strict=True):
        for octave, least in enumerate(OCTAVES):
            chosen = (sizes >= least) & (sizes < 2 * least)
            row[octave] = inside[chosen].mean() if chosen.sum() >= 500 else np.nan
    return found, float((high - low)[released >= FIRST].mean())


def full(errors: ErrorCounts) -> tuple[Ranges, Ranges]:
    by_truth, by_release = (
        Ranges.of(each, CELLS, narrowest, SIMULATED_COVERAGE) for each in (errors.by_truth, errors.by_release)
    )
    return by_truth, by_release


def test_a_union_that_covers_too_much_is_narrowed_until_it_covers_enough() -> None:
    errors = errors_of(population(1))
    truth = population(2)
    released = release(truth, 4)
    found, width = covered(narrowed(errors, CELLS), errors.unit, truth, released)
    assert np.nanmin(found) > 0.88
    # Truths of 16 to 31 are often released as less than 8, which keeps what it had.
    assert np.nanmax(np.delete(found, 1, axis=1)) < 0.96
    assert np.nanmean(found) < 0.945
    # Power: the union of both as they are covers more than it has to, and is longer.
    before, wider = covered(full(errors), errors.unit, truth, released)
    assert np.nanmin(before) > 0.96
    assert width < 0.9 * wider
    # Power: either alone, at the same share, misses truths or releases of some size.
    for alone in (0, 1):
        both = list(full(errors))
        nothing = Ranges(np.full_like(both[0].low, np.nan), np.full_like(both[0].low, np.nan))
        both[alone] = nothing
        assert np.nanmin(covered((both[0], both[1]), errors.unit, truth, released)[0]) < 0.88


def test_a_rare_group_keeps_its_own() -> None:
    """Releases of a rare group are mostly noise; what frequent groups show must not make its intervals shorter."""
    errors = errors_of(population(1))
    truth = population(2, 200_000)
    released = release(truth, 4)
    rare = np.array([False, False, True])
    for ranges in (narrowed(errors, CELLS), full(errors)):
        own = tuple(Ranges(each.low[rare], each.high[rare]) for each in ranges)
        found, _ = covered((own[0], own[1]), errors.unit, truth[:, rare], released[:, rare])
        assert np.nanmin(found) > 0.88
    # Power: with the frequent groups' ranges, releases of the rare one are held far too rarely.
    both = narrowed(errors, CELLS)
    theirs = tuple(Ranges(each.low[:1], each.high[:1]) for each in both)
    found, _ = covered((theirs[0], theirs[1]), errors.unit, truth[:, rare], released[:, rare])
    assert np.nanmin(found) < 0.5


def few_of_each(seed: int, n: int) -> np.ndarray:
    """One frequent group and two that are not: in no octave 400 pairs of each by both sizes; of all from 32 on."""
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(2.0, 1.0, (n, CELLS)) * [50.0, 12.5, 12.5]).astype(np.int64)


def test_pairs_of_all_cells_together_narrow_where_those_alike_are_few() -> None:
    errors, octave = errors_of(few_of_each(1, 600)), 2
    truth = few_of_each(2, 20_000)
    released = release(truth, 4)
    for mine, before in zip(narrowed(errors, CELLS), full(errors), strict=True):  # the fault: each by its own pairs
        assert np.array_equal(mine.low, before.low, equal_nan=True)
        assert np.array_equal(mine.high, before.high, equal_nan=True)
    found, width = covered(narrowed(errors, CELLS, pooled=True), errors.unit, truth, released)
    fuller, wider = covered(full(errors), errors.unit, truth, released)
    assert fuller[:, octave].mean() > 0.96
    assert 0.9 < found[:, octave].mean() < 0.93
    assert width < 0.93 * wider
