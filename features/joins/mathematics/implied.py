"""What the measurements of persons say about the households: their members, counted among the persons.

Sizes tell how many persons live in households, with the variance 1 + 4 + ... + 49 = 140 of one measurement; the persons
are counted with the variance of about one. Both are the same number. So the best linear estimate of the persons in a
subtree, from their own measurements, is a further measurement of the households there: of the sum of expected members
over kinds of household, with a known variance. It enters the least squares of every family (`downward.assembly`); the
released households are then, for the persons of the same geounits, bounds that hardly move them.

Where other persons are counted in the same answers, the households' members are at most as many. Then the measurement
counts only where the households would have more.
"""

from __future__ import annotations

import numpy as np

from features.joins.mathematics.composition import Composition
from postprocess.algebra import Basis
from postprocess.arrays import FloatArray
from postprocess.linear.information import BLIND
from postprocess.linear.upward import LevelEstimate, estimated_answers
from postprocess.members import Counted, Implied
from postprocess.problem import Problem

#: Persons squared: the least variance of a sum, where it is known exactly, so that matrices stay well conditioned.
LEAST_VARIANCE = 0.01


def counted_of(composition: Composition) -> Counted | None:
    """Of the joins' answers for which members are to be expected; None where there is none."""
    rows, least, excess = [], [], []
    others = composition.others
    for m in composition.memberships:
        persons = composition.persons.answers_in(m.persons)
        kinds = composition.households.answers_in(m.households)
        for a in np.flatnonzero(m.inside & ~np.isnan(m.expected).any(axis=1)):
            rows.append((persons == a).astype(np.float64))
            least.append(m.least[a][kinds].astype(np.float64))
            excess.append(np.zeros(len(kinds)) if others else m.expected[a][kinds] - least[-1])
    if not rows:
        return None
    independent = _independent(np.array(rows))
    sums, members, beyond = (np.array(each)[independent] for each in (rows, least, excess))
    every = np.arange(len(sums))
    expected, limited = every[:0] if others else every, every[others | (beyond > 0).any(axis=1)]
    return Counted(
        persons=composition.persons,
        sums=sums,
        households=composition.households,
        of_sum=np.concatenate([expected, limited]),
        at_most=np.repeat([False, True], [len(expected), len(limited)]),
        least=np.concatenate([members[expected], members[limited]]),
        excess=np.concatenate([beyond[expected], np.zeros_like(beyond[limited])]),
        others=others,
    )


def implied_by(counted: Counted, problem: Problem, basis: Basis, level: int, estimate: LevelEstimate) -> Implied:
    """The sums from the persons' upward pass of a level.

    Args:
        counted: what the sums are.
        problem: of the persons, with the values of its measurements.
        basis: of that problem, which can state the sums' query.
        level: of it.
        estimate: of the level.
    """
    rows = np.arange(len(estimate.classes))
    values = estimated_answers(problem, basis, level, estimate, counted.persons, rows) @ counted.sums.T
    covariance = counted.sums @ basis.answer_covariances(estimate.info.covariance, counted.persons) @ counted.sums.T
    variances = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), LEAST_VARIANCE)
    if estimate.info.blind.any():
        blind = counted.sums @ basis.answer_covariances(estimate.info.unmeasured, counted.persons) @ counted.sums.T
        variances[np.diagonal(blind, axis1=1, axis2=2) > BLIND] = np.inf
    values, variances = values[:, counted.of_sum], variances[estimate.classes][:, counted.of_sum]
    return Implied(counted, values, variances, np.ones_like(values))


def _independent(rows: FloatArray) -> list[int]:
    """The rows that are no sums of rows before them."""
    kept: list[int] = []
    for i in range(len(rows)):
        if np.linalg.matrix_rank(rows[[*kept, i]]) > len(kept):
            kept.append(i)
    return kept
