"""What public numbers say of a level's answers before it is measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from postprocess.marginal import Marginal
from postprocess.shares.expectation import expectations
from postprocess.shares.shared import Shared
from postprocess.shares.spread import Spread

QUERY = Marginal("kind", (np.array([0, 1, 1]),))
PARENTS = np.array([0, 0, 1, 1])
SPREAD = Spread(tau2=2.0, a=0.0, alone=3.0, noise=float("inf"), standard_error=0.1, geounits=4)


def shared(name: str, answers: list[int], *columns: list[float]) -> Shared:
    numbers = np.array(columns).T
    one = Shared.of(name, QUERY, np.array(answers), numbers, PARENTS)
    return replace(one, spreads=(SPREAD,) * len(answers))


def test_several_shares_of_an_answer_have_their_weighted_mean() -> None:
    first = shared("homes", [0, 1], [1, 3, 0, 0], [5, 0, 1, 1])
    second = shared("area", [1], [1, 1, 2, 2])
    above = np.array([[40.0, 20.0], [8.0, 10.0]])
    found = expectations([first, second], np.array([0, 1]), above, PARENTS)
    np.testing.assert_allclose(found.centres[:, 0], [10.0, 30.0, 0.0, 0.0])
    np.testing.assert_allclose(found.variances[:, 0], [20.0, 60.0, np.inf, np.inf])  # nothing is said of the second
    # 20 and 0 persons with the variances 40 and 3, beside 10 with 20; 5 and 5 with 10 each.
    np.testing.assert_allclose(found.variances[:, 1], [1 / (1 / 40 + 1 / 20), 1 / (1 / 3 + 1 / 20), 5.0, 5.0])
    np.testing.assert_allclose(found.centres[:2, 1] / found.variances[:2, 1], [20 / 40 + 10 / 20, 0 / 3 + 10 / 20])
    np.testing.assert_allclose(found.centres[2:, 1], [5.0, 5.0])
