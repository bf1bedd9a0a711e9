"""Standard errors of counts from reports, beside those that estimation states."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from features.local.collect.listed import DirectEncoding
from features.local.collected import CollectedAnswers
from features.local.survey import ErrorsOfReports


def test_errors_of_mixed_estimates_are_weighted() -> None:
    collected = CollectedAnswers(DirectEncoding.for_epsilon(4, Fraction(1)))
    answers, cells = np.arange(4), np.zeros(3, dtype=np.int64)
    counts, reports = np.array([10, 50, 90]), np.full(3, 100)
    alone = np.sqrt(collected.stated_variances(answers, cells, reports))
    own = collected.own_errors(answers, cells, counts, reports)
    errors = ErrorsOfReports(collected, mixed=True)
    assert np.allclose(errors(answers, cells, counts, reports, alone), own)
    assert np.allclose(errors(answers, cells, counts, reports, alone / 100), 1, atol=1e-4)
    # Two independent estimates of equal stated variance, of which one has the factor: (f^2 + 1) / 4 in place of 1 / 2.
    expected = np.sqrt((own**2 + 1) / 4 / 0.5)
    assert np.allclose(errors(answers, cells, counts, reports, alone * np.sqrt(0.5)), expected)
