"""A simulated run: measured anew with public noise from the released histograms, and estimated again.

The released histograms stand in for the truth: the parametric bootstrap of post-processed counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.downward.level import downward_level
from postprocess.downward.simulated_margins import CHUNK_NUMBERS, ErrorCounts, PublishedTable, answers_of, count_errors
from postprocess.linear.downward import AnswerVariances, LevelVariances
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.problem import Measured, Problem

#: Fresh noise of some rows of a level's query: (replicate, level, query number, first row, shape) -> whole numbers.
DrawNoise = Callable[[int, int, int, int, tuple[int, int]], NDArray[np.int64]]


def simulate(
    problem: Problem,
    released: Sequence[sp.csr_array],
    tables: Sequence[PublishedTable],
    variances: Sequence[LevelVariances | AnswerVariances],
    draw: DrawNoise,
    replicate: int,
) -> list[ErrorCounts]:
    """One new run from the released histograms: its errors in each table.

    `problem.measured` gives the queries and variances; its values are not used.
    """
    run = replace(problem, measured=_measured_anew(problem, released, draw, replicate))
    basis = basis_of(run)
    estimates = upward_pass(run, basis)
    tables_of_level: dict[int, list[int]] = {}
    for i, table in enumerate(tables):
        tables_of_level.setdefault(table.level, []).append(i)
    out: list[ErrorCounts | None] = [None] * len(tables)
    above = None
    for level in range(problem.spine.n_levels):
        # cvxpy compares a sample in the run itself.
        unchecked = np.zeros(len(problem.spine.levels[max(level - 1, 0)].geocodes), dtype=bool)
        above, _ = downward_level(run, basis, level, estimates[level], above, checked=unchecked)
        for i in tables_of_level.get(level, []):
            out[i] = count_errors(tables[i], basis, variances[level], released[level], above)
    return [counts for counts in out if counts is not None]


def _measured_anew(
    problem: Problem, released: Sequence[sp.csr_array], draw: DrawNoise, replicate: int
) -> tuple[tuple[Measured, ...], ...]:
    """The released histograms' answers with fresh noise, some geounits at a time, in the smallest sufficient type."""
    measured = []
    for level, queries in enumerate(problem.measured):
        new = []
        for number, query in enumerate(queries):
            n, size = released[level].shape[0], query.marginal.size
            values: NDArray[np.signedinteger] = np.zeros((n, size), dtype=np.int16)
            step = max(1, CHUNK_NUMBERS // size)
            for first in range(0, n, step):
                last = min(first + step, n)
                part = draw(replicate, level, number, first, (last - first, size))
                part += answers_of(query.marginal, released[level], first, last)
                if (kinds := problem.kinds_of(level)) is not None:
                    part[kinds[first:last] < 0] = 0
                values = values.astype(_wide_enough(values.dtype, part), copy=False)
                values[first:last] = part
            new.append(replace(query, values=values))
        measured.append(tuple(new))
    return tuple(measured)


def _wide_enough(dtype: np.dtype[np.signedinteger], values: NDArray[np.int64]) -> np.dtype[np.signedinteger]:
    """`dtype`, or the next signed type that holds the values."""
    least, most = values.min(initial=0), values.max(initial=0)
    while not np.iinfo(dtype).min <= least <= most <= np.iinfo(dtype).max:
        dtype = np.dtype(f"i{2 * dtype.itemsize}")
    return dtype
