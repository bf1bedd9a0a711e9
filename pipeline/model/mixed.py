"""Noise on counts that are made of published whole numbers in which several periods of a series are mixed.

The numbers are `row[-1]` times the count of the period, and whole-number noise, and what the periods before leave open.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanism import NoiseSpec
from postprocess.arrays import FloatArray

__all__ = ["MIXED", "MixedNoise", "Unmixed"]

#: How measurement files name it.
MIXED: Literal["mixed"] = "mixed"
#: Denominators of the scale of simulated noise, at most.
_FINENESS: Final = 10**6


@dataclass(frozen=True)
class MixedNoise:
    """The noise on each count, and what is drawn for it.

    Attributes:
        drawn: the distribution of what is drawn, on the published numbers.
        row: by how much each period so far is multiplied in them, the last is the release's own.
        counts: the exact variance of each count in that of what is drawn.
    """

    drawn: NoiseSpec
    row: tuple[int, ...]
    counts: Fraction
    mechanism: ClassVar[Literal["mixed"]] = MIXED

    def __post_init__(self) -> None:
        if not self.row or self.row[-1] < 1 or self.counts <= 0:
            raise ValueError(f"mixed numbers have a row that ends above 0, and a variance, got {self}")

    @property
    def scale(self) -> Fraction:
        """The exact scale of what is drawn."""
        return self.drawn.scale

    @property
    def variance(self) -> float:
        """The variance of each count, persons squared."""
        return self.drawn.variance * float(self.counts)

    @property
    def simulated(self) -> NoiseSpec:
        """Noise on whole numbers with about this variance, for simulated runs."""
        least = Fraction(1, _FINENESS)
        return DiscreteGaussian(max(Fraction(self.variance).limit_denominator(_FINENESS), least))


@dataclass(frozen=True)
class Unmixed:
    """Makes counts of the published numbers of a release in a series, see `source.ToCounts`.

    Attributes:
        times: by how much the count of the period is multiplied in them.
    """

    times: int

    def __call__(self, stored: NDArray[np.signedinteger], first: int) -> FloatArray:  # noqa: ARG002
        """Counts `(n, size)` with noise."""
        return stored / np.float64(self.times)
