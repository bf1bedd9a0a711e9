"""Noise over periods: keyed, none drawn twice, with the stated covariance; and one period is a usual measurement."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracles.dense import subtree_gls
from oracles.random_problems import random_problem

from features.years.design import Design, independent, square_root
from features.years.noise import mixed, mixed_again, period_noise, published, truths_again, unmixed
from geography.errors import InputError
from pipeline.errors import ReleaseError
from pipeline.privacy.budget import noise_for
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from postprocess.linear.upward import basis_of, estimates_of, upward_pass

KEY = MasterKey.from_text("insecure-test:38")
CONTEXT = ("records", "spine", "spec")
DESIGN = Design(((64,), (-30, 70), (3, -33, 71), (0, 2, -32, 72)), 2, "change-one")
RHO = Fraction(1, 3)
Ints = np.ndarray


def draw(design: Design, period: int, shape: tuple[int, int], level: str = "leaf", query: str = "q") -> Ints:
    """z of a period, from a stream of its own."""
    stream = KEY.stream_key((*CONTEXT, str(period), str(design.rows)), level, query)
    return sampler_for(design.noise(RHO)).draw(stream, 0, shape[0] * shape[1]).reshape(shape)


def series(truths: list[Ints], design: Design = DESIGN) -> tuple[list[Ints], list[Ints]]:
    """The mixed numbers of each period, and the z that were drawn."""
    drawn = [draw(design, period, truth.shape) for period, truth in enumerate(truths)]
    return [mixed(design, truths[: t + 1], drawn[t]) for t in range(len(truths))], drawn


def some_truths(n: int, periods: int = 4) -> list[Ints]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 5000, (n, 3)) for _ in range(periods)]


def test_published_numbers_are_mixed_truths_and_the_samplers_noise() -> None:
    """Recomputed in Python's whole numbers, one by one."""
    truths = some_truths(5)
    mixtures, drawn = series(truths)
    for t, numbers in enumerate(mixtures):
        for g in range(5):
            for a in range(3):
                expected = sum(int(DESIGN.rows[t][s]) * int(truths[s][g, a]) for s in range(t + 1))
                assert int(numbers[g, a]) == expected + int(drawn[t][g, a])


def test_each_period_stands_alone_and_the_mixed_numbers_follow() -> None:
    """v_t / L_tt is y_t by forward substitution, but for half a number that is rounded; w follows from v."""
    mixtures, _ = series([truth + 47_000_000 for truth in some_truths(6)])
    alone = published(DESIGN, mixtures)
    assert all(np.array_equal(a, b) for a, b in zip(mixed_again(DESIGN, alone), mixtures, strict=True))
    for row, numbers, counts in zip(DESIGN.rows, alone, unmixed(DESIGN, mixtures), strict=True):
        assert np.abs(numbers / row[-1] - counts).max() < 0.5 / row[-1] * 1.6


def test_unmixed_is_the_truth_plus_the_inverse_times_the_noise() -> None:
    """By fractions; to far less than a person, though numbers are of the size of a country."""
    truths = [truth + 47_000_000 for truth in some_truths(4)]
    mixtures, drawn = series(truths)
    exact: list[list[Fraction]] = []
    flat = [np.array(numbers).ravel().tolist() for numbers in drawn]
    for t, row in enumerate(DESIGN.rows):
        exact.append(
            [(Fraction(z) - sum(row[s] * exact[s][i] for s in range(t))) / row[t] for i, z in enumerate(flat[t])]
        )
    for truth, numbers, noise in zip(truths, unmixed(DESIGN, mixtures), exact, strict=True):
        assert np.abs(numbers.ravel() - truth.ravel() - np.array([float(one) for one in noise])).max() < 1e-6


@pytest.mark.parametrize("wrong", [False, True])
def test_unmixed_noise_has_the_stated_covariance(wrong: bool) -> None:
    """Of 60,000 answers, within 4 standard errors; not that of z reused over the periods, which the same test finds."""
    truths = [np.zeros((20_000, 3), dtype=np.int64)] * 4
    mixtures, drawn = series(truths)
    if wrong:
        mixtures = [mixed(DESIGN, truths[: t + 1], drawn[0]) for t in range(4)]
    numbers = np.array(unmixed(DESIGN, mixtures)).reshape(4, -1)
    stated = DESIGN.noise(RHO).variance * DESIGN.covariance
    spread = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / numbers.shape[1])
    off = np.abs(numbers @ numbers.T / numbers.shape[1] - stated) / spread
    assert (off.max() > 4) == wrong
    for t in range(4):
        assert period_noise(DESIGN, RHO, t).variance == pytest.approx(float(stated[t, t]))


def test_a_period_needs_no_later_one_and_no_earlier_records() -> None:
    """Its numbers are the same whatever comes later; earlier truths follow from public numbers and the key."""
    truths = some_truths(7)
    mixtures, drawn = series(truths)
    assert all(np.array_equal(a, b) for a, b in zip(series(truths[:3])[0], mixtures[:3], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(truths_again(DESIGN, mixtures, drawn), truths, strict=True))


def test_numbers_of_another_design_or_key_are_noticed() -> None:
    mixtures, drawn = series(some_truths(50))
    with pytest.raises(ReleaseError, match="period 2 of a series: its numbers were not mixed by this design"):
        truths_again(square_root(4, 2, "change-one"), mixtures, drawn)
    with pytest.raises(ReleaseError, match="period 1 of a series"):
        truths_again(DESIGN, mixtures, [drawn[1], *drawn[1:]])


def test_one_period_is_a_usual_measurement() -> None:
    """T = 1: the numbers that are published are the truth and noise of the usual distribution, not multiplied."""
    design = independent(1, 2, "change-one")
    assert period_noise(design, RHO, 0).drawn == noise_for("zcdp", RHO, Fraction(1), Fraction(1), "change-one")
    truths = some_truths(4, 1)
    mixtures, drawn = series(truths, design)
    assert np.array_equal(mixtures[0], truths[0] + drawn[0])
    assert np.array_equal(unmixed(design, mixtures)[0], mixtures[0])


def test_the_estimator_takes_a_period_as_it_is() -> None:
    """A problem whose measurements are the unmixed numbers of the third period, with their variances: dense algebra."""
    problem, _ = random_problem(5, n_levels=3)
    rng = np.random.default_rng(6)
    levels = []
    for level, queries in enumerate(problem.measured):
        changed = []
        for number, query in enumerate(queries):
            truths = [rng.integers(0, 40, query.values.shape) for _ in range(3)]
            rho = Fraction(1, 2 + level + number)
            drawn = [draw(DESIGN, t, truths[t].shape, str(level), str(number)) for t in range(3)]
            values = unmixed(DESIGN, [mixed(DESIGN, truths[: t + 1], drawn[t]) for t in range(3)])[2]
            changed.append(replace(query, values=values, variance=period_noise(DESIGN, rho, 2).variance, others=()))
        levels.append(tuple(changed))
    third = replace(problem, measured=tuple(levels), kinds=())
    basis = basis_of(third)
    for level, estimate in enumerate(upward_pass(third, basis)):
        rows = np.arange(len(estimate.classes))
        means = basis.unfold(estimates_of(third, basis, level, estimate, rows)[0])
        for i in rows.tolist():
            dense = subtree_gls(third, level, i)
            assert np.abs(dense.estimable @ (means[i] - dense.mean)).max() < 1e-8 * (1 + np.abs(dense.mean).max())


def test_what_does_not_fit_is_refused() -> None:
    truths = some_truths(2, 4)
    with pytest.raises(InputError, match="period 5 of a series: it has periods 1 to 4"):
        mixed(DESIGN, [*truths, truths[0]], truths[0])
    with pytest.raises(InputError, match="too large to be mixed exactly"):
        mixed(DESIGN, [np.full((1, 1), 2**50)], np.zeros((1, 1), dtype=np.int64))
