"""What a cell is expected to have, how far off that is, and both put together with what is measured.

Given a held number r of a row and the numbers p_j of the columns, N in all, a cell of a two-way table is expected to
have m_j = r p_j / N: a child's table divides as its parent's, given what is held. A child's total is expected to be
that of its siblings. Numbers deviate from what is expected by a mixture,

    t ~ sum over k of  w_k N(u_k m, u_k m + c_k m^2),        y = t + noise of variance v,

of ratios u_k (0 for cells that an area lacks, 1 with several widths c_k, and powers of 2), whose weights w_k are found
by maximum likelihood from the noisy numbers of the level alone, for cells with about the same m (Kiefer and Wolfowitz
1956; adaptive shrinkage: Stephens 2017, Biostatistics 18, 275). u = 1, c = 0 is what random parts of the parent would
have. The others make it robust: a cell whose measurement contradicts what is expected keeps its measurement, one that
is near to it is drawn to it. Where sums are held, deviations and noise are those beside the sums (`centred`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from features.marginals.transport import Tables
from postprocess.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Shrinkage", "expected"]

#: Cells whose expectations are within so many octaves have weights of their own; the first class ends at 2^-6.
OCTAVES, FIRST = 3, -6
#: Classes of expectations.
CLASSES = 9
#: Cells of a class that weights are found from, about; those far from the expectation are all among them.
ENOUGH = 4000
#: Standard errors from which a cell counts as far.
FAR = 3.0
#: Standard deviations of the parts around a ratio, in parts of it; and octaves below 1 in which there are others.
WIDTHS, OCTAVES_BELOW = np.array([0.0625, 0.125, 0.25, 0.35]), 4
#: Steps of the EM algorithm, and the cells as which the first guess, all parts alike, counts.
STEPS, GUESSED = 60, 1.0
#: The least weight that is kept, and cells that are worked on together.
LEAST, AT_ONCE = 1e-5, 1 << 18


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of one shape.

    Attributes:
        expected: m; 0 where there is nobody.
        estimate: y, with the sums that are held.
        noise: the variance of a cell's own noise.
        free: the part of a variance that is left where sums are held.
    """

    expected: FloatArray
    estimate: FloatArray
    noise: FloatArray
    free: FloatArray


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Of one class: ratios u, factors c and weights w of the parts, `(K,)` each."""

    ratios: FloatArray
    factors: FloatArray
    weights: FloatArray

    def parts(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of numbers that are expected to be m in each part, `(K, n)` each."""
        mean = self.ratios[:, None] * m
        return mean, mean + self.factors[:, None] * m**2

    def likely(self, y: FloatArray, m: FloatArray, noise: FloatArray) -> FloatArray:
        """How likely each part is given a noisy number, `(K, n)`."""
        return _shared(self.weights, self.unlikely(y, m, noise))

    def unlikely(self, y: FloatArray, m: FloatArray, noise: FloatArray) -> FloatArray:
        """Minus the logarithm of how likely a noisy number is in each part, but for a constant, `(K, n)`."""
        mean, variance = self.parts(m)
        total = variance + noise
        return np.asarray(0.5 * (np.log(total) + (y - mean) ** 2 / total))

    def given(self, y: FloatArray, m: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of numbers of each part given noisy ones, `(K, n)` each."""
        mean, variance = self.parts(m)
        share = variance / (variance + noise)
        return mean + share * (y - mean), share * noise


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """How numbers deviate from their expectations, by class of these."""

    classes: tuple[_Mixture, ...]

    @classmethod
    def of(cls, cells: Sequence[Cells]) -> Shrinkage:
        """From the noisy numbers of cells."""
        used = [one.expected > 0 for one in cells]
        m, y, noise = (
            np.concatenate([part[some] for part, some in zip(parts, used, strict=True)])
            for parts in zip(*((one.expected, one.estimate, one.noise * one.free) for one in cells), strict=True)
        )
        some = noise > 0
        m, y, noise = m[some], y[some], noise[some]
        number = _class_of(m)
        return cls(tuple(_fitted(*(one[number == place] for one in (m, y, noise))) for place in range(CLASSES)))

    def mean(self, cells: Cells) -> tuple[FloatArray, FloatArray]:
        """What is expected and measured of cells put together: mean, 0 where 0 is expected, and variance."""
        return self._put(cells, None)

    def drawn(self, cells: Cells, uniform: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The same with numbers drawn from what they may be in place of their mean.

        They are drawn so that they vary as much once their sums are held.

        Args:
            cells: measured.
            uniform: two numbers between 0 and 1 for each.
        """
        return self._put(cells, uniform)

    def _put(self, cells: Cells, uniform: Sequence[FloatArray] | None) -> tuple[FloatArray, FloatArray]:
        used: BoolArray = (cells.expected > 0) & (cells.free > 0)
        free = cells.free[used]
        measured = cells.expected[used], cells.estimate[used], cells.noise[used] * free
        mean, variance = np.where(cells.expected > 0, cells.estimate, 0.0), np.array(cells.noise)
        number = _class_of(measured[0])
        of_mean, of_variance = np.empty_like(free), np.empty_like(free)
        for place, mixture in enumerate(self.classes):
            (mine,) = np.nonzero(number == place)
            for start in range(0, len(mine), AT_ONCE):
                some = mine[start : start + AT_ONCE]
                own = [one[some] for one in measured]
                of_mean[some], of_variance[some] = _mean(mixture, *own)
                if uniform is not None:
                    away = _drawn(mixture, *own, *(one[used][some] for one in uniform)) - of_mean[some]
                    of_mean[some] += away / np.sqrt(free[some])
        mean[used] = of_mean
        variance[used] = of_variance
        return mean, variance


def expected(tables: Tables) -> FloatArray:
    """What each cell is expected to have, `(B, C, m)`; 0 in empty rows and columns."""
    total = tables.rows.sum(axis=1)[:, None, None]
    return np.asarray(tables.rows[:, :, None] * tables.columns[:, None, :] / np.maximum(total, 1), dtype=np.float64)


def centred(away: FloatArray, used: BoolArray, *, of_rows: bool = True) -> tuple[FloatArray, FloatArray]:
    """Deviations `(B, C, m)` less what sums say of them, and the part of a variance that is left.

    The cells that are used are all those of some rows and columns; without `of_rows`, any of a column.
    """
    out, free = np.where(used, away, 0.0), used.astype(np.float64)
    for axis in (1, 2) if of_rows else (1,):
        many = np.maximum(used.sum(axis=axis, keepdims=True), 1)
        out = np.where(used, out - out.sum(axis=axis, keepdims=True) / many, 0.0)
        free = free * (1.0 - 1.0 / many)
    return out, free


def _class_of(m: FloatArray) -> IntArray:
    octave = np.floor((np.log2(m) - FIRST) / OCTAVES).astype(np.int64) + 1
    return np.clip(octave, 0, CLASSES - 1)


def _mean(mixture: _Mixture, m: FloatArray, y: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of numbers given noisy ones, `(n,)` each."""
    likely, (means, variances) = mixture.likely(y, m, noise), mixture.given(y, m, noise)
    mean = (likely * means).sum(axis=0)
    variance = (likely * (variances + means**2)).sum(axis=0) - mean**2
    return mean, np.maximum(variance, 0.0)


def _drawn(
    mixture: _Mixture, m: FloatArray, y: FloatArray, noise: FloatArray, of_part: FloatArray, inside: FloatArray
) -> FloatArray:
    """Numbers drawn from what they may be, `(n,)`, by two numbers between 0 and 1: a part, and inside of it."""
    below = np.cumsum(mixture.likely(y, m, noise), axis=0)
    part = np.minimum((below < of_part).sum(axis=0), len(below) - 1)[None]
    mean, variance = (np.take_along_axis(one, part, axis=0)[0] for one in mixture.given(y, m, noise))
    return np.asarray(mean + np.sqrt(variance) * ndtri(inside))


def _fitted(m: FloatArray, y: FloatArray, noise: FloatArray) -> _Mixture:
    """Weights of maximum likelihood, by the EM algorithm."""
    if not len(m):
        return _Mixture(np.ones(1), np.zeros(1), np.ones(1))
    far: BoolArray = (y - m) ** 2 > FAR**2 * (noise + m)
    numbers, weights_of = [], []
    for cells in (np.flatnonzero(far), np.flatnonzero(~far)):
        step = max(1, len(cells) // ENOUGH)
        numbers.append(cells[::step])
        weights_of.append(np.full(len(numbers[-1]), float(step)))
    chosen, times = np.concatenate(numbers), np.concatenate(weights_of)
    m, y, noise = m[chosen], y[chosen], noise[chosen]
    ratios, factors = _parts(float(np.average(m, weights=times)), float(noise.mean()), float((y / m).max()))
    mixture = _Mixture(ratios, factors, np.full(len(ratios), 1.0 / len(ratios)))
    weights, unlikely = mixture.weights, mixture.unlikely(y, m, noise)
    for _ in range(STEPS):
        weights = (_shared(weights, unlikely) * times).sum(axis=1) + GUESSED / len(ratios)
        weights = weights / weights.sum()
    kept = weights >= LEAST
    return _Mixture(ratios[kept], factors[kept], weights[kept] / weights[kept].sum())


def _shared(weights: FloatArray, unlikely: FloatArray) -> FloatArray:
    """How likely each part is by its weight and what it makes of a number, `(K, n)`."""
    log = np.log(weights)[:, None] - unlikely
    likely = np.exp(log - log.max(axis=0))
    return np.asarray(likely / likely.sum(axis=0))


def _parts(middle: float, noise: float, largest: float) -> tuple[FloatArray, FloatArray]:
    """Ratios and factors of the parts of a class: none that noise would hide from its neighbours."""
    least = np.sqrt(noise) / 4 / middle
    narrow = WIDTHS[least < WIDTHS]
    octaves = 2.0 ** np.arange(-OCTAVES_BELOW, max(1, int(np.ceil(np.log2(max(largest, 1.0))))) + 1)
    others = octaves[(octaves != 1.0) & (octaves > least)]
    return (
        np.concatenate([[0.0, 1.0], np.ones(len(narrow)), others]),
        np.concatenate([[0.0, 0.0], narrow**2, (WIDTHS[-1] * others) ** 2]),
    )
