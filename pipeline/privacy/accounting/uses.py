"""Which mechanisms a universe uses: every query at every level with its noise.

The privacy code imports nothing of the pipeline: it declares here what it needs of a
`pipeline.model.universe.Universe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.privacy.accounting.mechanisms import mechanism
from pipeline.privacy.accounting.pld import Use
from pipeline.privacy.accounting.select import Select
from pipeline.privacy.budget import Framework, Neighbours, noise_for

__all__ = ["Measurement", "QueryLike", "UniverseLike", "choices_of", "measurements_of"]


class QueryLike(Protocol):
    """The part of a query that privacy depends on; see `pipeline.model.query.Query`."""

    @property
    def name(self) -> str:
        """As the spec calls it."""

    @property
    def size(self) -> int:
        """The number of answers."""

    @property
    def groups(self) -> tuple[Any, ...]:
        """For each attribute the group of each value; zeros where it is summed out."""


class _Measured(Protocol):
    @property
    def query(self) -> QueryLike: ...
    @property
    def share(self) -> Fraction: ...


class _Level(Protocol):
    @property
    def level(self) -> str: ...
    @property
    def share(self) -> Fraction: ...
    @property
    def queries(self) -> Sequence[_Measured]: ...


class _Strategy(Protocol):
    @property
    def levels(self) -> Sequence[_Level]: ...


class _Noise(Protocol):
    @property
    def mechanism(self) -> str: ...
    @property
    def scale(self) -> Fraction: ...


class _Selection(Protocol):
    @property
    def select(self) -> Select: ...
    @property
    def level(self) -> str: ...
    @property
    def versions(self) -> Sequence[QueryLike]: ...
    @property
    def noise(self) -> _Noise: ...


class _Attribute(Protocol):
    @property
    def values(self) -> tuple[str, ...]: ...


class _Schema(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...
    def attribute(self, name: str) -> _Attribute: ...


class UniverseLike(Protocol):
    """The part of a universe that its privacy depends on."""

    @property
    def name(self) -> str:
        """The companion's name; "" for the release's own universe."""

    @property
    def schema(self) -> _Schema:
        """The attributes of a record."""

    @property
    def strategy(self) -> _Strategy:
        """What is measured at each level, with what share."""

    @property
    def framework(self) -> Framework:
        """Which loss adds up: "zcdp" or "pure"."""

    @property
    def budget(self) -> Fraction:
        """The whole budget, rho or epsilon, exact."""

    @property
    def record_budget(self) -> Fraction:
        """What one record's change costs, exact: the budget is for all records that one person alters."""

    @property
    def records_per_person(self) -> int:
        """How many records one person's change alters at most."""

    @property
    def strategy_budget(self) -> Fraction:
        """The budget of a record without that of the selections, exact."""

    @property
    def selections(self) -> Sequence[_Selection]:
        """The tables whose detail is chosen privately."""

    @property
    def delta(self) -> Fraction:
        """The delta of the (epsilon, delta) statement; 0 with framework "pure"."""

    @property
    def population(self) -> int | None:
        """About how many records there are, where that is public."""

    @property
    def neighbours(self) -> Neighbours:
        """Which inputs are neighbours: "change-one" or "add-remove"."""

    @property
    def invariants(self) -> Sequence[tuple[str, QueryLike]]:
        """Level and query of what is published exactly."""

    @property
    def structural_zeros(self) -> NDArray[np.bool_]:
        """Which cells are impossible, `(n_cells,)`."""

    @property
    def bypass(self) -> bool:
        """Whether geounits without siblings are measured by the geounit above."""

    def privacy_fingerprint(self) -> str:
        """SHA-256 over all that the distribution of the noise depends on."""


@dataclass(frozen=True)
class Measurement:
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


def measurements_of(universe: UniverseLike) -> tuple[Measurement, ...]:
    """Every query at every level with its noise, computed from the budget and the shares as measuring does."""
    measurements = []
    budget = universe.strategy_budget
    for level in universe.strategy.levels:
        for measured in level.queries:
            noise = noise_for(universe.framework, budget, level.share, measured.share, universe.neighbours)
            use = mechanism(noise.mechanism, noise.scale)
            attributes = _attributes(universe, measured.query)
            measurements.append(Measurement(level.level, measured.query.name, attributes, measured.query.size, use))
    return tuple(measurements)


def choices_of(universe: UniverseLike) -> tuple[Measurement, ...]:
    """Every private choice, and after each the noise on what was chosen."""
    measurements = []
    for selection in universe.selections:
        select, finest, use = (
            selection.select,
            selection.versions[-1],
            mechanism(selection.noise.mechanism, selection.noise.scale),
        )
        measurements.append(Measurement(selection.level, select.stream_name, frozenset(), 1, select.mechanism))
        measurements.append(
            Measurement(selection.level, select.measured_name, _attributes(universe, finest), finest.size, use)
        )
    return tuple(measurements)


def _attributes(universe: UniverseLike, query: QueryLike) -> frozenset[str]:
    groupings = zip(universe.schema.names, query.groups, strict=True)
    return frozenset(name for name, groups in groupings if any(g != groups[0] for g in groups))
