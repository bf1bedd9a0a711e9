"""The spread of areas around their public shares: its noise is exact, and its estimate unbiased in simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from postprocess.arrays import FloatArray, IntArray
from postprocess.shares import spread
from postprocess.shares.spread import UNKNOWN, Gaps, estimated, moments


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


def test_families_that_are_not_measured_whole_say_nothing() -> None:
    parents = np.array([0, 0, 1, 1, 2])
    v = np.array([1.0, np.inf, 1.0, 1.0, 1.0])
    gaps = Gaps.of(np.arange(5.0), v, np.array([0.5, 0.5, 0.25, 0.75, 1.0]), np.ones(5), parents)
    assert gaps.share.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e9])
def test_exact_numbers_in_proportion_leave_a_finite_spread(scale: float) -> None:
    """Invariants have no noise, and may follow the public number to the last person; areas may be empty."""
    parents = np.repeat(np.arange(20), 3)
    number = np.tile([1.0, 2.0, 3.0], 20)
    found = estimated(Gaps.of(scale * number, np.zeros(60), shares_of(number, parents), number, parents))
    assert found.tau2 == pytest.approx(spread.LEAST_TAU2)
    assert np.isfinite(found.variances(scale * number, number)).all()
    assert np.isfinite(found.used(found.variances(scale * number, number))).all()
