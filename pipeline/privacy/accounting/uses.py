"""The mechanisms by name, and which of them a universe uses: every query at every level with its noise.

What one use costs follows from its scale (`rho` and `epsilon` of each). A person is in one answer of a query at one
geounit of a level, so that a change of one record moves one or two numbers by one each, wherever in the level they
stand: `budget.MOVED`. Geounits of one level therefore compose in parallel, and a level costs what one of its geounits
costs (two of them, for neighbours that change a record).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, get_args

from geography.errors import InputError
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.noise.choices import Exponential, PermuteAndFlip

if TYPE_CHECKING:
    from pipeline.model.query import Query
    from pipeline.model.strategy import EarlierUse
    from pipeline.model.universe import Universe


@dataclass(frozen=True)
class MeasuredUse:
    """One query at one level; or one private choice there, or what was chosen by it.

    Attributes:
        query: of a choice and what was chosen, the names of their streams.
        attributes: those that the query does not sum out. A choice is made by the number of persons, so it has none;
            what was chosen has those of the most detailed version.
        size: answers in each geounit; of what was chosen, the most that there can be.
        use: its mechanism, exact.
    """

    level: str
    query: str
    attributes: frozenset[str]
    size: int
    use: Use


def measurements_of(universe: Universe) -> tuple[MeasuredUse, ...]:
    """Every draw, with the noise that it has where no geounit stands for others."""
    measurements = []
    for draw in universe.draws():
        (noise,) = (draw.asked.noise,) if draw.asked else draw.drawn
        attributes = _attributes(universe, draw.query)
        measurements.append(MeasuredUse(draw.level, draw.query.name, attributes, draw.query.n_asked, noise))
    return tuple(measurements)


def choices_of(universe: Universe) -> tuple[MeasuredUse, ...]:
    """Every private choice, and after each the noise on what was chosen."""
    measurements = []
    for selection in universe.selections:
        select, finest = selection.select, selection.versions[-1]
        measurements.append(MeasuredUse(selection.level, select.stream_name, frozenset(), 1, select.mechanism))
        attributes = _attributes(universe, finest)
        measurements.append(
            MeasuredUse(selection.level, select.measured_name, attributes, finest.size, selection.noise)
        )
    return tuple(measurements)


def earlier_of(universe: Universe, moved: int) -> tuple[tuple[EarlierUse, tuple[Use, int]], ...]:
    """What was drawn before, and what it is in an account of a change that moves `moved` numbers by one each.

    That is a mechanism, and on how many numbers that move by one it is used. Losses of a choice with the weight w move
    by at most w `moved`, as those of one whose epsilon is so many times as large move by one.

    Raises:
        ValueError: changes of the universe are others than of one record, one number each.
    """
    if universe.earlier is None:
        return ()
    if universe.bypass or universe.invariants or universe.reach > 1 or universe.series is not None:
        raise ValueError("what was drawn before has no price beside invariants, bypassing, amounts or a series")
    return tuple(
        (one, (mechanism(one.mechanism, one.scale * one.weight * moved), 1))
        if one.weight
        else (one, (mechanism(one.mechanism, one.scale), moved))
        for one in universe.earlier.uses
    )


def _attributes(universe: Universe, query: Query) -> frozenset[str]:
    groupings = zip(universe.schema.names, query.groups, strict=True)
    return frozenset(name for name, groups in groupings if any(g != groups[0] for g in groups))


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
