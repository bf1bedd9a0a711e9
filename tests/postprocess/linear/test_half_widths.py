"""The one rule of a 90 % interval."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from postprocess.linear.half_widths import NORMAL_QUANTILE, half_widths


def test_quantile() -> None:
    """The interval of a normal error has 5 % on each side."""
    assert np.isclose(NORMAL_QUANTILE, norm.ppf(0.95), rtol=1e-15)


def test_half_widths() -> None:
    """0 where exact, NaN where unknown, else whole persons, at least one, and the nearest of them."""
    standard = np.array([0.0, 1e-6, 1.0, 10.0, 10.1, np.nan, 1e-3])
    np.testing.assert_array_equal(half_widths(standard), [0, 0, 2, 16, 17, np.nan, 1])
    np.testing.assert_array_equal(half_widths(standard[2:5], np.array([2.0, 0.5, 1.0])), [2, 5, 10])


def test_covers_nine_in_ten_of_whole_errors() -> None:
    """Errors of whole persons, whatever their size, are inside in 90 % of cases or about that."""
    for standard in (2.0, 5.0, 20.0, 100.0):
        width = half_widths(np.array([standard]))[0]
        inside = norm.cdf((width + 0.5) / standard) - norm.cdf(-(width + 0.5) / standard)
        assert 0.89 <= inside <= 0.96, standard
