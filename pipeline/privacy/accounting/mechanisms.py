"""The mechanisms by name; what one use of each costs follows from its scale (`rho` and `epsilon` of each).

A person is in one answer of a query at one geounit of a level, so that a change of one record moves one or two numbers
by one each, wherever in the level they stand: `budget.MOVED`. Geounits of one level therefore compose in parallel, and
a level costs what one of its geounits costs (two of them, for neighbours that change a record).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, Literal, get_args

from geography.errors import InputError
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.noise.choices import Exponential, PermuteAndFlip

MechanismName = Literal["discrete_gaussian", "discrete_laplace", "exponential", "permute_and_flip"]
MECHANISMS: Final[tuple[MechanismName, ...]] = get_args(MechanismName)

Use = NoiseSpec | Exponential | PermuteAndFlip


def mechanism(name: str, scale: Fraction) -> Use:
    """The mechanism of that name: `scale` is sigma^2, b, or the epsilon of one that chooses.

    Raises:
        InputError: there is none, or the scale is out of range.
    """
    match name:
        case "discrete_gaussian" | "discrete_laplace":
            return NoiseSpec(name, scale)
        case "exponential":
            return Exponential(scale)
        case "permute_and_flip":
            return PermuteAndFlip(scale)
    raise InputError(f"mechanism: found {name!r}; allowed are {', '.join(MECHANISMS)}")
