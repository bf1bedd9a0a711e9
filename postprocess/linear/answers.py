"""Answers of a query from the upward pass: each geounit's from its own subtree, with their variances."""

from __future__ import annotations

import numpy as np

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray, IntArray
from postprocess.linear.information import BLIND
from postprocess.linear.upward import LevelEstimate, estimated_answers
from postprocess.marginal import Marginal
from postprocess.problem import Problem


def answers_of_subtrees(
    problem: Problem, basis: Basis, level: int, estimate: LevelEstimate, query: Marginal, rows: IntArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Estimates `(n, size)` of a query's answers and their variances, infinite where nothing is measured.

    Those of siblings are independent of each other.

    Args:
        problem: with the values of its measurements.
        basis: of the problem, which can state the query.
        level: of the problem.
        estimate: of the level, from the upward pass.
        query: whose answers.
        rows: of the level; by default all.
    """
    rows = np.arange(len(estimate.classes)) if rows is None else rows
    values = estimated_answers(problem, basis, level, estimate, query, rows)
    variances = np.maximum(basis.answer_variances(estimate.info.covariance, query), 0.0)
    if estimate.info.blind.any():
        variances[basis.answer_variances(estimate.info.unmeasured, query) > BLIND] = np.inf
    return values, variances[estimate.classes[rows]]
