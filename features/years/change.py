"""A model of change: how far areas go their own way from one period to the next, and intervals that do not trust it.

A number x_t of an area is expected to grow as its parent's does: x_t - r_t x_(t-1) has mean 0, r_t the parent's growth.
Its variance is a n + b n^2, n the size of the area's number; changes of two cells of an area have one correlation k,
since men and women move together. The three numbers of a level are found from the linear estimates without a model:
products of differences less the covariance of their noise (method of moments). What is far beyond is left out of that,
so that a few areas that jump do not make all others look restless.

An area that jumps is drawn back. Intervals therefore rest on the estimate without the model, whose error is that of the
noise alone, and use what the model adds only to be short where it is right: `intervals`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from features.years.history import LevelHistory
from geography.spine import Spine
from postprocess.arrays import FloatArray
from postprocess.shares.intervals import constant_coverage

__all__ = ["Change", "change_of", "change_precisions", "intervals"]

#: A difference beyond so many standard errors takes no part in the variance of changes.
_FAR: Final = 4.0
_ROUNDS: Final = 20
#: Variance of a change, persons squared, below which it is not taken to be.
_LEAST: Final = 1e-2
#: Variance of an estimate, persons squared, at which its number is known: a whole one is then within 1/100 of it.
_KNOWN: Final = 1e-6
#: Correlation of two cells' changes that is believed.
_MOST_TOGETHER: Final = 0.95
#: Parent's growth that is believed, from one period to the next.
_GROWTH: Final = (0.5, 2.0)


@dataclass(frozen=True)
class Change:
    """The variance a n + b n^2 of a level's changes beyond the parent's growth, and the correlation of two cells'."""

    linear: float
    quadratic: float
    correlation: float = 0.0

    def variance(self, size: FloatArray) -> FloatArray:
        """Of changes of numbers of a size, in persons squared."""
        return np.maximum(self.linear * size + self.quadratic * size**2, _LEAST)

    def covariance(self, size: FloatArray) -> FloatArray:
        """`(n, c, c)` of the changes of an area's cells of size `(n, c)` in one period."""
        standard = np.sqrt(self.variance(size))
        together = np.eye(size.shape[1]) * (1 - self.correlation) + self.correlation
        return standard[:, :, None] * standard[:, None, :] * together


def change_precisions(
    spine: Spine, plain: Sequence[LevelHistory], levels: Collection[str] | None = None
) -> tuple[list[FloatArray | None], list[Change | None]]:
    """What the model says of each level, for `history.histories`; and the variances that it found. None at the top.

    Args:
        spine: the geounits.
        plain: linear estimates without a model.
        levels: of which something is said; default: all below the top.
    """
    precisions: list[FloatArray | None] = [None] * spine.n_levels
    changes: list[Change | None] = [None] * spine.n_levels
    for level in range(1, spine.n_levels):
        if levels is not None and spine.level_names[level] not in levels:
            continue
        growth = _growth(plain[level - 1].mean)[spine.levels[level].parents]
        size = np.maximum(plain[level].mean.mean(axis=1), 1.0)
        change = change_of(plain[level], growth, size)
        precisions[level], changes[level] = _precision(growth, change, size), change
    return precisions, changes


def change_of(plain: LevelHistory, growth: FloatArray, size: FloatArray) -> Change:
    """The variances of changes beyond the parent's growth `(n, T - 1, c)`, for numbers of size `(n, c)`."""
    differences = plain.mean[:, 1:] - growth * plain.mean[:, :-1]
    noise = _noise(plain.covariance, growth)
    own = np.einsum("nscc->nsc", noise)
    sizes = np.broadcast_to(size[:, None, :], own.shape)
    terms = np.stack([sizes.ravel(), sizes.ravel() ** 2], axis=1)
    change, close = Change(0.0, 1e-4), np.ones(own.shape, dtype=bool)
    for _ in range(_ROUNDS):
        total = own + change.variance(sizes)
        close = (differences**2 <= _FAR**2 * total) & (own > _KNOWN)
        change = _fitted(terms, (differences**2 - own).ravel(), np.where(close, 1 / total**2, 0.0).ravel())
    total, standard = own + change.variance(sizes), np.sqrt(change.variance(sizes))
    weights = np.where(close, 1 / total, 0.0)
    weighted = weights[:, :, :, None] * weights[:, :, None, :] * (1 - np.eye(own.shape[2]))
    products = differences[:, :, :, None] * differences[:, :, None, :] - noise
    possible = float((weighted * standard[:, :, :, None] * standard[:, :, None, :]).sum())
    together = float((weighted * products).sum()) / possible if possible else 0.0
    return Change(change.linear, change.quadratic, min(max(together, 0.0), _MOST_TOGETHER))


def _noise(covariance: FloatArray, growth: FloatArray) -> FloatArray:
    """`(n, T - 1, c, c)`: covariances of the errors of one period's differences, of errors `(n, T, c, T, c)`."""
    step = np.arange(growth.shape[1])
    after, before = covariance[:, step + 1, :, step + 1], covariance[:, step, :, step]  # (T - 1, n, c, c)
    across = covariance[:, step + 1, :, step]
    slope = growth.transpose(1, 0, 2)
    left, right = slope[:, :, :, None], slope[:, :, None, :]
    both = after + left * right * before - right * across - left * across.transpose(0, 1, 3, 2)
    return np.asarray(both.transpose(1, 0, 2, 3))


def _fitted(terms: FloatArray, squares: FloatArray, weights: FloatArray) -> Change:
    """Weighted least squares with neither number below 0."""
    crossed, right = terms.T @ (weights[:, None] * terms), terms.T @ (weights * squares)
    both = np.linalg.lstsq(crossed, right, rcond=None)[0]
    if both.min() >= 0:
        return Change(float(both[0]), float(both[1]))
    alone = np.maximum(right / np.diag(crossed), 0.0)
    gained = alone * (2 * right - alone * np.diag(crossed))
    return Change(float(alone[0]), 0.0) if gained[0] > gained[1] else Change(0.0, float(alone[1]))


def _growth(mean: FloatArray) -> FloatArray:
    """`(n, T - 1, c)`; 1 where the number before is not above 0."""
    before, after = mean[:, :-1], mean[:, 1:]
    ratio = np.divide(after, before, out=np.ones_like(after), where=before > 1.0)
    return np.clip(ratio, *_GROWTH)


def _precision(growth: FloatArray, change: Change, size: FloatArray) -> FloatArray:
    """`(n, T, c, T, c)`: over periods the sum of d'S^-1 d, d = x_t - growth x_(t-1), S the covariance of cells."""
    n, steps, cells = growth.shape
    inner = np.linalg.inv(change.covariance(size))
    out = np.zeros((n, steps + 1, cells, steps + 1, cells))
    for step in range(steps):
        slope = growth[:, step]
        out[:, step + 1, :, step + 1] += inner
        out[:, step, :, step] += slope[:, :, None] * inner * slope[:, None, :]
        out[:, step + 1, :, step] -= inner * slope[:, None, :]
        out[:, step, :, step + 1] -= slope[:, :, None] * inner
    return out


def intervals(
    plain: tuple[FloatArray, FloatArray], modelled: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The least and the most whole number of 90 % intervals, which hold 90 % for every truth, jump or none.

    Of a number that is known exactly, such as an invariant, both are that number.

    The estimate with the model, u* with variance v*, is that without, u and v, put together with something whose error
    is independent of u's: N(m, f) with 1 / f = 1 / v* - 1 / v and m / f = u* / v* - u / v. So m and f can be used as an
    expectation that is not trusted, see `postprocess.shares.intervals`.

    Args:
        plain: estimates and variances without the model, each of one shape.
        modelled: the same with it.
    """
    (u, v), (u_star, v_star) = plain, modelled
    known = v <= _KNOWN
    v, v_star = np.where(known, 1.0, v), np.where(known, 1.0, v_star)
    gained = np.maximum(1 / v_star - 1 / v, 0.0)
    some = gained > 1e-6 / v
    spread = np.where(some, 1 / np.where(some, gained, 1.0), np.inf)
    centre = np.where(some, (u_star / v_star - u / v) / np.where(some, gained, 1.0), 0.0)
    low, high = constant_coverage(u.ravel(), np.sqrt(v).ravel(), centre.ravel(), spread.ravel())
    low, high = low.reshape(u.shape), high.reshape(u.shape)
    return np.where(known, np.rint(u), low), np.where(known, np.rint(u), high)
