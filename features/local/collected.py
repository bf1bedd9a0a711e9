"""How answers were randomised before they were sent, and what that says of counts made from the reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from features.local.collect.mechanism import Counts, Mechanism, Reports
from pipeline.model.allocation import ReportNoise


class Collected(ABC):
    """How answers were randomised: from reports to counts of the cells of the schema, and their errors.

    Attributes:
        respondents: how many are expected in a leaf, where the spec says so; for plans alone.
    """

    respondents: int | None

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism:
        """The mechanism that every respondent used."""

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """Values that a respondent may have."""

    @property
    def counted(self) -> NDArray[np.bool_]:
        """`(n_cells,)`: which cells' counts are measured by themselves; one that is not is the rest of the reports."""
        return np.ones(self.n_cells, dtype=np.bool_)

    @property
    def shift(self) -> float | None:
        """By how much a report of one answer that is not listed typically moves a count; None where all are listed."""
        return None

    @property
    @abstractmethod
    def noise_per_report(self) -> Fraction:
        """The sum of the variances of the debiased counts, for one report; see `unit_variance`."""

    @property
    def counted_noise(self) -> Fraction:
        """The same of the cells whose counts are measured by themselves."""
        return self.noise_per_report

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
