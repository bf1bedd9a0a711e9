"""The covariances that the report's page needs, from the expectation of a universe, for one table at one level."""

from __future__ import annotations

import math

import numpy as np

from flows.estimation.marginals import marginal_of
from flows.plan.expectation import Expectation
from pipeline.model.query import Query
from pipeline.model.universe import Table
from pipeline.reading.medians import median_weights
from pipeline.reading.ranks import reach_at_once
from pipeline.reading.sums import Weights, answer_weights, together
from pipeline.report.moments import CERTAIN, UNKNOWN, USUAL, TableMoments
from postprocess.linear.expected import LevelCovariances
from postprocess.linear.pairs import pair_factors
from postprocess.linear.weighted import moments, of_level


def table_moments(
    expectation: Expectation, planned: tuple[LevelCovariances, ...], level: int, table: Table
) -> TableMoments:
    """The factors of a published table at a level, by the covariances of every level."""
    basis, classes, query = expectation.basis, expectation.classes, table.query
    marginal = marginal_of(query)
    factors = pair_factors(basis, classes, planned, level, marginal)
    parts = basis.answer_factors(marginal)[1]
    whole = math.prod(basis.symmetric_shape)
    answers = answer_weights(query.groups, np.arange(query.size))
    everybody = together([np.ones(len(group), dtype=bool) for group in query.groups], query.size)
    covariances = of_level(classes[level], planned[level])
    of_answers, of_all, _ = moments(basis, covariances, answers, everybody)
    halves = _halves(query, answers) if table.median else None
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
        halves=None if halves is None else moments(basis, covariances, halves, halves)[0],
    )


def _halves(query: Query, answers: Weights) -> Weights:
    """Of each answer of a query of one attribute, half of those up to it, less half of those above."""
    (position,) = (number for number, size in enumerate(query.sizes) if size > 1)
    of_values = median_weights(query.size) @ answers[position]
    return tuple(of_values if number == position else one for number, one in enumerate(answers))
