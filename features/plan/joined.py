"""What joins do to the errors that a plan expects, asked of the keys and links that state them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from pipeline.estimation.expectation import Expectation
from pipeline.model.link import Link
from pipeline.spec.release_spec import ReleaseSpec


@runtime_checkable
class ForetellingJoins(Protocol):
    """Keys of a feature by which persons and households are joined."""

    def joined_words(self) -> tuple[str, ...]:
        """What each join says, for people."""

    def joined_rows(self, spec: ReleaseSpec, expectations: Sequence[Expectation]) -> tuple[dict[str, Any], ...]:
        """The fields of `JoinedRow`, of each companion that is joined by size, at every level.

        Args:
            spec: with the joins.
            expectations: of its universes, its own first.
        """


@runtime_checkable
class HasAverages(Protocol):
    """A link by which the households of a companion have a published average size."""

    @property
    def by(self) -> str:
        """See `Link.by`: the companion."""

    def average_size(self, level: str) -> object | None:
        """What that of a level is made of; None where it is not published."""


@dataclass(frozen=True)
class JoinedRow:
    """What to expect of a companion and the persons in it at one level: standard errors, means over the geounits.

    Attributes:
        persons: of the number of persons in households.
        households_apart: of the number of households, if they were released without the joins.
        households: of the number of households with what the persons say of them.
    """

    companion: str
    level: str
    geounits: int
    persons: float | None
    households_apart: float | None
    households: float | None

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def words_of_joins(spec: ReleaseSpec) -> tuple[str, ...]:
    """What each join of a spec says; nothing where there are none."""
    return tuple(words for part in _joining(spec) for words in part.joined_words())


def joined_rows(spec: ReleaseSpec, expectations: Sequence[Expectation]) -> tuple[JoinedRow, ...]:
    """Of each companion that is joined by size, at every level; arguments as for `ForetellingJoins.joined_rows`."""
    return tuple(JoinedRow(**row) for part in _joining(spec) for row in part.joined_rows(spec, expectations))


def published_averages(links: Sequence[Link], levels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Joined companion -> those of `levels` at which its average household size is published."""
    joined = [link for link in links if isinstance(link, HasAverages)]
    return {link.by: tuple(level for level in levels if link.average_size(level) is not None) for link in joined}


def _joining(spec: ReleaseSpec) -> Iterator[ForetellingJoins]:
    return (part for part in spec.of_features if isinstance(part, ForetellingJoins))
