"""The two tables of an answer: the noisy numbers as they were drawn, and what they say, with intervals."""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby

import numpy as np

from pipeline.errors import ReleaseError
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.questions.plan import QuestionPlan
from pipeline.questions.quantiles import Ranked
from pipeline.questions.resolved import Resolved
from pipeline.questions.sensitivity import MeasuredPart
from pipeline.questions.windows import interval
from pipeline.release.layout import ANSWER_FILES
from pipeline.storage.paths import Readable
from postprocess.arrays import IntArray
from postprocess.statistics import COVERAGE, Moments, ratio_interval


def listed(rows: Iterable[list[str]], counts: Sequence[int], least: int) -> Iterator[list[str]]:
    """The rows whose noisy count is at least so much."""
    return (row for row, count in zip(rows, counts, strict=True) if count >= least)


def most_common(
    keys: Sequence[tuple[str, ...]], counts: Sequence[int], noise: NoiseSpec, number: int
) -> Iterator[list[str]]:
    """The values with the largest noisy counts of each group, each with the ends of its rank and of its count.

    Args:
        keys: of the counts; the value is the last, and the values of a group follow one another.
        counts: noisy.
        noise: on each.
        number: of values; of those with equal noisy counts, that which stands first.
    """
    for group, members in groupby(zip(keys, counts, strict=True), key=lambda pair: pair[0][:-1]):
        found = list(members)
        # Those that are listed were picked by their noise: all counts of the group have to be held at once.
        half = half_width_at_once(noise, len(found))
        ends = rank_ends([count for _, count in found], half)
        order = sorted(range(len(found)), key=lambda i: (-found[i][1], i))[:number]
        for rank, i in enumerate(order, 1):
            (*_, value), count = found[i]
            yield [*group, str(rank), *map(str, ends[i]), value, str(count), str(count - half), str(count + half)]


def half_width_at_once(noise: NoiseSpec, numbers: int) -> int:
    """Half of the width of intervals that hold so many numbers with independent noise all at once, at 90 %."""
    return noise.half_width(COVERAGE ** (1 / numbers))


def rank_ends(counts: Sequence[int], half: int) -> list[tuple[int, int]]:
    """Where each true count may stand among all, the largest first, if every one is within `half` of its noisy one."""
    rising = sorted(counts)
    # Surely above are those that are larger by more than both errors, surely below those that are smaller by as much.
    return [
        (1 + len(rising) - bisect_right(rising, count + 2 * half), len(rising) - bisect_left(rising, count - 2 * half))
        for count in counts
    ]


@dataclass(frozen=True, eq=False)
class Measurements:
    """Noisy numbers.

    Attributes:
        question: that they answer.
        geocodes: of its places, of which "everywhere" has none: one that is empty.
        numbers: column -> `(n_places, size)` int64.
    """

    question: Resolved
    geocodes: Sequence[str]
    numbers: Mapping[str, IntArray]

    @cached_property
    def keys(self) -> list[tuple[str, ...]]:
        """Geocode, if there is one, and the values of the terms, of each row."""
        places: list[tuple[str, ...]] = [(code,) for code in self.geocodes] if self.question.level else [()]
        return [(*place, *label) for place in places for label in self.question.labels()]

    @property
    def header(self) -> list[str]:
        """The names of the columns of `keys`."""
        return _header(self.question)

    def column(self, name: str) -> list[int]:
        """The numbers of a column, row by row."""
        column: list[int] = self.numbers[name].ravel().tolist()
        return column


def _header(question: Resolved) -> list[str]:
    return [*([question.level] if question.level else []), *question.terms]


def measurements_bytes(measured: Measurements) -> bytes:
    """measurements.csv: the keys, and the number of each part as it was drawn.

    A "sum" is in units of the amount, less the centre; what is chosen by rank, in units of it, and then the numbers of
    the windows around it.
    """
    columns = map(measured.column, measured.numbers)
    rows = ([*key, *numbers] for key, *numbers in zip(measured.keys, *columns, strict=True))
    return csv_bytes([*measured.header, *measured.numbers], rows)


def read_measurements(path: Readable, plan: QuestionPlan) -> Measurements:
    """What `measurements_bytes` wrote; ReleaseError where it is not what the plan says."""
    question, header = plan.question, _header(plan.question)
    n_keys, names = len(header), plan.columns
    try:
        first, *rows = csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))
        if first != [*header, *names] or any(len(row) != len(first) for row in rows):
            raise ValueError("its columns are not those of the question")
        geocodes = tuple(dict.fromkeys(row[0] for row in rows)) if question.level else ("",)
        shape = len(geocodes), question.size
        numbers: dict[str, IntArray] = {
            name: np.array([int(row[n_keys + i]) for row in rows], dtype=np.int64).reshape(shape)
            for i, name in enumerate(names)
        }
        found = Measurements(question, geocodes, numbers)
        if [tuple(row[:n_keys]) for row in rows] != found.keys:
            raise ValueError("its rows are not the places and groups of the question")
    except (OSError, ValueError, OverflowError, csv.Error) as error:
        raise ReleaseError(f"{path}: cannot be read: {error}") from None
    return found


def answer_bytes(plan: QuestionPlan, measured: Measurements) -> bytes:
    """answer.csv: the keys, and each number with the ends of its 90 % interval, in the units of the records."""
    question, header = plan.question, measured.header
    if question.rank is not None:
        return csv_bytes([*header, *_names(question.statistic)], _chosen_rows(plan, measured))
    parts = {one.part.name: one for one in plan.parts if isinstance(one, MeasuredPart)}
    if question.statistic == "most common":
        ranked = [*header[:-1], "rank", "rank:low90", "rank:high90", header[-1], *_names("count")]
        number = int(question.number or 1)
        return csv_bytes(ranked, most_common(measured.keys, measured.column("count"), parts["count"].mechanism, number))
    columns = []
    for name, part in parts.items():
        if name == "sum" and question.statistic == "mean":
            header += _names("mean")
            columns.append(_means(plan, measured))
            continue
        header += _names(name)
        half, unit = part.mechanism.half_width(), question.unit_of(name)
        columns.append(
            [
                (_exact(number * unit), _exact((number - half) * unit), _exact((number + half) * unit))
                for number in measured.column(name)
            ]
        )
    rows = (
        [*key, *(text for cell in cells for text in cell)] for key, *cells in zip(measured.keys, *columns, strict=True)
    )
    if question.least is not None:
        return csv_bytes(header, listed(rows, measured.column("count"), question.least))
    return csv_bytes(header, rows)


def _names(name: str) -> list[str]:
    return [name, f"{name}:low90", f"{name}:high90"]


def _chosen_rows(plan: QuestionPlan, measured: Measurements) -> Iterator[list[str]]:
    """The keys, the steps that were chosen, and their intervals from the noisy counts around them."""
    choice, windows = plan.parts
    assert isinstance(choice, Ranked)
    assert isinstance(windows, MeasuredPart)
    rank = choice.part
    numbers, *around = map(measured.column, plan.columns)
    for key, number, *counts in zip(measured.keys, numbers, *around, strict=True):
        step = number - rank.first
        rest = rank.candidates, rank.quantile, plan.promise.framework, windows.mechanism.variance, choice.beyond
        ends = (number, *(end + rank.first for end in interval(step, counts, *rest)))
        yield [*key, *(_exact(_value_of(plan.question, end)) for end in ends)]


def _value_of(question: Resolved, number: int) -> Fraction:
    """What a number that is chosen by rank stands for: so many units, or one of the listed ends."""
    if question.ends is None:
        return number * question.unit_of("quantile")
    if not 0 <= number < len(question.ends.ends):
        raise ReleaseError(f"{ANSWER_FILES[1]}: found the end {number}, of {len(question.ends.ends)}")
    return question.ends.ends[number]


def _means(plan: QuestionPlan, measured: Measurements) -> list[tuple[str, str, str]]:
    """Noisy sum / noisy count within the grid, with Fieller's interval; no mean where the noisy count is below 1."""
    amount, (summed, counted) = plan.question.amount, plan.parts
    assert amount is not None
    assert isinstance(summed, MeasuredPart)
    assert isinstance(counted, MeasuredPart)
    low, high, unit = map(float, (amount.low, amount.high, amount.unit))
    centre = summed.part.centre
    sums, counts = (measured.numbers[name].ravel().astype(np.float64) for name in ("sum", "count"))
    errors = Moments(*map(np.asarray, (summed.mechanism.variance, counted.mechanism.variance, 0.0)))
    ratios = ratio_interval(sums, counts, errors)
    cells = []
    for top, bottom, *ratio in zip(sums.tolist(), counts.tolist(), *(ends.tolist() for ends in ratios), strict=True):
        known = bottom > 0 and math.isfinite(ratio[0])
        ends = [min(max((centre + end) * unit, low), high) for end in ratio] if known else [low, high]
        mean = _rounded(min(max((centre + top / bottom) * unit, low), high)) if bottom >= 1 else ""
        cells.append((mean, _rounded(ends[0]), _rounded(ends[1])))
    return cells


def _exact(value: Fraction) -> str:
    """A number as a decimal where it is one of few digits, else to six digits after the point."""
    if value.denominator == 1:
        return str(value.numerator)
    return _rounded(float(value))


def _rounded(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") or "0"


def csv_bytes(header: Sequence[str], rows: object) -> bytes:
    """A file of rows below their header."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()
