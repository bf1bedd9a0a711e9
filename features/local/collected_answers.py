"""Counts of answers of a list, from reports by randomised response and unary encoding, and their exact variances."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from features.local.collect.choices import Choice
from features.local.collect.mechanism import Counts, ListedMechanism, Reports
from features.local.collected import Collected


@dataclass(frozen=True, eq=False)
class CollectedAnswers(Collected):
    """Reports that were randomised by a mechanism whose values are the cells of the schema.

    Attributes:
        listed: the mechanism.
        respondents: see `Collected`.
    """

    listed: ListedMechanism
    respondents: int | None = None

    @property
    def mechanism(self) -> ListedMechanism:
        """The mechanism that every respondent used."""
        return self.listed

    @property
    def n_cells(self) -> int:
        """Values that a respondent may have."""
        return self.mechanism.n_outputs

    @cached_property
    def _probabilities(self) -> tuple[Fraction, Fraction]:
        """That an output is 1 for its own value, and for another."""
        rows = self.mechanism.probabilities()
        return rows[0][0], rows[0][1]

    @property
    def exclusive(self) -> bool:
        """Whether exactly one output of a report is 1, so that debiased counts add up to the number of reports."""
        return isinstance(self.mechanism, Choice)

    @cached_property
    def noise_per_report(self) -> Fraction:
        """The sum of the variances of the debiased counts, for one report; see `unit_variance`."""
        p, q = self._probabilities
        return (self.n_cells * q * (1 - q) + (p - q) * (1 - p - q)) / (p - q) ** 2

    @cached_property
    def unit_variance(self) -> Fraction:
        """The variance per report that stands for the covariance of the debiased counts, exact.

        Given the true counts x of n reports, those of an output with probabilities p and q have the variance
        (n q (1 - q) + x (p - q)(1 - p - q)) / (p - q)^2. Summed over the cells it depends on n alone. Estimation has
        the number of reports as an invariant; on the counts that add up to it, the covariance is taken to be
        s (I - J / k) with this sum: exactly right for two values and p + q = 1, and right on average over cells else.
        """
        # Counts that add up by themselves have all of it there; independent ones have a part of it in their sum.
        return self.noise_per_report / (self.n_cells - 1 if self.exclusive else self.n_cells)

    def totals(self, reports: Reports, groups: Counts, n_groups: int) -> Counts:
        """How many reports of each group have each output."""
        return self.mechanism.totals(reports, groups, n_groups)

    def debiased(self, totals: NDArray[np.int64], reports: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Collected.debiased`."""
        p, q = self._probabilities
        found: NDArray[np.float64] = (totals - reports[:, None] * float(q)) / float(p - q)
        return found

    def own_errors(
        self,
        answers: NDArray[np.int64],
        cells: NDArray[np.int64],
        counts: NDArray[np.int64],
        reports: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """See `Collected.own_errors`.

        A count of m of the k cells has the variance n s m (k - m) / k by it. Given the truth x, one that adds up to n
        by itself has (n Q (1 - Q) + x (P - Q)(1 - P - Q)) / (p - q)^2, with Q = m q and P = p + (m - 1) q. Independent
        outputs have m times that of one, and made to add up to n, V (1 - 2 m / k) + W (m / k)^2, W that of all cells.
        """
        cells = np.bincount(answers)[cells]
        p, q = (float(probability) for probability in self._probabilities)
        share = np.clip(counts / np.maximum(reports, 1), 0, 1)
        part = cells / self.n_cells
        stated = float(self.unit_variance) * cells * (1 - part)
        if self.exclusive:
            low, high = cells * q, p + (cells - 1) * q
            variances = (low * (1 - low) + share * (high - low) * (1 - high - low)) / (p - q) ** 2
        else:
            own, slope = q * (1 - q) / (p - q) ** 2, (1 - p - q) / (p - q)
            whole = self.n_cells * own + slope
            variances = (cells * own + share * slope) * (1 - 2 * part) + whole * part**2
        known = (stated > 0) & (variances > 0)
        factors: NDArray[np.float64] = np.sqrt(np.where(known, variances, 1) / np.where(known, stated, 1))
        return factors

    def stated_variances(
        self, answers: NDArray[np.int64], cells: NDArray[np.int64], reports: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Collected.stated_variances`."""
        cells = np.bincount(answers)[cells]
        part = cells / self.n_cells
        found: NDArray[np.float64] = reports * float(self.unit_variance) * cells * (1 - part)
        return found

    def totals_of(self, counts: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """See `Collected.totals_of`."""
        out = np.zeros(counts.shape, dtype=np.int64)
        if self.exclusive:
            for value, row in enumerate(self.mechanism.probabilities()):
                shares = np.array([float(one) for one in row])
                out += generator.multinomial(counts[:, value], shares / shares.sum())
            return out
        p, q = self._probabilities
        out += generator.binomial(counts, float(p))
        out += generator.binomial(counts.sum(axis=1, keepdims=True) - counts, float(q))
        return out
