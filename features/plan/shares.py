"""What public facts of a universe, which are public shares, do to the errors that a plan expects, given a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation
from pipeline.model.universe import Universe
from postprocess.linear.expected import LevelCovariances


@runtime_checkable
class Foretelling(Protocol):
    """A public fact, which a feature states, whose gain can be foretold."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the shares in use."""

    def foretold(
        self, expectation: Expectation, planned: Sequence[LevelCovariances], stated: str | None, like: Path | None
    ) -> Sequence[Mapping[str, Any]]:
        """The fields of a `SharedRow` of each share that there is a guess of, at each of its levels.

        Args:
            expectation: of the universe with the shares; their public files are read.
            planned: its covariances.
            stated: the text of `--shares-spread`.
            like: an earlier release.

        Raises:
            InputError: a guess is malformed or missing; or a public file cannot be read, or does not fit.
            ReleaseError: the earlier release is damaged.
        """


@dataclass(frozen=True)
class SharesGuess:
    """Where guesses come from: the text of `--shares-spread`, an earlier release, or both; the text counts first."""

    stated: str | None = None
    like: Path | None = None


@dataclass(frozen=True)
class SharedRow:
    """The answers of one share at one level.

    Attributes:
        geounits, answers: of the level, and how many of the query are shared.
        without: expected absolute error of an answer without shares, mean over answers and geounits, in persons; None
            where the measurements do not determine it.
        error: the same with shares, if the guess is right.
        budget: of the release.
        needed_without: the budget that gives `error` without shares, at the same division; None where none does.
        enough: the budget that gives `without` with shares, if the guess is right; 0 where
            public shares alone do; None where `without` is.
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


def shared_rows(
    expectation: Expectation, planned: Sequence[LevelCovariances], guess: SharesGuess
) -> tuple[SharedRow, ...]:
    """What is foretold of a universe; nothing where nothing is guessed.

    Raises:
        InputError: the spec uses no shares and some are stated, or as for `Foretelling.foretold`.
        ReleaseError: the earlier release is damaged.
    """
    facts = [one for one in expectation.universe.facts if isinstance(one, Foretelling)]
    if guess.stated is not None and not facts:
        raise InputError("--shares-spread is for specs that use shares, [postprocess.shares.NAME]; this one uses none")
    return tuple(
        SharedRow(**row) for one in facts for row in one.foretold(expectation, planned, guess.stated, guess.like)
    )
