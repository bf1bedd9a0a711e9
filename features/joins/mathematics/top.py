"""Households at the top of the spine that leave room for what is known exactly of the persons there.

Below the top the released households bound the persons, and nothing else does. At the top invariants of persons, such
as the population, meet them: there the least change of the households is looked for with which persons exist that keep
both (an integer programme, solved by HiGHS).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from features.joins.mathematics.bounds import stated_sets
from features.joins.mathematics.composition import Composition
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.bounds.set_bounds import UNBOUNDED
from postprocess.marginal import Marginal, join
from postprocess.problem import Constraints, GroupBounds

#: Members of a household that nothing limits, for the programme.
_MANY = 1e7


@dataclass(frozen=True, eq=False)
class TopLevel:
    """What is known exactly of one universe at the top: which cells are possible `(n_cells,)`, and bounds."""

    possible: BoolArray
    bounds: tuple[GroupBounds, ...]

    @classmethod
    def of(cls, constraints: Constraints) -> TopLevel:
        """Of constraints that were carried up the spine."""
        return cls(~constraints.structural_zeros, constraints.bounds[0])

    @property
    def binding(self) -> bool:
        """Whether there is any bound."""
        return any((bound.lower > 0).any() or (bound.upper < UNBOUNDED).any() for bound in self.bounds)


def fitting_households(
    composition: Composition, wanted: IntArray, row: int, households: TopLevel, persons: TopLevel
) -> IntArray | None:
    """The households `(n_cells,)` of a geounit nearest to those wanted for which persons exist; None where none do.

    Nearest is the least number of households more or fewer.

    Args:
        composition: of the joins.
        wanted: `(n_cells,)` whole numbers.
        row: of the geounit in the bounds.
        households: what is known of them.
        persons: what is known of them.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # slow to import, and rarely needed

    n = len(wanted)
    groups = join([composition.persons, *(bound.marginal for bound in persons.bounds)])
    exists = np.zeros(groups.size, dtype=bool)
    exists[groups.cell_answer[persons.possible]] = True
    n_unknowns = 2 * n + groups.size  # households, how far they are from those wanted, persons by group
    constraints = []

    def limit(
        of_households: FloatArray | None, of_persons: FloatArray | None, low: FloatArray, high: FloatArray
    ) -> None:
        height = len(low)
        blocks = [
            np.zeros((height, n)) if of_households is None else of_households,
            np.zeros((height, n)),
            np.zeros((height, groups.size)) if of_persons is None else of_persons,
        ]
        constraints.append(LinearConstraint(sp.csr_array(np.hstack(blocks)), low, high))

    identity = np.eye(n)
    for sign in (1.0, -1.0):
        matrix = np.hstack([-sign * identity, identity, np.zeros((n, groups.size))])
        constraints.append(LinearConstraint(sp.csr_array(matrix), -sign * wanted, np.inf))
    for bound in households.bounds:
        limit(_sums(bound.marginal, bound.marginal.cell_answer), None, *_ends(bound, row))
    for bound in persons.bounds:
        limit(None, _sums(bound.marginal, groups.answers_in(bound.marginal)), *_ends(bound, row))
    kinds, sets = composition.households.cell_answer, composition.sets
    others = composition.others
    for query, answer, block in stated_sets(composition):
        inside = (groups.answers_in(query) == answer).astype(np.float64)[None, :]
        lower, upper = sets.lower[kinds, block].astype(np.float64), sets.upper[kinds, block].astype(np.float64)
        limit(-np.maximum(lower, 0.0)[None, :], inside, np.zeros(1), np.full(1, np.inf))
        if not others and (upper < UNBOUNDED).any():
            # A kind without a limit lets the persons be as many as there are.
            limit(-np.where(upper < UNBOUNDED, upper, _MANY)[None, :], inside, np.full(1, -np.inf), np.zeros(1))
    upper_ends = np.concatenate(
        [np.where(households.possible, np.inf, 0.0), np.full(n, np.inf), np.where(exists, np.inf, 0.0)]
    )
    cost = np.concatenate([np.zeros(n), np.ones(n), np.zeros(groups.size)])
    whole = np.concatenate([np.ones(n), np.zeros(n), np.ones(groups.size)])
    result = milp(cost, integrality=whole, bounds=Bounds(np.zeros(n_unknowns), upper_ends), constraints=constraints)
    return None if result.x is None else np.rint(result.x[:n]).astype(np.int64)


def _sums(marginal: Marginal, answer: IntArray) -> FloatArray:
    """`(size, n)` zeros and ones: which entries each answer is the sum of."""
    return np.asarray(answer[None, :] == np.arange(marginal.size)[:, None], dtype=np.float64)


def _ends(bound: GroupBounds, row: int) -> tuple[FloatArray, FloatArray]:
    upper = bound.upper[row].astype(np.float64)
    return bound.lower[row].astype(np.float64), np.where(upper >= UNBOUNDED, np.inf, upper)


def fitted(
    composition: Composition, released: sp.csr_array, households: TopLevel, persons: TopLevel
) -> tuple[sp.csr_array, Sequence[int]]:
    """The households of the top level, changed where no persons could keep what is known of them.

    Returns:
        The histograms `(n, n_cells)`, and the rows for which none are found.
    """
    if not persons.binding:
        return released, []
    dense, missing = released.toarray(), []
    for row in range(len(dense)):
        found = fitting_households(composition, dense[row], row, households, persons)
        if found is None:
            missing.append(row)
        else:
            dense[row] = found
    return sp.csr_array(dense), missing
