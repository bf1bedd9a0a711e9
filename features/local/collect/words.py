"""Counts of the words of a list from RAPPOR reports, as a linear function of their bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from features.local.collect.bloom import filters
from features.local.collect.mechanism import Counts, LinearForm, Reals, Reports, even
from features.local.collect.rappor import Rappor
from pipeline.errors import InputError

#: Beyond it the matrix of the words does not tell them apart in floating point.
_WORST_CONDITION = 1e8
#: Numbers of a matrix of totals that are held at once.
_BLOCK = 1 << 24


@dataclass(frozen=True)
class WordList:
    """Words whose reports are to be counted, and one more value, the last: any other word.

    Let B_g be the filters of the words in cohort g, and y = (x - p*) / (q* - p*) the debiased bits of a report of that
    cohort, so that the mean of y is the filter of its word. With G = sum over cohorts of B_g' B_g / m, the vector
    G^-1 B_g' y has the mean e_v for a report of word v, over the cohort at random and both responses. Its sum over the
    reports of an area is therefore an unbiased count of each word, for areas of any size, and adds up over areas. A
    word that is not listed is taken for a filter of h / bits everywhere, which it is on average over its hashes.

    Attributes:
        mechanism: of the reports.
        words: (n_words) different texts.
    """

    mechanism: Rappor
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("words: found none; at least one is needed")
        if len(set(self.words)) < len(self.words):
            double = next(word for number, word in enumerate(self.words) if word in self.words[:number])
            raise InputError(f"words: {double!r} is listed twice")
        if len(self.words) >= self.mechanism.n_outputs or not self._condition < _WORST_CONDITION:
            raise InputError(
                f"words: found {len(self.words)}; {self.mechanism.cohorts} cohorts of {self.mechanism.bits} bits do "
                "not tell them apart: fewer words, or more cohorts or bits, are needed"
            )

    @property
    def n_values(self) -> int:
        """The words, and any other."""
        return len(self.words) + 1

    @cached_property
    def design(self) -> Reals:
        """(n_outputs, n_values) float64: the filters of the words, cohort after cohort; B_g are its blocks."""
        mechanism = self.mechanism
        ones = filters(self.words, mechanism.cohorts, mechanism.bits, mechanism.hashes)
        design = np.zeros((mechanism.cohorts, mechanism.bits, self.n_values))
        cohort, word = np.ogrid[: mechanism.cohorts, : len(self.words)]
        design[cohort[..., None], ones, word[..., None]] = 1
        design[:, :, -1] = mechanism.hashes / mechanism.bits
        return design.reshape(mechanism.n_outputs, self.n_values)

    @cached_property
    def gram(self) -> Reals:
        """G: (n_values, n_values) float64."""
        return np.asarray(self.design.T @ self.design / self.mechanism.cohorts)

    @cached_property
    def _condition(self) -> float:
        low, *_, high = np.linalg.eigvalsh(self.gram)
        return float(high / low) if low > 0 else np.inf

    @cached_property
    def linear(self) -> LinearForm:
        """From totals of all cohorts to counts."""
        mechanism = self.mechanism
        gap = float(mechanism.q_star - mechanism.p_star)
        matrix = np.asarray(np.linalg.solve(self.gram, self.design.T) / gap, dtype=np.float64)
        by_cohort = matrix.reshape(self.n_values, mechanism.cohorts, mechanism.bits).sum(axis=2)
        return LinearForm(matrix, by_cohort * float(mechanism.p_star))

    def debias(self, totals: Counts, n_reports: Counts) -> Reals:
        """Unbiased counts of the words and of all others, (n, n_values); as `LinearForm.debias`."""
        return self.linear.debias(totals, n_reports)

    def counts(self, reports: Reports, groups: Counts, n_groups: int) -> Reals:
        """The same from reports, for many groups: (n_groups, n_values) float64, in little memory.

        Args:
            reports: (n, 1 + bits).
            groups: (n,) numbers of groups.
        """
        found = np.zeros((n_groups, self.n_values))
        step = max(1, _BLOCK // self.mechanism.n_outputs)
        order = np.argsort(groups, kind="stable")
        edges = np.searchsorted(groups[order], np.arange(0, n_groups + step, step))
        for number, first in enumerate(range(0, n_groups, step)):
            rows = order[edges[number] : edges[number + 1]]
            size = min(step, n_groups - first)
            part, places = reports[rows], groups[rows] - first
            totals = self.mechanism.totals(part, places, size)
            found[first : first + size] = self.debias(totals, self.mechanism.n_reports(part, places, size))
        return found

    def unit_covariance(self, shares: Reals | None = None) -> Reals:
        """Covariance of the counts for one report, (n_values, n_values); as `ListedMechanism.unit_covariance`.

        Over both responses and the cohort: G^-1 [mean over g of B_g' (D_g + M_g) B_g] G^-1 - diag(s), where D_g are the
        variances of the debiased bits and M_g = B_g diag(s) B_g'. By default all is taken for other words, which
        makes the variances of a rare word.
        """
        mechanism = self.mechanism
        if shares is None:
            shares = np.zeros(self.n_values)
            shares[-1] = 1
        share = even(shares, self.n_values)
        gap = float(mechanism.q_star - mechanism.p_star)
        zero = float(mechanism.p_star * (1 - mechanism.p_star)) / gap**2
        one = float(mechanism.q_star * (1 - mechanism.q_star)) / gap**2
        variances = zero + (one - zero) * (self.design @ share)
        middle = self.design.T @ (variances[:, None] * self.design)
        for block in self.design.reshape(mechanism.cohorts, mechanism.bits, self.n_values):
            half = block.T @ (block * np.sqrt(share))
            middle += half @ half.T
        inner = np.linalg.solve(self.gram, middle / mechanism.cohorts)
        return np.asarray(np.linalg.solve(self.gram, inner.T) - np.diag(share))
