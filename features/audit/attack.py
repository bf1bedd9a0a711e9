"""Attacks on a release as an outsider would make them, and how they fare against what is promised.

Three attackers. All of them know the public files and this source; the last two know every record but one, too.

- *Reconstruction* of the records of each lowest geounit: from the best linear estimate of its counts, rounded to whole
  numbers from 0, and from the published histogram. How many records are right is counted, with the noise and without.
- *Membership*: a person is planted in one of two ways (here or there, with these values or others), and the likelihood
  ratio of everything that was measured decides which. No attack does better than that one.
- *One answer or another*: the same for a single query, tried on disjoint pairs of its answers. These trials are
  independent, so that their share of right guesses can be tested against what the stated noise allows.

Everything is computed with the true counts, and is as confidential as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from auditor.accounting import Use, cost_of, loss_distribution
from auditor.draws import Due
from auditor.form import Universe
from auditor.noise import far
from auditor.reading.counts import sound_histogram
from auditor.reading.files import Files
from auditor.reading.findings import ALPHA, FormError, Found
from auditor.reading.values import FloatArray, IntArray, exact_sum
from auditor.release import Release
from auditor.statements import decimal_of

_PLANTED: Final = 400
_MOST_CELLS: Final = 600
_SHOWN_ODDS: Final = 1e15


@dataclass(frozen=True)
class Reconstruction:
    """Shares of the records of the lowest geounits that an attacker has right.

    Attributes:
        linear: from the best linear estimate; `published`: from the published histogram; None where there is none.
        without_noise: from the same queries answered exactly.
        blind: from the geounits' true totals and the cells' shares of all records: what needs no detail.
    """

    records: int
    linear: float | None
    published: float | None
    without_noise: float | None
    blind: float


@dataclass(frozen=True)
class MembershipAttack:
    """Guesses which of two neighbouring sets of records was counted.

    Attributes:
        right: share of the planted persons whose place and values were guessed right; `without_noise`: the same of
            exact answers, always 1.
        best: the share that no attack on the stated noise exceeds; `bound`: what epsilon alone promises.
        odds: right / (1 - right), by how much odds of 1 to 1 improved; `most_odds`: exp(epsilon), their limit.
        apart: how many guesses rest on noise that no other of these rests on; they are independent.
        p_value: of so many of these being right by chance, where each is with the probability `bound` at most.
        tested: whether they are enough: were all of them right, it could not be chance.
    """

    planted: int
    right: float
    without_noise: float
    best: float
    bound: float
    odds: float
    most_odds: float
    apart: int
    p_value: float
    tested: bool
    words: str

    @property
    def passed(self) -> bool:
        """Whether the share of right guesses may be chance."""
        return self.p_value >= ALPHA


@dataclass(frozen=True)
class Attacked:
    """What the attacks on one universe achieved."""

    universe: str
    reconstruction: Reconstruction
    membership: MembershipAttack
    trials: Found

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return asdict(self)


def attacks(root: Path) -> list[Attacked]:
    """The attacks on every universe of a release."""
    release = Release(root)
    if any(universe.series.row for universe in release.form.universes):
        raise FormError("--reconstruct: does not know numbers in which the periods of a series are mixed")
    return [attack(release, universe) for universe in release.form.universes]


def attack(release: Release, universe: Universe, seed: int = 1) -> Attacked:
    """All attacks on one universe; `seed` plants the persons.

    Raises:
        FormError: true counts or a measurement cannot be read.
    """
    rng = np.random.default_rng(seed)
    dues = [due for due in release.due if due.of is universe and not due.where_positive]
    residuals = {due.name: release.residuals(due) for due in dues}
    return Attacked(
        universe.name,
        reconstruct(release, universe, dues, residuals),
        membership(release, universe, dues, residuals, rng),
        trials(dues, residuals),
    )


Residuals = dict[str, tuple[IntArray, IntArray]]


def reconstruct(release: Release, universe: Universe, dues: list[Due], residuals: Residuals) -> Reconstruction:
    """How many records of the lowest geounits are right."""
    leaves = release.spine[-1]
    n, cells = len(leaves.codes), universe.cells.size
    truth = release.truth(universe, leaves).dense(np.arange(n))
    people = int(truth.sum())
    shares = truth.sum(axis=0) / max(people, 1)
    blind = _right(_whole(truth.sum(axis=1)[:, None] * shares[None, :]), truth)
    path = release.places.of(universe.name, "histograms", leaves.name)
    published = None
    if path.is_file():
        found = sound_histogram(Files(release.public), path, leaves, universe)
        published = _right(found.dense(np.arange(n)), truth)
    here = [due for due in dues if due.geounits is leaves and len(due.scales) == 1]
    if not here or cells > _MOST_CELLS:
        return Reconstruction(people, None, published, None, blind)
    linear = [_right(_whole(_estimate(here, residuals, truth, noisy=noisy)), truth) for noisy in (True, False)]
    return Reconstruction(people, linear[0], published, linear[1], blind)


def _estimate(dues: list[Due], residuals: Residuals, truth: IntArray, *, noisy: bool) -> FloatArray:
    """The least-squares estimate of the counts `(n, cells)`, of least norm where the answers leave a choice."""
    rows, right = [], []
    for due in dues:
        weight = 1 / math.sqrt(float(due.scales[0]))
        matrix = np.zeros((due.answers.size, truth.shape[1]))
        matrix[due.answers.of_cell, np.arange(truth.shape[1])] = 1
        answers = truth @ matrix.T + (residuals[due.name][0] if noisy else 0)
        rows.append(matrix * weight)
        right.append(answers * weight)
    solved = np.linalg.lstsq(np.concatenate(rows), np.concatenate(right, axis=1).T, rcond=None)[0]
    return np.asarray(solved.T, dtype=np.float64)


def _whole(estimate: FloatArray) -> IntArray:
    """Whole numbers from 0 with the rounded total of each row, nearest to an estimate: the largest remainders go up."""
    clipped = np.maximum(estimate, 0)
    total = np.maximum(np.rint(estimate.sum(axis=1)), 0)
    scale = np.where(clipped.sum(axis=1) > 0, total / np.maximum(clipped.sum(axis=1), 1e-12), 0)
    parts = clipped * scale[:, None]
    whole = np.floor(parts + 1e-9).astype(np.int64)
    for row, missing in enumerate((total - whole.sum(axis=1)).astype(np.int64).tolist()):
        if missing > 0:
            whole[row, np.argsort(-(parts[row] - whole[row]), kind="stable")[:missing]] += 1
    return whole


def _right(guess: IntArray, truth: IntArray) -> float:
    """Share of the true records that a guess has in the right geounit and cell."""
    return float(np.minimum(guess, truth).sum() / max(int(truth.sum()), 1))


def membership(
    release: Release, universe: Universe, dues: list[Due], residuals: Residuals, rng: np.random.Generator
) -> MembershipAttack:
    """Plant persons, each in place of a real record, and guess from everything measured where the record really is."""
    leaves = release.spine[-1]
    counts = release.truth(universe, leaves)
    if not len(counts.counts):
        raise FormError("there are no records to attack")
    right, right_apart, apart = 0.0, 0.0, 0
    used: set[tuple[str, int, int]] = set()
    chances = counts.counts / counts.counts.sum()
    for _ in range(_PLANTED):
        at = int(rng.choice(len(chances), p=chances))
        real = int(counts.geounits[at]), int(counts.columns[at])
        other = real
        while other == real:
            other = int(rng.integers(len(leaves.codes))), int(rng.integers(universe.cells.size))
        told_by = {due.name: _told_by(release, due, real, other) for due in dues}
        ratio = sum(_ratio(due, residuals, told_by[due.name]) for due in dues)
        one = 1.0 if ratio > 0 else 0.5 if ratio == 0 else 0.0
        right += one
        numbers = {(name, geounit, answer) for name, moved in told_by.items() for geounit, answer, _ in moved}
        if numbers and not numbers & used:
            used |= numbers
            right_apart, apart = right_apart + one, apart + 1
    account = next(one for one in release.manifest["accounts"] if one["universe"] == universe.name)
    epsilon, delta = float(decimal_of(account["record"]["epsilon"])), float(universe.delta)
    uses: list[Use] = [
        (universe.mechanism, universe.scale(universe.rest * part), universe.moved) for *_, part in universe.measured
    ]
    share = right / _PLANTED
    most = math.exp(min(epsilon, 700))
    odds = share / max(1 - share, 0.5 / _PLANTED)
    at_most = f"{most:,.0f}" if most < _SHOWN_ODDS else f"{most:.1e}"
    words = (
        f"How much better can somebody guess who knows everybody else? Of two possibilities that were equally likely, "
        f"the attack names the right one in {share:.0%} of cases: its odds are {odds:.1f} to 1. The release promises "
        f"that odds become at most {at_most}-fold (epsilon = {account['record']['epsilon']}"
        + (f", except with probability {delta:g})" if delta else ")")
        + "; without noise it would always be right."
    )
    bound = min(1 / (1 + math.exp(-epsilon)) + delta, 1.0)
    seen = right_apart / max(apart, 1)
    p_value = far(seen, bound, apart) if seen > bound else 1.0
    tested = far(1.0, bound, apart) < ALPHA
    best = best_guess(uses)
    return MembershipAttack(_PLANTED, share, 1.0, best, bound, odds, most, apart, p_value, tested, words)


def _told_by(release: Release, due: Due, real: tuple[int, int], other: tuple[int, int]) -> list[tuple[int, int, int]]:
    """The numbers of a measurement that tell where a record is: geounit, answer, and what its noise would be more.

    If it were elsewhere, the noise on the answer that it has left would be one more, and on the other one less. With
    neighbours that add or remove a record, it would be nowhere.
    """
    number = release.form.levels.index(due.level)
    places = [(_ancestor(release, real[0], number), int(due.answers.of_cell[real[1]]), 1)]
    if due.of.moved == 2:
        places.append((_ancestor(release, other[0], number), int(due.answers.of_cell[other[1]]), -1))
        if places[0][:2] == places[1][:2]:
            return []
    return [place for place in places if due.kind[place[0]] >= 0]


def _ratio(due: Due, residuals: Residuals, told_by: list[tuple[int, int, int]]) -> float:
    """ln of how much likelier a measurement is if the record is where it is than if it were planted elsewhere."""
    found, rows = residuals[due.name]
    ratio = 0.0
    for geounit, answer, change in told_by:
        kind = int(due.kind[geounit])
        noise = int(found[int(np.searchsorted(rows, geounit)), answer])
        ratio += _log_chance(due, kind, noise) - _log_chance(due, kind, noise + change)
    return ratio


def _log_chance(due: Due, kind: int, noise: Any) -> Any:
    """ln of the probability of noises, up to a constant."""
    scale = float(due.scales[kind])
    return -np.square(noise, dtype=np.float64) / (2 * scale) if due.of.zcdp else -np.abs(noise) / scale


def _ancestor(release: Release, leaf: int, number: int) -> int:
    for level in reversed(release.spine[number + 1 :]):
        leaf = int(level.parents[leaf])
    return leaf


def trials(dues: list[Due], residuals: Residuals) -> Found:
    """Is a record in one answer of a query or in another? Guessed for disjoint pairs of answers of every measurement.

    The share of right guesses has a known limit for the noise stated, (1 + TV) / 2, and trials are independent: more
    right guesses than the limit allows, by Hoeffding's bound, mean that the noise is smaller than stated.
    """
    right, limit, n = 0.0, 0.0, 0
    for due in dues:
        found, rows = residuals[due.name]
        for kind, scale in enumerate(due.scales):
            flat = found[due.kind[rows] == kind].ravel()
            pairs = flat[: len(flat) // 2 * 2].reshape(-1, 2)
            if not len(pairs):
                continue
            # Against the pair with one more and one less.
            changed = pairs + np.array([1, -1])
            ratio = (_log_chance(due, kind, pairs) - _log_chance(due, kind, changed)).sum(axis=1)
            right += float((ratio > 0).sum()) + 0.5 * float((ratio == 0).sum())
            limit += len(pairs) * best_guess([(due.mechanism, scale, 2)])
            n += len(pairs)
    if not n:
        return Found("odds", "one answer or another", True, detail="nothing to try")
    seen, most = right / n, limit / n
    p_value = far(seen, most, n) if seen > most else 1.0
    detail = f"{seen:.1%} of {n:,} guesses right, the stated noise allows {most:.1%}"
    return Found("odds", "one answer or another", p_value >= ALPHA, p_value, ALPHA, detail)


def best_guess(uses: Sequence[Use]) -> float:
    """The share of right guesses between two neighbours, equally likely, by who knows all else: (1 + TV) / 2.

    TV, the sum of P (1 - exp(-L)) over the losses L above 0, is what no attack on these noisy numbers exceeds.
    """
    rho = float(exact_sum(cost_of(use, zcdp=True) for use in uses))
    loss, mass, _ = loss_distribution(uses, 2 * rho + 20 * math.sqrt(2 * rho) + 10)
    return float((1 + (mass * np.maximum(-np.expm1(-np.maximum(loss, 0)), 0)).sum()) / 2)
