"""Noise over periods: keyed, none drawn twice, with the stated covariance; and one period is a usual measurement."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracles.dense import subtree_gls
from oracles.random_problems import random_problem

from features.years.confidential import Place, draw, measured, stream_key
from features.years.design import Design, independent, square_root
from features.years.noise import mixed, period_noise, truths_again, unmixed
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


def place(period: int, design: Design = DESIGN, name: str = "padron", before: str = "0a") -> Place:
    return Place(name, period, before if period else "first", design)


def series(truths: list[Ints], design: Design = DESIGN) -> tuple[list[Ints], list[Ints]]:
    """What is published in each period, and the z that were drawn."""
    noise = [period_noise(design, RHO, period) for period in range(len(truths))]
    keys = [stream_key(KEY, place(period, design), CONTEXT, "leaf", "q") for period in range(len(truths))]
    published = [measured(place(t, design), keys[t], noise[t], truths[: t + 1]) for t in range(len(truths))]
    return published, [draw(keys[t], noise[t], 0, truths[t].shape) for t in range(len(truths))]


def some_truths(n: int, periods: int = 4) -> list[Ints]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 5000, (n, 3)) for _ in range(periods)]


def test_published_numbers_are_mixed_truths_and_the_samplers_noise() -> None:
    """Recomputed in Python's whole numbers, one by one."""
    truths = some_truths(5)
    published, drawn = series(truths)
    spec = DESIGN.noise(RHO)
    for t, numbers in enumerate(published):
        words = sampler_for(spec).draw(stream_key(KEY, place(t), CONTEXT, "leaf", "q"), 0, 15).reshape(5, 3)
        assert np.array_equal(words, drawn[t])
        for g in range(5):
            for a in range(3):
                expected = sum(int(DESIGN.rows[t][s]) * int(truths[s][g, a]) for s in range(t + 1))
                assert int(numbers[g, a]) == expected + int(words[g, a])


def test_unmixed_is_the_truth_plus_the_inverse_times_the_noise() -> None:
    """By fractions; to far less than a person, though numbers are of the size of a country."""
    truths = [truth + 47_000_000 for truth in some_truths(4)]
    published, drawn = series(truths)
    exact: list[list[Fraction]] = []
    flat = [np.array(numbers).ravel().tolist() for numbers in drawn]
    for t, row in enumerate(DESIGN.rows):
        exact.append(
            [(Fraction(z) - sum(row[s] * exact[s][i] for s in range(t))) / row[t] for i, z in enumerate(flat[t])]
        )
    for truth, numbers, noise in zip(truths, unmixed(DESIGN, published), exact, strict=True):
        assert np.abs(numbers.ravel() - truth.ravel() - np.array([float(one) for one in noise])).max() < 1e-6


@pytest.mark.parametrize("wrong", [False, True])
def test_unmixed_noise_has_the_stated_covariance(wrong: bool) -> None:
    """Of 60,000 answers, within 4 standard errors; not that of z reused over the periods, which the same test finds."""
    truths = [np.zeros((20_000, 3), dtype=np.int64)] * 4
    published, drawn = series(truths)
    if wrong:
        published = [mixed(DESIGN, truths[: t + 1], drawn[0]) for t in range(4)]
    numbers = np.array(unmixed(DESIGN, published)).reshape(4, -1)
    stated = DESIGN.noise(RHO).variance * DESIGN.covariance
    spread = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / numbers.shape[1])
    off = np.abs(numbers @ numbers.T / numbers.shape[1] - stated) / spread
    assert (off.max() > 4) == wrong
    for t in range(4):
        assert period_noise(DESIGN, RHO, t).variance == pytest.approx(float(stated[t, t]))


def test_a_period_needs_no_later_one_and_no_earlier_records() -> None:
    """Its numbers are the same whatever comes later; earlier truths follow from public numbers and the key."""
    truths = some_truths(7)
    published, drawn = series(truths)
    assert all(np.array_equal(a, b) for a, b in zip(series(truths[:3])[0], published[:3], strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(truths_again(DESIGN, published, drawn), truths, strict=True))


def test_numbers_of_another_design_or_key_are_noticed() -> None:
    published, drawn = series(some_truths(50))
    with pytest.raises(ReleaseError, match="period 2 of a series: its numbers were not mixed by this design"):
        truths_again(square_root(4, 2, "change-one"), published, drawn)
    with pytest.raises(ReleaseError, match="period 1 of a series"):
        truths_again(DESIGN, published, [drawn[1], *drawn[1:]])


def test_no_two_places_share_a_stream() -> None:
    """Series, period, predecessor, design, records, spine, spec, level and query, each by itself."""
    other = replace(DESIGN, rows=(*DESIGN.rows[:3], (1, 2, -32, 72)))
    keys = [
        stream_key(KEY, place(2), CONTEXT, "leaf", "q"),
        stream_key(KEY, place(2, name="other"), CONTEXT, "leaf", "q"),
        stream_key(KEY, place(1), CONTEXT, "leaf", "q"),
        stream_key(KEY, place(2, before="0b"), CONTEXT, "leaf", "q"),
        stream_key(KEY, place(2, other), CONTEXT, "leaf", "q"),
        stream_key(KEY, place(2, replace(DESIGN, spells=1)), CONTEXT, "leaf", "q"),
        *(stream_key(KEY, place(2), (*CONTEXT[:i], "x", *CONTEXT[i + 1 :]), "leaf", "q") for i in range(3)),
        stream_key(KEY, place(2), CONTEXT, "top", "q"),
        stream_key(KEY, place(2), CONTEXT, "leaf", "r"),
        KEY.stream_key(CONTEXT, "leaf", "q"),
        stream_key(MasterKey.from_text("insecure-test:39"), place(2), CONTEXT, "leaf", "q"),
    ]
    assert len(set(keys)) == len(keys)
    assert stream_key(KEY, place(2), CONTEXT, "leaf", "q") == keys[0]


def test_batches_do_not_matter() -> None:
    truths = some_truths(9)
    noise, stream = period_noise(DESIGN, RHO, 3), stream_key(KEY, place(3), CONTEXT, "leaf", "q")
    whole = measured(place(3), stream, noise, truths)
    parts = [
        measured(place(3), stream, noise, [truth[first : first + 4] for truth in truths], first) for first in (0, 4, 8)
    ]
    assert np.array_equal(np.concatenate(parts), whole)


def test_one_period_is_a_usual_measurement() -> None:
    """T = 1: the numbers that are published are the truth and noise of the usual distribution, not multiplied."""
    design = independent(1, 2, "change-one")
    assert period_noise(design, RHO, 0).drawn == noise_for("zcdp", RHO, Fraction(1), Fraction(1), "change-one")
    truths = some_truths(4, 1)
    published, drawn = series(truths, design)
    assert np.array_equal(published[0], truths[0] + drawn[0])
    assert np.array_equal(unmixed(design, published)[0], published[0])


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
            published = []
            for t in range(3):
                stream = stream_key(KEY, place(t), CONTEXT, str(level), str(number))
                published.append(measured(place(t), stream, period_noise(DESIGN, rho, t), truths[: t + 1]))
            values = unmixed(DESIGN, published)[2]
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
    with pytest.raises(ValueError, match="as many truths"):
        measured(place(3), bytes(32), period_noise(DESIGN, RHO, 3), truths[:2])
    with pytest.raises(ValueError, match="empty fingerprint"):
        stream_key(KEY, place(1), ("", "spine"), "leaf", "q")
    with pytest.raises(ValueError, match="place in a series"):
        place(1, before="")
