"""The covariances that the report's page needs, from the expectation of a universe, for one table at one level."""

from __future__ import annotations

import math

import numpy as np

from flows.estimation.marginals import marginal_of
from flows.plan.expectation import Expectation
from pipeline.model.query import Query
from pipeline.reading.ranks import reach_at_once
from pipeline.reading.sums import answer_weights, together
from pipeline.report.moments import CERTAIN, UNKNOWN, USUAL, TableMoments
from postprocess.linear.expected import LevelCovariances
from postprocess.linear.pairs import pair_factors
from postprocess.linear.weighted import moments, of_level


def table_moments(
    expectation: Expectation, planned: tuple[LevelCovariances, ...], level: int, query: Query
) -> TableMoments:
    """The factors of a published query at a level, by the covariances of every level."""
    basis, classes = expectation.basis, expectation.classes
    marginal = marginal_of(query)
    factors = pair_factors(basis, classes, planned, level, marginal)
    parts = basis.answer_factors(marginal)[1]
    whole = math.prod(basis.symmetric_shape)
    answers = answer_weights(query.groups, np.arange(query.size))
    everybody = together([np.ones(len(group), dtype=bool) for group in query.groups], query.size)
    of_answers, of_all, _ = moments(basis, of_level(classes[level], planned[level]), answers, everybody)
    variances = np.column_stack([of_answers, of_all[:, :1]])
    return TableMoments(
        classes=classes[level].downward,
        known=np.where(variances == 0, CERTAIN, np.where(np.isnan(variances), UNKNOWN, USUAL)),
        nested=factors.nested,
        crossed=factors.crossed,
        shared=factors.shared,
        factors=parts,
        # In the block of sums over all symmetric attributes, an answer over g of n cells has the part g^2 / n.
        sizes=np.rint(np.sqrt(parts[0] * whole)),
        whole=float(whole),
        places=basis.answer_order(marginal),
        at_once=reach_at_once(len(classes[level].downward)),
    )
