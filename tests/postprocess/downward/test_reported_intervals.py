"""Intervals of counts from reports: against brute force, and against the truth of models where it is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

from postprocess.downward import simulated_margins
from postprocess.downward.intervals import ReportedIntervals
from postprocess.downward.ranges import narrowest
from postprocess.downward.simulated_margins import (
    SIZE_CLASSES,
    ErrorCounts,
    PublishedTable,
    count_errors,
    n_owners,
    octave_of,
    person_class,
    size_class,
)
from postprocess.linear.downward import AnswerVariances
from postprocess.marginal import Marginal

CELLS = 4
MARGINAL = Marginal("answer", (np.arange(CELLS, dtype=np.int64),))
TABLE = PublishedTable("answer", 0, MARGINAL)
#: Shares of the answers, but the last, and the noise of a report.
SHARES = np.array([0.3, 0.06, 0.02])
NOISE = 2.0


@dataclass(frozen=True)
class Reports:
    """Counts have equal standard errors, and the noise of a report in each cell; a factor for what is tried."""

    slope: float = 0.0

    def __call__(
        self, answers: np.ndarray, cells: np.ndarray, counts: np.ndarray, persons: np.ndarray, standard: np.ndarray, /
    ) -> np.ndarray:
        assert answers.tolist() == list(range(CELLS))
        assert (answers[cells] == cells).all()
        assert (persons >= counts).all()
        return np.sqrt(counts / 400) ** self.slope + 0 * standard

    def variances(self, answers: np.ndarray, cells: np.ndarray, persons: np.ndarray, /) -> np.ndarray:
        assert answers.tolist() == list(range(CELLS))
        return NOISE * persons + 0.0 * cells


def variances(persons: np.ndarray) -> AnswerVariances:
    numbers, classes = np.unique(persons, return_inverse=True)
    by_class = NOISE * np.maximum(numbers, 1)[:, None] * np.ones(CELLS)
    return AnswerVariances(classes.astype(np.int64), {MARGINAL.key: by_class})


def of_rows(known: AnswerVariances) -> np.ndarray:
    """Standard errors of all areas."""
    return known.standard_errors(MARGINAL)[known.classes]


def people(seed: int, persons: np.ndarray) -> np.ndarray:
    """Areas differ: shares vary by a quarter of themselves or so."""
    rng = np.random.default_rng(seed)
    shares = SHARES * rng.gamma(16, 1 / 16, (len(persons), CELLS - 1))
    return rng.multinomial(persons, np.hstack([shares, 1 - shares.sum(axis=1, keepdims=True)])).astype(np.int64)


def release(truth: np.ndarray, seed: int) -> np.ndarray:
    """Counts with the noise of the reports, not negative; the last cell is the rest of the persons."""
    persons = truth.sum(axis=1)
    noise = np.random.default_rng(seed).normal(0, 1, truth.shape) * np.sqrt(NOISE * persons)[:, None]
    counts = np.maximum(np.rint(truth + noise), 0).astype(np.int64)[:, :-1]
    over = np.maximum(counts.sum(axis=1), 1)
    counts = np.where((over > persons)[:, None], counts * persons[:, None] // over[:, None], counts)
    return np.hstack([counts, (persons - counts.sum(axis=1))[:, None]])


def errors_of(truth: np.ndarray, runs: int, seed: int = 50) -> ErrorCounts:
    known = variances(truth.sum(axis=1))
    errors = ErrorCounts.empty(TABLE, known)
    for run in range(runs):
        again = sp.csr_array(release(truth, seed + run))
        errors += count_errors(TABLE, known, sp.csr_array(truth), again, Reports())
    return errors


def held(intervals: ReportedIntervals, truth: np.ndarray, published: np.ndarray) -> np.ndarray:
    low, high = intervals.ends(published, of_rows(variances(truth.sum(axis=1))))
    assert ((low <= published) & (published <= high)).all()
    assert (high <= truth.sum(axis=1, keepdims=True)).all()
    return np.asarray((low <= truth) & (truth <= high))


def areas(seed: int, n: int, most: int = 400) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).uniform(np.log(8), np.log(most), n)).astype(np.int64)


def test_errors_by_brute_force() -> None:
    """Every pair is counted once by cell, octave of persons and released size, but those of areas without persons."""
    truth = people(1, np.append(areas(2, 200), [0, 0, 1]))
    again = release(truth, 3)
    found = count_errors(TABLE, variances(truth.sum(axis=1)), sp.csr_array(truth), sp.csr_array(again), Reports())
    expected: dict[tuple[int, int, int], int] = {}
    for t_row, r_row in zip(truth.tolist(), again.tolist(), strict=True):
        for cell, (t, r) in enumerate(zip(t_row, r_row, strict=True)):
            octave = sum(t_row).bit_length() - 1
            if octave >= 0:
                key = (octave * CELLS + cell, int(np.searchsorted(SIZE_CLASSES, r, side="right")) - 1, t - r)
                expected[key] = expected.get(key, 0) + 1
    places = zip(*(part.tolist() for part in found.by_release.parts()), strict=True)
    assert dict(zip(places, found.by_release.times.tolist(), strict=True)) == expected
    assert found.by_release.is_of(n_owners(MARGINAL))


def test_octaves_are_exact_on_every_processor() -> None:
    """A logarithm rounds what is just below a power of 2 up to it on some, and not on others."""
    powers = np.power(2.0, np.arange(-30, 40)).astype(np.float64)
    assert octave_of(powers).tolist() == list(range(-30, 40))
    assert octave_of(np.nextafter(powers, 0)).tolist() == list(range(-31, 39))


def test_the_narrowest_range_about_a_place_by_brute_force() -> None:
    rng = np.random.default_rng(4)
    errors = rng.poisson(rng.gamma(0.4, 30, (60, 14)))
    errors[:, 6] += 1
    start, stop = narrowest(errors, np.full(len(errors), 0.9), must=(5, 8))
    for row, first, after in zip(errors, start.tolist(), stop.tolist(), strict=True):
        enough = [
            (last - begun, -row[begun:last].sum())
            for begun in range(6)
            for last in range(8, 15)
            if row[begun:last].sum() >= np.ceil(0.9 * row.sum())
        ]
        assert (after - first, -row[first:after].sum()) == min(enough)


@pytest.fixture(scope="module")
def world() -> tuple[np.ndarray, np.ndarray, ReportedIntervals]:
    """Areas of 8 to 400 persons, what is released of them, and errors of four runs of drawn stand-ins."""
    truth, stand_ins = people(5, areas(6, 12_000)), people(7, areas(6, 12_000))
    return truth, release(truth, 8), ReportedIntervals(TABLE, errors_of(stand_ins, 4), Reports(), 12_000)


def test_coverage_by_released_size_and_by_persons(world: tuple[np.ndarray, np.ndarray, ReportedIntervals]) -> None:
    truth, published, intervals = world
    inside = held(intervals, truth, published)
    sizes, persons = size_class(published[:, :-1]), person_class(truth.sum(axis=1))
    for size in np.unique(sizes):
        if (here := sizes == size).sum() >= 300:
            assert 0.87 < inside[:, :-1][here].mean() < 0.98, size
    for octave in np.unique(persons):
        # In small areas whole numbers can hardly hold less.
        assert 0.88 < inside[persons == octave].mean() < (0.94 if octave > 5 else 0.99), octave


def test_large_counts_of_large_areas_are_held(
    world: tuple[np.ndarray, np.ndarray, ReportedIntervals], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the errors of areas of all sizes together, what is released of a rare answer is noise in any of them."""
    truth, published, intervals = world
    large = (truth[:, 1] >= 15)[:, None] & (np.arange(CELLS) == 1)
    assert held(intervals, truth, published)[large].mean() > 0.85
    monkeypatch.setattr(simulated_margins, "person_class", np.zeros_like)
    together = ReportedIntervals(TABLE, errors_of(people(7, areas(6, 12_000)), 4), Reports(), 12_000)
    assert held(together, truth, published)[large].mean() < 0.75


def test_areas_unlike_the_others_are_held_by_their_own_counts(
    world: tuple[np.ndarray, np.ndarray, ReportedIntervals],
) -> None:
    """Half of the persons of 400 areas give an answer that one in 50 gives elsewhere."""
    truth, published, intervals = world
    unlike = np.flatnonzero(truth.sum(axis=1) >= 200)[:400]
    persons, rng = truth[unlike].sum(axis=1), np.random.default_rng(15)
    truth = truth.copy()
    truth[unlike] = rng.multinomial(persons, [0.2, 0.05, 0.5, 0.25])
    shrunk, known = published.copy(), variances(truth.sum(axis=1))
    shrunk[unlike, 2] = (0.8 * truth[unlike, 2]).astype(np.int64)
    shrunk[unlike, 3] = np.maximum(persons - shrunk[unlike, :3].sum(axis=1), 0)
    alone = truth + rng.normal(0, 1, truth.shape) * np.sqrt(NOISE * truth.sum(axis=1))[:, None]
    without, found = (intervals.ends(shrunk, of_rows(known), each) for each in (None, alone))
    held_by = [((low <= truth) & (truth <= high))[unlike, 2].mean() for low, high in (without, found)]
    assert held_by[0] < 0.2
    assert held_by[1] > 0.88
    others = np.setdiff1d(np.arange(len(truth)), unlike)
    width = [(high - low)[others].mean() for low, high in (without, found)]
    assert width[0] <= width[1] < 1.01 * width[0]


def test_few_errors_make_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixty areas and four runs: too few for a range, and what is rare has much narrower intervals by a line."""
    persons = np.full(60, 300)
    truth = people(12, np.full(4_000, 300))
    published, known = release(truth, 13), variances(np.full(4_000, 300))
    intervals = ReportedIntervals(TABLE, errors_of(people(11, persons), 4), Reports(), 60)
    assert held(intervals, truth, published).mean(axis=0) == pytest.approx(0.91, abs=0.05)
    nothing = ReportedIntervals(TABLE, ErrorCounts.empty(TABLE, variances(persons)), Reports(), 60)
    by_line, by_noise = (
        np.subtract(*each.ends(published, of_rows(known))[::-1]).mean(axis=0) for each in (intervals, nothing)
    )
    assert by_line[2] < 0.6 * by_noise[2]
    # Power: with half the spread around the line, too few are held.
    lines = replace(intervals._lines, spread=0.5 * intervals._lines.spread)
    monkeypatch.setitem(intervals.__dict__, "_lines", lines)
    assert held(intervals, truth, published).mean() < 0.8


def test_many_runs_of_few_areas_do_not_make_their_stand_ins_the_truth() -> None:
    """Two areas in 300 runs: their errors by size would say that each has what its stand-in has."""
    persons = np.full(2, 300)
    truth = people(22, np.full(2_000, 300))
    published = release(truth, 23)
    errors = errors_of(people(21, persons), 300)
    assert held(ReportedIntervals(TABLE, errors, Reports(), 2), truth, published).mean() > 0.88
    # Power: as if they were of as many areas as runs.
    assert held(ReportedIntervals(TABLE, errors, Reports(), 600), truth, published).mean() < 0.85


def test_without_errors_standard_errors_of_their_own_stand() -> None:
    """With noise that grows with the count, 90 % is held of small and large ones; by one for all, not of large ones."""
    rng = np.random.default_rng(25)
    truth = rng.integers(100, 900, (6_000, CELLS))
    persons = np.full(len(truth), 18)
    noise = rng.normal(0, 6.0 * np.sqrt(truth / 400))
    published = np.rint(truth + noise).astype(np.int64)
    none = ErrorCounts.empty(TABLE, variances(persons))
    for slope, least in ((1.0, 0.89), (0.0, 0.0)):
        intervals = ReportedIntervals(TABLE, none, Reports(slope), 6_000)
        low, high = intervals.ends(published, of_rows(variances(persons)))
        inside = (low <= truth) & (truth <= high)
        assert least < inside[truth > 700].mean() < (0.91 if slope else 0.85)
        assert not slope or 0.89 < inside[truth < 300].mean() < 0.91


def test_what_is_certain_and_what_is_not_known() -> None:
    """Nobody lives in an area without persons; what is certain is as released; NaN stays."""
    by_cell = np.array([[0.0, np.nan, 9.0, 9.0]])
    known = AnswerVariances(np.zeros(2, dtype=np.int64), {MARGINAL.key: by_cell})
    released = np.array([[3, 2, 4, 5], [0, 0, 0, 0]])
    intervals = ReportedIntervals(TABLE, ErrorCounts.empty(TABLE, known), Reports(), 1)
    low, high = intervals.ends(released, of_rows(known))
    assert low[0, 0] == high[0, 0] == 3
    assert np.isnan([low[:, 1], high[:, 1]]).all()
    assert (high[1, 2:] == 0).all()
    assert (high[0, 2:] - low[0, 2:] >= 8).all()
