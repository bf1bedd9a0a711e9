"""Is what was added the noise stated? A sample is redrawn from the key; exceedances are counted without it.

Noise that was drawn only where the released area above is positive: on the right answers, and the right noise.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from auditor.draws import Draw, Due
from auditor.form import Choice
from auditor.keys import KeyedStream
from auditor.mechanisms import law_of
from auditor.reading.counts import read_due, read_histogram
from auditor.reading.files import Files
from auditor.reading.findings import ALPHA, Found, holds
from auditor.reading.values import FloatArray, IntArray
from auditor.release import Release
from auditor.sampler import chosen, fits, is_wide

#: Of all measurements together, redrawn with the key.
_REDRAWN: Final = 6000
_EXTREMES: Final = 8
_DEEPEST: Final = 40
#: Powers of probabilities at which Chernoff's bound is computed, below the mean up to 1.
_POWERS: Final = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0])
_SIDES: Final = ("both tails", "the upper tail", "the lower tail")


@dataclass(frozen=True, eq=False)
class Noise:
    """What was added to true answers, by one stream.

    Attributes:
        name: as sentences have it.
        draw: whose stream.
        places, values, kinds: `(n,)` the place of each number in the stream, the number, and the kind of its geounit.
        problems: what is wrong with which answers were drawn.
    """

    name: str
    draw: Draw
    places: IntArray
    values: IntArray
    kinds: IntArray
    problems: tuple[str, ...] = ()

    @property
    def parts(self) -> Iterator[tuple[str, str, Fraction, IntArray]]:
        """Name, mechanism, scale and numbers of each kind of geounit."""
        for kind, scale in enumerate(self.draw.scales):
            yield f"{self.name}, scale {scale}", self.draw.mechanism, scale, self.values[self.kinds == kind]

    def wrong(self, stream: KeyedStream, each: int) -> tuple[int, int]:
        """How many of about `each` of the numbers, the largest among them, are not the stream's, and of how many.

        Which are drawn again is drawn from the operating system's entropy, so that no run can prepare for it.
        """
        n = self.values.size
        picked = set(np.argsort(-np.abs(self.values))[:_EXTREMES].tolist())
        picked |= set(range(n)) if n <= each else {secrets.randbelow(n) for _ in range(each)}
        wrong = sum(
            not fits(
                self.draw.mechanism,
                self.draw.scales[self.kinds[at]],
                int(self.values[at]),
                stream.words(int(self.places[at])),
            )
            for at in sorted(picked)
        )
        return wrong, len(picked)


def noises(release: Release) -> Iterator[Noise]:
    """The noise on all that was measured, and on what private choices chose; FormError where files do not hold it."""
    for due in release.due:
        yield _positive(release, due) if due.where_positive else _measured(release, due)
    chosen_by = {(draw.universe, draw.query): draw for draw in release.draws}
    for one in release.selected:
        name, draw = one.choice.name, chosen_by[one.universe.name, f"selected {one.choice.name}"]
        yield Noise(f"{one.choice.level}, {name}", draw, one.places, one.residuals, np.zeros_like(one.places))


def _measured(release: Release, due: Due) -> Noise:
    residuals, rows = release.residuals(due)
    places = rows[:, None] * due.answers.size + np.arange(due.answers.size)
    kinds = np.repeat(due.kind[rows], due.answers.size)
    return Noise(due.name, due, places.ravel(), residuals.ravel(), kinds)


def _positive(release: Release, due: Due) -> Noise:
    """Also whether the answers that were drawn are those that the published histograms give."""
    above = release.spine[release.form.levels.index(due.level) - 1]
    files = Files(release.public)
    path = release.places.of(due.universe, "histograms", above.name)
    released = read_histogram(files, path, above, due.of)
    keys, values, wrong = read_due(files, due.path, due.geounits, due.answers, released)
    truth = release.truth(due.of, due.geounits).answers(due.answers).at(keys)
    problems = (*files.findings.problems, *wrong)
    return Noise(due.name, due, keys, values - truth, np.zeros_like(keys), problems)


def drawn_again(subject: str, streams: Iterable[tuple[Noise, KeyedStream]], each: int) -> Found:
    """Redraw about `each` numbers of each noise, the largest among them, from its stream."""
    problems, count, wide, whole = [], 0, 0, 0
    for one, stream in streams:
        wrong, tried = one.wrong(stream, each)
        count, whole = count + tried, whole + one.values.size
        wide += tried if all(is_wide(one.draw.mechanism, scale) for scale in one.draw.scales) else 0
        if wrong:
            problems.append(f"{one.name}: {wrong} of {tried} numbers are not what the key, these records and spec give")
    within = f", {wide:,} of them to within one" if wide else ""
    well = f"{count:,} of {whole:,} numbers drawn again, each the same{within}"
    return holds("noise redrawn", subject, problems, well=well)


def redrawn(release: Release, secret: bytes, every: Sequence[Noise]) -> Iterator[Found]:
    """Redraw a sample of the noise of every stream, and the largest of it; and every private choice."""
    context = {one.name: release.context(secret, one) for one in release.form.universes}
    streams = (KeyedStream(secret, context[n.draw.universe], n.draw.level, n.draw.query) for n in every)
    each = max(16, _REDRAWN // max(1, len(every)))
    yield drawn_again("measurements", zip(every, streams, strict=True), each)
    for found in release.selected:
        choice, codes = found.choice, release.level(found.choice.level).texts
        choosing = KeyedStream(secret, context[found.universe.name], choice.level, f"select {choice.name}")
        problems = [
            f"{codes[row]} has a version that its key and population do not choose"
            for row, number in enumerate(found.numbers)
            if chosen(choice.epsilon, losses(choice, int(found.people[row])), choosing.words(row)) != number
        ]
        well = f"{len(found.numbers):,} choices drawn again"
        yield holds("choices redrawn", choice.name, problems, well=well)


def choice_findings(release: Release) -> Iterator[Found]:
    """Whether versions were chosen with the probabilities of their losses; no key needed.

    The logarithms of the probabilities of what was chosen have a known distribution in each geounit. That their sum is
    as far out as it is, on either side, has at most the probability of Chernoff's bound (1952), at the best of its
    powers.
    """
    for found in release.selected:
        choice = found.choice
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


def exceedances(parts: Sequence[tuple[str, Fraction, IntArray]]) -> Found:
    """Whether residuals exceed what they should as often as they should, near the centre and far out; no key needed.

    For d = 1, 2, ... each measurement has a threshold that its noise exceeds with an exact probability of at most 2^-d.
    The number of all residuals beyond their thresholds has a known mean; that it is as far off as it is has at most the
    probability exp(-n KL) on either side (Hoeffding 1963, theorem 1, which holds for unequal probabilities). Depths at
    which nothing at all would be unsuspicious cannot be tested, and the finding says where that begins.

    Args:
        parts: mechanism, scale and residuals of each measurement.
    """
    tails = [
        (law_of(mechanism).chances(float(scale))[::-1].cumsum()[::-1], residuals)
        for mechanism, scale, residuals in parts
    ]  # of P(X >= k) for k = 0, 1, ...
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


def _beyond(tail: FloatArray, residuals: IntArray, depth: int, side: str) -> tuple[int, float]:
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
