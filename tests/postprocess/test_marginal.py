"""Queries as plain arrays, against sums and groupings written out cell by cell."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
import pytest

from postprocess.marginal import Marginal, answers_within, detail_of, join, refines

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


def test_detail_keeps_every_cell() -> None:
    """The detailed query has an answer for each cell, in the order of the cells."""
    assert detail_of(SHAPE).cell_answer.tolist() == list(range(12))


def test_answers_within_are_the_most_that_an_answer_is_the_sum_of() -> None:
    queries = [BY_FIRST, BY_PAIR, BY_OTHER_PAIR, CROSSED, TOTAL, detail_of(SHAPE)]
    for fine, coarse in product(queries, repeat=2):
        within = defaultdict(set)
        for cell in cells():
            within[answer_of(coarse, cell)].add(answer_of(fine, cell))
        expected = max(map(len, within.values())) if refines(fine, coarse) else 0
        assert answers_within(fine, coarse) == expected, (fine.name, coarse.name)
