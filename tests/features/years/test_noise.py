"""Numbers of periods as a run measures them: mixed truths and keyed noise, with the stated covariance."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.dense import subtree_gls
from oracles.random_problems import random_problem
from oracles.series_numbers import errors_of, mixed, square_root

from features.years.design import Design, independent, mixed_again, triangular, unmixed
from features.years.series import counts_variance
from geography.errors import InputError
from pipeline.privacy.budget import noise_for
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.linear.upward import basis_of, estimates_of, upward_pass

DESIGN = Design(((64,), (-30, 70), (3, -33, 71), (0, 2, -32, 72)), 2, "change-one")
RHO = Fraction(1, 3)
KEY = MasterKey.from_text("insecure-test:38")
Ints = NDArray[np.int64]


class Measured(Protocol):
    """See `conftest.MeasuredPeriod`."""

    read: Any
    noise: Ints

    @property
    def values(self) -> Ints: ...


class Measuring(Protocol):
    """See `conftest.measured_periods`."""

    def __call__(self, design: Design, rho: Fraction, truths: list[Ints], name: str = ...) -> list[Measured]: ...


def same_stream(*_: Any) -> bytes:
    """In place of `MasterKey.stream_key`, a planted fault: every period draws the same noise."""
    return bytes(32)


def some_truths(n: int, periods: int = 4, more: int = 0) -> list[Ints]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 5000, (n, 3)) + more for _ in range(periods)]


def test_published_numbers_are_mixed_truths_and_noise_less_what_is_known(measured_periods: Measuring) -> None:
    """Number by number, by Python's; y_s = v_s / L_ss are the counts of the periods before."""
    truths = some_truths(5)
    periods = measured_periods(DESIGN, RHO, truths)
    for t, one in enumerate(periods):
        for place in np.ndindex(5, 3):
            w = sum(DESIGN.rows[t][s] * int(truths[s][place]) for s in range(t + 1)) + int(one.noise[place])
            known = sum(DESIGN.rows[t][s] * (int(periods[s].values[place]) / DESIGN.rows[s][s]) for s in range(t))
            assert int(one.values[place]) == w - round(known)


def test_each_period_stands_alone_and_the_mixed_numbers_follow(measured_periods: Measuring) -> None:
    """v_t / L_tt is y_t, the truth and L^-1 z, but for half a number that is rounded; w follows from v, exactly."""
    truths = some_truths(6, more=47_000_000)
    periods = measured_periods(DESIGN, RHO, truths)
    numbers, noises = [one.values for one in periods], [one.noise for one in periods]
    mixtures = mixed_again(DESIGN, numbers)
    assert all(np.array_equal(w, mixed(DESIGN.rows, truths[: t + 1], noises[t])) for t, w in enumerate(mixtures))
    errors = errors_of(DESIGN.rows, noises)
    for row, v, y, truth, error in zip(DESIGN.rows, numbers, unmixed(DESIGN, mixtures), truths, errors, strict=True):
        assert np.abs(v / row[-1] - y).max() < 0.5 / row[-1] * 1.6
        assert np.abs(y.ravel() - truth.ravel() - np.array([float(one) for one in error])).max() < 1e-6


@pytest.mark.parametrize("wrong", [False, True])
def test_unmixed_noise_has_the_stated_covariance(
    measured_periods: Measuring, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60,000 answers, within 4 standard errors; not where z is used again in the next period, a planted fault."""
    if wrong:
        monkeypatch.setattr(MasterKey, "stream_key", same_stream)
    periods = measured_periods(DESIGN, RHO, [np.zeros((20_000, 3), dtype=np.int64)] * 4)
    numbers = np.array(unmixed(DESIGN, mixed_again(DESIGN, [one.values for one in periods]))).reshape(4, -1)
    stated = DESIGN.noise(RHO).variance * DESIGN.covariance
    spread = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / numbers.shape[1])
    off = np.abs(numbers @ numbers.T / numbers.shape[1] - stated) / spread
    assert (off.max() > 4) == wrong
    for t, one in enumerate(periods):
        assert one.read.variance == pytest.approx(float(stated[t, t]))


def test_a_period_needs_no_later_one(measured_periods: Measuring) -> None:
    """Its numbers are the same whatever comes later, and no two periods have the same noise."""
    truths = some_truths(40)
    whole = measured_periods(DESIGN, RHO, truths, "all")
    first = measured_periods(DESIGN, RHO, truths[:3], "some")
    assert all(np.array_equal(a.values, b.values) for a, b in zip(first, whole[:3], strict=True))
    assert len({one.noise.tobytes() for one in whole}) == 4


def test_one_period_is_a_usual_measurement(measured_periods: Measuring) -> None:
    """T = 1: the numbers that are published are the truth and noise of the usual distribution, not multiplied."""
    design = independent(1, 2, "change-one")
    assert design.noise(RHO) == noise_for("zcdp", RHO, Fraction(1), Fraction(1), "change-one")
    truths = some_truths(4, 1)
    (one,) = measured_periods(design, RHO, truths)
    assert np.array_equal(one.values, truths[0] + one.noise)
    assert np.array_equal(unmixed(design, mixed_again(design, [one.values]))[0], one.values)


def test_the_estimator_takes_a_period_as_it_is() -> None:
    """A problem whose measurements are the unmixed numbers of the third period, with their variances: dense algebra."""
    problem, _ = random_problem(5, n_levels=3)
    rng = np.random.default_rng(6)
    levels = []
    for level, queries in enumerate(problem.measured):
        changed = []
        for number, query in enumerate(queries):
            truths = [rng.integers(0, 40, query.values.shape) for _ in range(3)]
            noise = DESIGN.noise(Fraction(1, 2 + level + number))
            drawn = [
                sampler_for(noise)
                .draw(KEY.stream_key(("records", "spine", str(t)), str(level), str(number)), 0, truths[t].size)
                .reshape(truths[t].shape)
                for t in range(3)
            ]
            values = unmixed(DESIGN, [mixed(DESIGN.rows, truths[: t + 1], drawn[t]) for t in range(3)])[2]
            variance = noise.variance * float(counts_variance(DESIGN.rows, 2))
            changed.append(replace(query, values=values, variance=variance, others=()))
        levels.append(tuple(changed))
    third = replace(problem, measured=tuple(levels), kinds=())
    basis = basis_of(third)
    for level, estimate in enumerate(upward_pass(third, basis)):
        rows = np.arange(len(estimate.classes))
        means = basis.unfold(estimates_of(third, basis, level, estimate, rows)[0])
        for i in rows.tolist():
            dense = subtree_gls(third, level, i)
            assert np.abs(dense.estimable @ (means[i] - dense.mean)).max() < 1e-8 * (1 + np.abs(dense.mean).max())


def test_numbers_of_more_periods_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="period 5 of a series: it has periods 1 to 4"):
        unmixed(DESIGN, some_truths(2, 5))


def test_numbers_of_another_design_are_others(measured_periods: Measuring) -> None:
    """The planted fault: A of another horizon unmixes to numbers far from the truth."""
    truths = some_truths(50)
    numbers = [one.values for one in measured_periods(DESIGN, RHO, truths)]
    far = []
    for design in (DESIGN, triangular(square_root(4), 2, "change-one")):
        counts = unmixed(design, mixed_again(design, numbers))
        far.append(max(float(np.abs(count - truth).mean()) for count, truth in zip(counts, truths, strict=True)))
    assert far[0] < 10 < 100 < far[1]
