"""What every mechanism of collection states and does, and the exact arithmetic of its probabilities.

Every rounding goes to the side that does not understate the loss; every message names what was found and what is
allowed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar

from features.local.collect.bits import RandomBytes
from features.local.collect.reports import Decoded, Reports
from pipeline.errors import InputError

#: Denominator of probabilities that are derived from an epsilon, and the largest of those that are stated: its product
#: with the length of a list is below 2^62.
DENOMINATOR = 10**12
#: Decimals of a stated epsilon.
_PLACES = Decimal("1e-10")
_WORKING = Context(prec=60)
#: Larger than all errors of the working precision together.
_SLACK = Decimal("1e-40")


def epsilon_of(ratio: Fraction) -> Decimal:
    """The smallest number of ten decimals that is at least ln(ratio), but for a slack of 1e-40.

    Raises:
        ValueError: the ratio is less than 1.
    """
    if ratio < 1:
        raise ValueError(f"a ratio of at least 1 is needed, got {ratio}")
    if ratio == 1:
        return Decimal(0)
    exact = _WORKING.subtract(_WORKING.ln(Decimal(ratio.numerator)), _WORKING.ln(Decimal(ratio.denominator)))
    places = _WORKING.add(exact, _SLACK).quantize(_PLACES, rounding=ROUND_CEILING, context=_WORKING)
    return Decimal(f"{places:f}".rstrip("0").rstrip("."))


def exp_below(exponent: Fraction) -> Fraction:
    """A fraction that is at most e^exponent, and less than 1e-15 of it below: a partial sum of its series.

    Args:
        exponent: from 0 to 40.

    Raises:
        ValueError: the exponent is outside.
    """
    if not 0 <= exponent <= 40:
        raise ValueError(f"an exponent from 0 to 40 is needed, got {exponent}")
    term = total = Fraction(1)
    step = 0
    # Past 2 x exponent terms at least halve, so that what is left out is at most the last term.
    while step <= 2 * exponent or term > total * Fraction(1, 10**16):
        step += 1
        term = term * exponent / step
        total += term
    return total


def check_probability(key: str, found: Fraction, above: Fraction, below: Fraction, *, ends: bool = False) -> None:
    """Raises InputError unless a probability lies between two others, with `ends` also at them, and is not too fine."""
    inside = above <= found <= below if ends else above < found < below
    if not inside:
        words = f"from {above} to {below}" if ends else f"of more than {above} and less than {below}"
        raise InputError(f"{key}: found {found}; a probability {words} is needed")
    if found.denominator > DENOMINATOR:
        raise InputError(f"{key}: found {found}; a denominator of at most {DENOMINATOR} is needed")


def check_whole_number(key: str, found: int, least: int, most: int) -> None:
    """Raises InputError unless a number lies between two others, or is one of them."""
    if not least <= found <= most:
        raise InputError(f"{key}: found {found}; a whole number from {least} to {most} is needed")


@dataclass(frozen=True)
class RatioBound:
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
class LocalMechanism(ABC):
    """A randomiser with exact probabilities.

    A value is a whole number from 0, for RAPPOR a text. A report is a row of whole numbers.
    """

    #: As a spec names it.
    name: ClassVar[str]

    @property
    @abstractmethod
    def bound(self) -> RatioBound:
        """The bound of one report."""

    @property
    @abstractmethod
    def for_ever(self) -> RatioBound | None:
        """Of all reports together that one respondent ever sends on one value; None if nothing bounds them.

        A memoised response is drawn once and repeated, so that repetition shows nothing new. The bound is for a value
        that does not change. Each value has a response of its own: **that a value has changed, and when, is not
        protected**. It is seen at once where the response itself is sent, and in the end where it is randomised again.
        """

    def bound_of(self, reports: int) -> RatioBound:
        """Of so many reports of one respondent on one value that does not change: ratio^reports, `for_ever` at most.

        For RAPPOR, whose reports on a value share a permanent response, the power is a bound too. Let a bit be 1 in the
        permanent response with odds e^a where the text sets it and e^-a elsewhere, and let L be the sum over reports of
        the log-likelihood ratios of what they show. The log of the ratio is then g(L), with the derivative
        s(L + a) - s(L - a), s the logistic function: odd, and concave from 0 up. So g(t l) <= t g(l).
        """
        power = RatioBound(self.ratio**reports)
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
    def n_cohorts(self) -> int:
        """Groups of respondents whose reports are read differently."""
        return 1

    @property
    @abstractmethod
    def report_length(self) -> int:
        """Characters of the text of a report."""

    def parameters(self) -> dict[str, str]:
        """Exact, as `mechanism_of` reads them."""
        stated = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return {
            key: str(value) if not isinstance(value, bool) else "yes" if value else "no"
            for key, value in stated.items()
        }

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
