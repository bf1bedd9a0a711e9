"""Wide areas at the top: the positive cells found in the block basis are those of the whole problem's solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.families import random_area

from postprocess.errors import SolverError
from postprocess.families import wide
from postprocess.families.family import objective, violation
from postprocess.families.reference_solvers import solve_with_cvxpy
from postprocess.families.solve import solve_families
from postprocess.families.wide import positive_cells

SHAPE = (4, 3, 9, 2)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), held=st.booleans(), ranges=st.booleans(), zeros=st.booleans())
def test_the_solution_is_that_of_all_cells(seed: int, held: bool, ranges: bool, zeros: bool) -> None:
    """On the positive cells it is cvxpy's on all possible ones, and meets the conditions of optimality in all."""
    area = random_area(seed, SHAPE, held=held, ranges=ranges, zeros=zeros)
    table = area.basis.pattern_table(area.blocks[None])
    cells, possible = positive_cells(area), np.flatnonzero(area.upper)
    (own,) = solve_families([area.on(cells, table)], "batched")
    x = np.zeros(len(area.linear))
    x[cells] = own.x[0]
    whole = area.on(possible, table)
    reference = solve_with_cvxpy(whole, once=True)
    assert violation(whole, x[None, possible]) < 1e-5
    assert np.abs(x[possible] - reference.x[0]).max() < 1e-3
    assert objective(whole, x[None, possible]) <= objective(whole, reference.x) + 1e-6 * np.abs(area.linear).max()
    if not area.sums:
        gradient = (whole.times(x[None, possible]) - whole.linear)[0] / np.diagonal(whole.matrices[0])
        assert np.abs(np.minimum(x[possible], gradient)).max() < 1e-5


def test_cells_that_the_first_guess_lacks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "MOST_MISSING", 10.0)
    area = random_area(3, SHAPE, held=False, ranges=False, zeros=False)
    cells = positive_cells(area)
    guess = np.zeros(len(area.linear))
    guess[cells[: -len(cells) // 5]] = 1.0
    monkeypatch.setattr(wide, "_iterates", lambda _: iter([guess]))
    assert np.array_equal(positive_cells(area), cells)
    monkeypatch.setattr(wide, "_proved", lambda *_: None)
    monkeypatch.setattr(wide, "TRY_AT", (2, 4))
    with pytest.raises(SolverError, match=r"area 3: .* in 4 iterations"):
        positive_cells(area)
