"""Noise, choices and windows of an answer, drawn again from its key, records, areas and question."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np

from auditor.answers.costs import CHOSEN, FILTERS
from auditor.answers.kept import Answer
from auditor.draws import Draw
from auditor.keys import KeyedStream
from auditor.mechanisms import law_of
from auditor.noise import Noise, drawn_again, exceedances
from auditor.reading.findings import FormError, Found, holds
from auditor.reading.values import IntArray, zeros
from auditor.sampler import chosen, flipped, is_wide

#: Numbers drawn again of a part.
_REDRAWN: Final = 3000
#: Candidates of all choices that are drawn again; at least so many choices are.
_CANDIDATES: Final = 60_000
_LEAST_CHOICES: Final = 2


def noise_of(answer: Answer, name: str) -> Noise:
    """What was added to the true numbers of a part, in the order of its stream."""
    part = answer.parts[name]
    if name == "windows":
        added = (_windows_published(answer) - windows_of(answer)).ravel()
    else:
        added = _column(answer, name) - answer.numbers(name, int(part["centre"]))
    draw = Draw("", answer.place, name, frozenset(), str(part["mechanism"]), (Fraction(part["scale"]),))
    places = np.arange(added.size)
    return Noise(f"the {name}", draw, places, added, 0 * places)


def tail_findings(answer: Answer) -> Iterator[Found]:
    """Whether what was added lies as far out as it should; needs no key."""
    added = [noise_of(answer, name) for name in answer.parts if name not in CHOSEN]
    for noise in added:
        if is_wide(noise.draw.mechanism, noise.draw.scales[0]):
            yield _spread(noise)
    yield exceedances([part[1:] for noise in added for part in noise.parts])


def _spread(noise: Noise) -> Found:
    """Of noise that is too wide for a table: whether any of it is further out than once in 10^9, or all of it is 0."""
    far = law_of(noise.draw.mechanism).quantile(2e-10, float(noise.draw.scales[0]))
    beyond, problems = int((np.abs(noise.values) > far).sum()), []
    if beyond:
        problems.append(f"{beyond} numbers are further out than such noise is")
    if not noise.values.any():
        problems.append("nothing was added to any of its numbers")
    return holds("tails", noise.name, problems)


def redrawn(answer: Answer, secret: bytes) -> Iterator[Found]:
    """A sample of each part's noise drawn again, with the largest of it; and of the choices."""
    context = "spinewise question 2", *answer.context_of(secret)
    for name, part in answer.parts.items():
        stream = KeyedStream(secret, context, answer.place, name)
        if name in CHOSEN:
            yield _choices(answer, name, part, stream)
            continue
        noise = noise_of(answer, name)
        yield drawn_again(noise.name, [(noise, stream)], _REDRAWN)


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


def steps_of(answer: Answer) -> IntArray:
    """The numbers of the candidates that were chosen; FormError where there are no such candidates."""
    (part,) = (part for name, part in answer.parts.items() if name in CHOSEN)
    steps = _column(answer, str(part["name"])) - answer.lowest
    if ((steps < 0) | (steps >= len(answer.candidates))).any():
        raise FormError(f"{answer.public / 'measurements.csv'}: a {part['name']} is none of the candidates")
    return steps


def windows_of(answer: Answer, steps: IntArray | None = None) -> IntArray:
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
        row = zeros(len(counts) + len(weights) - 1)
        for after, weight in enumerate(weights):
            row[after : after + len(counts)] += weight * np.array(counts, dtype=np.int64)
        found.append(row)
    return np.array(found)


def _windows_published(answer: Answer) -> IntArray:
    names = [name for name in answer.published if name not in CHOSEN]
    if names != [f"window{number + 1}" for number in range(windows_of(answer).shape[1])]:
        raise FormError(f"{answer.public / 'measurements.csv'}: its windows are not those of the grid")
    return np.stack([answer.published[name] for name in names], axis=1)


def _column(answer: Answer, name: str) -> IntArray:
    if name not in answer.published:
        raise FormError(f"{answer.public / 'measurements.csv'}: has no column {name}")
    return answer.published[name]
