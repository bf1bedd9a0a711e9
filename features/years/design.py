"""The design of a series: how its numbers are mixed, how far apart histories are by it, and back to counts.

One answer of a query has over T periods the true numbers x `(T,)`. What is published is L x + z: L is a lower
triangular matrix of whole numbers, z independent discrete Gaussian noise with the parameter sigma^2. A neighbour moves
x by whole numbers, so that an answer costs rho = |L dx|^2 / (2 sigma^2) = dx'G dx / (2 sigma^2) with G = L'L, and all
answers their sum (Canonne, Kamath and Steinke 2020, theorem 14).

A **history** says in which answer a person's record is in each period, or that it is in none. A **spell** is a longest
row of successive periods in one answer. Neighbours are

- `add-remove`: a history with at most K spells is present or not: dx_a are the periods in the answer a, 0 or 1;
- `change-one`: it is any other history with at most K spells: dx_a is the difference of two such rows, and 1 and -1 may
  stand in one answer, where one person lived first and the other later. There negative off-diagonals of G add up.

The **reach** is the largest sum of dx_a'G dx_a over all neighbours and all ways to share answers. It takes the place
that the squared L2 sensitivity has for a single release (T = 1, L = 1: 1 and 2), and rho = reach / (2 sigma^2). The
README proves the bound that is used where there are too many histories to go through.

What is published of an answer in period t is y_t = sum over s <= t of L_ts x_s, plus the noise z_t; L = 64 A, its
numbers divided by what they have in common. Solved for x, period by period, that is the truth plus noise with the
covariance sigma^2 G^-1 over the periods, G = L'L. With L = I years are independent; with T = 1 it is a usual release.

`confidential.CarriedPeriods` makes what is published, v: earlier and present truths mixed, w, plus whole-number noise,
less what is `known` of the periods before. The truth plus noise of a known variance in each period follows from that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from pipeline.privacy.budget import Neighbours
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanism import NoiseSpec
from postprocess.arrays import FloatArray, IntArray

#: (pairs of histories) x (ways to share answers) that are gone through; beyond it the bound is taken.
MOST_CASES: Final = 5 * 10**8
#: Periods that can be mixed by the best design: longer series take minutes, and are to be in blocks.
LONGEST: Final = 20
#: Steps of the parameter of the bound, in eighths: it is sound for each of them, and the least bound is taken.
_EIGHTHS: Final = range(17)
#: Ways to share answers: those of ten spells.
MOST_WAYS: Final = 115_975
#: Cases at once.
_CHUNK: Final = 1 << 22


@dataclass(frozen=True)
class Reach:
    """The squared distance, in the metric of G, that neighbours are apart.

    Attributes:
        value: exact, in the units of G.
        exact: whether some pair of neighbours is so far apart; else none is farther.
    """

    value: int | Fraction
    exact: bool


def reach(gram: IntArray, spells: int, neighbours: Neighbours) -> Reach:
    """How far neighbours with at most so many spells are apart.

    Args:
        gram: `(T, T)` int64, L'L.
        spells: K, at least 1.
        neighbours: see the module.

    >>> reach(np.array([[1]]), 1, "change-one")
    Reach(value=2, exact=True)
    >>> int(reach(np.array([[2, -1], [-1, 1]]), 1, "change-one").value)  # a first, then the other: [1, -1]
    5
    """
    spells = min(_checked(gram, spells), len(gram))
    ways = _bell(2 * spells if neighbours == "change-one" else spells)
    if ways <= MOST_WAYS and n_cases(len(gram), spells, neighbours) <= MOST_CASES:
        return Reach(largest(gram, spells, neighbours), exact=True)
    value = bound(gram, spells, neighbours)
    return Reach(value, exact=neighbours == "add-remove" and bool((gram - np.diag(np.diag(gram)) <= 0).all()))


# -- all histories ----------------------------------------------------------------------------------------------------


def largest(gram: IntArray, spells: int, neighbours: Neighbours) -> int:
    """The reach by going through all histories, and all ways to share answers."""
    spells = min(_checked(gram, spells), len(gram))
    return max(int(values.max()) for *_, values in _cases(gram, spells, neighbours))


def worst_pairs(gram: IntArray, spells: int, neighbours: Neighbours, most: int) -> tuple[IntArray, IntArray]:
    """The neighbours that are farthest apart, at most so many, farthest first; of each chunk of cases a few.

    Returns:
        Of each the sum of dx_a dx_a' over answers `(n, T, T)`, and the distances `(n,)`.
    """
    spells = min(_checked(gram, spells), len(gram))
    found: list[tuple[int, tuple[int, ...], tuple[int, ...], int]] = []
    for members, partitions, first_spells, values in _cases(gram, spells, neighbours):
        far = np.argpartition(-values.ravel(), min(most, values.size) - 1)[:most]
        for which, case in zip(*np.unravel_index(far, values.shape), strict=True):
            found.append((int(values[which, case]), tuple(members[case].tolist()), partitions[which], first_spells))
        found = sorted(set(found), reverse=True)[:most]
    intervals = _intervals(len(gram))
    moments = np.zeros((len(found), len(gram), len(gram)), dtype=np.int64)
    for number, (_, members_of, partition, first_spells) in enumerate(found):
        moved = np.zeros((len(partition), len(gram)), dtype=np.int64)
        for place, (answer, member) in enumerate(zip(partition, members_of, strict=True)):
            first, stop = intervals[member]
            moved[answer, first:stop] += 1 if place < first_spells else -1
        moments[number] = moved.T @ moved
    return moments, np.array([value for value, *_ in found], dtype=np.int64)


def _cases(
    gram: IntArray, spells: int, neighbours: Neighbours
) -> Iterator[tuple[IntArray, tuple[tuple[int, ...], ...], int, IntArray]]:
    """Spells `(n, k)` of some neighbours, ways to share k answers, how many spells are the first's; distances.

    A spell is an interval of periods. The spells of both histories are k things that are put into answers: a distance
    is the sum of the spells' own, and of twice the product of each two that share an answer, which counts against if
    they are of different histories. All are whole numbers below 2^53, so that a product of matrices of floats is exact.
    The distances are `(ways, n)`.
    """
    products = _products(gram)
    histories = _histories(len(gram), spells)
    for first_spells, second_spells in _numbers_of_spells(spells, neighbours):
        left, right = histories[first_spells], histories[second_spells]
        k = first_spells + second_spells
        partitions, together = _partitions(k)
        signs = [1] * first_spells + [-1] * second_spells
        for first, second in _index_pairs(
            len(left), len(right), _CHUNK // len(partitions), once=first_spells == second_spells
        ):
            members = np.concatenate([left[first], right[second]], axis=1)
            weights = np.empty((together.shape[1], len(members)))
            for number, (i, j) in enumerate(combinations(range(k), 2)):
                weights[number] = 2 * signs[i] * signs[j] * products[members[:, i], members[:, j]]
            alone = products[members, members].sum(axis=1)
            yield members, partitions, first_spells, np.rint(together @ weights).astype(np.int64) + alone


def _numbers_of_spells(spells: int, neighbours: Neighbours) -> list[tuple[int, int]]:
    """How many spells the two histories have: the first at least as many, since it does not matter which is which."""
    most = [0] if neighbours == "add-remove" else range(spells + 1)
    return [(first, second) for first in range(1, spells + 1) for second in most if second <= first]


def _index_pairs(n: int, others: int, at_once: int, *, once: bool) -> Iterator[tuple[IntArray, IntArray]]:
    """Indices of the first and the second history of some cases; where both are of one list, each two once."""
    columns = min(others, max(1, at_once))
    rows = max(1, at_once // columns)
    for start in range(0, n, rows):
        for left in range(0, others, columns):
            first, second = np.meshgrid(
                np.arange(start, min(start + rows, n)), np.arange(left, min(left + columns, others)), indexing="ij"
            )
            kept = second >= first if once else np.ones(first.shape, dtype=bool)
            if kept.any():
                yield first[kept], second[kept]


def _products(gram: IntArray) -> IntArray:
    """Sums of G over each interval of rows and each of columns, by the numbers of `_intervals`."""
    corner = np.zeros((len(gram) + 1, len(gram) + 1), dtype=np.int64)
    corner[1:, 1:] = np.asarray(gram, dtype=np.int64).cumsum(axis=0).cumsum(axis=1)
    first, stop = np.array(_intervals(len(gram))).T
    return corner[np.ix_(stop, stop)] - corner[np.ix_(first, stop)] - corner[np.ix_(stop, first)] + corner[
        np.ix_(first, first)
    ]  # fmt: skip


@cache
def _intervals(periods: int) -> tuple[tuple[int, int], ...]:
    """All intervals of periods, as the first and the one after the last."""
    return tuple(combinations(range(periods + 1), 2))


@cache
def _histories(periods: int, spells: int) -> tuple[IntArray, ...]:
    """Of each number of spells up to so many, all sets of intervals that do not overlap: `(n, number)`."""
    intervals = _intervals(periods)
    found: list[list[tuple[tuple[int, ...], int]]] = [[((), 0)]]
    for _ in range(spells):
        found.append(
            [
                ((*before, number), stop)
                for before, after in found[-1]
                for number, (first, stop) in enumerate(intervals)
                if first >= after
            ]
        )
    return tuple(
        np.array([members for members, _ in some], dtype=np.int64).reshape(len(some), number)
        for number, some in enumerate(found)
    )


@cache
def _partitions(things: int) -> tuple[tuple[tuple[int, ...], ...], FloatArray]:
    """All ways to put things into answers, and of each which two things are together `(ways, pairs)`."""
    ways: list[tuple[int, ...]] = [(0,)]
    for _ in range(1, things):
        ways = [(*way, answer) for way in ways for answer in range(max(way) + 2)]
    pairs = list(combinations(range(things), 2))
    together = np.array([[float(way[i] == way[j]) for i, j in pairs] for way in ways])
    return tuple(ways), together.reshape(len(ways), len(pairs))


def n_cases(periods: int, spells: int, neighbours: Neighbours) -> int:
    """How many cases `_cases` goes through, without going through them."""

    def histories(used: int) -> int:
        """Ends of spells among periods + 1 places; each two successive spells may touch, and then share a place."""
        if not used:
            return 1
        return sum(comb(used - 1, touching) * comb(periods + 1, 2 * used - touching) for touching in range(used))

    total = 0
    for first, second in _numbers_of_spells(spells, neighbours):
        n, others = histories(first), histories(second)
        total += (n * (n + 1) // 2 if first == second else n * others) * _bell(first + second)
    return total


@cache
def _bell(things: int) -> int:
    """Ways to put things into answers."""
    row = [1]
    for _ in range(things - 1):
        following = [row[-1]]
        for number in row:
            following.append(following[-1] + number)
        row = following
    return row[-1]


# -- a bound for long series, proved in the README ----------------------------------------------------------------


def bound(gram: IntArray, spells: int, neighbours: Neighbours) -> Fraction:
    """A number that the reach is not above, for any number of periods and spells; exact arithmetic.

    With `add-remove` it is the reach itself if no off-diagonal number of G is above 0. See the README for the proof.
    """
    spells = min(_checked(gram, spells), len(gram))
    dominant = _dominant(gram)
    if neighbours == "add-remove":
        return Fraction(_best_spans(dominant, 1, 0, spells)[0])
    whole = dominant.sum()
    return min(
        Fraction(_best_spans(dominant, 128, 16 * theta, spells)[0] + theta * theta * whole, 32) for theta in _EIGHTHS
    )


def history_bound(
    gram: FloatArray, spells: int, neighbours: Neighbours, at: float | None = None
) -> tuple[float, tuple[tuple[int, int], ...], float]:
    """The same by floats of a G without positive numbers off its diagonal and with sums of rows not below 0.

    Args:
        gram: `(T, T)`.
        spells, neighbours: see `reach`.
        at: theta; None for the best one.

    Returns:
        The bound, the spells of the history at which it is reached, and the parameter theta.
    """
    if neighbours == "add-remove":
        value, spans = _best_spans(gram, 1.0, 0.0, spells)
        return float(value), spans, 0.0
    found, whole = [], sum(gram.sum(axis=1).tolist())
    for theta in [eighths / 8 for eighths in _EIGHTHS] if at is None else [at]:
        value, spans = _best_spans(gram, 4.0, 4.0 * theta, spells)
        found.append((float(value) + 2 * theta * theta * whole, spans, theta))
    return min(found)


def _dominant(gram: IntArray) -> NDArray[np.object_]:
    """Z with Z - G positive semidefinite, no number off its diagonal above 0, sums of rows not below 0; exact.

    The numbers off the diagonal that are above 0 make a graph, whose Laplacian is added.
    """
    above = np.triu(np.maximum(gram, 0), 1).astype(object)
    both = above + above.T
    out = gram - both + np.diag(both.sum(axis=0))
    return out + np.diag(np.maximum(0, -out.sum(axis=1)))


def _best_spans(matrix: NDArray[Any], own: float, less: float, spells: int) -> tuple[Any, tuple[tuple[int, int], ...]]:
    """The most that at most so many spells add up to, each with `own` 1'Z 1 - `less` 1'sums over its periods.

    With the spells. Of whole numbers, `(T, T)` objects, it is exact; `sums` are those of the rows of Z.
    """
    n = len(matrix)
    corner = np.zeros((n + 1, n + 1), dtype=matrix.dtype)
    corner[1:, 1:] = matrix.cumsum(axis=0).cumsum(axis=1)
    ends = np.arange(n + 1)
    squares = np.diag(corner)[None, :] - corner - corner.T + np.diag(corner)[:, None]
    cumulated = np.concatenate([[0], matrix.sum(axis=1).cumsum()])
    values = own * squares - less * (cumulated[None, :] - cumulated[:, None])
    values[ends[:, None] >= ends[None, :]] = -np.inf
    best, chosen = np.zeros(n + 1, dtype=matrix.dtype), []
    for _ in range(spells):
        totals = best[:, None] + values
        from_where = totals.argmax(axis=0)
        row = np.maximum(totals.max(axis=0), 0)
        from_where[row <= 0] = -1
        for stop in range(1, n + 1):
            if row[stop] < row[stop - 1]:
                row[stop], from_where[stop] = row[stop - 1], -2  # ends before
        chosen.append(from_where)
        best = row
    spans, stop = [], n
    for from_where in reversed(chosen):
        while stop > 0 and from_where[stop] == -2:
            stop -= 1
        if stop == 0 or from_where[stop] < 0:
            break
        first = int(from_where[stop])
        spans.append((first, stop))
        stop = first
    return best[n], tuple(reversed(spans))


def _checked(gram: IntArray, spells: int) -> int:
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not len(gram) or gram.dtype.kind != "i":
        raise ValueError(f"a Gram matrix is square and of whole numbers, got {gram.dtype} of shape {gram.shape}")
    if not np.array_equal(gram, gram.T):
        raise ValueError("a Gram matrix is symmetric")
    if spells < 1:
        raise ValueError(f"spells: found {spells}; at least 1 is needed")
    return spells


#: A is in parts of so many.
DENOMINATOR: Final = 64
#: The first number of A. The scale does not matter to the noise of a period, and a larger one rounds A less.
FIRST: Final = 4
#: Spells of the people that the statement names, besides those who are in another answer in every period.
STATED_SPELLS: Final = (1, 2, 3, 5)


@dataclass(frozen=True)
class Design:
    """The mixing of a series.

    Attributes:
        rows: L, row t has its t + 1 numbers up to the diagonal, which are whole; those on it are above 0.
        spells: K, at most so many spells cost no more than the budget.
        neighbours: of the series.

    Raises:
        InputError: the rows are no such matrix, or there are no spells.

    >>> Design(((1,),), 1, "change-one").noise(Fraction(1, 2)).scale  # as a single release
    Fraction(2, 1)
    """

    rows: tuple[tuple[int, ...], ...]
    spells: int
    neighbours: Neighbours

    def __post_init__(self) -> None:
        if not self.rows or any(len(row) != number for number, row in enumerate(self.rows, 1)):
            raise InputError(f"design of a series: found rows of {[len(row) for row in self.rows]} numbers; 1, 2 ... T")
        for number, row in enumerate(self.rows, 1):
            if row[-1] < 1:
                raise InputError(f"design of a series: found {row[-1]} on the diagonal of period {number}; at least 1")
        if self.spells < 1:
            raise InputError(f"spells of a series: found {self.spells}; at least 1 is needed")

    @property
    def periods(self) -> int:
        """T, the horizon."""
        return len(self.rows)

    @cached_property
    def matrix(self) -> IntArray:
        """L, `(T, T)` int64."""
        out = np.zeros((self.periods, self.periods), dtype=np.int64)
        for number, row in enumerate(self.rows):
            out[number, : number + 1] = row
        out.setflags(write=False)
        return out

    @cached_property
    def gram(self) -> IntArray:
        """G = L'L, `(T, T)` int64."""
        return self.matrix.T @ self.matrix

    @cached_property
    def reach(self) -> Reach:
        """How far neighbours with at most `spells` spells are apart, see `largest`."""
        return reach(self.gram, self.spells, self.neighbours)

    @cached_property
    def inverse(self) -> FloatArray:
        """L^-1, `(T, T)`."""
        return np.linalg.inv(self.matrix.astype(np.float64))

    @cached_property
    def covariance(self) -> FloatArray:
        """G^-1, `(T, T)`: of the noise on an answer over the periods, for noise z of variance 1."""
        return self.inverse @ self.inverse.T

    def noise(self, rho: Fraction) -> NoiseSpec:
        """The distribution of each z, so that the whole series costs neighbours at most rho.

        Raises:
            InputError: the noise is too large to be drawn.
        """
        if rho <= 0:
            raise InputError(f"budget of a series: found rho = {rho}; it must be above 0")
        return DiscreteGaussian(Fraction(self.reach.value) / (2 * rho))

    def costs(self) -> Mapping[int, Reach]:
        """Spells -> what a person with so many costs at most, as a part of the budget."""
        whole = Fraction(self.reach.value)
        numbers = sorted({k for k in (*STATED_SPELLS, self.spells, self.periods) if k <= self.periods})
        found = {k: self.reach if k == self.spells else reach(self.gram, k, self.neighbours) for k in numbers}
        return MappingProxyType({k: Reach(Fraction(one.value) / whole, one.exact) for k, one in found.items()})

    def errors(self, rho: Fraction) -> tuple[float, float]:
        """Root mean square standard errors of an answer in a period, and of its change from one to the next."""
        covariance = self.noise(rho).variance * self.covariance
        variances = np.diag(covariance)
        changes = variances[1:] + variances[:-1] - 2 * np.diag(covariance, 1)
        return math.sqrt(variances.mean()), math.sqrt(changes.mean()) if len(changes) else 0.0


def independent(periods: int, spells: int, neighbours: Neighbours) -> Design:
    """Each period has noise of its own; the cost does not depend on spells."""
    return Design(tuple((0,) * number + (1,) for number in range(periods)), spells, neighbours)


def triangular(matrix: FloatArray, spells: int, neighbours: Neighbours) -> Design:
    """The design nearest to a lower triangular matrix `(T, T)`, scaled to `FIRST` in its first place.

    Raises:
        InputError: a number on the diagonal is too small beside the first.
    """
    whole = np.rint(matrix * (DENOMINATOR * FIRST / matrix[0, 0])).astype(np.int64)
    common = int(np.gcd.reduce(whole[np.tril_indices(len(whole))]))
    rows = tuple(tuple((row[: number + 1] // common).tolist()) for number, row in enumerate(whole))
    return Design(rows, spells, neighbours)


def unmixed(design: Design, mixtures: Sequence[IntArray]) -> list[FloatArray]:
    """The truth of each period so far plus noise, from the mixed numbers w; of the shape of each array.

    Forward substitution, period by period, each operation rounded as IEEE 754 says: the same numbers everywhere.
    """
    _period(design, len(mixtures) - 1)
    found: list[FloatArray] = []
    for row, numbers in zip(design.rows, mixtures, strict=False):
        rest = numbers.astype(np.float64)
        for weight, before in zip(row, found, strict=False):
            rest = rest - weight * before
        found.append(rest / row[-1])
    return found


def known(weights: Sequence[int], counts: Sequence[FloatArray]) -> IntArray:
    """What the releases before say of the sum of their mixed truths, rounded; the same numbers everywhere.

    Args:
        weights: of each period before.
        counts: of each, with noise, of one shape.
    """
    total = np.zeros_like(counts[0])
    for weight, count in zip(weights, counts, strict=True):
        total = total + weight * count
    return np.rint(total).astype(np.int64)


def mixed_again(design: Design, numbers: Sequence[IntArray]) -> list[IntArray]:
    """The mixed numbers w of those that are published, v."""
    _period(design, len(numbers) - 1)
    counts = [one / np.float64(row[-1]) for row, one in zip(design.rows, numbers, strict=False)]
    return [
        one + known(row[:-1], counts[:number]) if number else one.astype(np.int64)
        for number, (row, one) in enumerate(zip(design.rows, numbers, strict=False))
    ]


def _period(design: Design, period: int) -> int:
    if not 0 <= period < design.periods:
        raise InputError(f"period {period + 1} of a series: it has periods 1 to {design.periods}")
    return period
