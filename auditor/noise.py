"""Is what was added the noise stated? A sample is redrawn from the key; exceedances are counted without it.

Noise that was drawn only where the released area above is positive: on the right answers, and the right noise.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from auditor.draws import Due
from auditor.files import read_selected
from auditor.form import Choice, Universe
from auditor.keys import KeyedStream
from auditor.reading.counts import due_answers, read_histogram, read_positive, wrong_answers
from auditor.reading.files import Files
from auditor.reading.findings import ALPHA, FormError, Found, holds
from auditor.release import Release
from auditor.sampler import boundaries, chosen, fits, is_wide

#: Of all measurements together, redrawn with the key.
_REDRAWN: Final = 6000
_EXTREMES: Final = 8
_DEEPEST: Final = 40
#: Numbers up to which the tail of wide noise is computed; the program draws none that needs more.
_MOST_TAIL: Final = 4_000_000
#: Powers of probabilities at which Chernoff's bound is computed, below the mean up to 1.
_POWERS: Final = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0])
_SIDES: Final = ("both tails", "the upper tail", "the lower tail")


def context_of(release: Release, secret: bytes, universe: Universe) -> tuple[str, str, str]:
    """What the streams of a universe are bound to: its records, the spine, and the privacy-relevant spec."""
    return release.fingerprints(secret)[universe.name], release.spine_fingerprint, universe.fingerprint()


@dataclass(frozen=True, eq=False)
class Added:
    """What was added to true answers, `(n,)`: its place in the stream, the number, and the kind of its geounit."""

    places: NDArray[np.int64]
    values: NDArray[np.int64]
    kinds: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of one stream.

    Attributes:
        name: as sentences have it.
        universe, level, query: whose stream.
        scales: of each kind of geounit.
        read: what was added; FormError where files do not hold it.
    """

    name: str
    universe: Universe
    level: str
    query: str
    scales: tuple[Fraction, ...]
    read: Callable[[], Added]


def noises(release: Release) -> Iterator[Noise]:
    """The noise on all that was measured, and on what private choices chose."""
    for due in release.every_due:
        read = partial(_positive if due.where_positive else _measured, release, due)
        yield Noise(due.name, due.universe, due.level.name, due.query.name, due.scales, read)
    for universe in release.form.universes:
        for choice in universe.choices:
            read = partial(_on_choice, release, universe, choice)
            query, name = f"selected {choice.name}", f"{choice.level}, {choice.name}"
            yield Noise(name, universe, choice.level, query, (choice.scale,), read)


def _measured(release: Release, due: Due) -> Added:
    residuals, rows = release.residuals(due)
    places = rows[:, None] * due.query.size + np.arange(due.query.size)
    return Added(places.ravel(), residuals.ravel(), np.repeat(due.kind[rows], due.query.size))


def _positive(release: Release, due: Due) -> Added:
    keys, values, _ = _drawn(release, due)
    return Added(keys, values, np.zeros_like(keys))


def _on_choice(release: Release, universe: Universe, choice: Choice) -> Added:
    added = _selected(release, universe, choice).residuals
    size, empty = choice.versions[-1].size, np.zeros(0, dtype=np.int64)
    places = np.concatenate([empty, *(row * size + np.arange(len(one)) for row, one in enumerate(added))])
    return Added(places, np.concatenate([empty, *added]), np.zeros_like(places))


def redrawn(release: Release, secret: bytes) -> Iterator[Found]:
    """Redraw a sample of the noise of every stream, and the largest of it; and every private choice.

    Which are redrawn is drawn from the operating system's entropy, so that no run can prepare for it.
    """
    every = list(noises(release))
    each = max(16, _REDRAWN // max(1, len(every)))
    problems, count, wide = [], 0, 0
    for one in every:
        try:
            added = one.read()
        except FormError as error:
            problems.append(str(error))
            continue
        wrong, tried = _wrong(
            KeyedStream(secret, context_of(release, secret, one.universe), one.level, one.query), one, added, each
        )
        count += tried
        wide += tried if all(is_wide(one.universe.mechanism, scale) for scale in one.scales) else 0
        if wrong:
            problems.append(f"{one.name}: {wrong} of {tried} numbers are not what the key, these records and spec give")
    within = f", {wide:,} of them to within one" if wide else ""
    yield holds("noise redrawn", "measurements", problems, well=f"{count:,} numbers drawn again, each the same{within}")
    for universe in release.form.universes:
        for choice in universe.choices:
            yield _choices(release, secret, universe, choice)


def _wrong(stream: KeyedStream, noise: Noise, added: Added, each: int) -> tuple[int, int]:
    """How many of a sample of what was added are not the noise of their place, and how many were tried."""
    n = added.values.size
    picked = set(np.argsort(-np.abs(added.values))[:_EXTREMES].tolist())
    picked |= set(range(n)) if n <= each else {secrets.randbelow(n) for _ in range(each)}
    wrong = sum(
        not fits(
            noise.universe.mechanism,
            noise.scales[added.kinds[at]],
            int(added.values[at]),
            stream.words(int(added.places[at])),
        )
        for at in sorted(picked)
    )
    return wrong, len(picked)


def _choices(release: Release, secret: bytes, universe: Universe, choice: Choice) -> Found:
    """Every choice of a selection drawn again."""
    found, codes = _selected(release, universe, choice), release.level(choice.level).texts
    choosing = KeyedStream(secret, context_of(release, secret, universe), choice.level, f"select {choice.name}")
    problems = [
        f"{codes[row]} has a version that its key and population do not choose"
        for row, number in enumerate(found.numbers)
        if chosen(choice.epsilon, losses(choice, int(found.people[row])), choosing.words(row)) != number
    ]
    return holds("choices redrawn", choice.name, problems, well=f"{len(found.numbers):,} choices drawn again")


@dataclass(frozen=True, eq=False)
class _Selected:
    """What a selection published, geounit by geounit.

    Attributes:
        numbers: of the version that was chosen.
        residuals: what was added to its true answers.
        people: the true population.
    """

    numbers: list[int]
    residuals: list[NDArray[np.int64]]
    people: NDArray[np.int64]


def _selected(release: Release, universe: Universe, choice: Choice) -> _Selected:
    """FormError where the file has other geounits, versions or answers than those of the selection."""
    level = release.level(choice.level)
    path = release.places.universe(universe.name).selected(choice.name, choice.level)
    codes, versions, answers = read_selected(path)
    names = [query.name for query in choice.versions]
    if codes != list(level.texts) or not set(versions) <= set(names):
        raise FormError(
            f"{path}: the geounits are not those of {choice.level}, or a version is not one of {choice.name}"
        )
    truth = release.truth(universe, level)
    people = np.zeros(len(codes), dtype=np.int64)
    np.add.at(people, truth.geounits, truth.counts)
    exact = [truth.answers(query).dense(np.arange(len(codes))) for query in choice.versions]
    numbers = [names.index(version) for version in versions]
    if any(len(values) != choice.versions[number].size for number, values in zip(numbers, answers, strict=True)):
        raise FormError(f"{path}: a row has not as many answers as its version")
    residuals = [
        np.asarray(values, dtype=np.int64) - exact[number][row]
        for row, (number, values) in enumerate(zip(numbers, answers, strict=True))
    ]
    return _Selected(numbers, residuals, people)


def choice_findings(release: Release) -> Iterator[Found]:
    """Whether versions were chosen with the probabilities of their losses; no key needed.

    The logarithms of the probabilities of what was chosen have a known distribution in each geounit. That their sum is
    as far out as it is, on either side, has at most the probability of Chernoff's bound (1952), at the best of its
    powers.
    """
    for universe in release.form.universes:
        for choice in universe.choices:
            found = _selected(release, universe, choice)
            missed = np.array([losses(choice, count) for count in found.people.tolist()])
            odds = (missed.min(1, keepdims=True) - missed) * float(choice.epsilon) / 2
            logs = odds - np.log(np.exp(odds).sum(1, keepdims=True))
            total = logs[np.arange(len(logs)), found.numbers].sum()
            powers = np.concatenate([-_POWERS[_POWERS < 1], _POWERS])
            bounds = [np.log(np.exp((1 + power) * logs).sum(1)).sum() - power * total for power in powers]
            p_value = min(1.0, 2 * math.exp(min(0.0, *bounds)))
            said = "" if p_value >= ALPHA else "versions are chosen more often, or less, than by their losses"
            yield Found("choices found", choice.name, p_value >= ALPHA, p_value, ALPHA, said)


def losses(choice: Choice, people: int) -> list[int]:
    """How many people each version lacks, or has too many of, to be the one meant for this population."""
    ends = [*choice.thresholds[1:], None]
    return [
        max(least - people, 0 if end is None else people - (end - 1), 0)
        for least, end in zip(choice.thresholds, ends, strict=True)
    ]


def exceedances(parts: Sequence[tuple[str, Fraction, NDArray[np.int64]]]) -> Found:
    """Whether residuals exceed what they should as often as they should, near the centre and far out; no key needed.

    For d = 1, 2, ... each measurement has a threshold that its noise exceeds with an exact probability of at most 2^-d.
    The number of all residuals beyond their thresholds has a known mean; that it is as far off as it is has at most the
    probability exp(-n KL) on either side (Hoeffding 1963, theorem 1, which holds for unequal probabilities). Depths at
    which nothing at all would be unsuspicious cannot be tested, and the finding says where that begins.

    Args:
        parts: mechanism, scale and residuals of each measurement.
    """
    tails = [(_tail(mechanism, scale), residuals) for mechanism, scale, residuals in parts]
    n = sum(residuals.size for _, residuals in tails)
    if not n:
        return Found("tails", "all residuals", True, detail="nothing to test")
    tests = 2 * len(_SIDES) * _DEEPEST
    least, said, deepest = 1.0, "", dict.fromkeys(_SIDES, 0)
    for depth in range(1, _DEEPEST + 1):
        for side in _SIDES:
            mean, seen = 0.0, 0
            for tail, residuals in tails:
                beyond, chance = _beyond(tail, residuals, depth, side)
                mean, seen = mean + chance * residuals.size, seen + beyond
            p_value = min(1.0, tests * far(seen / n, mean / n, n))
            if p_value < least:
                least = p_value
                said = f"{seen:,} residuals are in {side} of probability 2^-{depth}, where {mean:.1f} are expected"
            if tests * math.exp(-mean) < ALPHA:
                deepest[side] = depth
    power = (
        ", ".join(f"{side} cut at 2^-{depth} or nearer" for side, depth in deepest.items() if depth) or "no cut tail"
    )
    detail = f"{said}; notices {power}" if least < ALPHA else f"{n:,} residuals; notices {power}"
    return Found("tails", "all residuals", least >= ALPHA, least, ALPHA, detail)


def _tail(mechanism: str, scale: Fraction) -> NDArray[np.float64]:
    """P(X >= k) for k = 0, 1, ..., to float precision; of wide noise by the distribution on the real numbers."""
    if is_wide(mechanism, scale):
        return _wide_tail(mechanism, float(scale))
    low, _ = boundaries(mechanism, scale, 64)
    half = len(low) // 2
    one = float(1 << 128)
    tail = np.array([low[half - k] / one for k in range(1, half + 1)])  # P(X <= -k)
    return np.concatenate([[1 - tail[0]], tail])


def _wide_tail(mechanism: str, scale: float) -> NDArray[np.float64]:
    """The same by a formula: as far out as depths are tested, or `_MOST_TAIL` numbers of it."""
    gaussian = mechanism == "discrete_gaussian"
    reach = min(_MOST_TAIL, int(8 * math.sqrt(scale) if gaussian else 32 * scale) + 1)
    k = np.arange(reach + 1, dtype=np.float64)
    if gaussian:
        away = ((k - 0.5) / math.sqrt(2 * scale)).tolist()
        return 0.5 * np.fromiter(map(math.erfc, away), dtype=np.float64, count=reach + 1)
    tail = np.exp(-k / scale) / (1 + math.exp(-1 / scale))
    tail[0] = 1 - tail[1]
    return tail


def _beyond(tail: NDArray[np.float64], residuals: NDArray[np.int64], depth: int, side: str) -> tuple[int, float]:
    """How many residuals are beyond the threshold of this depth, and the probability of one."""
    times = 2 if side == "both tails" else 1
    fits = np.flatnonzero(times * tail[1:] <= 2.0**-depth)
    if not fits.size:
        return 0, 0.0
    k = int(fits[0]) + 1
    if side == "both tails":
        beyond = np.abs(residuals) >= k
    else:
        beyond = residuals >= k if side == "the upper tail" else residuals <= -k
    return int(beyond.sum()), float(times * tail[k])


def far(seen: float, mean: float, n: int) -> float:
    """Bound on the probability that the share of n independent events is as far from its mean as `seen`."""
    if not 0 < mean < 1:
        return 1.0 if seen == mean else 0.0
    divergence = 0.0
    if seen > 0:
        divergence += seen * math.log(seen / mean)
    if seen < 1:
        divergence += (1 - seen) * math.log((1 - seen) / (1 - mean))
    return math.exp(-n * divergence)


def positive_findings(release: Release) -> Iterator[Found]:
    """Whether the answers that were drawn are those that the published histograms give."""
    if not release.due_positive:
        return
    places = list[str]()
    for due in release.due_positive:
        try:
            places += [f"{due.name}: {sentence}" for sentence in _drawn(release, due)[2]]
        except FormError as error:
            places.append(f"{due.name}: {error}")
    yield holds("answers drawn", "where the area above is positive in the release", places)


def _drawn(release: Release, due: Due) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """geounit * size + answer, what was added, and what is wrong with which answers these are."""
    above = release.spine[release.form.levels.index(due.level.name) - 1]
    files, universe = Files(release.public), due.universe
    path = release.places.universe(universe.name).histogram(above.name)
    released = read_histogram(files, path, above, universe)
    expected = due_answers(released, due.query, due.level)
    most = int(np.bincount(expected // due.query.size, minlength=1).max())
    keys, values = read_positive(files, due.path, due.level, due.query, most)
    truth = release.truth(due.universe, due.level).answers(due.query).at(keys)
    return keys, values - truth, [*files.findings.problems, *wrong_answers(keys, expected, due.query, due.level)]
