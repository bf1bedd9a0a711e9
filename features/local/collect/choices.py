"""One of a list of answers: randomised response for two, k-ary randomised response for more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from features.local.collect.bits import RandomBytes, uniform_below
from features.local.collect.bounds import exp_below
from features.local.collect.checks import DENOMINATOR, MOST_VALUES, check_probability, check_values, whole_number
from features.local.collect.mechanism import Bound, Counts, Decoded, LinearForm, ListedMechanism, Reals, Reports, even
from features.local.collect.wire import read_numbers, write_numbers


class Choice(ListedMechanism):
    """The true value with probability p, and each other value with the same probability q = (1 - p) / (k - 1).

    The ratio is p / q, and the debiased count of a value (reports of it - n q) / (p - q).
    Source: Warner 1965 for two values; Wang, Blocki, Li and Jha 2017 ("direct encoding").
    """

    p: Fraction
    memoised: bool

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number of values."""

    @property
    def q(self) -> Fraction:
        """Probability of each value that is not the true one."""
        return (1 - self.p) / (self.n_values - 1)

    @property
    def bound(self) -> Bound:
        """The bound of one report: p / q."""
        return Bound(self.p / self.q)

    @property
    def for_ever(self) -> Bound | None:
        """That of one report if the response is memoised: then all reports on a value are the same."""
        return self.bound if self.memoised else None

    @property
    def n_outputs(self) -> int:
        """One for each value."""
        return self.n_values

    @property
    def report_length(self) -> int:
        """Digits of the largest number of a value."""
        return len(str(self.n_values - 1))

    def probabilities(self) -> tuple[tuple[Fraction, ...], ...]:
        """For each value the probability of each report."""
        every = range(self.n_values)
        return tuple(tuple(self.p if report == value else self.q for report in every) for value in every)

    def randomise(self, values: Counts, source: RandomBytes) -> Reports:
        """One report for each value; see `Mechanism.randomise`."""
        true = check_values(values, self.n_values)
        others = self.n_values - 1
        lies = self.p.denominator - self.p.numerator
        drawn = uniform_below(self.p.denominator * others, len(true), source) - self.p.numerator * others
        # Below 0: the truth. From 0 to others x lies - 1: `lies` numbers for each other value.
        other = drawn // lies
        other += other >= true
        return np.where(drawn < 0, true, other).astype(np.uint16)[:, None]

    def encode(self, reports: Reports) -> list[str]:
        """The number of the value, in digits."""
        return write_numbers(reports, self.n_values)

    def decode(self, texts: Sequence[str], cohorts: Sequence[str] | None = None) -> Decoded:  # noqa: ARG002
        """Reports from texts."""
        return read_numbers(texts, self.n_values)

    def totals(self, reports: Reports, groups: Counts, n_groups: int) -> Counts:
        """(n_groups, n_values) reports of each value."""
        places = groups.astype(np.int64) * self.n_values + reports[:, 0]
        return np.bincount(places, minlength=n_groups * self.n_values).reshape(n_groups, self.n_values).astype(np.int64)

    @property
    def linear(self) -> LinearForm:
        """The debiased counts."""
        size, gap = self.n_values, self.p - self.q
        return LinearForm(np.eye(size) * float(1 / gap), np.full((size, 1), float(self.q / gap)))

    def unit_covariance(self, shares: Reals | None = None) -> Reals:
        """See `ListedMechanism.unit_covariance`.

        A report of v is one of k: its outputs have the covariance diag(P) - P P' with P = q + (p - q) e_v.
        """
        size, q, gap = self.n_values, float(self.q), float(self.p - self.q)
        share = even(shares, size)
        means = q + gap * share
        products = q * q + q * gap * (share[:, None] + share[None, :]) + gap * gap * np.diag(share)
        return (np.diag(means) - products) / gap**2


@dataclass(frozen=True)
class RandomisedResponse(Choice):
    """Yes (1) or no (0): the truth with probability p, the other answer otherwise.

    Attributes:
        p: more than 1/2, less than 1.
        memoised: the device draws one response for each value, and repeats it for ever.
    """

    name: ClassVar[str] = "randomised_response"

    p: Fraction
    memoised: bool = False

    def __post_init__(self) -> None:
        check_probability("p", self.p, Fraction(1, 2), Fraction(1))

    @classmethod
    def for_epsilon(cls, epsilon: Fraction, *, memoised: bool = False) -> RandomisedResponse:
        """The most truthful one whose bound is at most epsilon, with a p of 12 decimals."""
        return cls(_truth(epsilon, 2), memoised)

    @property
    def n_values(self) -> int:
        """Two."""
        return 2

    def parameters(self) -> dict[str, str]:
        """Exact, as `mechanism_of` reads them."""
        return {"p": str(self.p), "memoised": "yes" if self.memoised else "no"}


@dataclass(frozen=True)
class DirectEncoding(Choice):
    """One of k values: the true one with probability p, each other one with (1 - p) / (k - 1).

    Attributes:
        values: k, from 2.
        p: more than 1/k, less than 1.
        memoised: the device draws one response for each value, and repeats it for ever.
    """

    name: ClassVar[str] = "direct_encoding"

    values: int
    p: Fraction
    memoised: bool = False

    def __post_init__(self) -> None:
        whole_number("values", self.values, 2, MOST_VALUES)
        check_probability("p", self.p, Fraction(1, self.values), Fraction(1))

    @classmethod
    def for_epsilon(cls, values: int, epsilon: Fraction, *, memoised: bool = False) -> DirectEncoding:
        """The most truthful one whose bound is at most epsilon, with a p of 12 decimals."""
        return cls(values, _truth(epsilon, whole_number("values", values, 2, MOST_VALUES)), memoised)

    @property
    def n_values(self) -> int:
        """k."""
        return self.values

    def parameters(self) -> dict[str, str]:
        """Exact, as `mechanism_of` reads them."""
        return {"values": str(self.values), "p": str(self.p), "memoised": "yes" if self.memoised else "no"}


def _truth(epsilon: Fraction, n_values: int) -> Fraction:
    """The largest p of 12 decimals with p (k - 1) / (1 - p) at most e^epsilon: rounded down."""
    most = exp_below(epsilon)
    return Fraction(DENOMINATOR * most // (most + n_values - 1), DENOMINATOR)
