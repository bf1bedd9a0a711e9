"""What every mechanism of collection states and does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from features.local.collect.bits import RandomBytes
from features.local.collect.bounds import epsilon_of

#: Reports, one a row: what was drawn, in the columns of the mechanism.
Reports = npt.NDArray[np.uint16]
Counts = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: What may be wrong with a report, by number; 0 is a good one.
FAULTS = ("", "wrong length", "wrong character", "not a report of the mechanism", "wrong cohort")
LENGTH, CHARACTER, VALUE, COHORT = 1, 2, 3, 4


@dataclass(frozen=True)
class Bound:
    """How much more likely any report can be under one value than under another.

    Attributes:
        ratio: the exact largest ratio of the two probabilities.
    """

    ratio: Fraction

    @property
    def epsilon(self) -> Decimal:
        """ln(ratio), rounded up."""
        return epsilon_of(self.ratio)


@dataclass(frozen=True)
class Decoded:
    """Reports as they arrived.

    Attributes:
        reports: (n, width) uint16 of the texts that are reports, in their order.
        faults: (n_texts,) int8, by `FAULTS`; reports are those with 0.
    """

    reports: Reports
    faults: npt.NDArray[np.int8]


@dataclass(frozen=True)
class LinearForm:
    """Unbiased counts as a linear function of the totals of reports: additive over reports, and so over areas.

    Attributes:
        matrix: (n_values, n_outputs) float64, times the totals.
        constant: (n_values, n_cohorts) float64, times the reports of each cohort, is taken off.
    """

    matrix: Reals
    constant: Reals

    def debias(self, totals: Counts, n_reports: Counts) -> Reals:
        """Counts of the values.

        Args:
            totals: (n, n_outputs).
            n_reports: (n, n_cohorts), or (n,) where there is one cohort.

        Returns:
            (n, n_values) float64; may be negative.
        """
        reports = n_reports.reshape(len(totals), -1)
        return np.asarray(totals @ self.matrix.T - reports @ self.constant.T, dtype=np.float64)


class Mechanism(ABC):
    """A randomiser with exact probabilities, and the arithmetic that takes its bias off again.

    A value is a whole number from 0 to `n_values` - 1; for RAPPOR it is a text, and `WordList` counts those of a list.
    A report is a row of whole numbers. Its outputs are 0 or 1 each; totals of a group are the sums of the outputs.
    """

    #: As a spec names it.
    name: ClassVar[str]

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """The bound of one report."""

    @property
    @abstractmethod
    def for_ever(self) -> Bound | None:
        """Of all reports together that one respondent ever sends on one value; None if nothing bounds them.

        A memoised response is drawn once and repeated, so that repetition shows nothing new. The bound is for a value
        that does not change. Each value has a response of its own: **that a value has changed, and when, is not
        protected**. It is seen at once where the response itself is sent, and in the end where it is randomised again.
        """

    def bound_of(self, reports: int) -> Bound:
        """Of so many reports of one respondent on one value that does not change: ratio^reports, `for_ever` at most.

        For RAPPOR, whose reports on a value share a permanent response, the power is a bound too. Let a bit be 1 in the
        permanent response with odds e^a where the text sets it and e^-a elsewhere, and let L be the sum over reports of
        the log-likelihood ratios of what they show. The log of the ratio is then g(L), with the derivative
        s(L + a) - s(L - a), s the logistic function: odd, and concave from 0 up. So g(t l) <= t g(l).
        """
        power = Bound(self.ratio**reports)
        return power if self.for_ever is None or power.ratio < self.for_ever.ratio else self.for_ever

    @property
    def ratio(self) -> Fraction:
        """The exact largest ratio of the probabilities of a report under two values."""
        return self.bound.ratio

    @property
    def epsilon(self) -> Decimal:
        """ln(ratio) of one report, rounded up."""
        return self.bound.epsilon

    @property
    def repeated(self) -> bool:
        """Whether repeated reports are covered: `for_ever` is a bound."""
        return self.for_ever is not None

    @property
    @abstractmethod
    def n_values(self) -> int | None:
        """Number of values; None if the list is open."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Length of the totals of a group."""

    @property
    def n_cohorts(self) -> int:
        """Groups of respondents whose reports are read differently."""
        return 1

    @property
    @abstractmethod
    def report_length(self) -> int:
        """Characters of the text of a report."""

    @abstractmethod
    def parameters(self) -> dict[str, str]:
        """Exact, as `mechanism_of` reads them."""

    @abstractmethod
    def randomise(self, values: Any, source: RandomBytes) -> Reports:
        """One report for each value.

        Args:
            values: (n,) int64; for RAPPOR a sequence of n texts.
            source: of random bytes: `SystemBytes()` on a device.

        Returns:
            (n, width) uint16.

        Raises:
            InputError: a value is none of the mechanism.
        """

    @abstractmethod
    def encode(self, reports: Reports) -> list[str]:
        """The texts that are sent, of `report_length` characters each; a cohort is sent beside it."""

    @abstractmethod
    def decode(self, texts: Sequence[str], cohorts: Sequence[str] | None = None) -> Decoded:
        """Reports from texts; nothing is repaired, and nothing is guessed.

        Args:
            texts: as they arrived.
            cohorts: beside them, decimal, of a mechanism with cohorts.
        """

    @abstractmethod
    def totals(self, reports: Reports, groups: Counts, n_groups: int) -> Counts:
        """(n_groups, n_outputs) int64: sums of the outputs of the reports of each group.

        Args:
            groups: (n,) numbers of groups.
        """

    def n_reports(self, reports: Reports, groups: Counts, n_groups: int) -> Counts:  # noqa: ARG002
        """(n_groups, n_cohorts) int64: how many reports are of each group and cohort."""
        return np.bincount(groups, minlength=n_groups).reshape(n_groups, 1).astype(np.int64)


class ListedMechanism(Mechanism):
    """A mechanism whose values are listed, so that it has a linear form of its own."""

    @property
    @abstractmethod
    def linear(self) -> LinearForm:
        """Unbiased counts of the values from totals."""

    @abstractmethod
    def probabilities(self) -> tuple[tuple[Fraction, ...], ...]:
        """Exact: for each value the probability that each output is 1."""

    @abstractmethod
    def unit_covariance(self, shares: Reals | None = None) -> Reals:
        """Covariance of the debiased counts for one report, given what is true.

        Given the true counts c of an area, its debiased counts have exactly the covariance
        sum over values v of c[v] x (covariance of one debiased report of v), since reports are independent. With shares
        s = c / n this is n times what is returned. It depends on c little: the further, the larger epsilon is. Shares
        of all reports, debiased, are public and near those of most areas; without them all values count alike.

        Args:
            shares: (n_values,) of the values, not negative; made to add up to 1. Uniform by default.

        Returns:
            (n_values, n_values) float64.
        """

    def debias(self, totals: Counts, n_reports: Counts) -> Reals:
        """Unbiased counts, (n, n_values); as `LinearForm.debias`."""
        return self.linear.debias(totals, n_reports)


def even(shares: Reals | None, n_values: int) -> Reals:
    """Shares that add up to 1; uniform if there are none, or nothing positive is among them."""
    if shares is None:
        return np.full(n_values, 1 / n_values)
    clipped = np.clip(np.asarray(shares, dtype=np.float64), 0, None)
    whole = clipped.sum()
    return clipped / whole if whole > 0 else np.full(n_values, 1 / n_values)
