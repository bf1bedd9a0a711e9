"""What public shares do to the errors that a plan expects, given a guess, and to the budget that the same errors need.

Each shared answer is followed by itself from the top down (`features.shares.expectation`). Not foretold are the
errors of other answers, which gain from a better total, and what several shares of one answer do together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from features.shares.expectation import shared_variances
from features.shares.files import path_of, read_public_shares, read_shares, shares_by_level
from features.shares.public_share import PublicShare, shares_of
from pipeline.estimation.expectation import Expectation
from pipeline.reading.reader import Reader, open_reader
from postprocess.arrays import FloatArray, IntArray
from postprocess.linear.covariances import LevelCovariances, of_level
from postprocess.linear.information import BLIND
from postprocess.shares.shared import Shared
from postprocess.shares.spread import Spread
from postprocess.statistics import MEAN_ABSOLUTE

#: The name of a share, a level, and the label of an answer.
GuessPlace = tuple[str, str, str]


@dataclass(frozen=True)
class SpreadGuess:
    """What is guessed of one answer at one level.

    Attributes:
        persons: to expect for each 1 of the public number (of households, if these are what is counted).
        spread: how far areas are from their shares; its `noise` is not used.
    """

    persons: float
    spread: Spread


def spread_guessed(tau2: float, a: float, alone: float = 1.0, factors: tuple[tuple[int, float], ...] = ()) -> Spread:
    """A spread that was not estimated from the measurements of the release that is planned."""
    return Spread(tau2, a, alone, math.inf, math.inf, 0, factors)


def guesses_like(folder: Path, shares: Sequence[PublicShare]) -> dict[GuessPlace, SpreadGuess]:
    """What an earlier release found of those shares that it used at the same levels and answers; none of the others.

    Only its public files are read. Persons for each 1 of the public number are those it released of the whole area.

    Raises:
        InputError: it is no finished release.
        ReleaseError: it is damaged.
    """
    release = open_reader(folder)
    earlier = {share.name: share for share in shares_of(release.universe)}
    found: dict[GuessPlace, SpreadGuess] = {}
    for share in shares:
        if share.name not in earlier:
            continue
        persons, places = _persons(release, earlier[share.name]), places_of(share)
        known = {
            place: SpreadGuess(persons[place[2]], spread)
            for place in places
            if place[2] in persons and (spread := _estimated(release, place)) is not None
        }
        if len(known) == len(places):
            found |= known
    return found


def places_of(share: PublicShare) -> list[GuessPlace]:
    """Every level and answer of a share."""
    labels = share.query.answer_labels()
    return [(share.name, level, labels[answer]) for level in share.levels for answer in share.columns]


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


#: Factors of the budget between which the one is looked for that gives the same errors.
_LEAST_BUDGET, _ROUNDS = 1e-9, 50


def shared_rows(
    shares: Sequence[PublicShare],
    expectation: Expectation,
    planned: Sequence[LevelCovariances],
    guesses: Mapping[GuessPlace, SpreadGuess],
) -> tuple[dict[str, Any], ...]:
    """Of each share that there is a guess of, at each of its levels: the fields of `features.plan.kinds.SharedRow`.

    Args:
        shares: in use.
        expectation: of the universe with the shares; their public files are read.
        planned: its covariances.
        guesses: of all levels and answers of a share, or of none.

    Raises:
        InputError: a public file cannot be read, or does not have a number for each geounit.
    """
    rows = list[dict[str, Any]]()
    for share in shares:
        if any(name == share.name for name, _, _ in guesses):
            numbers = read_shares(share, expectation.spine)
            levels = shares_by_level([share], [numbers], expectation.spine)
            stated = [level[0] if level else None for level in levels]
            rows += _rows(share, expectation, planned, stated, guesses)
    return tuple(rows)


def _rows(
    share: PublicShare,
    expectation: Expectation,
    planned: Sequence[LevelCovariances],
    stated: Sequence[Shared | None],
    guesses: Mapping[GuessPlace, SpreadGuess],
) -> list[dict[str, Any]]:
    universe, spine = expectation.universe, expectation.spine
    marginal, labels = share.query, share.query.answer_labels()
    columns, levels = list(share.columns), list(zip(expectation.classes, planned, strict=True))[: len(stated)]
    upward = [_upward(expectation, planned, level, share)[:, columns] for level in range(len(stated))]
    exact = [of_level(*pair).of_answers(expectation.basis, marginal)[:, columns] for pair in levels]
    chains = []
    for place, answer in enumerate(share.columns):
        terms = [
            None
            if shared is None
            else _Term.of(shared, place, guesses[share.name, spine.level_names[level], labels[answer]])
            for level, shared in enumerate(stated)
        ]
        parents = [np.zeros(0, dtype=np.int64), *(level.parents for level in spine.levels[1 : len(stated)])]
        chains.append(_Chain([v[:, place] for v in upward], [v[:, place] for v in exact], parents, terms))
    rows = []
    for name in share.levels:
        level = spine.index_of(name)
        without = _mean([np.sqrt(chain.exact[level]) for chain in chains])

        def error(scale: float, level: int = level) -> float:
            return _mean([chain.errors(scale)[level] for chain in chains])

        with_shares = error(1.0)
        power = 1.0 if universe.framework == "zcdp" else 0.5  # the variance is as 1 / rho, or as 1 / epsilon^2
        budget = float(universe.budget)
        known = np.isfinite(without)
        rows.append(
            {
                "name": share.name,
                "level": name,
                "query": share.query.name,
                "geounits": len(spine.levels[level]),
                "answers": len(share.columns),
                "without": without if known else None,
                "error": with_shares if np.isfinite(with_shares) else None,
                "budget": budget,
                "needed_without": budget * (without / with_shares) ** (2 * power)
                if known and with_shares > 0
                else None,
                "enough": budget * _scale(error, without) ** power if known and without > 0 else None,
            }
        )
    return rows


def _upward(
    expectation: Expectation, planned: Sequence[LevelCovariances], level: int, share: PublicShare
) -> FloatArray:
    """Variances `(n, size)` of the query's answers by what each subtree measures; infinite where that is nothing."""
    classes, basis, marginal = expectation.classes[level], expectation.basis, share.query
    variances = np.maximum(basis.answer_variances(planned[level].upward, marginal), 0.0)
    variances[basis.answer_variances(classes.info.unmeasured, marginal) > BLIND] = np.inf
    return np.asarray(variances[classes.classes])


@dataclass(frozen=True, eq=False)
class _Term:
    """What is guessed of one answer of a level: `(n,)` shares, variances around them, and of the guess itself."""

    shares: FloatArray
    variances: FloatArray
    guess: SpreadGuess

    @classmethod
    def of(cls, shared: Shared, place: int, guess: SpreadGuess) -> _Term:
        number, shares = shared.numbers[:, place], shared.shares[:, place]
        variances = guess.spread.variances(guess.persons * number, number)
        return cls(np.nan_to_num(shares), np.where(np.isfinite(shares), variances, np.inf), guess)

    def used(self, measured: FloatArray) -> FloatArray:
        """The variances with which the terms are used, infinite for none."""
        finite = measured[np.isfinite(measured)]
        spread = replace(self.guess.spread, noise=float(np.median(finite)) if finite.size else np.inf)
        return spread.used(self.variances)


@dataclass(frozen=True, eq=False)
class _Chain:
    """One answer through the levels, top first.

    Attributes:
        measured: `(n,)` variances by what each subtree measures.
        exact: `(n,)` variances of the release without shares; NaN where they are not determined.
        parents: `(n,)`; of no meaning at the top.
        terms: of each level, None for none.
    """

    measured: Sequence[FloatArray]
    exact: Sequence[FloatArray]
    parents: Sequence[IntArray]
    terms: Sequence[_Term | None]

    def errors(self, scale: float) -> list[FloatArray]:
        """Standard errors `(n,)` of every level with shares, were the budget larger by what divides variances."""
        return [
            np.sqrt(own * larger) for own, larger in zip(self._variances(scale, self.terms), self._larger, strict=True)
        ]

    @cached_property
    def _larger(self) -> list[FloatArray]:
        """By how much the exact variances are larger than those of this answer by itself; 1 where that is no matter."""
        alone = self._variances(1.0, [None] * len(self.terms))
        out = []
        for exact, own in zip(self.exact, alone, strict=True):
            known = np.isfinite(exact) & np.isfinite(own) & (own > 0)
            out.append(np.where(known, exact / np.where(known, own, 1.0), 1.0))
        return out

    def _variances(self, scale: float, terms: Sequence[_Term | None]) -> list[FloatArray]:
        out = [self.exact[0] / scale]
        for own, parents, term in zip(self.measured[1:], self.parents[1:], terms[1:], strict=True):
            measured, nothing = own / scale, np.full(len(own), np.inf)
            used = nothing if term is None else term.used(measured)
            spread, shares = (nothing, np.zeros(len(own))) if term is None else (term.variances, term.shares)
            out.append(shared_variances(measured, spread, used, shares, (parents, out[-1])))
        return out


def _mean(errors: Sequence[FloatArray]) -> float:
    """The mean absolute error of standard errors; NaN where one is not determined."""
    return MEAN_ABSOLUTE * float(np.mean([one.mean() for one in errors]))


def _scale(error: Callable[[float], float], wanted: float) -> float:
    """The budget's factor up to 1 at which `error` is as `wanted`; 1 where it takes all of it, 0 where none."""
    low, high = float(np.log(_LEAST_BUDGET)), 0.0
    if not error(1.0) < wanted:
        return 1.0
    if error(_LEAST_BUDGET) <= wanted:
        return 0.0
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if error(float(np.exp(middle))) <= wanted else (middle, high)
        if high - low < 1e-5:
            break
    return float(np.exp(high))
