"""90 % intervals of numbers that non-negativity moves, from their distances to the best linear unbiased estimates.

A released number r and its unbiased estimate u differ by d = r - u, which anyone sees. In standard errors S of u, let
beta be how far non-negativity moves a number, and e = u - t the error of u, normal with variance 1. Given which answers
are released as positive, a release is linear in the measurements, and takes a share g of the variance of e away,

    d = beta - e_g,   r - t = beta + e_f,   e = e_f + e_g,   Var e_g = g,   Var e_f = 1 - g.

Stein's lemma (1981) says so: E (u - t)(r - u) = Cov(u, r) - 1 = -g, whatever the truth is, where Cov(u, r) are the
degrees of freedom of non-negative least squares, which are those of the positive answers (Meyer and Woodroofe 2000).
`taken` is this share, from the release and the noise alone.

How numbers are moved is learned from the distances of many of like size and like g: beta has a mixture of normal
distributions around 0, of scales `SCALES`, whose weights are near those of the greatest likelihood given d (Stephens
2017, "False discovery rates: a new deal"). Given d, r - t is then a mixture of normal distributions. The interval is
its middle `HELD`, or, where r is not in the middle, as much of it from r on. Where nothing is moved it is around r and
as short as the variance that is left; where numbers are moved far, it reaches from r to 1.3 S beyond u.

Which numbers of a table non-negativity moves: their squared distances from unbiased estimates tell, by Pythagoras.

Where non-negativity only helps, a release r is between its unbiased estimate u and the truth t, and as it is the
nearest that is allowed, E(r - u)^2 + E(r - t)^2 <= S^2 on average, where S is the standard error of u. Of the first
term a release shows what it is, of the second the intervals of simulated runs say what it is. Where together they are
more, these are wrong about the release, or the release errs more than its unbiased estimates.

Large and small numbers of a table are judged each by their own sums: zeros are short where simulated runs are right,
and large numbers stay between estimate and release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr

from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, Ends, FloatArray, IntArray, distinct_places, owners
from postprocess.downward.simulated_margins import CHUNK_NUMBERS, LARGE, Seen, distinct_sums, is_large
from postprocess.marginal import Marginal, refines
from postprocess.problem import MeasuredAnswers
from postprocess.statistics import NORMAL_QUANTILE, holding, is_exact

#: What E(r - u)^2 + E(r - t)^2 of large numbers is in S^2 where they are moved, at least. Where they are not it is 0.8
#: to 1.3: intervals hold a bit more than 90 % of simulated errors, and these are of whole numbers.
MOVED = 1.5
#: Standard errors by which the same of small numbers is above S^2 where they are moved: of n squares of normal
#: distances of variance 1 it is sqrt(2 / n).
SURE = 3.0
#: Numbers of which it can be told: fewer small ones are moved if the large ones are, and not narrowed.
TOLD = 100
#: Standard errors from which on small numbers are compared.
LEAST_COMPARED = 1.0


@dataclass(frozen=True)
class Squares:
    """Sums over some released numbers, in S^2; those of several geounits can be added.

    Attributes:
        distances: of (r - u)^2.
        errors: of (r - t)^2, as their intervals say.
        n: how many numbers these are.
    """

    distances: float = 0.0
    errors: float = 0.0
    n: int = 0

    @classmethod
    def of(
        cls,
        counts: IntArray,
        estimates: FloatArray,
        standard: FloatArray,
        half: FloatArray,
        between: tuple[float, float] = (LARGE, np.inf),
    ) -> Squares:
        """Those of some released numbers, by default of the large ones.

        Args:
            counts: released numbers r, `(n, size)`.
            estimates, standard: u and S, of the same shape; an infinite S where nothing is measured.
            half: half the widths of their intervals, by which r - t is told; NaN where they have none.
            between: standard errors above which, and up to which, numbers are looked at.
        """
        which = is_large(counts, standard, between[0]) & ~is_large(counts, standard, between[1])
        which &= ~is_exact(standard) & np.isfinite(half)
        variance = standard[which] ** 2
        distances = np.sum((counts[which] - estimates[which]) ** 2 / variance)
        errors = np.sum((half[which] / NORMAL_QUANTILE) ** 2 / variance)
        return cls(float(distances), float(errors), int(np.count_nonzero(which)))

    def __add__(self, other: Squares) -> Squares:
        return Squares(self.distances + other.distances, self.errors + other.errors, self.n + other.n)

    @property
    def are_of_moved(self) -> bool:
        """Whether these are of large numbers further from their estimates than their intervals allow."""
        return self.distances + self.errors > MOVED * self.n


@dataclass(frozen=True)
class SmallNumbers:
    """What the small numbers of a table have for ends, whose simulated intervals zeros make short.

    Attributes:
        moved: they are further from their unbiased estimates than their intervals allow; otherwise these hold.
        informative: they are enough to tell. If they are not moved, their intervals may be narrowed by what all cells
            of the table show together.
        longer: their simulated intervals are longer than those around their unbiased estimates: of widths, few tell it.
    """

    moved: bool
    informative: bool
    longer: bool

    @classmethod
    def of(cls, squares: Squares, *, large_moved: bool) -> SmallNumbers:
        """By the sums of those from `LEAST_COMPARED` standard errors on."""
        n = squares.n
        informative = n >= TOLD
        moved = squares.distances + squares.errors > n + SURE * math.sqrt(2 * n) if informative else large_moved
        return cls(moved, informative, squares.errors > n)

    def ends(self, simulated: Ends, around: Ends, estimates: FloatArray, standard: FloatArray) -> Ends:
        """Their ends, given those of simulated runs and those around estimates, arrays of one shape.

        Moved numbers reach as far down as those around u, since non-negativity raises small numbers. Where u is large
        they reach as far up, too, and where they are longer than those around u, no further in any case.
        """
        (low, high), (least, most) = simulated, around
        if not self.moved:
            return simulated
        high = np.where(estimates > LARGE * standard, np.maximum(high, most), high)
        if self.longer:
            high = np.minimum(high, most)
        return np.minimum(low, least), high


#: What intervals hold of the mixture: the middle of 88 % and 93 %, between which they are to be, and a bit more, since
#: g is not exact.
HELD = 0.91
#: The least number that is learned from: smaller ones have errors that are not normal.
LEAST = 10
#: Lower ends of the classes of numbers that are alike: by their size in standard errors, and by g.
SIZES: FloatArray = np.array([1.0, 3.0, 10.0, 30.0, 100.0])
TAKEN: FloatArray = np.array([0.0, 0.35, 0.7])
#: Numbers of a class below which it is joined with the one of smaller numbers, and below which there is no interval.
JOINED, ENOUGH = 100, 50
#: Scales of the normal distributions of beta, in standard errors.
SCALES: FloatArray = np.append(0.0, 0.25 * 2.0 ** (np.arange(20) / 2))
#: Distances and shares g are told apart in steps; g is from one step to one less than all.
DISTANCE_STEP, TAKEN_STEPS = 0.05, 20
#: Largest distance that is told apart, in steps; how often weights are improved, and quantiles halved.
_FARTHEST, _ROUNDS, _HALVED = 1 << 16, 200, 40


def taken(query: Marginal, measured: Sequence[MeasuredAnswers], released: sp.csr_array) -> FloatArray:
    """The share g `(n, size)` of the variance of a query's unbiased estimates that non-negativity takes away.

    An answer that is the sum of n_q measured answers of one query, n+_q of which are positive, keeps phi = n+_q / n_q;
    and where all is measured with one query, and the total is held, what the others leave over falls to it in the share
    psi of its positive cells in those of the area: 1 - g = phi + (1 - phi) psi. Precisions of several queries add up.

    Args:
        query: whose answers.
        measured: at the level; one at least refines the query, and was measured without a condition.
        released: `(n, n_cells)`; worked on some areas at a time, however few answers the query has.
    """
    parts = [
        _taken(query, measured, released[rows]) for rows in chunks(released.shape[0], released.shape[1], CHUNK_NUMBERS)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, query.size))


def _taken(query: Marginal, measured: Sequence[MeasuredAnswers], released: sp.csr_array) -> FloatArray:
    """The same of some areas."""
    n = released.shape[0]
    positive = released.data > 0
    rows = owners(released.indptr)[positive]
    cells = released.indices[positive]

    def numbers(fine: Marginal) -> FloatArray:
        """How many positive answers of a finer query each number is the sum of."""
        places, _ = distinct_places(rows * fine.size + fine.cell_answer[cells])
        row, answer = np.divmod(places, fine.size)
        own = np.bincount(row * query.size + fine.answers_in(query)[answer], minlength=n * query.size)
        return own.reshape(n, query.size).astype(np.float64)

    unbound, left = np.zeros(query.size), np.zeros((n, query.size))
    of_totals, of_finer = 0.0, 0.0
    for own in measured:
        if own.marginal.answered:
            continue
        of_total = 1.0 / (own.marginal.size * own.variance)
        of_totals += of_total
        if refines(own.marginal, query):
            of_finer += of_total
            unbound += 1.0 / (np.bincount(own.marginal.answers_in(query), minlength=query.size) * own.variance)
            with np.errstate(divide="ignore"):
                left += 1.0 / (numbers(own.marginal) * own.variance)
    in_area = np.bincount(rows, minlength=n)[:, None]
    share = np.bincount(rows * query.size + query.cell_answer[cells], minlength=n * query.size).reshape(n, query.size)
    return (1.0 - unbound / left) * (1.0 - of_finer / of_totals * share / np.maximum(in_area, 1))


class Distances(Seen):
    """How often each distance was seen among numbers of each class; those of several geounits can be added.

    Attributes:
        places: sorted, distinct; see `_places`.
        times: how often, the same shape.
    """

    @classmethod
    def of(cls, counts: IntArray, estimates: FloatArray, standard: FloatArray, g: FloatArray) -> Distances:
        """Those of some numbers, all arrays of one shape; exact ones and those without an estimate are left out."""
        places = _places(counts, estimates, standard, g)[is_learned(counts, standard, g)]
        return cls(*distinct_sums(places, np.ones(len(places), dtype=np.int64)))


def is_learned(counts: IntArray, standard: FloatArray, g: FloatArray) -> BoolArray:
    """Which numbers have errors that are learned, arrays of one shape: large ones, and smaller ones of one S and more.

    Of the smaller ones only those of which most of the variance is taken away: where a number of 1 to 3 S is about its
    unbiased estimate, it is mostly of a smaller truth.
    """
    apart = is_large(counts, standard) | ((counts >= SIZES[0] * standard) & (g >= TAKEN[2]))
    return np.isfinite(standard) & ~is_exact(standard) & (counts >= LEAST) & apart


def _places(counts: IntArray, estimates: FloatArray, standard: FloatArray, g: FloatArray) -> IntArray:
    """Class by g, class by size, step of g and of the distance of each number, as one whole number."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.maximum(np.searchsorted(SIZES, counts / standard, side="right") - 1, 0)
        distance = np.nan_to_num((counts - estimates) / standard / DISTANCE_STEP)
    steps = np.clip(np.rint(distance), -_FARTHEST, _FARTHEST).astype(np.int64) + _FARTHEST
    by_taken = np.searchsorted(TAKEN, g, side="right") - 1
    step = np.clip(np.rint(g * TAKEN_STEPS), 1, TAKEN_STEPS - 1).astype(np.int64)
    return ((by_taken * len(SIZES) + size) * TAKEN_STEPS + step) * (2 * _FARTHEST + 1) + steps


def _parts(places: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Class, distance and g of places."""
    rest, steps = np.divmod(places, 2 * _FARTHEST + 1)
    classes, step = np.divmod(rest, TAKEN_STEPS)
    return classes, (steps - _FARTHEST) * DISTANCE_STEP, step / TAKEN_STEPS


@dataclass(frozen=True, eq=False)
class MovedErrors:
    """What r - t is, given d, of the numbers of a table at a level.

    Attributes:
        groups: the group of each class, -1 where it has too few numbers.
        weights: of the scales of beta, `(n_groups, n_scales)`.
    """

    groups: IntArray
    weights: FloatArray

    @classmethod
    def of(cls, distances: Distances) -> MovedErrors:
        """Learned from the distances of all numbers of the table at the level."""
        classes, distance, g = _parts(distances.places)
        numbers = np.bincount(classes, distances.times, len(TAKEN) * len(SIZES)).astype(np.int64)
        groups = np.full(len(numbers), -1)
        weights: list[FloatArray] = []
        for joined in _joined(numbers.reshape(len(TAKEN), len(SIZES))):
            mine = np.isin(classes, joined)
            if distances.times[mine].sum() >= ENOUGH:
                groups[joined] = len(weights)
                weights.append(_weights(distance[mine], g[mine], distances.times[mine]))
        return cls(groups, np.array(weights).reshape(len(weights), len(SCALES)))

    def ends(self, counts: IntArray, estimates: FloatArray, standard: FloatArray, g: FloatArray) -> Ends:
        """The least and the most that the truth may be, arrays of one shape; NaN where there is no such interval.

        The released number and one person to each side are in.
        """
        low, high = np.full((2, *counts.shape), np.nan)
        some = is_learned(counts, standard, g)
        places, inverse = distinct_places(_places(counts, estimates, standard, g)[some])
        if not len(places):
            return low, high
        least, most = (errors[inverse] * standard[some] for errors in self._quantiles(places))
        own = counts[some]
        low[some], high[some] = holding(np.ceil(own - most), np.floor(own - least), own)
        return low, high

    def _quantiles(self, places: IntArray) -> Ends:
        """Both ends of the middle of r - t, in standard errors, for places; NaN where there is no group."""
        classes, distance, g = _parts(places)
        group = self.groups[classes]
        known = group >= 0
        distance, g, group = distance[known, None], g[known, None], group[known]
        share = SCALES**2 / (g + SCALES**2)
        parts = _likelihoods(distance, g) * self.weights[group]
        parts /= parts.sum(axis=1, keepdims=True)
        means, spreads = distance * share, np.sqrt(1.0 - g + g * share)
        # The released number is inside: where it is not in the middle, the other end is as much nearer.
        at_zero = (parts * ndtr(-means / spreads)).sum(axis=1)
        below = np.clip((1 - HELD) / 2, at_zero - HELD, at_zero)
        ends = []
        for part in (below, below + HELD):
            low, high = (means - 4 * spreads).min(axis=1), (means + 4 * spreads).max(axis=1)
            for _ in range(_HALVED):
                middle = 0.5 * (low + high)
                less = (parts * ndtr((middle[:, None] - means) / spreads)).sum(axis=1) < part
                low, high = np.where(less, middle, low), np.where(less, high, middle)
            end = np.full(len(places), np.nan)
            end[known] = 0.5 * (low + high)
            ends.append(end)
        return ends[0], ends[1]


def _joined(numbers: IntArray) -> list[list[int]]:
    """The classes by size that are one group, for each class by g; `numbers` is `(classes by g, classes by size)`."""
    groups: list[list[int]] = []
    for number, own in enumerate(numbers):
        first, n = len(groups), 0
        for size, more in enumerate(own):
            if len(groups) > first and (n < JOINED or more < JOINED):
                groups[-1].append(number * len(own) + size)
                n += more
            else:
                groups.append([number * len(own) + size])
                n = more
    return groups


def _likelihoods(distance: FloatArray, g: FloatArray) -> FloatArray:
    """Of distances `(n, 1)`, given each scale of beta, up to a factor: `(n, n_scales)`, none of them 0."""
    variance = g + SCALES**2
    return np.exp(-0.5 * distance**2 / variance) / np.sqrt(variance) + 1e-300


def _weights(distance: FloatArray, g: FloatArray, times: IntArray) -> FloatArray:
    """The weights of the scales of beta, by expectation and maximisation from equal ones."""
    likelihoods = _likelihoods(distance[:, None], g[:, None])
    weights = np.full(len(SCALES), 1 / len(SCALES))
    for _ in range(_ROUNDS):
        parts = likelihoods * weights
        parts *= (times / parts.sum(axis=1))[:, None]
        weights = parts.sum(axis=0) / times.sum()
    return weights
