"""Quantiles by rank and lists by count: how far a neighbour moves the losses, what a choice costs, what is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from pipeline.model.promise import Promise
from pipeline.model.schema import ListedAttribute
from pipeline.privacy.budget import MOVED, Framework, Neighbours
from pipeline.privacy.noise import mechanisms
from pipeline.privacy.noise.choices import Exponential
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.questions.quantiles import Rank, Ranked, losses, rank_of, rank_reach, ranked
from pipeline.questions.tables import listed, most_common, rank_ends
from pipeline.questions.windows import bought
from postprocess.statistics import COVERAGE

QUANTILES = [Fraction(1, 2), Fraction(1, 4), Fraction(2, 3), Fraction(99, 100)]
#: Of a minimum and a maximum.
EXTREMES = [Fraction(0), Fraction(1)]
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


@cache
def neighbouring(neighbours: Neighbours) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of neighbours, beside all sets of up to three further records: before and after."""
    rests = [rest for n in range(4) for rest in combinations_with_replacement(RECORDS[1:], n)]
    others = [None] if neighbours == "add-remove" else RECORDS
    pairs = [(histogram((*rest, one)), histogram((*rest, two))) for rest in rests for one in RECORDS for two in others]
    before, after = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    return before, after


def violations(quantile: Fraction, framework: Framework, neighbours: Neighbours, reach: Reach) -> int:
    """Pairs of neighbours that cost more than a charge with that reach states, whatever the ties, or records beyond."""
    far, times = reach(quantile, framework, neighbours)
    before, after = neighbouring(neighbours)
    wrong = 0
    for some in (0, 1, 2, 9):
        ties, beyond = (0, some) if quantile in EXTREMES else (some, 0)
        one = Ranked(Rank(quantile, CANDIDATES, 0), far, Fraction(1), Exponential(Fraction(1)), times, ties, beyond)
        moved = losses(before, one) - losses(after, one)
        # Half of the range of what a group's losses move by, so that the mechanism's loss has a range of e times that.
        half = ((moved.max(axis=1) - moved.min(axis=1)) / 2).reshape(-1, 2)
        due = half.sum(axis=1) if framework == "pure" else (half**2).sum(axis=1)
        allowed = MOVED[neighbours] * far ** (1 if framework == "pure" else 2)
        wrong += int((due > allowed + 1e-9).sum())
    return wrong


@pytest.mark.parametrize("quantile", QUANTILES + EXTREMES)
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("framework", ["zcdp", "pure"])
def test_no_neighbour_moves_the_losses_further(
    quantile: Fraction, framework: Framework, neighbours: Neighbours
) -> None:
    assert violations(quantile, framework, neighbours, rank_reach) == 0


@pytest.mark.parametrize("quantile", QUANTILES[:3] + EXTREMES)  # of so few records, the last moves less
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
        choice, windows = bought(Rank(quantile, 601, 0), Promise(framework, neighbours, Fraction(1, 50), records))
        assert Fraction(999, 1000) * Fraction(1, 50) <= choice.budget + windows.budget <= Fraction(1, 50)
        epsilon = choice.mechanism.scale * choice.reach * records  # by the definition of either, from what is drawn
        assert MOVED[neighbours] * (epsilon**2 / 8 if framework == "zcdp" else epsilon) == choice.budget
        moved, scale = MOVED[neighbours], windows.mechanism.scale
        squares = 10**2  # 8^2 + 4^2 + 3^2 + 2^2 + 2^2 + 1 + 1 + 1
        due = moved * squares * records**2 / (2 * scale) if framework == "zcdp" else moved * records / scale
        assert due == windows.budget


@cache
def exactly(row: tuple[int, ...], base: Fraction) -> tuple[Fraction, ...]:
    """Permute-and-flip from its definition, with coins of base^-loss: inclusion and exclusion, in fractions.

    A candidate is chosen if its coin shows heads and it comes before all others of which heads are shown; of a set of
    others whose coins are tossed and show heads it is the first with probability 1 / (1 + their number).
    """
    coins = [base ** (min(row) - loss) for loss in row]
    found = []
    for j, own in enumerate(coins):
        others, chance = [*coins[:j], *coins[j + 1 :]], Fraction(0)
        for shown in product((False, True), repeat=len(others)):
            part = Fraction(1, 1 + sum(shown))
            for coin, heads in zip(others, shown, strict=True):
                part *= coin if heads else 1 - coin
            chance += part
        found.append(own * chance)
    assert sum(found) == 1
    return tuple(found)


def furthest(quantile: Fraction, neighbours: Neighbours, base: Fraction) -> Fraction:
    """The largest ratio of probabilities of any two neighbours, of the choices of both groups together.

    All pairs of neighbours, with all treatments of ties or records beyond, with exp(e / 2) = `base`.
    """
    far, times = rank_reach(quantile, "pure", neighbours)
    assert times == 1
    before, after = neighbouring(neighbours)
    worst = Fraction(0)
    for some in (0, 1, 2, 9):
        ties, beyond = (0, some) if quantile in EXTREMES else (some, 0)
        one = Ranked(Rank(quantile, CANDIDATES, 0), far, Fraction(1), Exponential(Fraction(1)), 1, ties, beyond)
        both = np.concatenate([losses(before, one), losses(after, one)], axis=1).reshape(len(before) // 2, -1)
        for row in np.unique(both, axis=0).tolist():
            ratio = Fraction(1)
            for group in (row[: 2 * CANDIDATES], row[2 * CANDIDATES :]):
                p, q = (exactly(tuple(part), base) for part in (group[:CANDIDATES], group[CANDIDATES:]))
                ratio *= max(a / b for a, b in zip(p, q, strict=True))
            worst = max(worst, ratio)
    return worst


@pytest.mark.parametrize(
    ("quantile", "neighbours"),
    [
        (Fraction(1, 4), "change-one"),
        (Fraction(1), "add-remove"),
        *(
            pytest.param(quantile, neighbours, marks=pytest.mark.slow)
            for quantile in (*QUANTILES[:3], *EXTREMES)
            for neighbours in MOVED
        ),
    ],
)
def test_permute_and_flip_reveals_no_more_than_is_charged(quantile: Fraction, neighbours: Neighbours) -> None:
    """Exact probabilities of all neighbours: no ratio is beyond e^epsilon, with epsilon = m R e as it is charged.

    Nor is the charge far too much; with half of it there would be too little.
    """
    far, _ = rank_reach(quantile, "pure", neighbours)
    base = Fraction(2)
    worst, charged = furthest(quantile, neighbours, base), base ** (2 * MOVED[neighbours] * far)
    one = ranked(Rank(quantile, 9, 0), Promise("pure", neighbours, Fraction(MOVED[neighbours] * far)))
    assert one.mechanism.scale == 1
    assert one.budget == MOVED[neighbours] * far
    assert worst <= charged
    assert worst**2 > charged


@pytest.mark.parametrize("quantile", EXTREMES)
def test_an_extreme_has_the_losses_of_its_definition(quantile: Fraction) -> None:
    """Counted one by one, of the amounts as they are; a minimum is the maximum of what is mirrored."""
    rng = np.random.default_rng(2)
    for beyond in (0, 1, 3, 20):
        for _ in range(20):
            values = rng.integers(0, 9, rng.integers(0, 12))
            one = Ranked(Rank(quantile, 9, 0), 1, Fraction(1), Exponential(Fraction(1)), 1, 0, beyond)
            found = losses(np.bincount(values, minlength=9)[None].astype(np.int64), one)[0].tolist()
            if quantile == 0:
                values, found = 8 - values, found[::-1]
            right = [max(int((values > v).sum()) - beyond, 0) if v < 8 else 0 for v in range(9)]
            few = [max(beyond - int((values >= v).sum()), 0) if v > 0 else 0 for v in range(9)]
            assert found == [max(two) for two in zip(right, few, strict=True)]
            # The number asked for: the lowest that at most so many are above.
            assert found[next(v for v in range(9) if (values > v).sum() <= beyond)] == 0


@pytest.mark.parametrize("number", [Fraction(1, 4), Fraction(1, 100), Fraction(2), None])
def test_a_clip_is_the_least_end_that_few_enough_are_above(number: Fraction | None) -> None:
    """By brute force on the amounts as they are; no loss is left where just that end is chosen."""
    rng, ends = np.random.default_rng(4), [Fraction(1, 2), Fraction(3), Fraction(4), Fraction(8)]
    attribute = ListedAttribute.of("x", ends)
    part = rank_of("clip", number, len(ends), 0)
    for _ in range(60):
        values = [Fraction(int(value), 4) for value in rng.integers(-4, 50, rng.integers(1, 30))]
        counts = np.bincount([attribute.number_of(value) for value in values], minlength=4)[None].astype(np.int64)
        one = ranked(part, Promise("zcdp", "change-one", Fraction(8)))
        found = losses(counts, one)[0]
        allowed = number * len(values) if number is not None and number < 1 else one.beyond
        above = [sum(value > end for value in values) for end in ends]
        right = next((i for i in range(4) if above[i] <= allowed), 3)
        assert (one.ties, found[right]) == (0, 0)
        for end in range(4):
            more = above[end] - allowed if end < 3 else 0
            fewer = allowed - above[end - 1] if end > 0 else 0
            assert found[end] == max(more, fewer, 0) * part.quantile.denominator * one.times
    assert ranked(part, Promise("zcdp", "change-one", Fraction(1, 100))).beyond == (
        0 if part.quantile < 1 else 2 if number else 35
    )


#: Of choices, large enough that they say something of the histograms.
BUDGETS: dict[Framework, Fraction] = {"zcdp": Fraction(1, 10), "pure": Fraction(1)}
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
        one = replace(ranked(Rank(quantile, 9, 0), Promise("zcdp", "change-one", Fraction(1))), ties=0)
        found = losses(np.bincount(values, minlength=9)[None], one)[0]
        for candidate in range(1, 8):
            below, upto = int((values < candidate).sum()), int((values <= candidate).sum())
            assert (found[candidate] == 0) == (below <= quantile * len(values) <= upto)
        assert found.min() == 0


def test_a_value_that_most_records_have_is_the_median() -> None:
    """Six in ten have nothing: the median is 0, and not the least amount that somebody has."""
    counts = np.bincount([0] * 600 + list(range(1, 401)), minlength=601)[None].astype(np.int64)
    for framework, budget in BUDGETS.items():
        one = ranked(Rank(Fraction(1, 2), 601, 0), Promise(framework, "change-one", budget / 2))
        assert one.mechanism.probabilities(losses(counts, one)[0].tolist())[0] > 0.9


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
@pytest.mark.parametrize("quantile", EXTREMES)
def test_an_extreme_is_not_beyond_all_records_and_few_are_beyond_it(quantile: Fraction, framework: Framework) -> None:
    """Exact probabilities; with a mechanism of three quarters of the epsilon it would not be so."""
    worst = 0.0
    for counts in (*HISTOGRAMS.values(), np.bincount([0] * 900 + [199] * 100, minlength=200)):
        one = ranked(Rank(quantile, len(counts), 0), Promise(framework, "change-one", BUDGETS[framework]))
        own, row = counts if quantile == 1 else counts[::-1], losses(counts[None].astype(np.int64), one)[0]
        at_or_above, above = np.cumsum(own[::-1])[::-1], np.cumsum(own[::-1])[::-1] - own
        wrong = (above >= 2 * one.beyond) | (at_or_above == 0)
        wrong[0] &= own.sum() > 0
        for factor in (Fraction(1), Fraction(3, 4)):
            chances = np.array(type(one.mechanism)(factor * one.mechanism.scale).probabilities(row.tolist()))
            chances = chances if quantile == 1 else chances[::-1]
            if factor == 1:
                assert chances[wrong].sum() <= 0.1
            else:
                worst = max(worst, float(chances[wrong].sum()))
    assert worst > 0.1


def test_the_number_is_within_the_records_that_are_told() -> None:
    for counts, quantile, framework in product(HISTOGRAMS.values(), QUANTILES, BUDGETS):
        one = ranked(Rank(quantile, len(counts), 0), Promise(framework, "change-one", BUDGETS[framework]))
        upto, target = np.cumsum(counts), float(quantile) * int(counts.sum())
        off = np.maximum(np.maximum(upto - counts - target, target - upto), 0)
        chances = np.array(one.mechanism.probabilities(losses(counts[None].astype(np.int64), one)[0].tolist()))
        assert chances[off > one.within].sum() <= 0.1


NOISE = DiscreteGaussian(Fraction(25))


def noise(n: int, seed: int) -> np.ndarray:
    return sampler_for(NOISE).draw(bytes([seed]) * 32, 0, n)


def test_all_intervals_of_ranks_hold_together_in_nine_of_ten() -> None:
    """Counts a standard deviation apart; with intervals that hold one by one only, fewer do: the power arm."""
    true = np.arange(12) * 5
    half, single = NOISE.half_width(COVERAGE ** (1 / 12)), NOISE.half_width(0.5)
    ranks = [1 + int((true > count).sum()) for count in true]
    drawn = [true + noise(12, seed) for seed in range(250)]

    def together(width: int) -> float:
        held = [
            all(
                low <= rank <= high
                for rank, (low, high) in zip(ranks, rank_ends(list(map(int, one)), width), strict=True)
            )
            for one in drawn
        ]
        return float(np.mean(held))

    assert together(half) >= 0.9
    assert together(single // 2) < 0.9


def test_counts_that_were_picked_are_held() -> None:
    """Of twenty equal counts the largest noisy one is too large; intervals of one count each would miss it."""
    keys = [(str(value),) for value in range(20)]
    held = []
    for seed in range(250):
        ((*_, count, low, high),) = most_common(keys, (500 + noise(20, seed)).tolist(), NOISE, 1)
        held.append((int(low) <= 500 <= int(high), abs(int(count) - 500) <= NOISE.half_width()))
    joint, single = np.mean(held, axis=0)
    assert joint >= 0.9
    assert single < 0.5


def test_groups_are_listed_as_often_as_is_said() -> None:
    half = NOISE.half_width()
    for true, least, most in ((100 + half, 0.93, 1.0), (100 - half - 1, 0.0, 0.07)):
        counts = (true + noise(4000, 1)).tolist()
        found = list(listed(([str(count)] for count in counts), counts, 100))
        assert least <= len(found) / 4000 <= most
    counts = (100 + noise(4000, 2)).tolist()
    assert 0.4 < len(list(listed(([str(count)] for count in counts), counts, 100))) / 4000 < 0.6


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(2), Fraction(20), Fraction(500)])
def test_the_half_width_is_the_least_that_covers(mechanism: str, scale: Fraction) -> None:
    noise = mechanisms.NOISES[mechanism](scale)
    table, half = noise.tails(64), noise.half_width()
    one = 1 << table.bits
    assert 2 * table.upper[half + 1] <= one / 10 * (1 + 1e-9)
    assert half == 0 or 2 * table.lower[half] > one / 10 * (1 - 1e-9)
