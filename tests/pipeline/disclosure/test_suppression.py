"""Suppression: ranges are those of all whole numbers that the tables allow, found by trying them all."""

from itertools import product

import numpy as np
import pytest

from geography.spine import Level, Spine
from pipeline.disclosure import suppression
from pipeline.disclosure.suppression import SUPPRESSED, PublishedTable, Suppression, proven
from pipeline.errors import InputError
from postprocess.marginal import Marginal

TOWN = Spine(
    (
        Level("town", np.array(["t"]), np.array([-1])),
        Level("block", np.array(["t1", "t2"]), np.zeros(2, dtype=np.int64)),
    )
)
FIRST, SECOND, NONE = np.arange(2), np.arange(2), np.zeros(2, dtype=np.int64)
QUERIES = (
    Marginal("detail", (FIRST, SECOND)),
    Marginal("first", (FIRST, NONE)),
    Marginal("second", (NONE, SECOND)),
    Marginal("total", (NONE, NONE)),
)
METHOD = Suppression(4)
NO_KEYS = np.zeros(0, dtype=np.int64)


def published(leaves: np.ndarray, queries: tuple[Marginal, ...] = QUERIES) -> list[PublishedTable]:
    """What is published of true leaves `(2, 4)`: all tables at both levels."""
    return [
        PublishedTable(level, query, *METHOD.allowed(METHOD.publish(query.answer(counts), NO_KEYS)))
        for level, counts in enumerate([leaves.sum(axis=0, keepdims=True), leaves])
        for query in queries
    ]


def all_that_is_possible(tables: list[PublishedTable]) -> np.ndarray:
    """All leaves `(n, 2, 4)` with the published numbers."""
    found: list[list[np.ndarray]] = [[], []]
    for cells in product(range(6), repeat=4):
        for block in range(2):
            if all(_holds(table, block, np.array([cells])) for table in tables if table.level == 1):
                found[block].append(np.array(cells))
    towns = [np.stack(both) for both in product(*found)]
    above = [table for table in tables if table.level == 0]
    return np.stack([one for one in towns if all(_holds(table, 0, one.sum(axis=0)[None]) for table in above)])


def _holds(table: PublishedTable, row: int, cells: np.ndarray) -> bool:
    answer = table.query.answer(cells)[0]
    return bool(((table.least[row] <= answer) & (answer <= table.most[row])).all())


@pytest.mark.parametrize("large", [400, 0], ids=["decided", "only propagated"])
@pytest.mark.parametrize(
    ("names", "seed"), [((0, 3), 0), ((0, 3), 6), ((1, 2), 2), ((1, 2), 5), ((0,), 0), ((0, 1), 2)]
)
def test_ranges_are_those_of_all_numbers_that_the_tables_allow(
    names: tuple[int, ...], seed: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit they may be wider, and are counted; the estimate is one of the possible numbers either way."""
    monkeypatch.setattr(suppression, "_LARGE", large)
    leaves = np.random.default_rng(seed).integers(0, 4, (2, 4))
    tables = published(leaves, tuple(QUERIES[number] for number in names))
    possible, found = all_that_is_possible(tables), proven(TOWN, tables)
    assert len(possible) > 1
    assert (possible == found.leaves).all(axis=(1, 2)).any()
    n_open, n_wider = 0, 0
    for table in tables:
        counts = possible.sum(axis=1, keepdims=True) if table.level == 0 else possible
        answers = np.stack([table.query.answer(one) for one in counts])
        least, most = found.range_of(table.level, table.query)
        n_open += int((least < most).sum())
        n_wider += int(((least < answers.min(axis=0)) | (most > answers.max(axis=0))).sum())
        assert (least <= answers.min(axis=0)).all()
        assert (most >= answers.max(axis=0)).all()
    assert found.n_open == n_open
    assert n_wider <= found.n_undecided <= (0 if large else n_open)


def test_a_table_that_no_other_is_finer_than_at_a_level_is_told_apart_there_too() -> None:
    """Two tables that cross each other, without the one of both: what they tell apart is estimated as well."""
    leaves = np.array([[2, 5, 0, 1], [7, 1, 3, 0]])
    found = proven(TOWN, published(leaves, QUERIES[1:3]))
    assert found.leaves.shape == (2, 4)
    for query in QUERIES[1:3]:
        least, most = found.range_of(1, query)
        assert (least <= query.answer(leaves)).all()
        assert (query.answer(leaves) <= most).all()
        assert (least <= query.answer(found.leaves)).all()
        assert (query.answer(found.leaves) <= most).all()


def changed(tables: list[PublishedTable], level: int, query: str, places: tuple[int, int], number: int) -> None:
    """Another number in one place of a table."""
    table = next(one for one in tables if (one.level, one.query.name) == (level, query))
    table.least[places] = table.most[places] = number


def test_numbers_that_cannot_be_are_refused_with_their_areas() -> None:
    tables = published(np.array([[9, 5, 0, 1], [7, 1, 3, 0]]))
    changed(tables, 1, "total", (1, 0), 30)
    with pytest.raises(InputError, match=r"level 'block': .* contradict each other in 1 geounit: 't2'; in t2 a number"):
        proven(TOWN, tables)


def test_sums_that_only_no_whole_numbers_have_are_refused_with_their_areas() -> None:
    """Three numbers of which any two add up to 3: one and a half each."""
    groups = [np.array(group) for group in ([0, 0, 1], [0, 1, 0], [1, 0, 0])]
    one = Spine((Level("town", np.array(["t"]), np.array([-1])),))
    tables = []
    for number, group in enumerate(groups):
        query = Marginal(f"pair {number}", (group,))
        least, most = np.array([[3, 1]]), np.array([[3, 3]])
        tables.append(PublishedTable(0, query, least, most))
    with pytest.raises(InputError, match=r"of town 't' contradict each other: no whole numbers"):
        proven(one, tables)


def test_what_is_published_and_what_is_not() -> None:
    counts = np.arange(7)
    numbers = METHOD.publish(counts, NO_KEYS)
    assert numbers.tolist() == [0, SUPPRESSED, SUPPRESSED, SUPPRESSED, 4, 5, 6]
    least, most = METHOD.allowed(numbers)
    assert (least.tolist(), most.tolist()) == ([0, 1, 1, 1, 4, 5, 6], [0, 3, 3, 3, 4, 5, 6])
    assert METHOD.impossible(np.arange(-2, 5)).tolist() == [True, False, False, True, True, True, False]
