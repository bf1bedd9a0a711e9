"""Series by hand, for tests and the benchmark: mixed numbers from all truths, and the square-root factorisation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: L, row t has its t + 1 numbers up to the diagonal.
Rows = Sequence[Sequence[int]]


def mixed(rows: Rows, truths: Sequence[Ints], noise: Ints) -> Ints:
    """w of the last of some periods: the truths of all of them, first to last, times its row, and z."""
    total = noise.astype(object)
    for weight, truth in zip(rows[len(truths) - 1], truths, strict=True):
        total = total + weight * truth.astype(object)
    return np.asarray(total.astype(np.int64))


def errors_of(rows: Rows, noises: Sequence[Ints]) -> list[list[Fraction]]:
    """What is added to the truth of each period by z of the periods so far: L^-1 z, by fractions, answer by answer."""
    found: list[list[Fraction]] = []
    for t, row in enumerate(rows[: len(noises)]):
        flat = noises[t].ravel().tolist()
        found.append([(Fraction(z) - sum(row[s] * found[s][i] for s in range(t))) / row[t] for i, z in enumerate(flat)])
    return found


def square_root(periods: int) -> NDArray[np.float64]:
    """The square-root factorisation of prefix sums, applied to changes: L = C D `(T, T)`, C C = prefix sums.

    Henzinger, Upadhyay and Upadhyay 2023 (arXiv 2202.11205), definition 1 with theorem 1; D takes differences.
    """
    coefficients = [1.0]
    for lag in range(1, periods):
        coefficients.append(coefficients[-1] * (1 - 1 / (2 * lag)))
    root = np.array([[coefficients[t - s] if s <= t else 0.0 for s in range(periods)] for t in range(periods)])
    return np.asarray(root @ (np.eye(periods) - np.eye(periods, k=-1)))
