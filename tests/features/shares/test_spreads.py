"""How far areas are from public shares, and what these are expected to say: dense algebra, brute force, moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from features.shares import spreads as spread
from features.shares.expectation import expectations, shared_variances
from features.shares.spreads import UNKNOWN, Gaps, estimated, moments
from postprocess.arrays import FloatArray, IntArray
from postprocess.marginal import Marginal
from postprocess.shares.estimates import Estimates, adjusted
from postprocess.shares.shared import Shared
from postprocess.shares.spread import Spread

QUERY = Marginal("kind", (np.array([0, 1, 1]),))
PAIRS = np.array([0, 0, 1, 1])
KNOWN_SPREAD = Spread(tau2=2.0, a=0.0, alone=3.0, noise=float("inf"), standard_error=0.1, geounits=4)


def shared(name: str, answers: list[int], *columns: list[float]) -> Shared:
    numbers = np.array(columns).T
    one = Shared.of(name, QUERY, np.array(answers), numbers, PAIRS)
    return replace(one, spreads=(KNOWN_SPREAD,) * len(answers))


def known(totals: list[list[float]]) -> Estimates:
    """Parents whose answers are known exactly, and children of which little is."""
    above = np.array(totals)[PAIRS]
    nothing = 0.0 * above
    return Estimates(above, nothing + 1e6, above, nothing, nothing)


def test_several_shares_of_an_answer_have_their_weighted_mean() -> None:
    first = shared("homes", [0, 1], [1, 3, 0, 0], [5, 0, 1, 1])
    second = shared("area", [1], [1, 1, 2, 2])
    totals = known([[40.0, 20.0], [8.0, 10.0]])
    of_second = known([[20.0], [10.0]])
    found = expectations([(first, totals), (second, of_second)], np.array([0, 1]), PAIRS)
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
        estimates = adjusted(padded, np.append(noise**2, [1.0, 1.0])[:, None], PAIRS, None)
        found = expectations([(one, estimates)], np.array([0]), PAIRS)
        far.append(np.append(found.centres[:2, 0], found.variances[:2, 0]))
    centres, variances = np.split(np.array(far), 2, axis=1)
    errors = values - truths
    for child in range(2):
        assert abs(np.corrcoef(centres[:, child] - truths[:, child], errors[:, child])[0, 1]) < 4 / np.sqrt(n)
    np.testing.assert_allclose((centres - truths).var(axis=0), variances.mean(axis=0), rtol=0.1)


TOP, TRACTS = 40.0, np.array([300.0, 150.0, np.inf])
TRACT_OF = np.repeat([0, 1, 2], [2, 3, 4])
LEAVES = np.array([200.0, 200.0, 90.0, 120.0, 300.0, 80.0, 80.0, 500.0, 100.0])
TRACT_SHARES = np.array([0.2, 0.3, 0.5])
SHARES = np.array([0.4, 0.6, 0.1, 0.5, 0.4, 0.25, 0.05, 0.3, 0.4])
TRACT_SPREAD, SPREAD = np.array([400.0, 90.0, 700.0]), 3000.0 * SHARES
TRACT_USED, USED = TRACT_SPREAD * 1.5, SPREAD * np.array([1, 1, 1.2, 1.2, np.inf, 1, 1.3, np.inf, 1])


def _upward() -> tuple[FloatArray, FloatArray]:
    """Variances of tracts and of the top by all that is measured below and there."""
    summed = np.bincount(TRACT_OF, LEAVES)
    tracts = 1.0 / (1.0 / TRACTS + 1.0 / summed)
    return tracts, np.array([1.0 / (1.0 / TOP + 1.0 / tracts.sum())])


def _solved(b: FloatArray, v: FloatArray, centre: FloatArray, used: FloatArray, total: float) -> FloatArray:
    """The least squares of one family by its KKT system."""
    n = len(b)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = np.diag(1.0 / v + 1.0 / used)
    system[n, n] = 0.0
    return np.linalg.solve(system, np.append(b / v + centre / used, total))[:n]


def _errors(sources: FloatArray) -> FloatArray:
    """Errors of 3 tracts and 9 leaves for noise on top (1), tracts (3), leaves (9) and distances z (3 and 9).

    All numbers are relative to a truth with persons T = 0, around which everything is linear.
    """
    top, tracts, leaves, z_tracts, z_leaves = np.split(sources, [1, 4, 13, 16])
    summed = np.bincount(TRACT_OF, LEAVES)
    below = np.bincount(TRACT_OF, leaves)
    v_tracts, v_top = _upward()
    b_tracts = v_tracts * (tracts / TRACTS + below / summed)
    b_top = v_top[0] * (top[0] / TOP + b_tracts.sum() / v_tracts.sum())
    # The truth is x_c = s_c x_u + z_c: errors are relative to it, so the centre is s_c e_u - z_c.
    e_tracts = _solved(b_tracts, v_tracts, TRACT_SHARES * b_top - z_tracts, TRACT_USED, b_top)
    e_leaves = np.concatenate(
        [
            _solved(leaves[own], LEAVES[own], SHARES[own] * e_tracts[u] - z_leaves[own], USED[own], e_tracts[u])
            for u, own in enumerate([u == TRACT_OF for u in range(3)])
        ]
    )
    return np.concatenate([e_tracts, e_leaves])


def _given_their_sum(spread: FloatArray, parents: FloatArray) -> FloatArray:
    same = parents[:, None] == parents[None, :]
    total = np.bincount(parents, spread)[parents]
    return np.diag(spread) - same * spread[:, None] * spread[None, :] / total[:, None]


def test_variances_are_those_of_the_estimator_applied_to_every_source_of_error() -> None:
    linear = np.stack([_errors(one) for one in np.eye(25)], axis=1)
    variance = np.zeros((25, 25))
    # Nothing is measured of the third tract itself: its noise has no weight.
    variance[:13, :13] = np.diag([TOP, *np.where(np.isfinite(TRACTS), TRACTS, 0.0), *LEAVES])
    variance[13:16, 13:16] = _given_their_sum(TRACT_SPREAD, np.zeros(3, dtype=np.int64))
    variance[16:, 16:] = _given_their_sum(SPREAD, TRACT_OF)
    expected = np.diag(linear @ variance @ linear.T)
    v_tracts, v_top = _upward()
    top = (np.zeros(3, dtype=np.int64), v_top)
    tracts = shared_variances(v_tracts, TRACT_SPREAD, TRACT_USED, TRACT_SHARES, top)
    leaves = shared_variances(LEAVES, SPREAD, USED, SHARES, (TRACT_OF, tracts))
    assert np.concatenate([tracts, leaves]) == pytest.approx(expected, rel=1e-9)


def test_without_terms_it_is_the_usual_recursion_and_with_nothing_measured_the_model() -> None:
    none, zero = np.full(9, np.inf), np.zeros(9)
    above = np.array([30.0, 20.0, 10.0])
    total = np.bincount(TRACT_OF, LEAVES)[TRACT_OF]
    usual = LEAVES - LEAVES**2 / total + (LEAVES / total) ** 2 * above[TRACT_OF]
    assert shared_variances(LEAVES, none, none, zero, (TRACT_OF, above)) == pytest.approx(usual)
    over = np.bincount(TRACT_OF, SPREAD)[TRACT_OF]
    model = SPREAD * (1 - SPREAD / over) + SHARES**2 * above[TRACT_OF]
    assert shared_variances(none, SPREAD, SPREAD, SHARES, (TRACT_OF, above)) == pytest.approx(model)
    assert np.isnan(shared_variances(none, none, none, zero, (TRACT_OF, above))).all()


def families(rng: np.random.Generator, n: int, size: int) -> tuple[IntArray, FloatArray]:
    parents = np.repeat(np.arange(n), size)
    return parents, np.exp(rng.normal(4, 1, n * size)).round() + 1


def shares_of(number: FloatArray, parents: IntArray) -> FloatArray:
    return np.asarray(number / np.bincount(parents, weights=number)[parents])


def drawn(rng: np.random.Generator, f: FloatArray, parents: IntArray) -> FloatArray:
    """Normal distances with variances f whose sum over each family is 0."""
    e = rng.normal(0, np.sqrt(f))
    return np.asarray(e - f / np.bincount(parents, weights=f)[parents] * np.bincount(parents, weights=e)[parents])


@pytest.mark.parametrize("seed", range(3))
def test_the_noise_of_a_gap_is_that_of_dense_algebra(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 5
    v, s = rng.uniform(0.5, 9, n), rng.dirichlet(np.ones(n))
    gaps = Gaps.of(rng.normal(size=n), v, s, 100 * s, np.zeros(n, dtype=np.int64))
    matrix = np.eye(n) - np.outer(s, np.ones(n))
    assert gaps.noise == pytest.approx(np.diag(matrix @ np.diag(v) @ matrix.T))


def simulated(seed: int, tau2: float, a: float, n: int = 100) -> Gaps:
    """Areas in `n` families of four, whose noise is about as large as what is looked for."""
    rng = np.random.default_rng(seed)
    parents, number = families(rng, n, 4)
    s, total = shares_of(number, parents), rng.uniform(500, 3000, n)[parents]
    m = s * total
    x = m + drawn(rng, tau2 * (m + a * m * m), parents)
    return Gaps.of(x + rng.normal(0, 20, len(m)), np.full(len(m), 400.0), s, number, parents)


@pytest.mark.parametrize("tau2", [0.5, 2.0])
def test_tau2_is_unbiased(tau2: float) -> None:
    found = [float(moments(simulated(seed, tau2, 0.0), growing=False)[0][0]) for seed in range(300)]
    assert abs(np.mean(found) - tau2) < 3 * np.std(found) / np.sqrt(300)


def test_a_variance_that_grows_with_the_size_is_found() -> None:
    """Of areas of 100 and of 1,000 expected persons, on average over 30 levels of 8,000 areas."""
    truth = 1.5 * np.array([100 + 0.02 * 100**2, 1000 + 0.02 * 1000**2])
    found = [
        estimated(simulated(seed, 1.5, 0.02, 2000)).variances(np.array([100.0, 1000.0]), np.ones(2))
        for seed in range(30)
    ]
    assert np.mean(found, axis=0) == pytest.approx(truth, rel=0.1)


def test_a_forgotten_covariance_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded fault: the gap's noise without what it shares with the parent's sum is far off in the same test."""
    right = Gaps.of

    def wrong(
        values: FloatArray, variances: FloatArray, shares: FloatArray, number: FloatArray, parents: IntArray
    ) -> Gaps:
        gaps = right(values, variances, shares, number, parents)
        lost = 2.0 * shares * variances  # var(D) as if b and m were independent
        return replace(gaps, squared=gaps.squared - lost, noise=gaps.noise + lost)

    monkeypatch.setattr(spread.Gaps, "of", staticmethod(wrong))
    with pytest.raises(AssertionError):
        test_tau2_is_unbiased(2.0)


def test_what_noise_hides_is_not_taken_for_nothing() -> None:
    rng = np.random.default_rng(1)
    parents, number = families(rng, 30, 4)
    s = shares_of(number, parents)
    x = s * 1000.0
    found = estimated(Gaps.of(x + rng.normal(0, 300, len(x)), np.full(len(x), 9e4), s, number, parents))
    assert found.tau2 >= found.standard_error > 10
    nothing = estimated(Gaps.of(x, np.full(len(x), np.inf), s, number, parents))
    assert nothing == UNKNOWN


def test_areas_without_a_number_have_a_spread_of_their_own() -> None:
    rng = np.random.default_rng(2)
    parents, number = families(rng, 200, 5)
    number[::5] = 0
    s = shares_of(number, parents)
    x = np.where(number > 0, s * 1000, 0.0)
    x[::5] += np.where(rng.random(200) < 0.1, 300.0, 0.0)
    found = estimated(Gaps.of(x + rng.normal(0, 5, len(x)), np.full(len(x), 25.0), s, number, parents))
    assert found.alone == pytest.approx(0.1 * 300**2, rel=0.4)
    assert found.variances(np.array([0.0, 100.0]), np.array([0.0, 100.0]))[0] == found.alone
    assert found.geounits == 800


def test_sizes_that_are_further_off_than_the_fit_have_a_larger_variance() -> None:
    """Numbers without any relation to the counts: small areas are as large as the others, and known to be."""
    rng = np.random.default_rng(6)
    parents, number = families(rng, 500, 5)
    x = rng.lognormal(4, 1, len(parents))
    gaps = Gaps.of(x + rng.normal(0, 10, len(x)), np.full(len(x), 100.0), shares_of(number, parents), number, parents)
    found = estimated(gaps)
    assert found.factors
    # Areas of 12 expected persons are as far off as their size of 100 would have it, and the fit alone has it else.
    (small,) = found.variances(np.array([12.0]), np.array([12.0]))
    rows = (number >= 8) & (number < 16)
    assert small == pytest.approx(float(gaps.squared[rows].mean()), rel=0.4)
    without = replace(found, factors=())
    assert without.variances(np.array([12.0]), np.array([12.0]))[0] < 0.6 * small


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e9])
def test_exact_numbers_in_proportion_leave_a_finite_spread(scale: float) -> None:
    """Invariants have no noise, and may follow the public number to the last person; areas may be empty."""
    parents = np.repeat(np.arange(20), 3)
    number = np.tile([1.0, 2.0, 3.0], 20)
    found = estimated(Gaps.of(scale * number, np.zeros(60), shares_of(number, parents), number, parents))
    assert found.tau2 == pytest.approx(spread.LEAST_TAU2)
    assert np.isfinite(found.variances(scale * number, number)).all()
    assert np.isfinite(found.used(found.variances(scale * number, number))).all()
