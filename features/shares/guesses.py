"""Guesses of how far areas are from their public shares: stated, or what an earlier release found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from features.shares.files import path_of, read_public_shares
from features.shares.public_share import PublicShare, shares_of
from pipeline.errors import InputError
from pipeline.reading.reader import Reader, open_reader
from postprocess.shares.spread import Spread

#: The name of a share, a level, and the label of an answer.
GuessPlace = tuple[str, str, str]
FORM = (
    '"NAME: persons = NUMBER, relative = NUMBER", several joined by ;, such as "homes: persons = 2.5, relative = 0.2"; '
    "or tau2 = NUMBER, and a = NUMBER if it is known, in place of relative"
)


@dataclass(frozen=True)
class Guess:
    """What is guessed of one answer at one level.

    Attributes:
        persons: to expect for each 1 of the public number (of households, if these are what is counted).
        spread: how far areas are from their shares; its `noise` is not used.
    """

    persons: float
    spread: Spread


def guesses_of(stated: str | None, like: Path | None, shares: Sequence[PublicShare]) -> dict[GuessPlace, Guess]:
    """The guesses of `--shares-spread`, and of an earlier release for shares that it does not name; none for neither.

    Raises:
        InputError: as for `stated_guesses` and `guesses_like`.
        ReleaseError: the earlier release is damaged.
    """
    found = {} if stated is None else stated_guesses(stated, shares)
    names = {name for name, _, _ in found}
    others = [share for share in shares if share.name not in names]
    return found | ({} if like is None else guesses_like(like, others))


def spread_guessed(tau2: float, a: float, alone: float = 1.0, factors: tuple[tuple[int, float], ...] = ()) -> Spread:
    """A spread that was not estimated from the measurements of the release that is planned."""
    return Spread(tau2, a, alone, math.inf, math.inf, 0, factors)


def stated_guesses(text: str, shares: Sequence[PublicShare]) -> dict[GuessPlace, Guess]:
    """The guesses of `--shares-spread`, each for all levels and answers of the share that it names.

    `relative = 0.2` says that areas are 20 % off, beside what chance does: tau^2 = 1 and a = 0.04.

    Raises:
        InputError: an entry is malformed, or names a share that the spec does not have or use.
    """
    option = "--shares-spread"
    by_name = {share.name: share for share in shares}
    found: dict[GuessPlace, Guess] = {}
    entries = [part.strip() for part in text.split(";") if part.strip()]
    if not entries:
        raise InputError(f"{option}: nothing is given; allowed is {FORM}")
    for entry in entries:
        name, colon, numbers = (part.strip() for part in entry.rpartition(":"))
        if not colon:
            raise InputError(f"{option}: found {entry!r}; allowed is {FORM}")
        if name not in by_name:
            used = ", ".join(repr(one) for one in by_name) or "none"
            raise InputError(f"{option}: {entry!r}: no share {name!r} is used; the shares in use are {used}")
        places = _places(by_name[name])
        if places[0] in found:
            raise InputError(f"{option}: {name} occurs twice; once is allowed")
        found |= dict.fromkeys(places, _stated(numbers, f"{option}: {entry!r}"))
    return found


def guesses_like(folder: Path, shares: Sequence[PublicShare]) -> dict[GuessPlace, Guess]:
    """What an earlier release with the same shares, levels and answers found; only its public files are read.

    Persons for each 1 of the public number are those that it released of the whole area.

    Raises:
        InputError: it is no finished release, or has no spread of a share at a level.
        ReleaseError: it is damaged.
    """
    release = open_reader(folder)
    earlier = {share.name: share for share in shares_of(release.universe)}
    found: dict[GuessPlace, Guess] = {}
    for share in shares:
        if share.name not in earlier:
            used = ", ".join(repr(one) for one in earlier) or "none"
            raise InputError(f"--like {folder}: that release has no shares {share.name!r}; its shares are {used}")
        persons = _persons(release, earlier[share.name])
        for place in _places(share):
            _, level, label = place
            spread = _estimated(release, place)
            if spread is None or label not in persons:
                raise InputError(
                    f"--like {folder}: that release has no spread of the shares {share.name!r} for {label!r} at level "
                    f"{level!r}; state it with --shares-spread"
                )
            found[place] = Guess(persons[label], spread)
    return found


def _places(share: PublicShare) -> list[GuessPlace]:
    labels = share.query.answer_labels()
    return [(share.name, level, labels[answer]) for level in share.levels for answer in share.columns]


def _stated(numbers: str, where: str) -> Guess:
    values: dict[str, float] = {}
    for part in numbers.split(","):
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals or key not in ("persons", "relative", "tau2", "a") or key in values:
            raise InputError(f"{where}: found {part.strip()!r}; allowed is {FORM}")
        try:
            values[key] = float(text)
        except ValueError:
            values[key] = math.nan
        if not 0 < values[key] < math.inf:
            raise InputError(f"{where}: {key}: found {text!r}; a number above 0 is needed")
    if "persons" not in values:
        raise InputError(f"{where}: persons is missing: how many to expect for each 1 of the public number")
    if ("relative" in values) == ("tau2" in values) or ("relative" in values and "a" in values):
        raise InputError(f"{where}: found {', '.join(values)}; allowed is {FORM}")
    if "relative" in values:
        return Guess(values["persons"], spread_guessed(1.0, values["relative"] ** 2))
    return Guess(values["persons"], spread_guessed(values["tau2"], values.get("a", 0.0)))


def _persons(release: Reader, share: PublicShare) -> dict[str, float]:
    """Per answer's label, what was released of it for each 1 of the public number, over the whole area."""
    geocodes = release.spine.level(share.level).geocodes
    numbers = read_public_shares(release.files.readable(path_of(release.files, share.name)), share, geocodes).sum(
        axis=0
    )
    counts = np.asarray(release.histogram(release.levels[0]).sum(axis=0)).ravel()
    answers = np.bincount(share.query.cell_answer, weights=counts, minlength=share.query.size)
    labels = share.query.answer_labels()
    column = dict(zip(share.distinct_columns, numbers, strict=True))
    return {
        labels[answer]: float(answers[answer] / column[name])
        for answer, name in share.columns.items()
        if column[name] > 0 and answers[answer] > 0
    }


def _estimated(release: Reader, place: GuessPlace) -> Spread | None:
    """The spread that the manifest states."""
    name, level, label = place
    noted: object = release.manifest.solver
    for key in (f"estimate {level}", "shares", name, label):
        if not isinstance(noted, Mapping) or key not in noted:
            return None
        noted = noted[key]
    if not isinstance(noted, Mapping):
        return None
    factors = tuple((round(math.log2(float(number))), float(factor)) for number, factor in noted["factors"])
    return spread_guessed(float(noted["tau2"]), float(noted["a"]), float(noted["without_number"]), factors)
