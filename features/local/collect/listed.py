"""Values of a list: randomised response for two, k-ary randomised response and optimised unary encoding for more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from features.local.collect.bits import FloatArray, IntArray, RandomBytes, events, uniform_below
from features.local.collect.mechanism import (
    DENOMINATOR,
    LocalMechanism,
    RatioBound,
    check_probability,
    check_whole_number,
    exp_below,
)
from features.local.collect.reports import (
    Decoded,
    Reports,
    bit_totals,
    read_bits,
    read_numbers,
    write_bits,
    write_numbers,
)
from pipeline.errors import InputError

_HALF = Fraction(1, 2)
#: The longest list.
_MOST_VALUES = 60_000


class ListedMechanism(LocalMechanism):
    """A mechanism of values from 0 to k - 1, with an output for each of them, which is 0 or 1 in a report.

    Totals of a group of reports are the sums of their outputs. With the two `chances` p and q of an output, the
    debiased count of a value is (total - n q) / (p - q), of n reports; it is unbiased, and adds up over groups.
    """

    #: Whether exactly one output of a report is 1, so that debiased counts add up to the number of reports.
    exclusive: ClassVar[bool]

    values: int
    memoised: bool

    @property
    @abstractmethod
    def chances(self) -> tuple[Fraction, Fraction]:
        """Probability that an output is 1 for its own value, and for any other."""

    @property
    def for_ever(self) -> RatioBound | None:
        """That of one report if the response is memoised: then all reports on a value are the same."""
        return self.bound if self.memoised else None

    @abstractmethod
    def totals(self, reports: Reports, groups: IntArray, n_groups: int) -> IntArray:
        """(n_groups, k) int64: sums of the outputs of the reports of each group.

        Args:
            groups: (n,) numbers of groups.
        """

    def debias(self, totals: IntArray, reports: IntArray) -> FloatArray:
        """Unbiased counts of the values, number by number, so that no computer has another last digit.

        Args:
            totals: (n, k).
            reports: (n,) how many there are.

        Returns:
            (n, k) float64; may be negative.
        """
        p, q = self.chances
        found: FloatArray = (totals - reports[:, None] * float(q)) / float(p - q)
        return found

    def unit_variances(self, shares: FloatArray) -> FloatArray:
        """(k,) variances of the debiased counts for one report, given what is true; n reports have n times them.

        Given the true counts c of an area, the variance of a debiased count is the sum over respondents of that of
        their output, since reports are independent. It depends on c little: the further, the larger epsilon is. Shares
        of all reports, debiased, are public and near those of most areas.

        Args:
            shares: (k,) of the values; made to be positive and to add up to 1.
        """
        clipped = np.clip(shares, 0, None)
        share = clipped / (clipped.sum() or 1)
        p, q = (float(chance) for chance in self.chances)
        found: FloatArray = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2
        return found

    def _checked(self, values: npt.ArrayLike) -> IntArray:
        """Values as (n,) int64; InputError where one is none of the mechanism, with a message that does not hold it."""
        given = np.asarray(values)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iub"):
            raise InputError("values: a list of whole numbers is needed")
        given = given.astype(np.int64)
        if given.size and not (given.min() >= 0 and given.max() < self.values):
            raise InputError(f"values: one is outside 0 to {self.values - 1}")
        return given


# -- one of the values -------------------------------------------------------------------------------------------------


class ListedChoice(ListedMechanism):
    """The true value with probability p, and each other value with the same probability q = (1 - p) / (k - 1).

    The ratio is p / q. Source: Warner 1965 for two values; Wang, Blocki, Li and Jha 2017 ("direct encoding").
    """

    exclusive = True
    p: Fraction

    def __post_init__(self) -> None:
        check_whole_number("values", self.values, 2, _MOST_VALUES)
        check_probability("p", self.p, Fraction(1, self.values), Fraction(1))

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """p and q."""
        return self.p, (1 - self.p) / (self.values - 1)

    @property
    def bound(self) -> RatioBound:
        """The bound of one report: p / q."""
        p, q = self.chances
        return RatioBound(p / q)

    @property
    def report_length(self) -> int:
        """Digits of the largest number of a value."""
        return len(str(self.values - 1))

    def randomise(self, values: npt.ArrayLike, source: RandomBytes) -> Reports:
        """One report for each value; see `LocalMechanism.randomise`."""
        true = self._checked(values)
        others = self.values - 1
        lies = self.p.denominator - self.p.numerator
        drawn = uniform_below(self.p.denominator * others, len(true), source) - self.p.numerator * others
        # Below 0: the truth. From 0 to others x lies - 1: `lies` numbers for each other value.
        other = drawn // lies
        other += other >= true
        return np.where(drawn < 0, true, other).astype(np.uint16)[:, None]

    def encode(self, reports: Reports) -> list[str]:
        """The number of the value, in digits."""
        return write_numbers(reports, self.values)

    def decode(self, texts: Sequence[str], cohorts: Sequence[str] | None = None) -> Decoded:  # noqa: ARG002
        """Reports from texts."""
        return read_numbers(texts, self.values)

    def totals(self, reports: Reports, groups: IntArray, n_groups: int) -> IntArray:
        """(n_groups, k) reports of each value."""
        places = groups.astype(np.int64) * self.values + reports[:, 0]
        return np.bincount(places, minlength=n_groups * self.values).reshape(n_groups, self.values).astype(np.int64)


@dataclass(frozen=True)
class RandomisedResponse(ListedChoice):
    """Yes (1) or no (0): the truth with probability p, the other answer otherwise.

    Attributes:
        p: more than 1/2, less than 1.
        memoised: the device draws one response for each value, and repeats it for ever.
    """

    name: ClassVar[str] = "randomised_response"

    values: int = field(default=2, init=False)
    p: Fraction
    memoised: bool = False

    @classmethod
    def for_epsilon(cls, epsilon: Fraction, *, memoised: bool = False) -> RandomisedResponse:
        """The most truthful one whose bound is at most epsilon, with a p of 12 decimals."""
        return cls(_truth(epsilon, 2), memoised)


@dataclass(frozen=True)
class DirectEncoding(ListedChoice):
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

    @classmethod
    def for_epsilon(cls, values: int, epsilon: Fraction, *, memoised: bool = False) -> DirectEncoding:
        """The most truthful one whose bound is at most epsilon, with a p of 12 decimals."""
        return cls(values, _truth(epsilon, values), memoised)


def _truth(epsilon: Fraction, values: int) -> Fraction:
    """The largest p of 12 decimals with p (k - 1) / (1 - p) at most e^epsilon: rounded down."""
    check_whole_number("values", values, 2, _MOST_VALUES)
    most = exp_below(epsilon)
    return Fraction(DENOMINATOR * most // (most + values - 1), DENOMINATOR)


# -- a bit for each of them --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptimisedUnaryEncoding(ListedMechanism):
    """The bit of the true value is 1 with probability 1/2, each other bit with probability q.

    Two values differ in two bits, so that the ratio is (1/2)(1 - q) / ((1/2) q) = (1 - q) / q, whatever the length of
    the list. Better than k-ary randomised response where k - 2 > 3 e^epsilon. Source: Wang, Blocki, Li and Jha 2017.

    Attributes:
        values: k, from 2.
        q: more than 0, less than 1/2.
        memoised: the device draws one response for each value, and repeats it for ever.
    """

    name: ClassVar[str] = "unary_encoding"
    exclusive = False

    values: int
    q: Fraction
    memoised: bool = False

    def __post_init__(self) -> None:
        check_whole_number("values", self.values, 2, _MOST_VALUES)
        check_probability("q", self.q, Fraction(0), _HALF)

    @classmethod
    def for_epsilon(cls, values: int, epsilon: Fraction, *, memoised: bool = False) -> OptimisedUnaryEncoding:
        """The one of least variance whose bound is at most epsilon: q is 1 / (e^epsilon + 1), rounded up."""
        return cls(values, Fraction(-(-DENOMINATOR // (exp_below(epsilon) + 1)), DENOMINATOR), memoised)

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """1/2 and q; bits are independent."""
        return _HALF, self.q

    @property
    def bound(self) -> RatioBound:
        """Of one report: (1 - q) / q."""
        return RatioBound((1 - self.q) / self.q)

    @property
    def report_length(self) -> int:
        """Hexadecimal digits of the bits."""
        return -(-self.values // 4)

    def randomise(self, values: npt.ArrayLike, source: RandomBytes) -> Reports:
        """One report for each value; see `LocalMechanism.randomise`."""
        true = self._checked(values)
        bits = np.zeros((len(true), self.values), dtype=np.bool_)
        bits[np.arange(len(true)), true] = True
        return events(bits, _HALF, self.q, source).astype(np.uint16)

    def encode(self, reports: Reports) -> list[str]:
        """The bits, in hexadecimal digits."""
        return write_bits(reports)

    def decode(self, texts: Sequence[str], cohorts: Sequence[str] | None = None) -> Decoded:  # noqa: ARG002
        """Reports from texts."""
        return read_bits(texts, self.values)

    def totals(self, reports: Reports, groups: IntArray, n_groups: int) -> IntArray:
        """(n_groups, k) bits of each value that are 1."""
        return bit_totals(reports, groups, n_groups)
