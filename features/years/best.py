"""The design with the least errors: a small convex problem, by cutting planes.

Over positive definite G `(T, T)`: the least tr(W G^-1), the weighted mean variance of periods and of changes from one
to the next, such that no neighbours are farther apart than 1: tr(G M) <= 1 for the moments M = sum of dx_a dx_a' of
each pair. There are too many pairs, so those that are farthest apart are added until none is beyond 1. Where they are
too many to go through, the bound of `design` takes their place, for G without positive numbers off the diagonal.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final

import cvxpy as cp
import numpy as np

from features.years.design import LONGEST, Design, history_bound, n_cases, triangular, worst_pairs
from geography.errors import InputError
from pipeline.privacy.budget import Neighbours
from postprocess.arrays import FloatArray
from postprocess.errors import SolverError

#: How much the mean variance of changes weighs, halved, beside that of periods.
CHANGES: Final = 0.1
#: Cases that are gone through for each cut.
_MOST_CASES: Final = 4 * 10**6
#: Pairs that are added at once.
_AT_ONCE: Final = 60
_ROUNDS: Final = 60
#: Relative: how much farther than allowed neighbours may be before the last scaling.
_TOLERANCE: Final = 1e-3
#: G in whole numbers of this part, for distances by whole numbers.
_PART: Final = 1 << 24


def best(periods: int, spells: int, neighbours: Neighbours, changes: float = CHANGES) -> Design:
    """The design for at most so many spells; its cost is computed exactly after it is put into whole numbers.

    Raises:
        InputError: there are too many periods.
        SolverError: the convex problem was not solved.
    """
    if not 1 <= periods <= LONGEST:
        raise InputError(f"periods of a series: found {periods}; from 1 to {LONGEST} can be mixed")
    if periods == 1:
        return Design(((1,),), spells, neighbours)
    return triangular(factor(best_gram(periods, spells, neighbours, changes)), spells, neighbours)


def weights(periods: int, changes: float = CHANGES) -> FloatArray:
    """W `(T, T)`: tr(W V) is the mean variance of periods, and `changes` times half the mean variance of changes."""
    differences = np.eye(periods)[1:] - np.eye(periods)[:-1]
    return np.eye(periods) / periods + changes * differences.T @ differences / (2 * max(1, periods - 1))


def factor(gram: FloatArray) -> FloatArray:
    """The lower triangular A `(T, T)` with A'A = G."""
    return np.asarray(np.linalg.cholesky(gram[::-1, ::-1]).T[::-1, ::-1], dtype=np.float64)


def best_gram(periods: int, spells: int, neighbours: Neighbours, changes: float = CHANGES) -> FloatArray:
    """G `(T, T)`, scaled so that neighbours are at most 1 apart, as far as floats say it."""
    spells = min(spells, periods)
    if n_cases(periods, spells, neighbours) <= _MOST_CASES:
        return _by_pairs(periods, spells, neighbours, changes)
    return _by_bound(periods, spells, neighbours, changes)


def _by_pairs(periods: int, spells: int, neighbours: Neighbours, changes: float) -> FloatArray:
    cuts = _first_cuts(periods, neighbours)
    for _ in range(_ROUNDS):
        gram = _solved(weights(periods, changes), cuts)
        moments, values = worst_pairs(np.rint(gram * _PART).astype(np.int64), spells, neighbours, _AT_ONCE)
        distances = values / _PART
        if distances[0] < 1 + _TOLERANCE:
            return gram / float(distances[0])
        cuts += [moment.astype(float) for moment, far in zip(moments, distances, strict=True) if far > 1]
    raise SolverError(f"design of a series of {periods} periods: no end after {_ROUNDS} rounds of cuts")


def _by_bound(periods: int, spells: int, neighbours: Neighbours, changes: float) -> FloatArray:
    """By the bound at its parameter theta; theta is the best for the G before, so that each G is better."""
    cuts, theta = _first_cuts(periods, neighbours), 0.5
    for _ in range(_ROUNDS):
        gram = _solved(weights(periods, changes), cuts, dominant=True)
        value, spans, better = history_bound(gram, spells, neighbours, theta)
        if value < 1 + _TOLERANCE:
            least, _, better = history_bound(gram, spells, neighbours)
            if better == theta or least > 1 - _TOLERANCE:
                return gram / least
            cuts, theta = _first_cuts(periods, neighbours), better
            continue
        cuts.append(_bound_cut(periods, spans, neighbours, theta))
    raise SolverError(f"design of a series of {periods} periods: no end after {_ROUNDS} rounds of cuts")


def _bound_cut(periods: int, spans: Sequence[tuple[int, int]], neighbours: Neighbours, theta: float) -> FloatArray:
    """The matrix M whose product with G is the bound at some spells."""
    inside = np.zeros((periods, periods))
    present = np.zeros(periods)
    for first, stop in spans:
        inside[first:stop, first:stop] = 1
        present[first:stop] = 1
    if neighbours == "add-remove":
        return inside
    across = np.add.outer(present, present) / 2
    return 4 * inside - 4 * theta * across + 2 * theta * theta


def _first_cuts(periods: int, neighbours: Neighbours) -> list[FloatArray]:
    """A person who stays in one answer, or in another for all periods; and one who is there for one."""
    moved = 2.0 if neighbours == "change-one" else 1.0
    return [moved * np.ones((periods, periods)), *(moved * np.diag(row) for row in np.eye(periods))]


def _solved(weight: FloatArray, cuts: Sequence[FloatArray], *, dominant: bool = False) -> FloatArray:
    """G with the least tr(W G^-1) that keeps the cuts."""
    periods = len(weight)
    gram, inverse = cp.Variable((periods, periods), PSD=True), cp.Variable((periods, periods), symmetric=True)
    one = np.eye(periods)
    rows = np.array([cut.ravel() for cut in cuts])
    kept = [cp.bmat([[inverse, one], [one, gram]]) >> 0, rows @ cp.vec(gram, order="C") <= 1]
    if dominant:
        kept += [cp.multiply(gram, 1 - one) <= 0, cp.sum(gram, axis=1) >= 0]
    problem = cp.Problem(cp.Minimize(cp.trace(weight @ inverse)), kept)
    try:
        with warnings.catch_warnings():  # of accuracy: what is made of G is checked and scaled exactly
            warnings.simplefilter("ignore")
            problem.solve(solver="CLARABEL")
    except cp.error.SolverError as error:
        raise SolverError(f"design of a series of {periods} periods: {error}") from None
    if gram.value is None:
        raise SolverError(f"design of a series of {periods} periods: the solver says {problem.status}")
    return (gram.value + gram.value.T) / 2
