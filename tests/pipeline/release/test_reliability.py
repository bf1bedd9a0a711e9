"""A number is good for most uses, to be used with care, or not to be used on its own, by its margin."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline.release.reliability import CLASSES, classes_of, tenths


@pytest.mark.parametrize(
    ("count", "margin", "expected"),
    [
        (100, 10.0, "good"), (100, 10.05, "care"), (100, 50.0, "care"), (100, 50.01, "unreliable"),
        (0, 0.0, "unreliable"), (0, 1.0, "unreliable"), (5, 0.0, "care"), (10, 0.0, "good"),
        (7, math.nan, "unreliable"), (3, 0.3, "care"), (30, 3.0000000000000004, "good"),
    ],
)  # fmt: skip
def test_a_number_is_of_the_first_class_that_it_fits(count: int, margin: float, expected: str) -> None:
    found = classes_of(np.array([[count]]), tenths(np.array([[margin]])))
    assert CLASSES[int(found[0, 0])].key == expected


def test_a_zero_is_good_where_it_is_exact_alone() -> None:
    counts, margins = np.array([[0, 0]]), np.array([[0.0, 0.0]])
    found = classes_of(counts, tenths(margins, np.array([[True, False]])))
    assert [CLASSES[int(one)].key for one in found[0]] == ["good", "unreliable"]
