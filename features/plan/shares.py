"""What public facts of a universe, which are public shares, do to the errors that a plan expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pipeline.estimation.expectation import Expectation
from pipeline.model.universe import Universe


@runtime_checkable
class Foretelling(Protocol):
    """A public fact, which a feature states, whose gain can be foretold."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the shares in use."""

    def foretold(self, expectation: Expectation, like: Path) -> Sequence[Mapping[str, Any]]:
        """The fields of a `SharedRow` of each share that an earlier release used too, at each of its levels.

        Args:
            expectation: of the universe with the shares; their public files are read.
            like: the earlier release.

        Raises:
            InputError: a public file cannot be read, or does not fit.
            ReleaseError: the earlier release is damaged.
        """


@dataclass(frozen=True)
class SharedRow:
    """The answers of one share at one level.

    Attributes:
        geounits, answers: of the level, and how many of the query are shared.
        without: expected absolute error of an answer without shares, mean over answers and geounits, in persons; None
            where the measurements do not determine it.
        error: the same with shares, if they fit as in the earlier release.
        budget: of the release.
        needed_without: the budget that gives `error` without shares, at the same division; None where none does.
        enough: the budget that gives `without` with shares, if they fit so; 0 where public
            shares alone do; None where `without` is.
    """

    name: str
    level: str
    query: str
    geounits: int
    answers: int
    without: float | None
    error: float | None
    budget: float
    needed_without: float | None
    enough: float | None

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def names_of_shares(universe: Universe) -> tuple[str, ...]:
    """The names of the shares that a universe uses."""
    return tuple(name for one in universe.facts if isinstance(one, Foretelling) for name in one.names)


def shared_rows(expectation: Expectation, like: Path) -> tuple[SharedRow, ...]:
    """What is foretold of a universe from an earlier release; errors as for `Foretelling.foretold`."""
    facts = [one for one in expectation.universe.facts if isinstance(one, Foretelling)]
    return tuple(SharedRow(**row) for one in facts for row in one.foretold(expectation, like))
