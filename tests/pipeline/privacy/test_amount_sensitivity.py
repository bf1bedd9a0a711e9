"""How far one record moves sums of amounts: by enumeration of all neighbours of small data sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.privacy.budget import MOVED, Framework, Neighbours, reach_between

#: A record: the cell that it is in, and the units that it counts.
Record = tuple[int, int]


def sums(records: tuple[Record, ...], cells: int) -> list[int]:
    out = [0] * cells
    for cell, units in records:
        out[cell] += units
    return out


def neighbours_of(records: tuple[Record, ...], every: list[Record], kind: Neighbours) -> Iterator[tuple[Record, ...]]:
    for place in range(len(records)):
        others = records[:place] + records[place + 1 :]
        if kind == "add-remove":
            yield others
        else:
            yield from ((*others, record) for record in every)


def furthest(records: tuple[Record, ...], low: int, high: int, cells: int, kind: Neighbours) -> tuple[int, int]:
    """The largest L1 and squared L2 distance of the sums of a data set from those of all of its neighbours."""
    every = [(cell, units) for cell in range(cells) for units in range(low, high + 1)]
    own = sums(records, cells)
    moves = [
        [a - b for a, b in zip(own, sums(other, cells), strict=True)] for other in neighbours_of(records, every, kind)
    ]
    return max(sum(map(abs, move)) for move in moves), max(sum(x * x for x in move) for move in moves)


@given(
    ends=st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(sorted).filter(lambda ends: ends[0] < ends[1]),
    cells=st.integers(2, 3),
    kind=st.sampled_from(("change-one", "add-remove")),
    data=st.data(),
)
def test_no_neighbour_of_any_data_set_is_further_than_the_reach(
    ends: list[int], cells: int, kind: Neighbours, data: st.DataObject
) -> None:
    low, high = ends
    record = st.tuples(st.integers(0, cells - 1), st.integers(low, high))
    records = tuple(data.draw(st.lists(record, min_size=1, max_size=4)))
    reach = reach_between(low, high, kind)
    absolute, squared = furthest(records, low, high, cells, kind)
    assert absolute <= MOVED[kind] * reach
    assert squared <= MOVED[kind] * reach**2


@pytest.mark.parametrize("kind", ["change-one", "add-remove"])
@pytest.mark.parametrize("ends", [(0, 5), (2, 5), (-5, 0), (-3, 5), (-5, 5)])
def test_the_reach_is_the_least_whole_one(ends: tuple[int, int], kind: Neighbours) -> None:
    """The power arm: one less is broken by a neighbour of a data set of one record."""
    low, high = ends
    found = [furthest((one,), low, high, 2, kind) for one in itertools.product((0, 1), range(low, high + 1))]
    less = reach_between(low, high, kind) - 1
    worst = max(absolute for absolute, _ in found), max(squared for _, squared in found)
    assert worst[0] > MOVED[kind] * less or worst[1] > MOVED[kind] * less**2


@pytest.mark.parametrize("high", [1, 7, 600])
def test_amounts_from_0_on_have_the_sensitivity_of_the_upper_end_exactly(high: int) -> None:
    for low in (0, high - 1):
        assert reach_between(low, high, "change-one") == reach_between(low, high, "add-remove") == high


@pytest.mark.parametrize(("framework", "power"), [("zcdp", 2), ("pure", 1)])
def test_the_noise_of_a_companion_costs_its_budget_for_such_a_record(framework: Framework, power: int) -> None:
    from pipeline.privacy.accounting.mechanisms import mechanism
    from pipeline.privacy.budget import budget_of_one, noise_for

    for kind in ("change-one", "add-remove"):
        budget, reach = Fraction(3, 10), reach_between(0, 120, kind)
        noise = noise_for(framework, budget_of_one(framework, budget, reach), Fraction(1), Fraction(1), kind)
        use = mechanism(noise.mechanism, noise.scale)
        one = use.rho(MOVED[kind]) if framework == "zcdp" else use.epsilon(MOVED[kind])
        assert one is not None
        assert one * reach**power == budget
