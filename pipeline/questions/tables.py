"""The two tables of an answer: the noisy numbers as they were drawn, and what they say, with intervals."""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ReleaseError
from pipeline.privacy.budget import NoiseSpec
from pipeline.questions.intervals import half_width
from pipeline.questions.manifest import AnswerManifest, PartStated
from pipeline.questions.resolved import EVERYWHERE
from pipeline.questions.windows import interval
from pipeline.storage.readable import Readable
from postprocess.statistics import COVERAGE, Moments, ratio_interval

__all__ = [
    "Measurements",
    "answer_bytes",
    "half_width_at_once",
    "listed",
    "measurements_bytes",
    "most_common",
    "rank_ends",
    "read_measurements",
]


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
    return half_width(noise, COVERAGE ** (1 / numbers))


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
        place: the level's name, or `EVERYWHERE`, which has no column.
        terms: what is told apart in each place.
        keys: `(n,)` geocode, if there is one, and the values of the terms, of each row.
        numbers: name of a part -> `(n,)` int64.
    """

    place: str
    terms: tuple[str, ...]
    keys: Sequence[tuple[str, ...]]
    numbers: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(
        cls,
        place: str,
        terms: tuple[str, ...],
        geocodes: Sequence[str],
        labels: Sequence[tuple[str, ...]],
        numbers: Mapping[str, NDArray[np.int64]],
    ) -> Measurements:
        """From numbers `(n_places, n_groups)`."""
        codes = [()] if place == EVERYWHERE else [(str(code),) for code in geocodes]
        keys = [(*code, *label) for code in codes for label in labels]
        return cls(place, terms, keys, {name: values.ravel() for name, values in numbers.items()})

    @property
    def header(self) -> list[str]:
        """The names of the columns of `keys`."""
        return [*([] if self.place == EVERYWHERE else [self.place]), *self.terms]


def measurements_bytes(measured: Measurements) -> bytes:
    """measurements.csv: the keys, and the number of each part as it was drawn.

    A "sum" is in units of the amount, less the centre; what is chosen by rank, in units of it, and then the numbers of
    the windows around it.
    """
    columns = [values.tolist() for values in measured.numbers.values()]
    rows = ([*key, *numbers] for key, *numbers in zip(measured.keys, *columns, strict=True))
    return _csv([*measured.header, *measured.numbers], rows)


def read_measurements(path: Readable, manifest: AnswerManifest) -> Measurements:
    """What `measurements_bytes` wrote; ReleaseError where it is not what the manifest says."""
    n_keys = len(manifest.terms) + (manifest.place != EVERYWHERE)
    names = manifest.columns
    try:
        rows = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))
        empty = Measurements(manifest.place, manifest.terms, (), {})
        if rows[0] != [*empty.header, *names] or any(len(row) != len(rows[0]) for row in rows):
            raise ValueError("its columns are not those of the question")
        keys = [tuple(row[:n_keys]) for row in rows[1:]]
        numbers: dict[str, NDArray[np.int64]] = {
            name: np.array([int(row[n_keys + i]) for row in rows[1:]], dtype=np.int64) for i, name in enumerate(names)
        }
    except (OSError, ValueError, IndexError, OverflowError, csv.Error) as error:
        raise ReleaseError(f"{path}: cannot be read: {error}") from None
    return Measurements(manifest.place, manifest.terms, keys, numbers)


def answer_bytes(manifest: AnswerManifest, measured: Measurements) -> bytes:
    """answer.csv: the keys, and each number with the ends of its 90 % interval, in the units of the records."""
    if manifest.is_chosen:
        return _csv([*measured.header, *_names(manifest.statistic)], _chosen_rows(manifest, measured))
    parts: dict[str, PartStated] = {part.name: part for part in manifest.noisy}
    if manifest.statistic == "most common":
        counts, noise = measured.numbers["count"].tolist(), parts["count"].noise
        header = [*measured.header[:-1], "rank", "rank:low90", "rank:high90", measured.header[-1], *_names("count")]
        return _csv(header, most_common(measured.keys, counts, noise, int(manifest.number or 1)))
    header, columns = list(measured.header), []
    statistic = "count" if manifest.statistic == "count units" else manifest.statistic
    for name in [statistic, *(["count"] if statistic == "mean" else [])]:
        header += _names(name)
        if name == "mean":
            columns.append(_means(manifest, measured))
            continue
        half, unit = half_width(parts[name].noise), manifest.unit if name == "sum" else Fraction(1)
        columns.append(
            [
                (_exact(number * unit), _exact((number - half) * unit), _exact((number + half) * unit))
                for number in measured.numbers[name].tolist()
            ]
        )
    rows = (
        [*key, *(text for cell in cells for text in cell)] for key, *cells in zip(measured.keys, *columns, strict=True)
    )
    if manifest.least is not None:
        return _csv(header, listed(rows, measured.numbers["count"].tolist(), manifest.least))
    return _csv(header, rows)


def _names(name: str) -> list[str]:
    return [name, f"{name}:low90", f"{name}:high90"]


def _chosen_rows(manifest: AnswerManifest, measured: Measurements) -> Iterator[list[str]]:
    """The keys, the steps that were chosen, and their intervals from the noisy counts around them."""
    rank, (windows,) = manifest.rank, manifest.noisy
    assert rank is not None
    quantile, variance = Fraction(rank.quantile), windows.noise.variance
    numbers, *around = (measured.numbers[name].tolist() for name in manifest.columns)
    for key, number, *counts in zip(measured.keys, numbers, *around, strict=True):
        step, rest = number - rank.first, (rank.candidates, quantile, manifest.framework, variance, rank.beyond)
        low, high = interval(step, counts, *rest)
        ends = (number, low + rank.first, high + rank.first)
        yield [*key, *(_exact(manifest.value_of(step)) for step in ends)]


def _means(manifest: AnswerManifest, measured: Measurements) -> list[tuple[str, str, str]]:
    """Noisy sum / noisy count within the grid, with Fieller's interval; no mean where the noisy count is below 1."""
    assert manifest.amount is not None
    low, high, unit = (
        float(Fraction(text)) for text in (manifest.amount.low, manifest.amount.high, manifest.amount.unit)
    )
    parts: dict[str, PartStated] = {part.name: part for part in manifest.noisy}
    centre = parts["sum"].centre
    sums, counts = (measured.numbers[name].astype(np.float64) for name in ("sum", "count"))
    errors = Moments(
        *(np.asarray(variance) for variance in (parts["sum"].noise.variance, parts["count"].noise.variance, 0.0))
    )
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


def _csv(header: Sequence[str], rows: object) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)  # type: ignore[arg-type]
    return text.getvalue().encode()
