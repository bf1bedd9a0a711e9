"""What the second program says of the losses that a series states: of spells that nobody can have, too."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from oracles.histories import farthest

from auditor.series import Series, distance_problems

ROWS = ((8,), (-2, 8), (1, -1, 8))


def _series(spells: int, *, times: Mapping[int, Fraction] | None = None) -> Series:
    matrix = np.zeros((3, 3), dtype=np.int64)
    for number, row in enumerate(ROWS):
        matrix[number, : number + 1] = row
    reaches = farthest(matrix.T @ matrix, "change-one")
    whole = reaches[min(spells, 3) - 1]
    losses = {k: Fraction(reaches[k - 1], whole) * (times or {}).get(k, 1) for k in (1, 2, 3)}
    return Series("padron", ("2031", "2032", "2033"), 0, "first", spells, Fraction(whole, 2), losses, ROWS)


@pytest.mark.parametrize("spells", [1, 2, 3, 4, 9])
def test_people_with_the_stated_spells_lose_the_budget(spells: int) -> None:
    """With more spells than periods: as many as there are periods."""
    assert distance_problems(_series(spells), 2) == []


@pytest.mark.parametrize("spells", [2, 3, 5])
def test_a_loss_that_is_not_the_budget_is_noticed(spells: int) -> None:
    found = distance_problems(_series(spells, times={min(spells, 3): Fraction(2)}), 2)
    assert f"people with {spells} spells do not lose the budget" in found
