"""How answers were randomised before they were sent, and what that says of counts made from the reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.collect.choices import Choice
from pipeline.collect.mechanism import Counts, ListedMechanism, Mechanism, Reports

#: How measurement files name what was collected by any mechanism.
REPORTS: Literal["reports"] = "reports"


@dataclass(frozen=True)
class ReportNoise:
    """The noise on the debiased counts of so many reports.

    Attributes:
        scale: the variance, exact; see `Collected.unit_variance`.
    """

    scale: Fraction
    mechanism: ClassVar[Literal["reports"]] = REPORTS

    @property
    def variance(self) -> float:
        """Of each count, persons squared."""
        return float(self.scale)


class Collected(ABC):
    """How answers were randomised: from reports to counts of the cells of the schema, and their errors.

    Attributes:
        respondents: how many are expected in a leaf, where the spec says so; for plans alone.
    """

    respondents: int | None

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism:
        """That every respondent used."""

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Values that a respondent may have."""

    @property
    def counted(self) -> NDArray[np.bool_]:
        """`(n_cells,)`: which cells' counts are measured by themselves; one that is not is the rest of the reports."""
        return np.ones(self.n_cells, dtype=np.bool_)

    @property
    @abstractmethod
    def noise_per_report(self) -> Fraction:
        """The sum of the variances of the debiased counts, for one report; see `unit_variance`."""

    @property
    @abstractmethod
    def unit_variance(self) -> Fraction:
        """The variance per report that stands for the covariance of the debiased counts, exact."""

    def noise(self, reports: int) -> ReportNoise:
        """The noise on the counts of so many reports; where there are none, that of one, on zeros."""
        return ReportNoise(max(reports, 1) * self.unit_variance)

    @abstractmethod
    def totals(self, reports: Reports, groups: Counts, n_groups: int) -> Counts:
        """(n_groups, n_cells) int64: what is published of the reports of each group, from which counts are made.

        Args:
            reports: as the mechanism decodes them.
            groups: (n,) numbers of groups.
        """

    @abstractmethod
    def debiased(self, totals: NDArray[np.int64], reports: NDArray[np.int64]) -> NDArray[np.float64]:
        """Unbiased counts `(n, n_cells)` from totals `(n, n_cells)` and numbers of reports `(n,)`.

        Number by number, so that no computer has another last digit.
        """

    @abstractmethod
    def own_errors(
        self,
        answers: NDArray[np.int64],
        cells: NDArray[np.int64],
        counts: NDArray[np.int64],
        reports: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """By what the standard errors of counts differ from those that `unit_variance` says.

        Args:
            answers: (n_cells,) the number of the answer of a query that each cell is summed in.
            cells: the number of the answer that each count is of.
            counts: in whole persons.
            reports: in the areas of the counts; the arrays are broadcast against each other.
        """

    @abstractmethod
    def stated_variances(
        self, answers: NDArray[np.int64], cells: NDArray[np.int64], reports: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Variances of the counts of answers by `unit_variance`, given the numbers of reports; as `own_errors`."""

    @abstractmethod
    def totals_of(self, counts: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Totals `(n, n_cells)` of reports that respondents with the values `counts` `(n, n_cells)` might have sent."""


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
        """That every respondent used."""
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
