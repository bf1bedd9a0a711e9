"""Optimised unary encoding: one bit for each value, each randomised by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from features.local.collect.bits import RandomBytes, events
from features.local.collect.bounds import exp_below, least_share
from features.local.collect.checks import DENOMINATOR, MOST_VALUES, check_probability, check_values, whole_number
from features.local.collect.mechanism import Bound, Counts, Decoded, LinearForm, ListedMechanism, Reals, Reports, even
from features.local.collect.wire import bit_totals, read_bits, write_bits

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class OptimisedUnaryEncoding(ListedMechanism):
    """The bit of the true value is 1 with probability 1/2, each other bit with probability q.

    Two values differ in two bits, so that the ratio is (1/2)(1 - q) / ((1/2) q) = (1 - q) / q, whatever the length of
    the list. The debiased count of a value is (bits of it - n q) / (1/2 - q). Better than k-ary randomised response
    where k - 2 > 3 e^epsilon. Source: Wang, Blocki, Li and Jha 2017.

    Attributes:
        values: k, from 2.
        q: more than 0, less than 1/2.
        memoised: the device draws one response for each value, and repeats it for ever.
    """

    name: ClassVar[str] = "unary_encoding"

    values: int
    q: Fraction
    memoised: bool = False

    def __post_init__(self) -> None:
        whole_number("values", self.values, 2, MOST_VALUES)
        check_probability("q", self.q, Fraction(0), _HALF)

    @classmethod
    def for_epsilon(cls, values: int, epsilon: Fraction, *, memoised: bool = False) -> OptimisedUnaryEncoding:
        """The one of least variance whose bound is at most epsilon: q is 1 / (e^epsilon + 1), rounded up."""
        return cls(values, least_share(exp_below(epsilon), DENOMINATOR), memoised)

    @property
    def bound(self) -> Bound:
        """Of one report: (1 - q) / q."""
        return Bound((1 - self.q) / self.q)

    @property
    def for_ever(self) -> Bound | None:
        """That of one report if the response is memoised: then all reports on a value are the same."""
        return self.bound if self.memoised else None

    @property
    def n_values(self) -> int:
        """k."""
        return self.values

    @property
    def n_outputs(self) -> int:
        """One bit for each value."""
        return self.values

    @property
    def report_length(self) -> int:
        """Hexadecimal digits of the bits."""
        return -(-self.values // 4)

    def parameters(self) -> dict[str, str]:
        """Exact, as `mechanism_of` reads them."""
        return {"values": str(self.values), "q": str(self.q), "memoised": "yes" if self.memoised else "no"}

    def probabilities(self) -> tuple[tuple[Fraction, ...], ...]:
        """For each value the probability that each bit is 1; bits are independent."""
        every = range(self.values)
        return tuple(tuple(_HALF if bit == value else self.q for bit in every) for value in every)

    def randomise(self, values: Counts, source: RandomBytes) -> Reports:
        """One report for each value; see `Mechanism.randomise`."""
        true = check_values(values, self.values)
        bits = np.zeros((len(true), self.values), dtype=np.bool_)
        bits[np.arange(len(true)), true] = True
        return events(bits, _HALF, self.q, source).astype(np.uint16)

    def encode(self, reports: Reports) -> list[str]:
        """The bits, in hexadecimal digits."""
        return write_bits(reports)

    def decode(self, texts: Sequence[str], cohorts: Sequence[str] | None = None) -> Decoded:  # noqa: ARG002
        """Reports from texts."""
        return read_bits(texts, self.values)

    def totals(self, reports: Reports, groups: Counts, n_groups: int) -> Counts:
        """(n_groups, n_values) bits of each value that are 1."""
        return bit_totals(reports, groups, n_groups)

    @property
    def linear(self) -> LinearForm:
        """The debiased counts."""
        gap = _HALF - self.q
        return LinearForm(np.eye(self.values) * float(1 / gap), np.full((self.values, 1), float(self.q / gap)))

    def unit_covariance(self, shares: Reals | None = None) -> Reals:
        """See `ListedMechanism.unit_covariance`: diagonal, (s/4 + (1 - s) q (1 - q)) / (1/2 - q)^2."""
        share = even(shares, self.values)
        q = float(self.q)
        return np.diag((share / 4 + (1 - share) * q * (1 - q)) / (0.5 - q) ** 2)
