"""The constrained least squares stated for SCS: a second solver's opinion on a family, without what cvxpy takes.

`cvxpy_reference` states the same problem for the same solver; to import cvxpy and to compile a problem takes longer
than a small release. Where SCS does not reach its tolerance cvxpy is asked, which has other solvers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import FloatArray
from postprocess.families.cvxpy_reference import FEASIBILITY, SOLVERS, numbers_of, solve_with_cvxpy
from postprocess.families.family import Family, Solution, violation


def solve_again(family: Family) -> Solution:
    """The solution of a family by SCS, else by cvxpy.

    Raises:
        SolverError: no solver reached its tolerance; the message names the parent.
    """
    import scs

    values, origin, far = numbers_of(family)
    shape = origin.shape
    roots = [values[f"root{i}"] for i in range(1 if family.shared else family.n_children)]
    precision = [root.T @ root for root in roots]
    quadratic = sp.block_diag(precision * (shape[0] if family.shared else 1), format="csc")
    linear = np.stack([root.T @ target for root, target in zip(_each(roots, shape[0]), values["target"], strict=True)])
    equalities, inequalities = (_stacked(rows, origin.size) for rows in (_equal(values, shape), _at_most(values)))
    _, options = SOLVERS[0]
    solver = scs.SCS(
        {
            "P": sp.csc_matrix(sp.triu(quadratic, format="csc")),
            "A": sp.csc_matrix(sp.vstack([equalities[0], inequalities[0]], format="csc")),
            "b": np.concatenate([equalities[1], inequalities[1]]),
            "c": -linear.ravel(),
        },
        {"z": len(equalities[1]), "l": len(inequalities[1])},
        verbose=False,
        **options,
    )
    result = solver.solve(warm_start=False)
    x = origin + result["x"].reshape(shape)
    if result["info"]["status"] == "solved" and np.abs(result["x"]).max(initial=0.0) < 0.5 * far:
        worst = violation(family, x)
        if worst <= FEASIBILITY:
            return Solution(x, "SCS", int(result["info"]["iter"]), worst, 0.0)
    return solve_with_cvxpy(family, once=True)


def _each(roots: list[FloatArray], n: int) -> list[FloatArray]:
    return roots * n if len(roots) == 1 else roots


_Rows = Iterator[tuple[sp.sparray, FloatArray]]


def _equal(values: dict[str, FloatArray], shape: tuple[int, int]) -> _Rows:
    """Rows and right-hand sides of the sums that are fixed."""
    n, cells = shape
    if "parent" in values:
        yield sp.kron(np.ones((1, n)), sp.eye_array(cells)), values["parent"]
    if "held" in values:
        yield sp.kron(sp.eye_array(n), values["held_matrix"].T), values["held"].ravel()


def _at_most(values: dict[str, FloatArray]) -> _Rows:
    """Rows and right-hand sides of the limits of cells, then of sums."""
    n, k = values["lower"].shape
    cells = sp.eye_array(n * k, format="csr")
    yield from ((-cells, -values["lower"].ravel()), (cells, values["upper"].ravel()))
    if "groups" in values:
        sums = sp.csr_array(sp.kron(sp.eye_array(n), values["groups"].T))
        yield from ((-sums, -values["lower_groups"].ravel()), (sums, values["upper_groups"].ravel()))


def _stacked(parts: _Rows, n: int) -> tuple[sp.sparray, FloatArray]:
    rows, right = [sp.csr_array((0, n))], [np.zeros(0)]
    for part, side in parts:
        rows.append(sp.csr_array(part))
        right.append(side)
    return sp.vstack(rows, format="csr"), np.concatenate(right)
