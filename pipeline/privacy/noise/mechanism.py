"""What a mechanism is: all that is asked of one by whoever plans, charges, draws, counts, tests and describes it.

Each has a class of its own, whose module states it whole; `mechanisms` lists them. Nobody else asks which one it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from pipeline.privacy.budget import exact, rounded_text

#: Precision of tails beyond the bits of the uniform; their recurrences lose fewer than 64 of them.
GUARD_BITS: Final = 128
#: Of the variance of the continuous distribution with the same scale.
VARIANCE_FLOOR: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Losses:
    """The privacy losses of one use, on a grid; see `pipeline.privacy.accounting.pld`.

    Attributes:
        first: the least loss, in steps of the grid.
        masses: `(n,)` probabilities of successive losses.
        infinite: the probability of an infinite loss.
    """

    first: int
    masses: NDArray[np.float64]
    infinite: float

    @classmethod
    def of(cls, found: Any) -> Losses:  # dp-accounting's distributions have no public type
        """Those of a distribution of dp-accounting that is the same in both directions."""
        assert found._symmetric, "two distributions"
        masses = found._pmf_remove.to_dense_pmf()
        return cls(masses._lower_loss, masses._probs, masses._infinity_mass)


@dataclass(frozen=True, eq=False)
class Tails:
    """`lower[k] <= 2^bits T(k) <= upper[k]` for k = 0, 1, ..., both falling in k; the last one is below 2^-depth."""

    bits: int
    lower: list[int]
    upper: list[int]


@dataclass(frozen=True)
class Mechanism(ABC):
    """A mechanism with its exact scale.

    Attributes:
        mechanism: its name in spec, manifest, ledger and files.
        called: the same in sentences.
        symbol: of the scale.
    """

    scale: Fraction
    mechanism: ClassVar[str]
    called: ClassVar[str]
    symbol: ClassVar[str]

    @abstractmethod
    def rho(self, moved: int) -> Fraction:
        """The zCDP loss of one use in which `moved` of the numbers (or losses) move by one each."""

    def epsilon(self, moved: int) -> Fraction | None:  # noqa: ARG002
        """The pure loss of such a use; None of one that has none."""
        return None

    def cost(self, framework: str, moved: int) -> Fraction | None:
        """Rho or epsilon of such a use, exact, as the framework counts."""
        return self.rho(moved) if framework == "zcdp" else self.epsilon(moved)

    @abstractmethod
    def privacy_losses(self, step: float) -> Losses | None:
        """The losses where one number moves by one, never better than the truth; None where they are too many.

        Those of the opposite neighbours are the same.

        Args:
            step: of the grid.
        """

    def __str__(self) -> str:
        return f"{self.called}, {self.symbol} = {self.scale}"


@dataclass(frozen=True)
class NoiseSpec(Mechanism):
    """One noise distribution on the whole numbers, symmetric about zero.

    Attributes:
        least: scale. Least squares divides by variances; below it its weights, and sums of them, are beyond floats. A
            budget that makes such noise protects nobody.
        largest: scale, which keeps the outcomes that a sampler tabulates on either side of zero below a million.
        unit: see `distance`.
        mean_part: the square of the mean of |X| in `continuous_variance`, rounded down.
        audited, audited_quickly: scales at which an audit tests it, at length and quickly.

    Raises:
        InputError: the scale is not positive, below `least` or above `largest`.
    """

    least: ClassVar[Fraction]
    largest: ClassVar[Fraction]
    unit: ClassVar[int]
    mean_part: ClassVar[Fraction]
    audited: ClassVar[tuple[str, ...]]
    audited_quickly: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale, f"noise scale {self.symbol}"))
        if self.scale <= 0:
            raise InputError(f"noise scale: found {self.symbol} = {self.scale}; it must be above 0")
        if self.scale < self.least:
            raise InputError(
                f"noise scale: found {self.symbol} = {rounded_text(self.scale, 4)}; at least "
                f"{rounded_text(self.least, 1)} is needed: a budget so large protects nobody"
            )
        if self.scale > self.largest:
            raise InputError(
                f"noise scale: found {self.symbol} = {rounded_text(self.scale, 4)}; at most {self.largest} is allowed: "
                "give this query a larger share of the budget, or do not measure it"
            )

    @classmethod
    @abstractmethod
    def scale_for(cls, cost: Fraction, moved: int, reach: Fraction | int = 1) -> Fraction:
        """The scale of noise that costs so much where `moved` numbers move by `reach` each.

        The same turned round is what noise of a scale costs: the scale and the cost stand for each other in both.
        """

    @staticmethod
    @abstractmethod
    def distance(k: Any) -> Any:
        """The definition: P(k) is proportional to exp(-distance(k) / (unit scale)); of numbers and arrays alike."""

    @abstractmethod
    def tails(self, depth: int) -> Tails:
        """T(k) = P(X >= k) as far as 2^-depth, each enclosed within about 2^-(depth + 64); no float takes part."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Exact variance of the discrete noise (persons squared), to float precision.

        Least squares divides by variances, so it is never less than a millionth of `continuous_variance`, nor less than
        the smallest normal float: with a huge budget the noise is zero except with negligible probability, and its true
        variance would underflow.
        """

    @property
    @abstractmethod
    def continuous_variance(self) -> Fraction:
        """Of the continuous distribution of the same scale, persons squared."""

    @abstractmethod
    def half_width(self, share: float = 0.9) -> int:
        """The least whole h such that the noise is from -h to h with a probability of at least `share`."""

    @staticmethod
    @abstractmethod
    def farthest(numbers: int, share: float) -> float:
        """How many standard deviations from its mean one of so many noisy numbers, or sums of these, is at most.

        Args:
            numbers: that are compared.
            share: the probability that one of them is farther off all the same.
        """

    def rescaled(self, factor: Fraction) -> Self:
        """The same noise with about `factor` times the standard deviation."""
        return type(self)(self.scale_for(self.scale_for(self.scale, 1), 1, factor))
