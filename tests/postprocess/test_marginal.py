"""Queries as plain arrays, against sums and groupings written out cell by cell; their variances, by dense algebra."""

from __future__ import annotations

import itertools
import pickle
from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from postprocess import algebra
from postprocess.algebra import Basis
from postprocess.marginal import Marginal, answers_within, detail_of, join, refines
from postprocess.positive import PositiveAnswers, PositivePlaces

SHAPE = (2, 3, 2)
BY_FIRST = Marginal("first", (np.array([0, 1]), np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.int64)))
BY_PAIR = Marginal("pair", (np.zeros(2, dtype=np.int64), np.array([0, 1, 0]), np.zeros(2, dtype=np.int64)))
BY_OTHER_PAIR = Marginal("other", (np.zeros(2, dtype=np.int64), np.array([0, 0, 1]), np.zeros(2, dtype=np.int64)))
CROSSED = Marginal("crossed", (np.array([0, 1]), np.array([0, 1, 0]), np.zeros(2, dtype=np.int64)))
TOTAL = Marginal("total", tuple(np.zeros(n, dtype=np.int64) for n in SHAPE))


def answer_of(marginal: Marginal, cell: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(group[value]) for group, value in zip(marginal.groups, cell, strict=True))


def cells() -> list[tuple[int, ...]]:
    return list(product(*(range(n) for n in SHAPE)))


@pytest.mark.parametrize("marginal", [BY_FIRST, BY_PAIR, CROSSED, TOTAL, detail_of(SHAPE)])
def test_the_answer_of_a_cell_is_the_same_with_and_without_an_array_over_cells(
    marginal: Marginal, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = np.array([11, 0, 7, 7, 3])
    assert np.array_equal(marginal.answers_at(some), marginal.cell_answer[some])
    assert marginal.representative.tolist() == np.unique(marginal.cell_answer, return_index=True)[1].tolist()
    sent = pickle.loads(pickle.dumps(marginal))  # noqa: S301 - made here
    assert sent.__dict__.keys() == {"name", "groups", "answered"}
    monkeypatch.setattr("postprocess.marginal.MOST_AT_ONCE", 1)
    assert np.array_equal(sent.answers_at(some), marginal.cell_answer[some])
    assert "cell_answer" not in sent.__dict__


@pytest.mark.parametrize("marginal", [BY_FIRST, BY_PAIR, CROSSED, TOTAL, detail_of(SHAPE)])
def test_answers_are_sums_over_cells(marginal: Marginal) -> None:
    """Each answer is the sum of its cells, in C order of the groups."""
    histograms = np.arange(2 * 12, dtype=np.int64).reshape(2, 12) ** 2
    expected: list[defaultdict[tuple[int, ...], int]] = [defaultdict(int), defaultdict(int)]
    for row, sums in zip(histograms, expected, strict=True):
        for cell, count in zip(cells(), row, strict=True):
            sums[answer_of(marginal, cell)] += int(count)
    answers = marginal.answer(histograms)
    assert answers.dtype == np.int64
    assert answers.tolist() == [[sums[key] for key in sorted(sums)] for sums in expected]
    assert marginal.size == len(expected[0])


def test_refines_is_containment_of_answers() -> None:
    """One query refines another exactly where cells that share an answer of the first share one of the second."""
    queries = [BY_FIRST, BY_PAIR, BY_OTHER_PAIR, CROSSED, TOTAL, detail_of(SHAPE)]
    held = set()
    for fine, coarse in product(queries, repeat=2):
        together = [(answer_of(fine, cell), answer_of(coarse, cell)) for cell in cells()]
        expected = len(set(together)) == len({answer for answer, _ in together})
        assert refines(fine, coarse) == expected, (fine.name, coarse.name)
        for number in range(2**4):  # of some cells only
            possible = np.array([number >> (place % 4) & 1 == 0 for place in range(len(together))])
            kept = {pair for pair, one in zip(together, possible, strict=True) if one}
            assert refines(fine, coarse, possible) == (len(kept) == len({answer for answer, _ in kept}))
        held.add(expected)
    assert held == {True, False}


def test_join_tells_apart_what_any_query_does() -> None:
    """Two cells share an answer of the join exactly where they share one of every query that is joined."""
    for queries in ([BY_FIRST, BY_PAIR], [BY_PAIR, BY_OTHER_PAIR], [CROSSED], [TOTAL, BY_PAIR]):
        joined = join(queries)
        for first, second in product(cells(), repeat=2):
            same = all(answer_of(query, first) == answer_of(query, second) for query in queries)
            assert (answer_of(joined, first) == answer_of(joined, second)) == same
        assert joined.name == " & ".join(query.name for query in queries)


def test_answers_within_are_the_most_that_an_answer_is_the_sum_of() -> None:
    queries = [BY_FIRST, BY_PAIR, BY_OTHER_PAIR, CROSSED, TOTAL, detail_of(SHAPE)]
    for fine, coarse in product(queries, repeat=2):
        within = defaultdict(set)
        for cell in cells():
            within[answer_of(coarse, cell)].add(answer_of(fine, cell))
        expected = max(map(len, within.values())) if refines(fine, coarse) else 0
        assert answers_within(fine, coarse) == expected, (fine.name, coarse.name)


def marginal_of(shape: tuple[int, ...], rng: np.random.Generator) -> Marginal:
    """Each attribute kept whole, summed out or grouped."""
    groups = []
    for n in shape:
        kind = rng.integers(3)
        grouped = np.sort(rng.integers(0, max(1, n - 1), n))
        groups.append([np.arange(n), np.zeros(n), np.unique(grouped, return_inverse=True)[1]][kind].astype(np.int64))
    return Marginal("query", tuple(groups))


def dense_projector(basis: Basis, inside: tuple[bool, ...]) -> np.ndarray:
    """P_B of the module's docstring, on the symmetric attributes."""
    out = np.ones((1, 1))
    for n, is_inside in zip(basis.symmetric_shape, inside, strict=True):
        mean = np.full((n, n), 1 / n)
        out = np.kron(out, np.eye(n) - mean if is_inside else mean)
    return out


@pytest.mark.parametrize("seed", range(12))
def test_answers_and_their_variances_are_those_of_dense_algebra(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 5)))
    symmetric = tuple(j for j in range(len(shape)) if rng.random() < 0.7)
    basis = Basis(shape, symmetric)
    a = basis.n_asymmetric
    blocks = rng.standard_normal((2, basis.n_blocks, a, a))
    blocks = blocks @ blocks.transpose(0, 1, 3, 2)
    subsets = list(itertools.product((False, True), repeat=len(symmetric)))
    np.testing.assert_array_equal(basis.subsets, np.array(subsets, dtype=bool).reshape(len(subsets), len(symmetric)))
    dense = sum(np.kron(blocks[1, b], dense_projector(basis, inside)) for b, inside in enumerate(subsets))
    cells = basis.fold(np.eye(int(np.prod(shape)))).reshape(int(np.prod(shape)), -1)
    marginal = marginal_of(shape, rng)
    answers = np.zeros((marginal.size, len(cells)))
    for cell, codes in enumerate(itertools.product(*map(range, shape))):
        groups = [int(group[code]) for group, code in zip(marginal.groups, codes, strict=True)]
        answers[np.ravel_multi_index(groups, marginal.sizes), cell] = 1.0
    expected = np.diag(answers @ (cells @ dense @ cells.T) @ answers.T)
    np.testing.assert_allclose(basis.answer_variances(blocks, marginal)[1], expected, rtol=1e-9, atol=1e-12)
    histograms = rng.integers(0, 9, (3, len(cells))).astype(np.float64)
    outside = tuple(2 + j for j in np.flatnonzero(~basis.kept(marginal)))
    summed = basis.fold(histograms).sum(axis=outside, keepdims=True)
    np.testing.assert_allclose(basis.answers_in_order(marginal, summed), histograms @ answers.T, rtol=1e-12)


#: Two parents with three by two cells.
PARENTS = sp.csr_array(np.array([[0, 3, 0, 0, 1, 0], [2, 0, 0, 0, 0, 0]]))
OF_THREE = Marginal("first", (np.arange(3), np.zeros(2, dtype=np.int64)))


def test_the_answers_that_are_positive_in_a_parent_are_drawn_of_its_children() -> None:
    places = PositivePlaces.of(PARENTS, OF_THREE)
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
    answers = PositiveAnswers(OF_THREE, drawn, 2.0)
    assert answers.at(slice(0, 2), np.array([2, 2, 0, 1])).tolist() == [[-2, -2, 7, 0], [0, 0, 0, 4]]
    assert answers.of_rows(slice(1, 2)).at(slice(0, 1), np.array([1])).tolist() == [[4]]


def test_diagonals_of_large_blocks_are_those_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows, blocks = rng.normal(size=(7, 5)), rng.normal(size=(4, 3, 5, 5))
    expected = np.stack([[np.diag(rows @ one @ rows.T) for one in of_class] for of_class in blocks])
    for large in (0, 100):
        monkeypatch.setattr(algebra, "LARGE", large)
        np.testing.assert_allclose(algebra.diagonals(rows, blocks), expected, rtol=1e-11, atol=1e-12)
