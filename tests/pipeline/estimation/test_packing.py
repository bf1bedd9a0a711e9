"""Results that wait as arrays come back as they were, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.estimation.margins import packed_errors, unpacked_errors
from pipeline.estimation.packing import packed_level, packed_top, unpacked_level, unpacked_top
from postprocess.arrays import Arrays
from postprocess.downward.report import SolverReport
from postprocess.downward.simulated_margins import ErrorCounts
from postprocess.downward.sized_errors import SizedErrors
from postprocess.linear.information import Information
from postprocess.linear.upward import ChildrenSum, LevelEstimate


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def plain(arrays: Arrays) -> None:
    """Nothing but arrays of numbers, which a file holds without pickling."""
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())


def test_a_level_and_what_the_solvers_did() -> None:
    counts = sp.csr_array(np.array([[0, 3, 0], [2, 0, 0], [0, 0, 0]], dtype=np.int64))
    report = SolverReport(7, {"batched": 6, "cvxpy": 1}, 40, 0.1 + 0.2, 1e-300, 2, 1 / 3)
    arrays = packed_level((counts, report))
    plain(arrays)
    again, told = unpacked_level(arrays)
    assert np.array_equal(again.toarray(), counts.toarray())
    assert again.dtype == np.int64
    assert told == report


def sized(places: list[int], times: list[int]) -> SizedErrors:
    return SizedErrors(np.array(places, dtype=np.int64), np.array(times, dtype=np.int64))


def test_errors_table_by_table() -> None:
    errors = [
        ErrorCounts(sized([7, 9], [1, 5]), sized([2], [3]), sized([0, 1, 2], [6, 5, 4]), 4),
        ErrorCounts(SizedErrors.none(), sized([1 << 40], [1 << 50]), SizedErrors.none(), 1),
    ]
    arrays = packed_errors(errors)
    plain(arrays)
    again = unpacked_errors(arrays)
    assert len(again) == 2
    for before, after in zip(errors, again, strict=True):
        for name in ("by_truth", "by_release", "large"):
            assert np.array_equal(getattr(after, name).places, getattr(before, name).places)
            assert np.array_equal(getattr(after, name).times, getattr(before, name).times)
        assert after.unit == before.unit


@pytest.mark.parametrize("bare", [True, False])
def test_an_estimate_at_a_cut_with_and_without_what_is_below(bare: bool) -> None:
    info = Information(*(numbers(2, 1, 3, 3) + place for place in range(4)))
    estimate = LevelEstimate(
        classes=np.array([0, 1, 0]),
        own=numbers(1, 3, 3),
        info=info,
        fixed=None if bare else numbers(3, 6),
        children=None if bare else ChildrenSum(numbers(3, 6), numbers(3, 1, 3, 3), numbers(3, 6) + 1),
    )
    arrays = packed_top(estimate)
    plain(arrays)
    again = unpacked_top(arrays)
    assert (again.fixed is None, again.children is None) == (bare, bare)
    pairs: list[tuple[Any, Any]] = [(again.classes, estimate.classes), (again.own, estimate.own)]
    pairs += [(getattr(again.info, name), getattr(info, name)) for name in ("precision", "known", "unmeasured")]
    pairs += [(again.info.covariance, info.covariance)]
    if estimate.children is not None and again.children is not None and estimate.fixed is not None:
        pairs += [(again.fixed, estimate.fixed)]
        pairs += [(getattr(again.children, n), getattr(estimate.children, n)) for n in ("mean", "precision", "term")]
    assert all(np.array_equal(after, before) for after, before in pairs)
