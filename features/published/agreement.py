"""Whether published tables differ from each other as much as the stated method makes them differ, and no more.

A number of a larger area is compared with the sum of those of its parts, and a number of a coarse table with the sum of
those of a finer one. Of large counts the difference has mean 0 and the variances of all these numbers together, so that
the mean of its squares over the variance is about 1: a chi-square divided by its degrees of freedom. Another method,
another base, or tables of two dates make it another number. Small counts are left out, since their errors are smaller
than stated, and those of rounding have a mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from features.published.section import PublishedNumbers
from geography.spine import Spine, first_few
from pipeline.disclosure.method import Range
from pipeline.errors import InputError
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.marginal import refines

#: Chance that tables which were protected as stated are refused, in one comparison.
CHANCE = 1e-7
#: Ratios of variances within which no table is refused, however many numbers it has: offices' tables of probabilities
#: are not quite those of the formulas.
LEAST, MOST = 0.75, 1.3
#: Differences from which on a ratio can be too small: a few whole numbers are often all 0.
MANY = 50
#: A table at a level, and its numbers `(n_geounits, size)`.
_Numbers: TypeAlias = tuple[PublishedNumbers, IntArray]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Numbers beside sums of others that count the same.

    Attributes:
        numbers, parts: the tables; the sums are of the second.
        differences: `(n, size)`, persons.
        variances: of these, `(n, 1)`, persons squared.
        usable: `(n, size)`, whether all counts are large.
        whole, summed: what the numbers, and the sums, allow, `(n, size)` each.
    """

    numbers: PublishedNumbers
    parts: PublishedNumbers
    differences: IntArray
    variances: FloatArray
    usable: BoolArray
    whole: Range
    summed: Range

    @property
    def n(self) -> int:
        """Differences of large counts."""
        return int(self.usable.sum())

    @property
    def ratio(self) -> float:
        """The mean of their squares, over the variance; NaN where there is none."""
        squares = (self.differences.astype(np.float64) ** 2 / self.variances)[self.usable]
        return float(squares.mean()) if len(squares) else float("nan")

    @property
    def range(self) -> tuple[float, float]:
        """Ratios that chance can make."""
        if not self.n:
            return 0.0, float("inf")
        least = chi2.ppf(CHANCE, self.n) / self.n if self.n >= MANY else 0.0
        return min(LEAST, least), max(MOST, chi2.isf(CHANCE, self.n) / self.n)

    @property
    def words(self) -> str:
        """What is compared."""
        first, second = self.numbers, self.parts
        if first.level != second.level:
            return f"table {first.table!r}, {first.level} and the sums of {second.level}"
        return f"{first.level}, table {first.table!r} and the sums of table {second.table!r}"

    def contradictory(self) -> BoolArray:
        """In which geounits `(n,)` there are no counts by which all of this can have been published."""
        return np.asarray(((self.summed[0] > self.whole[1]) | (self.summed[1] < self.whole[0])).any(axis=1))


def comparisons(spine: Spine, published: Mapping[PublishedNumbers, IntArray]) -> Iterator[Comparison]:
    """Each table with the same one of the next lower level that has it, and with each finer one of its level.

    Args:
        spine: the geography.
        published: the numbers `(n_geounits, size)` of each table of each level, top level first.
    """
    for number, (one, values) in enumerate(published.items()):
        later = list(published.items())[number + 1 :]
        below = next(((two, other) for two, other in later if two.query.key == one.query.key), None)
        if below is not None:
            yield _of_levels(spine, (one, values), below)
        for two, other in published.items():
            if two.level == one.level and two.query.size > one.query.size and refines(two.query, one.query):
                yield _of_tables((one, values), (two, other))


def _of_levels(spine: Spine, one: _Numbers, two: _Numbers) -> Comparison:
    first, last = spine.index_of(one[0].level), spine.index_of(two[0].level)
    offsets = spine.child_offsets(first)
    for level in range(first + 1, last):
        offsets = spine.child_offsets(level)[offsets]
    starts, several = offsets[:-1], (np.diff(offsets) > 1)[:, None]

    def added(values: IntArray) -> IntArray:
        return np.add.reduceat(values, starts, axis=0)

    n_parts = np.diff(offsets)[:, None]
    large = np.logical_and.reduceat(_large(*two), starts, axis=0)
    return _comparison(one, two, added(two[1]), n_parts, several & large, tuple(map(added, _allowed(*two))))


def _of_tables(one: _Numbers, two: _Numbers) -> Comparison:
    answer = np.zeros(two[0].query.size, dtype=np.int64)
    answer[two[0].query.cell_answer] = one[0].query.cell_answer
    member = (answer[:, None] == np.arange(one[0].query.size)).astype(np.int64)
    several = member.sum(axis=0) > 1
    large = several & ~((~_large(*two)).astype(np.int64) @ member).astype(bool)
    n_parts = member.sum(axis=0)[None, :]
    return _comparison(one, two, two[1] @ member, n_parts, large, tuple(each @ member for each in _allowed(*two)))


def _comparison(
    one: _Numbers,
    two: _Numbers,
    sums: IntArray,
    n_parts: IntArray,
    usable: BoolArray,
    summed: tuple[IntArray, ...],
) -> Comparison:
    variances = np.asarray(_variance(one[0]) + n_parts * _variance(two[0]), dtype=np.float64)
    usable = usable & _large(*one) & (variances > 0)
    least, most = summed
    return Comparison(one[0], two[0], one[1] - sums, np.maximum(variances, 1e-9), usable, _allowed(*one), (least, most))


def _variance(one: PublishedNumbers) -> float:
    return 0.0 if one.method is None else float(one.method.variance)


def _large(one: PublishedNumbers, values: IntArray) -> BoolArray:
    return np.asarray(values >= (0 if one.method is None else one.method.large))


def _allowed(one: PublishedNumbers, values: IntArray) -> Range:
    return (values, values) if one.method is None else one.method.allowed(values)


def check_agreement(spine: Spine, published: Mapping[PublishedNumbers, IntArray]) -> None:
    """Refuse tables that cannot be, or that were not protected as stated.

    Args:
        spine: the geography.
        published: as `comparisons` takes them.

    Raises:
        InputError: the numbers of an area allow no counts, or differ by other amounts than the method gives; the
            message names areas, or the figure.
    """
    refused: list[str] = []
    for one in comparisons(spine, published):
        where = f"published: {one.words}"
        if (wrong := one.contradictory()).any():
            codes: NDArray[np.str_] = spine.level(one.numbers.level).geocodes[wrong]
            raise InputError(
                f"{where}: no counts can have been published as these numbers in {len(codes):,} areas: "
                f"{first_few(codes)}; they are of two dates or areas, or were protected otherwise than stated"
            )
        least, most = one.range
        if not (np.isnan(one.ratio) or least <= one.ratio <= most):
            refused.append(
                f"{where} differ by {one.ratio:.2f} times the variance that is stated ({one.n:,} differences; from "
                f"{least:.2f} to {most:.2f} is allowed)"
            )
    if refused:
        raise InputError(
            f"{_few(refused)}; the tables are of two dates or areas, or were protected otherwise than stated: "
            "correct published.method and its parameters, or the files"
        )


def _few(sentences: Sequence[str]) -> str:
    """The first sentences, and how many more there are."""
    more = f"; and {len(sentences) - 3:,} more comparisons" if len(sentences) > 3 else ""
    return "; ".join(sentences[:3]) + more
