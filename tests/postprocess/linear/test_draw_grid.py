"""On the grid children add up exactly, known answers are whole persons, and nothing moves by more than a little."""

from __future__ import annotations

import numpy as np
import pytest

from postprocess.linear.draws import STEPS, UNKNOWN, at_top, persons, within_families


def family_case(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, children's answers, which are known, parents' answers, which parents' are known."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 7, 40))])
    n, size = int(offsets[-1]), 5
    known = rng.random((n, size)) < 0.3
    answers = rng.normal(30, 40, (n, size))
    answers = np.where(known, np.rint(answers), answers)
    above_known = np.logical_and.reduceat(known, offsets[:-1], axis=0)
    # Some parents are known although not all of their children are: the last child that is not makes up for it.
    forced = (rng.random(above_known.shape) < 0.3) & ~above_known
    for parent, answer in np.argwhere(forced):
        rows = slice(int(offsets[parent]), int(offsets[parent + 1]))
        last = int(np.flatnonzero(~known[rows, answer])[-1]) + rows.start
        answers[last, answer] += np.rint(answers[rows, answer].sum()) - answers[rows, answer].sum()
    return offsets, answers, known, np.add.reduceat(answers, offsets[:-1], axis=0), above_known | forced


@pytest.mark.parametrize("seed", range(20))
def test_families_add_up_and_known_answers_stay(seed: int) -> None:
    offsets, answers, known, above, above_known = family_case(seed)
    nothing = np.zeros_like(known)
    # A level between: its own rounding is what the children have to make up for.
    top = at_top(above + 1e-12, above_known)
    steps = within_families(answers + 1e-12, known, nothing, top, np.zeros_like(above_known), offsets)
    assert np.array_equal(np.add.reduceat(steps, offsets[:-1], axis=0), top)
    assert np.array_equal(persons(steps)[known], np.rint(answers)[known])
    assert np.array_equal(persons(top)[above_known], np.rint(above)[above_known])
    assert np.abs(steps / STEPS - answers).max() < 2.5 / STEPS


def test_an_only_child_is_its_parent() -> None:
    offsets = np.arange(4)
    top = np.array([[5], [-7], [1000]])
    answers = top / STEPS + 0.001
    false = np.zeros((3, 1), dtype=bool)
    assert np.array_equal(within_families(answers, false, false, top, false, offsets), top)


def test_a_family_with_an_unknown_answer_is_rounded_one_by_one() -> None:
    offsets = np.array([0, 2, 4])
    answers = np.array([[0.3], [0.4], [0.3], [0.4]])
    unknown = np.array([[True], [False], [False], [False]])
    false = np.zeros((4, 1), dtype=bool)
    top = np.array([[1000], [179]])
    steps = within_families(answers, false, unknown, top, false[:2], offsets)
    assert steps[:, 0].tolist()[:2] == [77, 102]
    assert steps[2:].sum() == 179
    assert np.isnan(persons(np.where(unknown, UNKNOWN, steps))).ravel().tolist() == [True, False, False, False]


def test_sums_of_persons_are_exact_in_floating_point() -> None:
    rng = np.random.default_rng(0)
    steps = rng.integers(-(10**6), 10**9, 100_000)
    numbers = persons(steps)
    assert numbers.sum() * STEPS == steps.sum()
