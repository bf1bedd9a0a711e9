"""Parents in classes have the sums of their own children; what rounding leaves of a precision says nothing."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from oracles.random_problems import level_sums, random_problem

from geography.spine import Level, Spine
from postprocess import algebra
from postprocess.linear import information as information_module
from postprocess.linear.downward import variances_of
from postprocess.linear.information import information
from postprocess.linear.upward import ChildGroups, basis_of, summed_over, upward_pass
from postprocess.marginal import Marginal
from postprocess.problem import Constraints, MeasuredAnswers, Problem


@pytest.mark.parametrize("counted", [True, False])
def test_the_sums_of_a_class_are_those_of_each_of_its_parents(counted: bool) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 4, 300)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    below, features = rng.integers(0, 3, offsets[-1]), rng.integers(0, 2, (300, 2))
    blocks = rng.normal(size=(3, 2, 4, 4))
    groups = ChildGroups.of(offsets, below, features, counted=counted)
    sums = summed_over(groups.children, blocks)
    for i in range(300):
        own = blocks[below[offsets[i] : offsets[i + 1]]].sum(axis=0)
        assert np.allclose(sums[groups.classes[i]], own, rtol=0, atol=1e-12)
        assert (features[i] == features[groups.first[groups.classes[i]]]).all()
    kinds = {
        (tuple(f), tuple(sorted(below[a:b])) if counted else tuple(below[a:b]))
        for f, a, b in zip(features.tolist(), offsets, offsets[1:], strict=False)
    }
    assert len(groups.first) == len(kinds) < 300


def years_of_age(districts: int) -> Problem:
    """A country of districts with 4 to 6 areas each; 91 single years, groups of five, the total."""
    rng = np.random.default_rng(3)
    children = rng.integers(4, 7, districts)
    areas = int(children.sum())
    levels = (
        Level("country", np.array(["c"]), np.array([-1])),
        Level("district", np.array([f"c{i:05d}" for i in range(districts)]), np.zeros(districts, dtype=np.int64)),
        Level("area", np.array([f"c{i:07d}" for i in range(areas)]), np.repeat(np.arange(districts), children)),
    )
    spine = Spine(levels)
    truth = level_sums(spine, rng.poisson(9, (areas, 91)))
    queries = [Marginal("total", (np.zeros(91, dtype=np.int64),)), Marginal("groups", (np.arange(91) // 5,))]
    queries.append(Marginal("detailed", (np.arange(91),)))
    measured = tuple(
        tuple(
            MeasuredAnswers(q, q.answer(counts) + np.rint(rng.normal(0, 3, (len(counts), q.size))).astype(int), 9.0)
            for q in queries
        )
        for counts in truth
    )
    return Problem(spine, (91,), measured, Constraints(np.zeros(91, dtype=bool), ((), (), ())), ())


def test_single_years_of_age_take_a_few_matrices_and_little_memory() -> None:
    problem = years_of_age(2000)
    basis = basis_of(problem)
    assert basis.n_asymmetric == 91
    tracemalloc.start()
    estimates = upward_pass(problem, basis)
    for level in variances_of(problem, estimates):
        assert len(level.covariance) <= 3
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [len(one.info.covariance) for one in estimates] == [1, 3, 1]
    # One matrix a district would take 132 MB, in each of a dozen arrays.
    assert peak < 150e6, f"{peak / 1e6:.0f} MB"


def turned(size: int, seed: int) -> np.ndarray:
    """A projector on a direction that no cell has alone."""
    direction = np.random.default_rng(seed).normal(size=size)
    direction /= np.linalg.norm(direction)
    return np.outer(direction, direction)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("size", [3, 40])
def test_all_that_is_measured_is_known(size: int, scale: float) -> None:
    """The rest is unmeasured, all of it, and no variance is found in what rounding left."""
    known = np.stack([turned(size, seed) for seed in range(200)])[:, None]
    found = information(scale * known, known, own_is_full=False)
    assert np.allclose(np.trace(found.unmeasured, axis1=-2, axis2=-1), size - 1)
    assert np.allclose(found.unmeasured, np.eye(size) - known, atol=1e-8)
    assert not np.abs(found.covariance).max() > 1e-9 / scale


@pytest.mark.parametrize("ratio", [1e-3, 1e-9, 1e-11])
def test_a_small_precision_beside_a_large_one_is_measured(ratio: float) -> None:
    """A known direction of great precision does not hide what little was spent on another."""
    known = np.diag([1.0, 0.0, 0.0])[None, None]
    found = information(np.diag([1.0, ratio, 0.0])[None, None], known, own_is_full=False)
    assert np.allclose(found.unmeasured[0, 0], np.diag([0.0, 0.0, 1.0]))
    assert np.isclose(found.covariance[0, 0, 1, 1], 1 / ratio)


def test_what_is_looked_up_or_inverted_at_a_time_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = random_problem(5, n_levels=4, zeros=True, invariants=True)
    whole = upward_pass(problem, basis_of(problem))
    for module in (algebra, information_module):
        monkeypatch.setattr(module, "CHUNK_NUMBERS", 1)
    for one, other in zip(whole, upward_pass(problem, basis_of(problem)), strict=True):
        assert np.array_equal(one.info.covariance, other.info.covariance)
        if one.children is not None:
            assert other.children is not None
            assert np.array_equal(one.children.term, other.children.term)
