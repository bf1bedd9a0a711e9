"""How alike areas are is found again from noisy numbers, and what is measured and expected are weighted by it."""

from __future__ import annotations

import numpy as np
import pytest

from features.marginals.alike import Spread, expected, spread_of
from features.marginals.transport import Tables


@pytest.mark.parametrize(("one", "two"), [(1.0, 0.0), (1.0, 0.05), (4.0, 0.0), (3.0, 0.02)])
def test_the_spread_that_numbers_were_drawn_with_is_found(one: float, two: float) -> None:
    rng = np.random.default_rng(1)
    n = 200_000
    m = rng.gamma(0.5, 40.0, n) + 0.01
    noise = np.full(n, 25.0)
    truth = m + np.sqrt(Spread(one, two).variance(m)) * rng.normal(size=n)
    found = spread_of(m, (truth + 5.0 * rng.normal(size=n) - m) ** 2, noise)
    assert found.one == pytest.approx(one, rel=0.1, abs=0.1)
    assert found.two == pytest.approx(two, rel=0.1, abs=0.002)


def test_parts_are_never_more_alike_than_random_ones() -> None:
    m = np.array([1.0, 5.0, 20.0, 100.0])
    assert spread_of(m, np.zeros(4), np.full(4, 9.0)) == Spread(1.0, 0.0)
    assert spread_of(np.empty(0), np.empty(0), np.empty(0)) == Spread(1.0, 0.0)


def test_expected_is_the_product_of_row_and_column_and_the_mean_is_by_precision() -> None:
    rows, columns = np.array([[6, 4, 0]]), np.array([[5, 5]])
    tables = Tables(np.full((1, 3, 2), 7.0), np.full((1, 3, 2), 2.0), rows, columns)
    np.testing.assert_allclose(expected(tables)[0], [[3, 3], [2, 2], [0, 0]])
    both = Spread(1.0, 1.0).weighted(tables)
    spread = 3.0 + 9.0
    assert both.estimate[0, 0, 0] == pytest.approx((7 / 2 + 3 / spread) / (1 / 2 + 1 / spread))
    assert both.variance[0, 0, 0] == pytest.approx(1 / (1 / 2 + 1 / spread))
