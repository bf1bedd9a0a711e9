"""Which answers are drawn follows from the released parent alone, and a family's solution needs no others."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from postprocess.marginal import Marginal, detail_of
from postprocess.positive import PositiveAnswers, PositivePlaces

#: Two parents with three by two cells.
PARENTS = sp.csr_array(np.array([[0, 3, 0, 0, 1, 0], [2, 0, 0, 0, 0, 0]]))
BY_FIRST = Marginal("first", (np.arange(3), np.zeros(2, dtype=np.int64)))


def test_the_answers_that_are_positive_in_a_parent_are_drawn_of_its_children() -> None:
    places = PositivePlaces.of(PARENTS, BY_FIRST)
    assert places.starts.tolist() == [0, 2, 3]
    assert places.answers.tolist() == [0, 2, 0]
    below = places.below(np.array([0, 0, 1, 1]))
    assert below.starts.tolist() == [0, 2, 4, 5, 6]
    assert below.answers.tolist() == [0, 2, 0, 2, 0, 0]
    assert below.rows.tolist() == [0, 0, 1, 1, 2, 3]


def test_stored_zeros_are_not_positive_and_an_empty_parent_has_none() -> None:
    stored = sp.csr_array((np.array([0, 5]), np.array([1, 4]), np.array([0, 2, 2])), shape=(2, 6))
    places = PositivePlaces.of(stored, detail_of((3, 2))).below(np.array([1, 0]))
    assert places.starts.tolist() == [0, 0, 1]
    assert places.answers.tolist() == [4]


def test_values_are_looked_up_by_answer_and_those_not_drawn_are_zero() -> None:
    drawn = sp.csr_array((np.array([7, -2, 4]), np.array([0, 2, 1]), np.array([0, 2, 3])), shape=(2, 3))
    answers = PositiveAnswers(BY_FIRST, drawn, 2.0)
    assert answers.at(slice(0, 2), np.array([2, 2, 0, 1])).tolist() == [[-2, -2, 7, 0], [0, 0, 0, 4]]
    assert answers.of_rows(slice(1, 2)).at(slice(0, 1), np.array([1])).tolist() == [[4]]
