"""The list of mechanisms, by name and by what buys them; what one use of each costs follows from its scale.

A person is in one answer of a query at one geounit of a level, so that a change of one record moves one or two numbers
by one each, wherever in the level they stand: `budget.MOVED`. Geounits of one level therefore compose in parallel, and
a level costs what one of its geounits costs (two of them, for neighbours that change a record).
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from geography.errors import InputError
from pipeline.privacy.budget import FRAMEWORKS, MOVED, NEIGHBOURS, Framework, Neighbours, exact
from pipeline.privacy.noise.choices import Choice, Exponential, PermuteAndFlip
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.discrete_laplace import DiscreteLaplace
from pipeline.privacy.noise.mechanism import Mechanism, NoiseSpec

_NOISES: Final[tuple[type[NoiseSpec], ...]] = (DiscreteGaussian, DiscreteLaplace)
_CHOICES: Final[tuple[type[Choice], ...]] = (Exponential, PermuteAndFlip)
NOISES: Final = MappingProxyType({one.mechanism: one for one in _NOISES})
MECHANISMS: Final = MappingProxyType({one.mechanism: one for one in (*_NOISES, *_CHOICES)})

#: What the budget of a framework buys on numbers; and to choose a number with.
NOISE: Final = MappingProxyType[Framework, type[NoiseSpec]]({"zcdp": DiscreteGaussian, "pure": DiscreteLaplace})
CHOICE: Final = MappingProxyType[Framework, type[Choice]]({"zcdp": Exponential, "pure": PermuteAndFlip})

if TYPE_CHECKING:
    NoiseName = str
    MechanismName = str
else:
    #: The names as what is read is checked against.
    NoiseName = Literal[tuple(NOISES)]
    MechanismName = Literal[tuple(MECHANISMS)]


def mechanism(name: str, scale: Fraction) -> Mechanism:
    """The mechanism of that name: `scale` is sigma^2, b, or the epsilon of one that chooses.

    Raises:
        InputError: there is none, or the scale is out of range.
    """
    if name not in MECHANISMS:
        raise InputError(f"mechanism: found {name!r}; allowed are {', '.join(MECHANISMS)}")
    return MECHANISMS[name](scale)


def noise_for(
    framework: Framework, total: Fraction, level_share: Fraction, query_share: Fraction, neighbours: Neighbours
) -> NoiseSpec:
    """Noise of one query at one level, which gets total * level_share * query_share of the budget.

    A person is in one answer of the query at one geounit of the level. Neighbours that add or remove a record move one
    answer by 1; neighbours that change a record move two answers by 1 each (L1 sensitivity 2, L2 sensitivity sqrt 2).

    - `zcdp`, budget rho: discrete Gaussian with sigma^2 = D / (2 rho), D the squared L2 sensitivity, 2 for change-one
      and 1 for add-remove (Canonne, Kamath and Steinke 2020, theorem 4 and, for several answers at once, theorem 14).
    - `pure`, budget epsilon: discrete Laplace with b = s / epsilon, s the L1 sensitivity, 2 for change-one and 1 for
      add-remove.

    Args:
        framework: "zcdp" (discrete Gaussian) or "pure" (discrete Laplace).
        total: the whole budget, rho or epsilon, above 0; into it goes how far one person moves a number
            (`Universe.strategy_budget`).
        level_share: the level's part of it, above 0 and at most 1.
        query_share: the query's part of the level's, above 0 and at most 1.
        neighbours: "change-one" or "add-remove".

    Raises:
        InputError: a value is out of range, or the noise is larger than can be drawn, or too small to protect anybody.
        TypeError: a number is not exact (an int or a Fraction).
    """
    if framework not in FRAMEWORKS:
        raise InputError(f"privacy framework: found {framework!r}; allowed are {', '.join(FRAMEWORKS)}")
    if neighbours not in NEIGHBOURS:
        raise InputError(f"neighbours: found {neighbours!r}; allowed are {', '.join(NEIGHBOURS)}")
    total = exact(total, "total budget")
    if total <= 0:
        raise InputError(f"total budget: found {total}; it must be above 0")
    shares = {"level share": exact(level_share, "level share"), "query share": exact(query_share, "query share")}
    for name, share in shares.items():
        if not 0 < share <= 1:
            raise InputError(f"{name}: found {share}; it must be above 0 and at most 1")
    kind = NOISE[framework]
    return kind(kind.scale_for(total * math.prod(shares.values()), MOVED[neighbours]))
