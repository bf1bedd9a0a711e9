"""What public numbers say of a level's answers before it is measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from postprocess.marginal import Marginal
from postprocess.shares.estimates import Estimates, adjusted
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


def known(totals: list[list[float]]) -> Estimates:
    """Parents whose answers are known exactly, and children of which little is."""
    above = np.array(totals)[PARENTS]
    nothing = 0.0 * above
    return Estimates(above, nothing + 1e6, above, nothing, nothing)


def test_several_shares_of_an_answer_have_their_weighted_mean() -> None:
    first = shared("homes", [0, 1], [1, 3, 0, 0], [5, 0, 1, 1])
    second = shared("area", [1], [1, 1, 2, 2])
    totals = known([[40.0, 20.0], [8.0, 10.0]])
    of_second = known([[20.0], [10.0]])
    found = expectations([(first, totals), (second, of_second)], np.array([0, 1]), PARENTS)
    np.testing.assert_allclose(found.centres[:, 0], [10.0, 30.0, 0.0, 0.0])
    np.testing.assert_allclose(found.variances[:, 0], [15.0, 15.0, np.inf, np.inf])  # 20 * 60 / 80; nothing is said
    # 20 and 0 persons with the variance 40 * 3 / 43, beside 10 with 20 * 20 / 40; 5 and 5 with 5 each.
    apart = 40 * 3 / 43
    both = 1 / (1 / apart + 1 / 10)
    np.testing.assert_allclose(found.variances[:, 1], [both, both, 2.5, 2.5])
    np.testing.assert_allclose(found.centres[:, 1], [(20 / apart + 1) * both, both, 5.0, 5.0])


def test_what_is_expected_has_no_error_in_common_with_the_estimate() -> None:
    """A parent that is known by its two children alone: by brute force, centres and their spread around the truths."""
    one = shared("homes", [0], [1.0, 3.0, 1.0, 1.0])
    rng = np.random.default_rng(5)
    n, noise = 4000, np.array([30.0, 60.0])
    z = np.sqrt(15.0) * rng.standard_normal(n)
    truths = np.array([10.0, 30.0]) + np.column_stack([z, -z])
    values = truths + noise * rng.standard_normal((n, 2))
    far = []
    for own in values:
        padded = np.append(own, [1.0, 1.0])[:, None]
        estimates = adjusted(padded, np.append(noise**2, [1.0, 1.0])[:, None], PARENTS, None)
        found = expectations([(one, estimates)], np.array([0]), PARENTS)
        far.append(np.append(found.centres[:2, 0], found.variances[:2, 0]))
    centres, variances = np.split(np.array(far), 2, axis=1)
    errors = values - truths
    for child in range(2):
        assert abs(np.corrcoef(centres[:, child] - truths[:, child], errors[:, child])[0, 1]) < 4 / np.sqrt(n)
    np.testing.assert_allclose((centres - truths).var(axis=0), variances.mean(axis=0), rtol=0.1)
