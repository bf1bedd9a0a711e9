"""Exact distributions of reports: the randomisers are run on every number that they can draw, once each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Report = tuple[int, ...]
Distribution = Mapping[Report, Fraction]


class Scripted:
    """A source that gives stated bytes, and no others."""

    def __init__(self, given: bytes, *, allow_short: bool = False) -> None:
        self._given = given
        self._allow_short = allow_short

    def take(self, count: int) -> bytes:
        if self._allow_short and count < len(self._given):
            count = len(self._given)
        assert count <= len(self._given), "more bytes than were stated are taken"
        taken, self._given = self._given[:count], self._given[count:]
        return taken


def distribution(mechanism: Any, value: Any, draws: Iterable[tuple[int, int]]) -> Distribution:
    """The probability of each report of a value.

    Args:
        mechanism: of what is reported.
        value: a number or a text.
        draws: for one report in order, (how many numbers, below which power of two): each is one byte.
    """
    places = [bound for count, bound in draws for _ in range(count)]
    combinations = np.array(list(itertools.product(*(range(bound) for bound in places))), dtype=np.int64)
    n_all = len(combinations)
    script, first = b"", 0
    for count, bound in draws:
        part = combinations[:, first : first + count].reshape(-1)
        first += count
        if bound > 1:
            script += (part << (8 - (bound - 1).bit_length())).astype(np.uint8).tobytes()
    values = [value] * n_all if isinstance(value, str) else np.full(n_all, value)
    reports = mechanism.randomise(values, Scripted(script))
    counted = Counter(tuple(row) for row in reports.tolist())
    return {report: Fraction(times, n_all) for report, times in counted.items()}


def largest_ratio(distributions: Iterable[Distribution]) -> Fraction:
    """Of the probabilities of any report under any two of them."""
    every = list(distributions)
    reports = {report for one in every for report in one}
    return max(one[report] / other[report] for one in every for other in every for report in reports)


def exp_at_least(exponent: Fraction, floor: Fraction) -> bool:
    """Whether e^exponent >= floor, decided in fractions: partial sums are below it, with a last term above it."""
    term = total = Fraction(1)
    step = 0
    while True:
        if total >= floor:
            return True
        step += 1
        term = term * exponent / step
        total += term
        if step > 2 * exponent and total + term < floor:
            return False


def moments(distribution: Distribution, outputs: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """Mean and covariance of the outputs of one report, from its exact distribution.

    Args:
        distribution: of the reports.
        outputs: (n_reports, n_outputs) of the reports, in the order of the distribution.
    """
    chances = np.array([float(chance) for chance in distribution.values()])
    mean = chances @ outputs
    return mean, (outputs * chances[:, None]).T @ outputs - np.outer(mean, mean)
