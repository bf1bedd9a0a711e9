"""Noise, choices and windows of an answer, drawn again from its key, records, areas and question."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from auditor.answers.costs import FILTERS
from auditor.answers.kept import Answer
from auditor.keys import KeyedStream
from auditor.noise import exceedances
from auditor.reading.findings import FormError, Found, holds
from auditor.sampler import chosen, fits, flipped, is_wide

#: Numbers drawn again of a part, and the largest that are among them.
_REDRAWN: Final = 3000
_EXTREMES: Final = 8
#: Candidates of all choices that are drawn again; at least so many choices are.
_CANDIDATES: Final = 60_000
_LEAST_CHOICES: Final = 2


def noise_of(answer: Answer, name: str) -> NDArray[np.int64]:
    """What was added to the true numbers of a part, in the order of its stream."""
    if name == "windows":
        return (_windows_published(answer) - windows_of(answer)).ravel()
    return _column(answer, name) - answer.numbers(name, int(answer.parts[name]["centre"]))


def tail_findings(answer: Answer) -> Iterator[Found]:
    """Whether what was added lies as far out as it should; needs no key."""
    parts = []
    for name, part in answer.parts.items():
        if name in ("quantile", "clip"):
            continue
        mechanism, scale, noise = str(part["mechanism"]), Fraction(part["scale"]), noise_of(answer, name)
        parts.append((mechanism, scale, noise))
        if is_wide(mechanism, scale):
            yield _spread(name, mechanism, scale, noise)
    yield exceedances(parts)


def _spread(name: str, mechanism: str, scale: Fraction, noise: NDArray[np.int64]) -> Found:
    """Of noise that is too wide for a table: whether any of it is further out than once in 10^9, or all of it is 0."""
    far = 6.2 * math.sqrt(float(scale)) if mechanism == "discrete_gaussian" else 22 * float(scale)
    problems = [f"{int((np.abs(noise) > far).sum())} numbers are further out than such noise is"]
    problems = problems if (np.abs(noise) > far).any() else []
    if not noise.any():
        problems.append("nothing was added to any of its numbers")
    return holds("tails", f"the {name}", problems)


def redrawn(answer: Answer, secret: bytes) -> Iterator[Found]:
    """A sample of each part's noise drawn again, with the largest of it; and of the choices.

    Which are drawn again is of the operating system's entropy, so that no program can prepare for it.
    """
    for name, part in answer.parts.items():
        stream = _stream(answer, secret, name)
        if name in ("quantile", "clip"):
            yield _choices(answer, name, part, stream)
            continue
        mechanism, scale, noise = str(part["mechanism"]), Fraction(part["scale"]), noise_of(answer, name)
        picked = set(np.argsort(-np.abs(noise))[:_EXTREMES].tolist())
        whole = noise.size <= _REDRAWN
        picked |= set(range(noise.size)) if whole else {secrets.randbelow(noise.size) for _ in range(_REDRAWN)}
        wide = is_wide(mechanism, scale)
        wrong = [at for at in picked if not fits(mechanism, scale, int(noise[at]), stream.words(int(at)))]
        problems = [f"{len(wrong)} of {len(picked)} numbers are not what the key, these records and the question give"]
        how = " to within one" if wide else ""
        well = f"{len(picked):,} numbers drawn again, each the same{how}"
        yield holds("noise redrawn", f"the {name}", problems if wrong else [], well=well)


def _stream(answer: Answer, secret: bytes, part: str) -> KeyedStream:
    context = ("spinewise question 2", answer.records(secret), answer.spine_fingerprint)
    return KeyedStream(secret, (*context, answer.fingerprint(private=True)), answer.place, part)


def _choices(answer: Answer, name: str, part: dict[str, Any], stream: KeyedStream) -> Found:
    steps, histograms, k = steps_of(answer), answer.histograms, len(answer.candidates)
    n = min(len(steps), max(_LEAST_CHOICES, _CANDIDATES // k))
    picked = range(len(steps)) if n == len(steps) else {secrets.randbelow(len(steps)) for _ in range(n)}
    scale, wrong = Fraction(part["scale"]), 0
    for group in picked:
        found = losses(part, answer.quantile, histograms[group].tolist())
        right = (
            chosen(scale, found, stream.words(group))
            if part["mechanism"] == "exponential"
            else flipped(scale, found, stream.words, group)
        )
        wrong += right != int(steps[group])
    problems = [f"{wrong} of {len(picked)} are not what the key, these records and the question choose"]
    return holds(
        "choices redrawn", f"the {name}", problems if wrong else [], well=f"{len(picked):,} choices drawn again"
    )


def losses(part: dict[str, Any], quantile: Fraction, records: Sequence[int]) -> list[int]:
    """Of each candidate, by the records at each: how many ranks it is off, as docs/mathematics.md states it."""
    a, b, n = quantile.numerator, quantile.denominator, sum(records)
    beyond = int(part["beyond"])
    target, below, found = a * n + b * (-beyond if quantile == 1 else beyond), 0, []
    for number, count in enumerate(records):
        few, upto = min(count, int(part["ties"])), below + count
        terms = [0]
        if number:
            terms.append(b * below - target + a * few)
        if number < len(records) - 1:
            terms.append(target - b * upto + (b - a) * few)
        found.append(int(part["times"]) * max(terms))
        below = upto
    return found


def steps_of(answer: Answer) -> NDArray[np.int64]:
    """The numbers of the candidates that were chosen; FormError where there are no such candidates."""
    (part,) = (part for name, part in answer.parts.items() if name in ("quantile", "clip"))
    steps = _column(answer, str(part["name"])) - answer.lowest
    if ((steps < 0) | (steps >= len(answer.candidates))).any():
        raise FormError(f"{answer.public / 'measurements.csv'}: a {part['name']} is none of the candidates")
    return steps


def windows_of(answer: Answer, steps: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The true numbers around each choice, or these steps, `(n_groups, n)`: windows, with the filter's weights."""
    steps = steps_of(answer) if steps is None else steps
    k, weights, found = len(answer.candidates), FILTERS[answer.zcdp], []
    for records, step in zip(answer.histograms.tolist(), steps.tolist(), strict=True):
        away, ends = 2, [step]
        while away < k:
            ends = [step - away, *ends, step + away]
            away *= 2
        ends = [-1, *(min(max(end, -1), k - 1) for end in ends), k - 1]
        counts = [sum(records[low + 1 : high + 1]) for low, high in pairwise(ends)]
        row = np.zeros(len(counts) + len(weights) - 1, dtype=np.int64)
        for after, weight in enumerate(weights):
            row[after : after + len(counts)] += weight * np.array(counts, dtype=np.int64)
        found.append(row)
    return np.array(found)


def _windows_published(answer: Answer) -> NDArray[np.int64]:
    names = [name for name in answer.published if name not in ("quantile", "clip")]
    if names != [f"window{number + 1}" for number in range(windows_of(answer).shape[1])]:
        raise FormError(f"{answer.public / 'measurements.csv'}: its windows are not those of the grid")
    return np.stack([answer.published[name] for name in names], axis=1)


def _column(answer: Answer, name: str) -> NDArray[np.int64]:
    if name not in answer.published:
        raise FormError(f"{answer.public / 'measurements.csv'}: has no column {name}")
    return answer.published[name]
