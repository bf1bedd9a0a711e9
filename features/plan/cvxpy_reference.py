"""The division of a budget stated entirely in cvxpy, over the histograms of all leaves: the reference for `division`.

In each block b of the basis, M_b(s) is the precision of all leaves' histograms, linear in the shares s. The variance
of an answer that c picks, c' M_b(s)^-1 c, is at most 1 / h exactly where M_b(s) - h c c' is positive semidefinite, and
the standard deviation over the blocks is the norm of sqrt(factor_b) h_b^(-1/2). Directions that are known are left out.
It does not use the recursions over the spine, and is for small spines: the matrices have a row for each leaf.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from features.plan.division import LEAST_SHARE, Division, Objective
from pipeline.errors import InputError
from postprocess.arrays import FloatArray
from postprocess.errors import SolverError
from postprocess.statistics import EXACT_VARIANCE, MEAN_ABSOLUTE

#: Rows of the largest matrix that is stated: leaves times asymmetric cells.
LARGEST = 120


def divide_with_cvxpy(objective: Objective, least: float = LEAST_SHARE) -> Division:
    """The best division by cvxpy.

    Raises:
        InputError: the spine is too large, the estimator is not "full", or nothing is left to divide.
        SolverError: no solution was found.
    """
    expectation = objective.expectation
    rows = expectation.spine.n_leaves * expectation.basis.n_asymmetric
    if rows > LARGEST or expectation.estimator != "full":
        raise InputError(
            f"--solver cvxpy: this solver is for the estimator full and up to {LARGEST} rows per block; found the "
            f"estimator {expectation.estimator} and {rows:,} rows; leave --solver out"
        )
    n = len(expectation.measured)
    shares = cp.Variable(n, nonneg=True)
    limits: list[cp.Constraint] = [cp.sum(shares) == 1, shares >= least]
    precisions = _Precisions(objective, shares)
    errors = [_error(objective, number, precisions, limits) for number in range(len(objective.aims))]
    goal = cp.max(cp.hstack(errors)) if objective.goal == "largest" else cp.sum(cp.hstack(errors))
    programme = cp.Problem(cp.Minimize(goal), limits)
    programme.solve(solver=cp.CLARABEL, max_threads=1)
    if programme.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE) or shares.value is None:
        raise SolverError(f"cvxpy did not find the division: {programme.status}")
    divided = np.maximum(shares.value, least)
    divided = divided / divided.sum()
    return Division(divided, objective.value(objective.terms(divided)[0]), float(programme.value))


class _Precisions:
    """The matrices M_b as functions of the shares, on the directions that are not known."""

    def __init__(self, objective: Objective, shares: cp.Variable) -> None:
        expectation = objective.expectation
        self.expectation = expectation
        self.free = [self._free(block) for block in range(expectation.basis.n_blocks)]
        self.matrices = []
        for block, free in enumerate(self.free):
            parts = []
            for share, (level, unit) in zip(shares, expectation.unit_precisions, strict=True):
                below = self.below(level)
                precision = np.kron(below.T @ below, objective.precision_of_share * unit[block])
                parts.append(share * (free.T @ precision @ free))
            self.matrices.append(cp.sum(parts))

    def below(self, level: int) -> FloatArray:
        """`(n_geounits, n_leaves)`: which leaves are below each geounit of a level."""
        spine = self.expectation.spine
        out = np.zeros((len(spine.levels[level]), spine.n_leaves))
        out[spine.leaf_ancestors(level), np.arange(spine.n_leaves)] = 1.0
        return out

    def _free(self, block: int) -> FloatArray:
        """An orthonormal basis of the directions of all leaves' histograms that nothing fixes."""
        expectation = self.expectation
        fixed = [
            np.kron(row[None, :], classes.known[kind, block])
            for level, classes in enumerate(expectation.classes)
            for row, kind in zip(self.below(level), classes.upward, strict=True)
        ]
        _, values, rows = np.linalg.svd(np.vstack(fixed))
        return np.asarray(rows[int((values > 1e-9).sum()) :].T)


def _error(objective: Objective, number: int, precisions: _Precisions, limits: list[cp.Constraint]) -> cp.Expression:
    """The error of one aim, times its factor, as a convex expression; what bounds it is added to `limits`."""
    expectation, aim = objective.expectation, objective.aims[number]
    recode, factors = expectation.basis.answer_factors(aim.query)
    level = expectation.spine.index_of(aim.level)
    classes = expectation.classes[level]
    counted = np.ones((len(recode), factors.shape[1]))
    if aim.answer is not None:
        place = int(expectation.basis.answer_order(aim.query)[aim.answer])
        counted = (np.arange(counted.size) == place).astype(float).reshape(counted.shape)
    patterns, inverse = np.unique(factors.T, axis=0, return_inverse=True)
    terms = []
    for kind, size in enumerate(classes.sizes):
        below = precisions.below(level)[int(np.argmax(classes.downward == kind))]
        for row, times in zip(recode, counted, strict=True):
            if not times.any():
                continue
            of_pattern = np.bincount(inverse.ravel(), weights=times, minlength=len(patterns))
            least = [_precision_of(np.kron(below, row), block, precisions, limits) for block in range(len(factors))]
            for pattern, n in zip(patterns, of_pattern, strict=True):
                parts = [
                    np.sqrt(factor) * cp.power(precision, -0.5)
                    for factor, precision in zip(pattern, least, strict=True)
                    if precision is not None and factor > 0
                ]
                if parts and n:
                    terms.append(float(size) / classes.sizes.sum() * float(n) * cp.norm(cp.hstack(parts)))
    return objective.factors[number] * MEAN_ABSOLUTE * cp.sum(terms)


def _precision_of(
    picked: FloatArray, block: int, precisions: _Precisions, limits: list[cp.Constraint]
) -> cp.Variable | None:
    """A lower bound on the precision of an answer's part in one block; None where that part is known."""
    along = precisions.free[block].T @ picked
    if along @ along < EXACT_VARIANCE:
        return None
    precision = cp.Variable(nonneg=True)
    slack = precisions.matrices[block] - precision * np.outer(along, along)
    limits.append(0.5 * (slack + slack.T) >> 0)
    return precision
