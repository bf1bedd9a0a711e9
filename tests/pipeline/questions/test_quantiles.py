"""Quantiles by rank: how far a neighbour moves the losses, by enumeration; what a choice costs; how near it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from pipeline.privacy.budget import MOVED, Framework, Neighbours
from pipeline.privacy.noise.exponential import Exponential
from pipeline.questions.quantiles import Rank, Ranked, losses, rank_reach, ranked
from pipeline.questions.windows import bought

QUANTILES = [Fraction(1, 2), Fraction(1, 4), Fraction(2, 3), Fraction(99, 100)]
CANDIDATES = 4
#: Two groups; a record is a group and a candidate, or None where it is not counted.
RECORDS = [None, *product(range(2), range(CANDIDATES))]

Reach = Callable[[Fraction, Framework, Neighbours], tuple[int, int]]


def histogram(records: tuple[tuple[int, int] | None, ...]) -> np.ndarray:
    found = np.zeros((2, CANDIDATES), dtype=np.int64)
    for record in records:
        if record is not None:
            found[record] += 1
    return found


def neighbouring(neighbours: Neighbours) -> list[tuple[np.ndarray, np.ndarray]]:
    """All pairs of neighbours, beside all sets of up to three further records."""
    rests = [rest for n in range(4) for rest in combinations_with_replacement(RECORDS[1:], n)]
    others = [None] if neighbours == "add-remove" else RECORDS
    return [(histogram((*rest, one)), histogram((*rest, two))) for rest in rests for one in RECORDS for two in others]


def violations(quantile: Fraction, framework: Framework, neighbours: Neighbours, reach: Reach) -> int:
    """Pairs of neighbours that cost more than a charge with that reach states, whatever the ties."""
    far, times = reach(quantile, framework, neighbours)
    pairs = neighbouring(neighbours)
    before, after = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    wrong = 0
    for ties in (0, 1, 2, 9):
        one = Ranked(Rank(quantile, CANDIDATES, 0), far, Fraction(1), Fraction(1), times, ties)
        moved = losses(before, one) - losses(after, one)
        # Half of the range of what a group's losses move by, so that the mechanism's loss has a range of e times that.
        half = ((moved.max(axis=1) - moved.min(axis=1)) / 2).reshape(-1, 2)
        due = half.sum(axis=1) if framework == "pure" else (half**2).sum(axis=1)
        allowed = MOVED[neighbours] * far ** (1 if framework == "pure" else 2)
        wrong += int((due > allowed + 1e-9).sum())
    return wrong


@pytest.mark.parametrize("quantile", QUANTILES)
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("framework", ["zcdp", "pure"])
def test_no_neighbour_moves_the_losses_further(
    quantile: Fraction, framework: Framework, neighbours: Neighbours
) -> None:
    assert violations(quantile, framework, neighbours, rank_reach) == 0


@pytest.mark.parametrize("quantile", QUANTILES[:3])  # of so few records, the last moves less
def test_a_smaller_reach_is_found(quantile: Fraction) -> None:
    for framework, neighbours in product(("zcdp", "pure"), MOVED):

        def less(*arguments: object) -> tuple[int, int]:
            far, times = rank_reach(*arguments)  # type: ignore[arg-type]
            return far - 1, times

        assert violations(quantile, framework, neighbours, less) > 0  # type: ignore[arg-type]


def test_a_changed_record_charged_as_if_it_left_one_group_only_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "MOVED", {"change-one": 1, "add-remove": 1})
    assert violations(Fraction(1, 4), "zcdp", "change-one", rank_reach) > 0


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("framework", ["zcdp", "pure"])
@pytest.mark.parametrize("records", [1, 3])
def test_choice_and_windows_cost_no_more_than_the_budget_and_nearly_as_much(
    framework: Framework, neighbours: Neighbours, records: int
) -> None:
    for quantile in QUANTILES:
        choice, windows = bought(Rank(quantile, 601, 0), framework, neighbours, Fraction(1, 50), records)
        assert Fraction(999, 1000) * Fraction(1, 50) <= choice.budget + windows.budget <= Fraction(1, 50)
        epsilon = choice.scale * choice.reach * records  # by the definition of either, from what is drawn
        assert MOVED[neighbours] * (epsilon**2 / 8 if framework == "zcdp" else epsilon) == choice.budget
        moved, scale = MOVED[neighbours], windows.scale
        squares = 10**2  # 8^2 + 4^2 + 3^2 + 2^2 + 2^2 + 1 + 1 + 1
        due = moved * squares * records**2 / (2 * scale) if framework == "zcdp" else moved * records / scale
        assert due == windows.budget


def test_the_loss_of_privacy_is_what_is_charged() -> None:
    """The exact distributions of neighbours: the largest ratio is at most e^epsilon, and is nearly reached."""
    for quantile, neighbours in product(QUANTILES[:2], MOVED):
        one = ranked(Rank(quantile, CANDIDATES, 0), "pure", neighbours, Fraction(1), 1)  # type: ignore[arg-type]
        worst = 0.0
        for before, after in neighbouring(neighbours)[::29]:  # type: ignore[arg-type]
            ratio = 0.0
            for first, second in zip(losses(before, one), losses(after, one), strict=True):
                p, q = (Exponential(one.scale).probabilities(row.tolist()) for row in (first, second))
                ratio += max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True))
            worst = max(worst, ratio)
        assert worst <= float(one.budget) + 1e-9
        assert worst > float(one.budget) / 4


HISTOGRAMS = {
    "dense": np.full(200, 10),
    "few": np.bincount([3, 70, 110], minlength=200),
    "none": np.zeros(200, dtype=int),
    "a gap at the median": np.bincount([2] * 300 + [190] * 300, minlength=200),
    "all the same": np.bincount([50] * 400, minlength=200),
    "at the ends": np.bincount([0] * 100 + [199] * 99, minlength=200),
}


def test_the_true_quantile_is_the_likeliest() -> None:
    """Without ties, a candidate has the loss 0 if it is a quantile by the usual definition."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        values, quantile = rng.integers(0, 9, rng.integers(1, 12)), Fraction(int(rng.integers(1, 7)), 7)
        one = replace(ranked(Rank(quantile, 9, 0), "zcdp", "change-one", Fraction(1), 1), ties=0)
        found = losses(np.bincount(values, minlength=9)[None], one)[0]
        for candidate in range(1, 8):
            below, upto = int((values < candidate).sum()), int((values <= candidate).sum())
            assert (found[candidate] == 0) == (below <= quantile * len(values) <= upto)
        assert found.min() == 0


def test_a_value_that_most_records_have_is_the_median() -> None:
    """Six in ten have nothing: the median is 0, and not the least amount that somebody has."""
    counts = np.bincount([0] * 600 + list(range(1, 401)), minlength=601)[None].astype(np.int64)
    one = ranked(Rank(Fraction(1, 2), 601, 0), "zcdp", "change-one", Fraction(1, 20), 1)
    assert Exponential(one.scale).probabilities(losses(counts, one)[0].tolist())[0] > 0.9


def test_the_number_is_within_the_records_that_are_told() -> None:
    for counts, quantile in product(HISTOGRAMS.values(), QUANTILES):
        one = ranked(Rank(quantile, len(counts), 0), "zcdp", "change-one", Fraction(1, 10), 1)
        upto, target = np.cumsum(counts), float(quantile) * int(counts.sum())
        off = np.maximum(np.maximum(upto - counts - target, target - upto), 0)
        chances = np.array(Exponential(one.scale).probabilities(losses(counts[None].astype(np.int64), one)[0].tolist()))
        assert chances[off > one.within].sum() <= 0.1
