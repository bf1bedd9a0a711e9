"""Which mechanisms a universe uses: every query at every level with its noise.

The privacy code imports nothing of the pipeline: it declares here what it needs of a
`pipeline.model.universe.Universe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from pipeline.privacy.accounting.compared import Compared, QueryLike
from pipeline.privacy.accounting.local import Collected
from pipeline.privacy.accounting.mechanisms import mechanism
from pipeline.privacy.accounting.pld import Use
from pipeline.privacy.accounting.select import Select
from pipeline.privacy.budget import noise_for

__all__ = ["Measurement", "QueryLike", "UniverseLike", "choices_of", "measurements_of"]


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


class _Added(Protocol):
    @property
    def level(self) -> str: ...
    @property
    def query(self) -> QueryLike: ...
    @property
    def noise(self) -> _Noise: ...


class _Selection(Protocol):
    @property
    def select(self) -> Select: ...
    @property
    def level(self) -> str: ...
    @property
    def versions(self) -> Sequence[QueryLike]: ...
    @property
    def noise(self) -> _Noise: ...


class UniverseLike(Compared, Protocol):
    """The part of a universe that its privacy depends on."""

    @property
    def strategy(self) -> _Strategy:
        """What is measured at each level, with what share."""

    @property
    def record_budget(self) -> Fraction:
        """What one record's change costs, added answers included: the budget is for all that one person alters."""

    @property
    def records_per_person(self) -> int:
        """How many records one person's change alters at most."""

    @property
    def reach(self) -> int:
        """How far one record's change moves each number that it moves; 1 for counts."""

    @property
    def of_units(self) -> bool:
        """Whether one person is a unit, of whose records some may be left out."""

    @property
    def strategy_budget(self) -> Fraction:
        """The budget of a move by one, without that of selections and added answers, exact."""

    @property
    def selections(self) -> Sequence[_Selection]:
        """The tables whose detail is chosen privately."""

    @property
    def added(self) -> Sequence[_Added]:
        """The answers of questions that are used beside the measurements."""

    @property
    def collected(self) -> Collected | None:
        """How answers were randomised before they were sent; None where they were not."""

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
    """Every query at every level with its noise, computed from budget and shares as measuring does; then answers."""
    measurements = []
    budget = universe.strategy_budget
    for level in universe.strategy.levels:
        for measured in level.queries:
            noise = noise_for(universe.framework, budget, level.share, measured.share, universe.neighbours)
            use = mechanism(noise.mechanism, noise.scale)
            attributes = _attributes(universe, measured.query)
            measurements.append(Measurement(level.level, measured.query.name, attributes, measured.query.size, use))
    for answer in universe.added:
        use, attributes = mechanism(answer.noise.mechanism, answer.noise.scale), _attributes(universe, answer.query)
        measurements.append(Measurement(answer.level, answer.query.name, attributes, answer.query.n_asked, use))
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
