"""Numbers that are published as multiples of a base, and measurements with normal noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from pipeline.disclosure.method import KEYS, UNBOUNDED, DisclosureMethod, Range, shares_of
from postprocess.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class _Multiples(DisclosureMethod):
    """Multiples of a base.

    Attributes:
        base: b, 2 or more, persons.
    """

    base: int

    @property
    def large(self) -> int:
        """See `DisclosureMethod.large`: rests of such counts are about equally frequent."""
        return 3 * self.base

    def impossible(self, published: IntArray) -> BoolArray:
        """See `DisclosureMethod.impossible`."""
        return (published < 0) | (published % self.base != 0)

    def _within(self, published: IntArray, error: int) -> Range:
        return np.maximum(published - error, 0), published + error


@dataclass(frozen=True)
class RandomRounding(_Multiples):
    """Unbiased random rounding: a count with rest r is rounded up with probability r / b, else down.

    The errors of a rest are r (b - r) squared on average; over rests that are equally frequent the variance is
    (b^2 - 1) / 6 (Willenborg and de Waal 2001, Elements of Statistical Disclosure Control, section 9.4).
    """

    @property
    def variance(self) -> Fraction:
        """See `DisclosureMethod.variance`."""
        return Fraction(self.base**2 - 1, 6)

    def publish(self, counts: IntArray, keys: IntArray) -> IntArray:
        """See `DisclosureMethod.publish`."""
        rest = counts % self.base
        return counts - rest + self.base * (self.base * keys < rest * KEYS)

    def allowed(self, published: IntArray) -> Range:
        """See `DisclosureMethod.allowed`: an error is less than the base."""
        return self._within(published, self.base - 1)

    def __str__(self) -> str:
        return f"random rounding to multiples of {self.base}"


@dataclass(frozen=True)
class Rounding(_Multiples):
    """Rounding to the next multiple, half of an even base up; other offices may round it down.

    Rests are equally frequent, so that the variance is (b^2 - 1) / 12.
    """

    shakes: ClassVar[bool] = True

    @property
    def variance(self) -> Fraction:
        """See `DisclosureMethod.variance`."""
        return Fraction(self.base**2 - 1, 12)

    def publish(self, counts: IntArray, keys: IntArray) -> IntArray:
        """See `DisclosureMethod.publish`; keys are not used."""
        del keys
        return (counts + self.base // 2) // self.base * self.base

    def allowed(self, published: IntArray) -> Range:
        """See `DisclosureMethod.allowed`: an error is at most half of the base."""
        return self._within(published, self.base // 2)

    def shaken(self, counts: IntArray, generator: np.random.Generator) -> IntArray:
        """See `DisclosureMethod.shaken`: by half of the base at most, and positive cells of more than that stay so."""
        reach = np.where(counts > self.base // 2, self.base // 2, np.minimum(counts, 1))
        least = (counts > self.base // 2).astype(np.int64)
        return np.maximum(counts + generator.integers(-reach, reach + 1), least)

    def __str__(self) -> str:
        return f"rounding to multiples of {self.base}"


@dataclass(frozen=True)
class Gaussian(DisclosureMethod):
    """Noisy whole numbers, which may be negative, with a known standard deviation.

    Attributes:
        sd: persons.
    """

    sd: Fraction

    @property
    def variance(self) -> Fraction:
        """See `DisclosureMethod.variance`."""
        return self.sd**2

    @property
    def large(self) -> int:
        """See `DisclosureMethod.large`: any."""
        return -UNBOUNDED

    def publish(self, counts: IntArray, keys: IntArray) -> IntArray:
        """See `DisclosureMethod.publish`."""
        return counts + np.rint(float(self.sd) * ndtri(shares_of(keys))).astype(np.int64)

    def allowed(self, published: IntArray) -> Range:
        """See `DisclosureMethod.allowed`: any count."""
        return np.zeros_like(published), np.full_like(published, UNBOUNDED)

    def impossible(self, published: IntArray) -> BoolArray:
        """See `DisclosureMethod.impossible`: none."""
        return np.zeros(published.shape, dtype=bool)

    def __str__(self) -> str:
        return f"noise with a standard deviation of {float(self.sd):g}"
