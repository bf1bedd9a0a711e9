"""How many spells the units of some records have, against a count person by person."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from features.years.confidential import spell_counts
from geography.errors import InputError


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_spells_are_those_of_each_unit(seed: int) -> None:
    """Units that come, go, move and come back, in records of any order."""
    rng = np.random.default_rng(seed)
    units, cells = [], []
    lives: dict[str, list[int]] = {f"p{i}": [-1] * 6 for i in range(200)}
    for period in range(6):
        here = rng.permutation(200)[: rng.integers(100, 200)]
        units.append(np.array([f"p{i}" for i in here]))
        cells.append(rng.integers(0, 3, len(here)))
        for i, cell in zip(here.tolist(), cells[-1].tolist(), strict=True):
            lives[f"p{i}"][period] = cell
    expected = Counter(
        sum(1 for t in range(6) if life[t] >= 0 and (t == 0 or life[t - 1] != life[t])) for life in lives.values()
    )
    found = spell_counts(units, cells)
    assert found[0] == 0
    assert {k: n for k, n in enumerate(found.tolist()) if n} == {k: n for k, n in expected.items() if k}


def test_a_unit_twice_in_a_period_is_refused() -> None:
    with pytest.raises(InputError, match="records of period 2 of a series: found unit '7' twice"):
        spell_counts([np.array([7]), np.array([8, 7, 7])], [np.array([0]), np.array([0, 1, 1])])


def test_no_records() -> None:
    assert spell_counts([np.array([], dtype=int)], [np.array([], dtype=int)]).sum() == 0
