"""Which words of a list of candidates RAPPOR reports contain: constrained regression, then a test of each."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from features.local.collect.bloom import filters
from features.local.collect.mechanism import Counts, Reals
from features.local.collect.rappor import Rappor
from pipeline.errors import InputError

#: The regression holds a square matrix of the candidates.
MOST_CANDIDATES = 5_000
CORRECTIONS = ("bonferroni", "fdr")
#: Standard errors by which the penalty shrinks a count: it lets 5 % of absent words pass to the test.
_PENALTY = NormalDist().inv_cdf(0.95)
_SWEEPS = 200
#: Sweeps end when no count moves by this part of its standard error.
_STILL = 1e-4


@dataclass(frozen=True)
class FoundWords:
    """Candidates whose presence is significant, the most frequent first.

    Attributes:
        words: texts.
        counts: (n,) float64 estimated reports of each.
        errors: (n,) their standard errors.
        p_values: (n,) of the test that a word is absent, not corrected.
        n_candidates: how many were tested.
    """

    words: tuple[str, ...]
    counts: Reals
    errors: Reals
    p_values: Reals
    n_candidates: int

    def interval(self, share: float = 0.9) -> tuple[Reals, Reals]:
        """The ends of intervals that cover the true number of reports of a word with this probability, from 0 up."""
        reach = NormalDist().inv_cdf((1 + share) / 2) * self.errors
        return np.maximum(self.counts - reach, 0), self.counts + reach


def find_words(
    mechanism: Rappor,
    candidates: tuple[str, ...],
    totals: Counts,
    n_reports: Counts,
    *,
    level: float = 0.05,
    correction: str = "bonferroni",
) -> FoundWords:
    """The candidates that are significantly present in all reports together.

    As in Erlingsson, Pihur and Korolova 2014, section 4: the bits are debiased; the lasso with counts from 0 up selects
    words; least squares on the selected ones, weighted by the variances of the bits, gives counts, standard errors and
    one-sided p-values; and these are compared with the level, corrected for the number of all candidates. Words that
    are no candidates are one more column of the regression: a filter of h / bits everywhere.

    Standard errors come from the probabilities of the mechanism, not from residuals. Words close to the threshold are
    found where noise was in their favour, and their counts are too high on average.

    Args:
        mechanism: of the reports.
        candidates: different texts.
        totals: (n_outputs,) of all reports.
        n_reports: (n_cohorts,).
        level: probability that any absent word is found ("bonferroni"), or share of absent ones among those found
            ("fdr", Benjamini and Hochberg).

    Raises:
        InputError: there are no reports, or too many candidates; an unknown correction.
    """
    if correction not in CORRECTIONS:
        raise InputError(f"correction: found {correction!r}; allowed: {', '.join(CORRECTIONS)}")
    if not 1 <= len(candidates) <= MOST_CANDIDATES or len(set(candidates)) < len(candidates):
        raise InputError(f"candidates: found {len(candidates)}; 1 to {MOST_CANDIDATES} different texts are needed")
    if not n_reports.sum():
        raise InputError("n_reports: found no reports")
    problem = _Problem(mechanism, candidates, totals, n_reports)
    gram, right = problem.normal(np.full(mechanism.n_outputs, float(mechanism.p_star)))
    selected = np.flatnonzero(_lasso(gram, right)[:-1] > 0)
    kept = np.append(selected, len(candidates))
    rates = problem.rates(kept, np.linalg.solve(gram[np.ix_(kept, kept)], right[kept]))
    gram, right = problem.normal(rates, kept)
    counts = np.asarray(np.linalg.solve(gram, right)[:-1], dtype=np.float64)
    errors = np.asarray(np.sqrt(np.diag(np.linalg.inv(gram)))[:-1], dtype=np.float64)
    p_values = np.array([NormalDist().cdf(-score) for score in (counts / errors).tolist()])
    found = np.flatnonzero(p_values <= _threshold(p_values, len(candidates), level, correction))
    order = found[np.argsort(-counts[found], kind="stable")]
    words = tuple(candidates[selected[place]] for place in order.tolist())
    return FoundWords(words, counts[order], errors[order], p_values[order], len(candidates))


class _Problem:
    """Weighted least squares of the debiased bits on the filters of the candidates and of any other word (last)."""

    def __init__(self, mechanism: Rappor, candidates: tuple[str, ...], totals: Counts, n_reports: Counts) -> None:
        self._mechanism = mechanism
        self._gap = float(mechanism.q_star - mechanism.p_star)
        self._ones = filters(candidates, mechanism.cohorts, mechanism.bits, mechanism.hashes)
        self._reports = n_reports.astype(np.float64)
        bits = totals.reshape(mechanism.cohorts, mechanism.bits)
        self._debiased = (bits - self._reports[:, None] * float(mechanism.p_star)) / self._gap

    def _block(self, cohort: int, kept: Counts | None) -> Reals:
        """The filters of a cohort: (bits, n_columns)."""
        mechanism = self._mechanism
        ones = self._ones[cohort] if kept is None else self._ones[cohort][kept[:-1]]
        block = np.zeros((mechanism.bits, len(ones) + 1))
        block[ones, np.arange(len(ones))[:, None]] = 1
        block[:, -1] = mechanism.hashes / mechanism.bits
        return block

    def normal(self, rates: Reals, kept: Counts | None = None) -> tuple[Reals, Reals]:
        """The matrix of the normal equations, whose inverse is the covariance of the counts, and their right side.

        Args:
            rates: (n_outputs,) probabilities of a 1, which give the variances of the bits.
            kept: columns; all by default.
        """
        width = self._ones.shape[1] + 1 if kept is None else len(kept)
        gram, right = np.zeros((width, width)), np.zeros(width)
        variances = (rates * (1 - rates) / self._gap**2).reshape(self._debiased.shape)
        for cohort in np.flatnonzero(self._reports).tolist():
            share = self._reports[cohort] / self._reports.sum()
            block = self._block(cohort, kept)
            weights = share / (variances[cohort] * self._reports[cohort])
            gram += share * (block.T @ (weights[:, None] * block))
            right += block.T @ (weights * self._debiased[cohort])
        return gram, right

    def rates(self, kept: Counts, counts: Reals) -> Reals:
        """The probabilities of a 1 that counts imply, (n_outputs,)."""
        shares = np.maximum(counts, 0) / self._reports.sum()
        fitted = [self._block(cohort, kept) @ shares for cohort in range(self._mechanism.cohorts)]
        return float(self._mechanism.p_star) + self._gap * np.clip(np.concatenate(fitted), 0, 1)


def _lasso(gram: Reals, right: Reals) -> Reals:
    """Counts from 0 up that minimise c' gram c / 2 - right' c + penalty, by coordinate descent.

    The penalty of a count is a number of its standard errors; the last column, of other words, has none.
    """
    scale = np.diag(gram).copy()
    penalty = _PENALTY * np.sqrt(scale)
    penalty[-1] = 0
    counts, slope = np.zeros(len(gram)), -right
    for _ in range(_SWEEPS):
        largest = 0.0
        for place in np.flatnonzero((counts > 0) | (slope + penalty < 0)).tolist():
            moved = max(0.0, counts[place] - (slope[place] + penalty[place]) / scale[place]) - counts[place]
            if moved:
                counts[place] += moved
                slope += moved * gram[place]
                largest = max(largest, abs(moved) * np.sqrt(scale[place]))
        if largest < _STILL:
            break
    return counts


def _threshold(p_values: Reals, n_candidates: int, level: float, correction: str) -> float:
    """The largest p-value of a word that is found."""
    if correction == "bonferroni":
        return level / n_candidates
    ordered = np.sort(p_values)
    below = np.flatnonzero(ordered <= level * np.arange(1, len(ordered) + 1) / n_candidates)
    return float(ordered[below[-1]]) if len(below) else -1.0
