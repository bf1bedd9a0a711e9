"""The mechanisms and what one use of each costs; the cost and the sampler of a mechanism follow from one number.

A person is in one answer of a query at one geounit of a level, so that a change of one record moves one or two numbers
by one each, wherever in the level they stand: `budget.MOVED`. Geounits of one level therefore compose in parallel, and
a level costs what one of its geounits costs (two of them, for neighbours that change a record).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.noise.exponential import Exponential
from pipeline.privacy.noise.permute_and_flip import PermuteAndFlip
from pipeline.privacy.noise.sampler import sampler_for

__all__ = ["MECHANISMS", "Cost", "DiscreteGaussian", "DiscreteLaplace", "MechanismName", "mechanism"]

MechanismName = Literal["discrete_gaussian", "discrete_laplace", "exponential", "permute_and_flip"]


class Cost(Protocol):
    """What a mechanism costs when `moved` of the numbers that it is used on move by one."""

    @property
    def name(self) -> MechanismName:
        """What specs and manifests call the mechanism."""

    @property
    def scale(self) -> Fraction:
        """The parameter of the mechanism, exact."""

    def rho(self, moved: int) -> Fraction:
        """The zCDP loss of one use in which `moved` numbers move by 1."""

    def epsilon(self, moved: int) -> Fraction | None:
        """The pure loss of one use in which `moved` numbers move by 1; None without a pure guarantee."""


@dataclass(frozen=True)
class DiscreteGaussian:
    """Adds discrete Gaussian noise to whole numbers, to each its own.

    Guarantee: the numbers published together satisfy rho-zCDP with

        rho = m / (2 sigma^2)

    and no pure differential privacy.

    Symbols:
        sigma^2: `scale`; the noise is k with probability proportional to exp(-k^2 / (2 sigma^2)), k whole.
        m: how many of the numbers a change of one record moves by one each; the squared L2 sensitivity.

    Source: Canonne, Kamath and Steinke 2020 (arXiv 2004.00010): theorem 4 for one number, theorem 14 for several;
    zCDP adds up (Bun and Steinke 2016, arXiv 1605.02065, lemma 1.7).
    """

    scale: Fraction
    name: ClassVar[MechanismName] = "discrete_gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", self.noise.scale)  # checked

    @property
    def noise(self) -> NoiseSpec:
        """The noise as files state it."""
        return NoiseSpec("discrete_gaussian", self.scale)

    def rho(self, moved: int) -> Fraction:
        """The loss rho = m / (2 sigma^2) for m numbers that move by 1."""
        return moved / (2 * self.scale)

    def epsilon(self, moved: int) -> Fraction | None:  # noqa: ARG002
        """None: there is no pure guarantee."""
        return None

    def draw(self, stream_key: bytes, start: int, count: int) -> NDArray[np.int64]:
        """The noise `(count,)` at these positions of a stream; see `sampler.Sampler.draw`."""
        return sampler_for(self.noise).draw(stream_key, start, count)


@dataclass(frozen=True)
class DiscreteLaplace:
    """Adds discrete Laplace (two-sided geometric) noise to whole numbers, to each its own.

    Guarantee: the numbers published together satisfy epsilon-differential privacy and rho-zCDP with

        epsilon = m / b,    rho = m / (2 b^2)

    Symbols:
        b: `scale`; the noise is k with probability proportional to exp(-|k| / b), k whole.
        m: how many of the numbers a change of one record moves by one each; the L1 sensitivity.

    Source: Ghosh, Roughgarden and Sundararajan 2012 (doi 10.1137/09076828X), definition 2.1 and theorem 2.2. An
    epsilon-private mechanism is epsilon^2 / 2-zCDP (Bun and Steinke 2016, proposition 1.4); here m of 1 / b each.
    """

    scale: Fraction
    name: ClassVar[MechanismName] = "discrete_laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", self.noise.scale)  # checked

    @property
    def noise(self) -> NoiseSpec:
        """The noise as files state it."""
        return NoiseSpec("discrete_laplace", self.scale)

    def rho(self, moved: int) -> Fraction:
        """The loss rho = m / (2 b^2) for m numbers that move by 1 (Bun and Steinke 2016, proposition 1.4)."""
        return moved / (2 * self.scale**2)

    def epsilon(self, moved: int) -> Fraction:
        """The loss epsilon = m / b for m numbers that move by 1."""
        return moved / self.scale

    def draw(self, stream_key: bytes, start: int, count: int) -> NDArray[np.int64]:
        """The noise `(count,)` at these positions of a stream; see `sampler.Sampler.draw`."""
        return sampler_for(self.noise).draw(stream_key, start, count)


MECHANISMS: Final = MappingProxyType(
    {kind.name: kind for kind in (DiscreteGaussian, DiscreteLaplace, Exponential, PermuteAndFlip)},
)


def mechanism(name: str, scale: Fraction) -> DiscreteGaussian | DiscreteLaplace | Exponential | PermuteAndFlip:
    """The mechanism of that name: `scale` is sigma^2, b, or the epsilon of one that chooses.

    Raises:
        InputError: there is none, or the scale is out of range.
    """
    kind = MECHANISMS.get(name)  # type: ignore[call-overload]
    if kind is None:
        raise InputError(f"mechanism: found {name!r}; allowed are {', '.join(MECHANISMS)}")
    instance: DiscreteGaussian | DiscreteLaplace | Exponential | PermuteAndFlip = kind(scale)
    return instance
