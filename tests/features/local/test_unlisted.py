"""Signs of frequent words that are not listed: by dense algebra, how often there are false ones, and what they find."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from features.local.collect.bits import KeyedBytes
from features.local.collect.bloom import filters
from features.local.collect.mechanism import Counts
from features.local.collect.rappor import Rappor
from features.local.collected_words import CollectedWords
from features.local.unlisted import CohortBits, Unlisted, signs_of, unlisted_of, unlisted_words

RAPPOR = Rappor(32, 2, 16, Fraction(1, 4), Fraction(1, 4), Fraction(3, 4))
LISTED = tuple(f"word {number}" for number in range(6))
SHARES = (0.3, 0.2, 0.1, 0.05, 0.05, 0.0)
REPORTS = 6_000


def survey(
    mechanism: Rappor, said: dict[str, int], others: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Bits and reports of each cohort: of words, and of others each of whom says a word of its own.

    By counts of bits that are set in filters, of which each is sent with its probability.
    """
    ones = filters(tuple(said), mechanism.cohorts, mechanism.bits, mechanism.hashes)
    uniform = np.full(mechanism.cohorts, 1 / mechanism.cohorts)
    numbers = np.array([rng.multinomial(count, uniform) for count in said.values()]).T
    of_others = rng.multinomial(others, uniform)
    are_set = np.zeros((mechanism.cohorts, mechanism.bits), dtype=np.int64)
    for cohort in range(mechanism.cohorts):
        for hashed in range(mechanism.hashes):
            np.add.at(are_set[cohort], ones[cohort, :, hashed], numbers[cohort])
        drawn = rng.random((of_others[cohort], mechanism.bits)).argpartition(mechanism.hashes, axis=1)
        np.add.at(are_set[cohort], drawn[:, : mechanism.hashes].ravel(), 1)
    cohorts = numbers.sum(axis=1) + of_others
    sent = rng.binomial(are_set, float(mechanism.q_star))
    return sent + rng.binomial(cohorts[:, None] - are_set, float(mechanism.p_star)), cohorts


def counts_of(collected: CollectedWords, bits: Counts) -> np.ndarray:
    """Unbiased counts of the words from the bits: each has what it adds in a single report."""
    mechanism = collected.rappor
    found = np.zeros(len(collected.words))
    for cohort in range(mechanism.cohorts):
        each = np.zeros((mechanism.bits, 1 + mechanism.bits), dtype=np.uint16)
        each[:, 0] = cohort
        each[:, 1:] = np.eye(mechanism.bits)
        parts = collected.totals(each, np.arange(mechanism.bits), mechanism.bits)[:, :-1] / 2.0**20
        found += bits[cohort] @ parts
    return found


def told_of(collected: CollectedWords, said: dict[str, int], others: int, rng: np.random.Generator) -> Unlisted:
    bits, cohorts = survey(collected.rappor, said, others, rng)
    found = unlisted_words(collected, counts_of(collected, bits), bits.ravel(), cohorts)
    assert found is not None
    return found


def usual() -> dict[str, int]:
    return {word: round(share * REPORTS) for word, share in zip(LISTED, SHARES, strict=True)}


def test_it_is_the_chi_square_of_generalised_least_squares() -> None:
    """By the covariance of every filter there is, and dense algebra on all bits at once."""
    mechanism = Rappor(6, 2, 3, Fraction(1, 5), Fraction(1, 5), Fraction(4, 5))
    collected = CollectedWords(mechanism, ("a", "b", "c"))
    rng = np.random.default_rng(3)
    bits, cohorts = survey(mechanism, {"a": 200, "b": 100, "c": 5, "d": 100}, 45, rng)
    counts = np.array([180.0, 120.0, -7.0])
    found = unlisted_words(collected, counts, bits.ravel(), cohorts)
    p, q = float(mechanism.p_star), float(mechanism.q_star)
    shares = np.maximum(counts, 0) / cohorts.sum()
    subsets = list(combinations(range(6), 2))
    blocks, columns, seen = [], [], []
    for cohort in range(3):
        of_words = np.zeros((6, 3))
        of_words[collected.ones[cohort], np.arange(3)[:, None]] = 1
        of_others = np.array([[bit in subset for bit in range(6)] for subset in subsets], dtype=float).T
        all_filters = np.hstack([of_words, of_others])
        weights = np.append(shares, np.full(len(subsets), (1 - shares.sum()) / len(subsets)))
        rates = p + (q - p) * all_filters
        mean = rates @ weights
        covariance = (rates * weights) @ rates.T - np.outer(mean, mean) + np.diag((rates * (1 - rates)) @ weights)
        centre = np.eye(6) - 1 / 6
        blocks.append(centre @ covariance @ centre * cohorts[cohort])
        columns.append(cohorts[cohort] * (q - p) * centre @ of_words)
        seen.append(centre @ bits[cohort])
    whole = np.zeros((18, 18))
    for number, block in enumerate(blocks):
        whole[6 * number : 6 * number + 6, 6 * number : 6 * number + 6] = block
    weight = np.linalg.pinv(whole, rcond=1e-9)
    design, y = np.vstack(columns), np.concatenate(seen)
    residual = y - design @ np.linalg.solve(design.T @ weight @ design, design.T @ weight @ y)
    assert found is not None
    assert found.degrees == 3 * 5 - 3
    assert 1 + found.excess == pytest.approx(residual @ weight @ residual / found.degrees, abs=1e-4)


def test_the_limit_is_the_quantile_of_chi_square() -> None:
    for degrees in (60, 492, 1939):
        expected = stats.chi2.isf(0.001, degrees) / degrees - 1
        assert Unlisted(0.0, degrees, 1).limit == pytest.approx(expected, rel=2e-3)


def far_from_chi_square(excess: np.ndarray, degrees: int) -> float:
    """The p value of the test that these are chi-squares, by their mean and by their spread."""
    n, values = len(excess), (1 + excess) * degrees
    mean = 2 * stats.norm.sf(abs(values.mean() - degrees) / np.sqrt(2 * degrees / n))
    spread = (values.var() / (2 * degrees) - 1) / np.sqrt(2 / n)
    return float(min(1.0, 2 * min(mean, 2 * stats.norm.sf(abs(spread)))))


@pytest.mark.parametrize(("surveys", "most"), [(150, 2), pytest.param(1_500, 7, marks=pytest.mark.slow)])
def test_where_other_words_are_rare_signs_are_as_rare_as_stated(surveys: int, most: int) -> None:
    """`most` false alarms or fewer, by chance but once in 2,000; 4 % more or less of variance would be seen."""
    collected, rng = CollectedWords(RAPPOR, LISTED), np.random.default_rng(5)
    others = REPORTS - sum(usual().values())
    found = [told_of(collected, usual(), others, rng) for _ in range(surveys)]
    assert sum(one.signs for one in found) <= most
    excess, degrees = np.array([one.excess for one in found]), found[0].degrees
    assert degrees == 16 * 31 - 6
    assert far_from_chi_square(excess, degrees) > 1e-3
    for off in (0.96, 1.04):
        assert far_from_chi_square((1 + excess) * off - 1, degrees) < 1e-6


def test_a_frequent_word_that_is_not_listed_is_seen_and_how_frequent_it_is() -> None:
    """A word of 18 % of 6,000 reports gives signs of one in 1,080; one of 2 % is below what can be told."""
    collected, rng = CollectedWords(RAPPOR, LISTED), np.random.default_rng(6)
    others = REPORTS - sum(usual().values())
    for count, seen in ((1080, 18), (120, 2)):
        found = [
            told_of(collected, {**usual(), f"unlisted {survey}": count}, others - count, rng) for survey in range(20)
        ]
        signs = sum(one.signs for one in found)
        assert (signs >= seen) if count == 1080 else (signs <= seen)
        if count == 1080:
            like = np.array([one.like_one_word(collected) for one in found])
            assert 0.85 * count < np.sqrt((like.astype(float) ** 2).mean()) < 1.15 * count


def test_errors_of_counts_allow_for_unlisted_words() -> None:
    """Intervals of all reports' counts cover, with two unlisted words of 15 % and 10 %; stated errors do not."""
    rng, held = np.random.default_rng(7), np.zeros(2)
    surveys, cells = 250, np.arange(len(LISTED) + 1)
    for number in range(surveys):
        listed = tuple(f"{word} of {number}" for word in LISTED)
        collected = CollectedWords(RAPPOR, listed)
        said = dict(zip(listed, usual().values(), strict=True))
        others = {f"unlisted {number}": 900, f"and {number}": 600}
        bits, cohorts = survey(RAPPOR, said | others, REPORTS - sum(said.values()) - 1500, rng)
        counts = counts_of(collected, bits)
        found = unlisted_words(collected, counts, bits.ravel(), cohorts)
        assert found is not None
        released = np.append(np.maximum(counts, 0), 0).astype(np.int64)
        for place, one in enumerate((collected, collected.told(found.excess, found.reports))):
            reports = np.full(len(cells), REPORTS)
            own = one.own_errors(cells, cells, released, reports)
            standard = np.sqrt(one.stated_variances(cells, cells, reports)) * own
            held[place] += (np.abs(counts - list(said.values())) <= 1.645 * standard[:-1]).mean()
    stated, told = held / surveys
    assert 0.88 < told < 0.93
    assert stated < 0.85


def test_simulated_counts_are_moved_as_unlisted_words_move_them() -> None:
    collected = CollectedWords(RAPPOR, LISTED).told(0.5, REPORTS)
    drawn = np.array([collected.moved(np.random.default_rng(seed)) for seed in range(2_000)])
    assert np.abs(drawn.sum(axis=1)).max() < 1e-12
    expected = 0.5 * float(collected.unit_variance) / REPORTS
    assert (drawn[:, :-1] ** 2).mean() == pytest.approx(expected, rel=0.05)
    assert not CollectedWords(RAPPOR, LISTED).moved(np.random.default_rng(1)).any()


def test_devices_reports_and_totals_of_leaves_say_the_same() -> None:
    """By the reports themselves, of words where one of three is not listed."""
    collected = CollectedWords(RAPPOR, ("a", "b"))
    said = ["a"] * 500 + ["b"] * 300 + ["c"] * 700
    reports = RAPPOR.randomise(said, KeyedBytes(b"reports of a test of unlisted"))
    whole = CohortBits(RAPPOR).totals(reports, np.zeros(len(said), dtype=np.int64), 1)[0]
    assert len(whole) == CohortBits(RAPPOR).n_cells
    totals = collected.totals(reports, np.arange(len(said)) % 7, 7)
    found = unlisted_of(collected, totals, whole)
    assert found is not None
    assert found.reports == 1500
    assert found.signs
    assert found.like_one_word(collected) == pytest.approx(700, rel=0.25)
    data = found.data(collected)
    assert Unlisted.of_data(data, 1500) == found
    (sentence,) = signs_of({"unlisted words": data})
    assert f"as of one word in {found.like_one_word(collected):,} of them" in sentence
    listed = CollectedWords(RAPPOR, ("a", "b", "c"))
    none = unlisted_of(listed, listed.totals(reports, np.arange(len(said)) % 7, 7), whole)
    assert none is not None
    assert not none.signs
    assert signs_of({"unlisted words": none.data(listed)}) == signs_of({"unlisted words": None}) == signs_of({}) == []


def test_few_reports_and_very_many_bits_are_not_tested() -> None:
    collected = CollectedWords(RAPPOR, LISTED)
    bits, cohorts = np.zeros(RAPPOR.n_outputs, dtype=np.int64), np.full(16, 4)
    assert unlisted_words(collected, np.zeros(6), bits, cohorts) is None
    cohorts = np.append(np.zeros(15, dtype=np.int64), 10_000)
    assert unlisted_words(CollectedWords(RAPPOR, tuple(map(str, range(60)))), np.zeros(60), bits, cohorts) is None
    wide = replace(RAPPOR, bits=2048, cohorts=64)
    many = CollectedWords(wide, LISTED)
    assert unlisted_words(many, np.zeros(6), np.zeros(wide.n_outputs, dtype=np.int64), np.full(64, 1000)) is None


def test_one_cohort_with_as_many_words_as_bits_can_explain_is_not_tested() -> None:
    """Nothing is left to be unexplained: 7 words for the 7 that 8 bits with a known sum can tell."""
    short = replace(RAPPOR, bits=8, cohorts=4)
    only = np.array([1_000, 0, 0, 0])
    for number in range(30):
        collected = CollectedWords(short, tuple(f"{number}-{word}" for word in range(7)))
        bits = np.zeros(short.n_outputs, dtype=np.int64)
        bits[:8] = 250
        assert unlisted_words(collected, np.full(7, 100.0), bits, only) is None
