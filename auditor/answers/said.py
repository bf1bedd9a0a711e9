"""answer.csv: whether it says what the noisy numbers say, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np

from auditor.answers.kept import Answer
from auditor.reading.errors import FormError


def table_problems(answer: Answer) -> Iterator[str]:
    """What of answer.csv does not follow from measurements.csv.

    All of it is computed again for counts and sums; of means, ranks and the most common values the numbers, and that
    they are inside their intervals.
    """
    header, rows, _ = answer.table("answer.csv")
    names, keys = answer.keys()
    if answer.statistic == "most common":
        yield from _most_common(answer, header, rows, keys)
        return
    if answer.ranked or answer.statistic == "mean":
        yield from _inside(answer, header, rows, keys, names)
        return
    part = answer.parts["sum" if answer.statistic == "sum" else "count"]
    half, unit = half_width(str(part["mechanism"]), Fraction(part["scale"])), _unit(answer)
    title, numbers = str(part["name"]), answer.published[str(part["name"])].tolist()
    least = answer.stated.get("least")
    due = [[*names, title, f"{title}:low90", f"{title}:high90"]]
    for key, number in zip(keys, numbers, strict=True):
        if least is None or number >= int(least):
            due.append([*key, *(written(one * unit) for one in (number, number - half, number + half))])
    if [header, *rows] != due:
        wrong = sum(one != other for one, other in zip([header, *rows], due, strict=False)) or abs(
            len(rows) + 1 - len(due)
        )
        yield f"{wrong} rows of answer.csv do not follow from measurements.csv"


def _unit(answer: Answer) -> Fraction:
    amount = answer.stated.get("amount")
    return Fraction(amount["unit"]) if amount and answer.statistic not in ("count", "most common") else Fraction(1)


def _most_common(answer: Answer, header: list[str], rows: list[list[str]], keys: list[list[str]]) -> Iterator[str]:
    number = int(Fraction(answer.stated["number"]))
    counts = answer.published["count"].tolist()
    due = []
    for group, members in groupby(zip(keys, counts, strict=True), key=lambda pair: pair[0][:-1]):
        found = sorted(enumerate(members), key=lambda one: (-one[1][1], one[0]))[:number]
        due += [[*group, str(rank), key[-1], str(count)] for rank, (_, (key, count)) in enumerate(found, 1)]
    at, value = len(keys[0]) - 1, len(keys[0]) + 2
    if len(header) != value + 4:
        yield "answer.csv has other columns than the most common values have"
        return
    if [[*row[: at + 1], row[value], row[value + 1]] for row in rows] != due:
        yield "the values listed are not those with the largest noisy counts"
    if any(not int(row[value + 2]) <= int(row[value + 1]) <= int(row[value + 3]) for row in rows):
        yield "a count is outside of its interval"


def _inside(
    answer: Answer, header: list[str], rows: list[list[str]], keys: list[list[str]], names: list[str]
) -> Iterator[str]:
    n, titles = len(names), [answer.statistic, *(["count"] if answer.statistic == "mean" else [])]
    columns = [name for title in titles for name in (title, f"{title}:low90", f"{title}:high90")]
    if header != [*names, *columns] or [row[:n] for row in rows] != keys:
        yield "the columns, places or groups of answer.csv are not those of the question"
        return
    due = _means(answer) if answer.statistic == "mean" else _ranks(answer)
    if [row[n] for row in rows] != due:
        wrong = sum(row[n] != one for row, one in zip(rows, due, strict=True))
        yield f"{wrong} numbers of answer.csv do not follow from measurements.csv"
    for row in rows:
        for first in range(n, len(row), 3):
            value, low, high = row[first : first + 3]
            if not float(low) <= float(high) or (value and not float(low) <= float(value) <= float(high)):
                yield f"{value} is not from {low} to {high}, which is its interval"
    if answer.statistic == "mean":
        counts, part = answer.published["count"].tolist(), answer.parts["count"]
        half = half_width(str(part["mechanism"]), Fraction(part["scale"]))
        if [row[n + 3 :] for row in rows] != [[str(one), str(one - half), str(one + half)] for one in counts]:
            yield "the counts of answer.csv do not follow from measurements.csv"


def _ranks(answer: Answer) -> list[str]:
    name = "clip" if answer.statistic == "clip" else "quantile"
    numbers = answer.published[name].tolist()
    if name == "clip":
        listed = answer.stated["ends"]["listed"]
        if not all(0 <= number < len(listed) for number in numbers):
            raise FormError(f"{answer.public / 'measurements.csv'}: a clip is none of the ends")
        return [written(Fraction(listed[number])) for number in numbers]
    return [written(number * _unit(answer)) for number in numbers]


def _means(answer: Answer) -> list[str]:
    amount: dict[str, Any] = answer.stated["amount"]
    low, high, unit = (float(Fraction(amount[name])) for name in ("low", "high", "unit"))
    centre, found = int(answer.parts["sum"]["centre"]), []
    for top, bottom in zip(answer.published["sum"].tolist(), answer.published["count"].tolist(), strict=True):
        mean = "" if bottom < 1 else _rounded(min(max((centre + top / bottom) * unit, low), high))
        found.append(mean)
    return found


def written(value: Fraction | int) -> str:
    """A number as answer.csv has it: whole, or to six digits after the point."""
    exact = Fraction(value)
    return str(exact.numerator) if exact.denominator == 1 else _rounded(float(exact))


def _rounded(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") or "0"


def half_width(mechanism: str, scale: Fraction) -> int:
    """The least whole h with noise from -h to h in 90 % or more."""
    s = float(scale)
    if mechanism == "discrete_laplace":
        ratio, half = math.exp(-1 / s), max(0, int(s * 2.2) - 5)
        while 2 * ratio ** (half + 1) / (1 + ratio) > 0.1 + 1e-12:
            half += 1
        return half
    if s >= 10**4:
        return math.ceil(1.6448536269514722 * math.sqrt(s) - 0.5)
    k = np.arange(1, int(12 * math.sqrt(s)) + 3)
    weights = np.exp(-(k**2) / (2 * s))
    inside = (1 + 2 * np.cumsum(weights)) / (1 + 2 * weights.sum())
    return 0 if 1 / (1 + 2 * weights.sum()) >= 0.9 else int(np.flatnonzero(inside >= 0.9)[0]) + 1
