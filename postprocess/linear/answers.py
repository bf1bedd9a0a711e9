"""Answers of a query from the upward pass: each geounit's from its own subtree, with their variances."""

from __future__ import annotations

import numpy as np

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray
from postprocess.linear.information import BLIND
from postprocess.linear.upward import CHUNK_CELLS, LevelEstimate, estimates_of
from postprocess.marginal import Marginal
from postprocess.problem import Problem


def answers_of_subtrees(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, query: Marginal
) -> tuple[FloatArray, FloatArray]:
    """Estimates `(n, size)` of a query's answers and their variances, infinite where nothing is measured.

    Those of siblings are independent of each other.

    Args:
        problem: with the values of its measurements.
        basis: of the problem, which can state the query.
        level: of the problem.
        estimate: of the level, from the upward pass.
        query: whose answers.
    """
    n = len(estimate.classes)
    values = np.zeros((n, query.size))
    keep = basis.kept(query)
    step = max(1, CHUNK_CELLS // problem.n_cells)
    for first in range(0, n, step):
        rows = np.arange(first, min(first + step, n))
        summed, _ = estimates_of(problem, basis, level, estimate, rows, keep)
        values[rows] = basis.answers_in_order(query, summed)
    variances = np.maximum(basis.answer_variances(estimate.info.covariance, query), 0.0)
    if estimate.info.any_unmeasured:
        variances[basis.answer_variances(estimate.info.unmeasured, query) > BLIND] = np.inf
    return values, variances[estimate.classes]
