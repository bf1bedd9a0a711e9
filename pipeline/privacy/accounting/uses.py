"""Which mechanisms a universe uses: every query at every level with its noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.privacy.accounting.mechanisms import mechanism
from pipeline.privacy.accounting.pld import Use

if TYPE_CHECKING:
    from pipeline.model.query import Query
    from pipeline.model.universe import Universe

__all__ = ["Measurement", "choices_of", "measurements_of"]


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


def measurements_of(universe: Universe) -> tuple[Measurement, ...]:
    """Every query at every level with its noise, computed from budget and shares as measuring does; then answers."""
    measurements = []
    for level in universe.strategy.levels:
        for measured in level.queries:
            noise = universe.noise_at(level.share, measured.share)
            use = mechanism(noise.mechanism, noise.scale)
            attributes = _attributes(universe, measured.query)
            measurements.append(Measurement(level.level, measured.query.name, attributes, measured.query.size, use))
    for answer in universe.added:
        use, attributes = mechanism(answer.noise.mechanism, answer.noise.scale), _attributes(universe, answer.query)
        measurements.append(Measurement(answer.level, answer.query.name, attributes, answer.query.n_asked, use))
    return tuple(measurements)


def choices_of(universe: Universe) -> tuple[Measurement, ...]:
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


def _attributes(universe: Universe, query: Query) -> frozenset[str]:
    groupings = zip(universe.schema.names, query.groups, strict=True)
    return frozenset(name for name, groups in groupings if any(g != groups[0] for g in groups))
