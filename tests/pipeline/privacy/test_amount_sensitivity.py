"""How far one record moves sums of amounts: every change of one record, enumerated; and the noise that it needs."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from pipeline.privacy.budget import MOVED, Framework, Neighbours, budget_of_one, reach_between
from pipeline.privacy.noise.mechanisms import mechanism, noise_for


@pytest.mark.parametrize("kind", ["change-one", "add-remove"])
@pytest.mark.parametrize("ends", [(0, 5), (4, 5), (0, 1), (2, 5), (-5, 0), (-3, 5), (-5, 5), (-1, 4)])
def test_the_reach_is_the_least_whole_one(ends: tuple[int, int], kind: Neighbours) -> None:
    """No record moves the sums of its cells further, and one less is broken by some record."""
    low, high = ends
    every = [units * np.eye(2, dtype=np.int64)[cell] for cell in range(2) for units in range(low, high + 1)]
    others = every if kind == "change-one" else [np.zeros(2, dtype=np.int64)]
    moves = [before - after for before, after in itertools.product(every, others)]
    absolute, squared = max(abs(move).sum() for move in moves), max((move**2).sum() for move in moves)
    reach, moved = reach_between(low, high, kind), MOVED[kind]
    assert absolute <= moved * reach
    assert squared <= moved * reach**2
    assert absolute > moved * (reach - 1) or squared > moved * (reach - 1) ** 2
    if low >= 0:
        assert reach == high


@pytest.mark.parametrize(("framework", "power"), [("zcdp", 2), ("pure", 1)])
@pytest.mark.parametrize("kind", ["change-one", "add-remove"])
def test_the_noise_of_a_companion_costs_its_budget_for_such_a_record(
    framework: Framework, power: int, kind: Neighbours
) -> None:
    budget, reach = Fraction(3, 10), reach_between(0, 120, kind)
    noise = noise_for(framework, budget_of_one(framework, budget, reach), Fraction(1), Fraction(1), kind)
    use = mechanism(noise.mechanism, noise.scale)
    one = use.rho(MOVED[kind]) if framework == "zcdp" else use.epsilon(MOVED[kind])
    assert one is not None
    assert one * reach**power == budget
