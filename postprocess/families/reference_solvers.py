"""The constrained least squares stated in cvxpy: the reference that every faster path must equal.

The same numbers are given to SCS itself: a second solver's opinion on a family, without what cvxpy takes, whose import
takes longer than a small release. Where SCS does not reach its tolerance cvxpy is asked, which has other solvers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import FloatArray, largest_of
from postprocess.errors import SolverError
from postprocess.families.family import Family, Solution, violation

#: Eigenvalues of a precision below this, relative to the largest, count as zero.
SINGULAR = 1e-12
#: Persons: a solution that breaks a constraint by more is refused.
FEASIBILITY = 1e-5
#: Solvers in the order they are tried: first-order to 1e-9, then interior point.
SOLVERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 50_000}),
    ("CLARABEL", {"max_threads": 1, "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}),
    ("SCS", {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 500_000, "acceleration_lookback": 0}),
)


@dataclass(frozen=True, eq=False)
class StatedFamily:
    """A family as differences to an origin near the solution, one unknown for each cell of each child.

        minimise 1/2 |root x - target|^2   subject to   equal x = equals,   most x <= at_most

    Solvers lose digits to huge numbers: a count of millions is a difference of a few persons from there. The objective
    is scaled so that the precision's median diagonal is one.

    Attributes:
        origin: `(C, k)`.
        far: a bound on the differences, in place of limits that are none, that no solution comes near.
    """

    root: sp.csc_array
    target: FloatArray
    equal: sp.csc_array
    equals: FloatArray
    most: sp.csc_array
    at_most: FloatArray
    origin: FloatArray
    far: float

    @classmethod
    def of(cls, family: Family) -> StatedFamily:
        """The numbers of a family."""
        n, k = family.linear.shape
        roots = _roots(family.matrices / family.scale)[family.kinds]
        centre = _centre(family)[:, :, 0]
        origin = np.clip(np.rint(centre), 0.0, family.upper)
        cells = sp.eye_array(n * k, format="csr")
        equal, equals, limits = [sp.csr_array((0, n * k))], [np.zeros(0)], [np.abs(centre - origin).sum()]
        if family.parent is not None:
            equal.append(sp.csr_array(sp.kron(np.ones((1, n)), sp.eye_array(k))))
            equals.append(family.parent - origin.sum(axis=0))
        if family.held is not None:
            equal.append(sp.csr_array(sp.kron(sp.eye_array(n), family.held.matrix.T)))
            equals.append((family.held.lower - origin @ family.held.matrix).ravel())
        limits += [np.abs(side).sum() for side in equals]
        groups, lower, upper = family.side_by_side()
        sums = origin @ groups
        limits += [np.maximum(lower - sums, 0.0).sum(), np.maximum(sums - upper, 0.0).sum()]
        far = float(1000.0 * (1.0 + max(limits)))
        in_sums = sp.csr_array(sp.kron(sp.eye_array(n), groups.T))
        at_most = (
            np.minimum(origin, far),
            np.minimum(family.upper - origin, far),
            np.minimum(sums - lower, far * k),
            np.minimum(upper - sums, far * k),
        )
        return cls(
            sp.csc_array(sp.block_diag(list(roots))),
            np.matmul(roots, (centre - origin)[:, :, None]).ravel(),
            sp.csc_array(sp.vstack(equal)),
            np.concatenate(equals),
            sp.csc_array(sp.vstack([-cells, cells, -in_sums, in_sums])),
            np.concatenate([side.ravel() for side in at_most]),
            origin,
            far,
        )

    def checked(self, family: Family, differences: FloatArray, solver: str, iterations: int) -> tuple[Solution, bool]:
        """The solution, and whether it keeps the constraints and is not far off."""
        x = self.origin + differences.reshape(self.origin.shape)
        worst = violation(family, x)
        near = worst <= FEASIBILITY and largest_of(differences) < 0.5 * self.far
        return Solution(x, solver, iterations, worst, 0.0), near


def _roots(precision: FloatArray) -> FloatArray:
    """Matrices R with R'R the precision, `(n_kinds, k, k)`."""
    if not _is_singular(precision):
        return np.swapaxes(np.linalg.cholesky(precision), 1, 2)
    values, vectors = np.linalg.eigh(precision)
    return np.sqrt(np.maximum(values, 0.0))[:, :, None] * np.swapaxes(vectors, 1, 2)


def _centre(family: Family) -> FloatArray:
    """A minimum without any constraint, `(C, k, 1)`; the shortest where there are several."""
    precision, linear = family.matrices[family.kinds], family.linear[:, :, None]
    if not _is_singular(family.matrices):
        return np.asarray(np.linalg.solve(precision, linear), dtype=np.float64)
    return np.asarray(np.linalg.pinv(precision, rcond=SINGULAR, hermitian=True) @ linear, dtype=np.float64)


def _is_singular(precision: FloatArray) -> bool:
    """Whether a direction has no precision, since other constraints of the family fix it."""
    values = np.linalg.eigvalsh(precision)
    return bool((values[:, 0] <= SINGULAR * values[:, -1]).any())


def solve_with_cvxpy(family: Family, *, first: int = 0) -> Solution:
    """Solve one family, with the next solver if one does not reach its tolerance.

    Args:
        family: the problem.
        first: the number in `SOLVERS` of the solver that is tried first.

    Raises:
        SolverError: none did; the message names the parent and the status of each solver.
    """
    import cvxpy as cp

    stated = StatedFamily.of(family)
    x = cp.Variable(stated.origin.size)
    constraints = [stated.most @ x <= stated.at_most]
    if len(stated.equals):
        constraints.append(stated.equal @ x == stated.equals)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(stated.root @ x - stated.target)), constraints)
    failures = []
    for solver, options in SOLVERS[first:]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(solver=solver, warm_start=False, **options)
        except cp.error.SolverError as error:
            failures.append(f"{solver}: {error}")
            continue
        if problem.status == cp.OPTIMAL and x.value is not None:
            iterations = int(problem.solver_stats.num_iters or 0)
            solution, near = stated.checked(family, np.asarray(x.value), f"cvxpy/{solver}", iterations)
            if near:
                return solution
            failures.append(
                f"{solver}: a constraint is off by {solution.primal:.1e} persons, allowed is {FEASIBILITY:.0e}"
            )
        else:
            failures.append(f"{solver}: {problem.status}")
    raise SolverError(
        f"{family.name}: the least-squares problem of its children was not solved ({'; '.join(failures)})"
    )


def solve_again(family: Family) -> Solution:
    """The solution of a family by SCS, else by cvxpy.

    Raises:
        SolverError: no solver reached its tolerance; the message names the parent.
    """
    import scs

    stated = StatedFamily.of(family)
    _, options = SOLVERS[0]
    solver = scs.SCS(
        {
            "P": sp.csc_matrix(sp.triu(stated.root.T @ stated.root, format="csc")),
            "A": sp.csc_matrix(sp.vstack([stated.equal, stated.most], format="csc")),
            "b": np.concatenate([stated.equals, stated.at_most]),
            "c": -(stated.root.T @ stated.target),
        },
        {"z": len(stated.equals), "l": len(stated.at_most)},
        verbose=False,
        **options,
    )
    result = solver.solve(warm_start=False)
    solution, near = stated.checked(family, result["x"], "SCS", int(result["info"]["iter"]))
    if result["info"]["status"] == "solved" and near:
        return solution
    return solve_with_cvxpy(family)
