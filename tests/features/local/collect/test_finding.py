"""Words are found among candidates, absent ones seldom, and their intervals cover."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import nnls

from features.local.collect.bloom import filters
from features.local.collect.finding import _PENALTY, _lasso, find_words
from features.local.collect.rappor import Rappor
from pipeline.errors import InputError

HALF = Fraction(1, 2)
#: The probabilities of Erlingsson et al. 2014, section 5, in a smaller filter.
MECHANISM = Rappor(64, 2, 16, HALF, HALF, Fraction(3, 4))
CANDIDATES = tuple(f"V_{number}" for number in range(200))
Counts = npt.NDArray[np.int64]


def totals_of(mechanism: Rappor, counts: Counts, rng: np.random.Generator) -> tuple[Counts, Counts]:
    """Totals of a million reports at once: binomials of the numbers of reports that set a bit or not."""
    cohorts, bits = mechanism.cohorts, mechanism.bits
    split = rng.multinomial(counts, np.full(cohorts, 1 / cohorts)).T
    ones = filters(CANDIDATES[: len(counts)], cohorts, bits, mechanism.hashes)
    true = np.zeros((cohorts, bits), dtype=np.int64)
    for cohort in range(cohorts):
        np.add.at(true[cohort], ones[cohort].reshape(-1), np.repeat(split[cohort], mechanism.hashes))
    sizes = split.sum(axis=1)
    drawn = rng.binomial(true, float(mechanism.q_star)) + rng.binomial(sizes[:, None] - true, float(mechanism.p_star))
    return drawn.reshape(-1), sizes


def exponential(n_reports: int, rng: np.random.Generator) -> Counts:
    """Counts of 100 words of exponentially falling shares, and of 100 absent ones."""
    shares = np.exp(-np.linspace(0, 5, 100))
    return np.concatenate([rng.multinomial(n_reports, shares / shares.sum()), np.zeros(100, dtype=np.int64)])


def test_words_of_an_exponential_distribution_are_found() -> None:
    """As many as the standard error allows: shares above 3.5 of 0.29 %; of 100 absent words in five surveys, none."""
    rng = np.random.default_rng(2)
    found_numbers, covered, near = [], [], []
    for _ in range(5):
        counts = exponential(1_000_000, rng)
        found = find_words(MECHANISM, CANDIDATES, *totals_of(MECHANISM, counts, rng))
        numbers = [int(word[2:]) for word in found.words]
        found_numbers.append(len(numbers))
        assert not [number for number in numbers if number >= 100]
        low, high = found.interval()
        true = counts[numbers]
        frequent = true > 15_000
        covered += ((low <= true) & (true <= high))[frequent].tolist()
        near.append(found.errors.mean() / 1_000_000)
        assert set(np.flatnonzero(counts > 15_000)) <= set(numbers)
        assert list(found.counts) == sorted(found.counts, reverse=True)
    assert 25 < np.mean(found_numbers) < 40
    assert 0.80 < np.mean(covered) < 0.97
    theory = np.sqrt(float(MECHANISM.p_star * (1 - MECHANISM.p_star)) / 2 / 1_000_000) / 0.125
    assert 0.95 < np.mean(near) / theory < 1.15


def test_reports_read_with_other_probabilities_have_other_counts() -> None:
    """The power arm: with 5 % more f the counts of frequent words are 5 % too high, many standard errors."""
    rng = np.random.default_rng(3)
    counts = exponential(30_000_000, rng)
    totals, sizes = totals_of(MECHANISM, counts, rng)

    def scores(mechanism: Rappor) -> npt.NDArray[np.float64]:
        found = find_words(mechanism, CANDIDATES, totals, sizes)
        true = counts[[int(word[2:]) for word in found.words[:10]]]
        return (found.counts[:10] - true) / found.errors[:10]

    assert np.abs(scores(MECHANISM)).max() < 3.5
    assert scores(Rappor(64, 2, 16, HALF * Fraction(21, 20), HALF, Fraction(3, 4))).mean() > 3


def test_nothing_is_found_in_reports_of_other_words() -> None:
    """In 40 surveys of words that are no candidates the level of 5 % is kept; the false discovery rate too."""
    rng = np.random.default_rng(4)
    n_found = {"bonferroni": 0, "fdr": 0}
    for _ in range(40):
        totals, sizes = totals_of(MECHANISM, np.full(200, 500), rng)
        absent = tuple(f"absent {number}" for number in range(200))
        for correction in n_found:
            n_found[correction] += bool(find_words(MECHANISM, absent, totals, sizes, correction=correction).words)
    assert n_found["bonferroni"] <= 6
    assert n_found["fdr"] <= 6


def test_the_lasso_is_a_non_negative_least_squares_problem() -> None:
    """Its oracle: scipy's NNLS of the same problem, the penalty in the right side."""
    rng = np.random.default_rng(6)
    design = (rng.random((60, 20)) < 0.3).astype(float)
    gram = design.T @ design
    right = design.T @ (design @ np.where(np.arange(20) < 5, 4.0, 0.0) + rng.normal(size=60))
    penalty = _PENALTY * np.sqrt(np.diag(gram))
    penalty[-1] = 0
    factor = np.linalg.cholesky(gram)
    expected, _ = nnls(factor.T, np.linalg.solve(factor, right - penalty))
    assert np.allclose(_lasso(gram, right), expected, atol=1e-3)


def test_more_candidates_than_bits() -> None:
    """The lasso selects; without it the equations would have no solution."""
    rng = np.random.default_rng(8)
    small = Rappor(16, 2, 4, Fraction(1, 8), Fraction(1, 8), Fraction(7, 8))
    counts = np.zeros(200, dtype=np.int64)
    counts[[3, 50, 120]] = 40_000
    found = find_words(small, CANDIDATES, *totals_of(small, counts, rng))
    assert set(found.words) >= {"V_3", "V_50", "V_120"}
    assert len(found.words) <= 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correction": "holm"}, "correction: found 'holm'; allowed: bonferroni, fdr"),
        ({"candidates": ()}, "candidates: found 0; 1 to 5000 different texts are needed"),
        ({"candidates": ("a", "a")}, "candidates: found 2; 1 to 5000 different texts are needed"),
        ({"n_reports": np.zeros(16, dtype=np.int64)}, "n_reports: found no reports"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], message: str) -> None:
    arguments = {"candidates": ("a",), "n_reports": np.full(16, 10), "totals": np.zeros(1024, dtype=np.int64), **change}
    with pytest.raises(InputError) as refused:
        find_words(MECHANISM, **arguments)  # type: ignore[arg-type]
    assert message in str(refused.value)
