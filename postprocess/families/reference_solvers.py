"""The constrained least squares stated in cvxpy: the reference that every faster path must equal.

The problem of one shape is stated and compiled once, with its data as parameters, and solved again with new numbers.

The same is stated for SCS: a second solver's opinion on a family, without what cvxpy takes. `solve_with_cvxpy` states
the same problem for the same solver; to import cvxpy and to compile a problem takes longer
than a small release. Where SCS does not reach its tolerance cvxpy is asked, which has other solvers.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import FloatArray, largest_of
from postprocess.errors import SolverError
from postprocess.families.family import Family, Solution, violation

if TYPE_CHECKING:
    import cvxpy as cp


from collections.abc import Iterator

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


def _state(data: Mapping[str, Any]) -> tuple[cp.Problem, cp.Variable]:
    """The problem over `data`, which are parameters or numbers."""
    import cvxpy as cp

    target = data["target"]
    x = cp.Variable(target.shape)
    if "root1" not in data:  # all share one
        fit = cp.sum_squares(x @ data["root0"].T - target)
    elif isinstance(target, np.ndarray):
        # With numbers one sum of squares is stated sooner than many; with parameters it would not be compiled once.
        root = sp.block_diag([data[f"root{i}"] for i in range(target.shape[0])], format="csr")
        fit = cp.sum_squares(root @ cp.vec(x, order="C") - target.ravel())
    else:
        fit = sum(cp.sum_squares(data[f"root{i}"] @ x[i] - target[i]) for i in range(target.shape[0]))
    constraints = [x >= data["lower"], x <= data["upper"]]
    if "parent" in data:
        constraints.append(cp.sum(x, axis=0) == data["parent"])
    if "held" in data:
        constraints.append(x @ data["held_matrix"] == data["held"])
    if "groups" in data:
        sums = x @ data["groups"]
        constraints += [sums >= data["lower_groups"], sums <= data["upper_groups"]]
    return cp.Problem(cp.Minimize(fit), constraints), x


@lru_cache(maxsize=64)
def _compiled(*sizes: tuple[str, tuple[int, ...]]) -> tuple[cp.Problem, cp.Variable, dict[str, cp.Parameter]]:
    """The problem of the data of these names and shapes, to be filled in."""
    import cvxpy as cp

    parameters = {name: cp.Parameter(size) for name, size in sizes}
    return *_state(parameters), parameters


def numbers_of(family: Family) -> tuple[dict[str, Any], FloatArray, float]:
    """The numbers of a family, as differences to an origin near the solution.

    Solvers lose digits to huge numbers: a count of millions is a difference of a few persons from there. The objective
    is scaled so that the precision's median diagonal is one.

    Returns:
        The numbers; the origin `(C, k)`; and a bound on the differences, in place of limits that are none, that no
        solution comes near.
    """
    scale = family.scale
    roots = _roots(family.matrices / scale)
    if not family.shared:
        roots = roots[family.kinds]
    centre = _centre(family)[:, :, 0]
    origin = np.clip(np.rint(centre), 0.0, family.upper)
    values: dict[str, Any] = {f"root{i}": root for i, root in enumerate(roots)}
    values["target"] = np.matmul(roots, (centre - origin)[:, :, None])[:, :, 0]
    limits = [np.abs(centre - origin).sum()]
    if family.parent is not None:
        values["parent"] = family.parent - origin.sum(axis=0)
        limits.append(np.abs(values["parent"]).sum())
    if family.held is not None:
        values["held_matrix"] = family.held.matrix
        values["held"] = family.held.lower - origin @ values["held_matrix"]
        limits.append(np.abs(values["held"]).sum())
    if family.ranges:
        values["groups"], lower, upper = family.side_by_side()
        sums = origin @ values["groups"]
        limits += [np.maximum(lower - sums, 0.0).sum(), np.maximum(sums - upper, 0.0).sum()]
        values["lower_groups"], values["upper_groups"] = lower - sums, upper - sums
    far = float(1000.0 * (1.0 + max(limits)))
    values["lower"], values["upper"] = np.maximum(-origin, -far), np.minimum(family.upper - origin, far)
    if family.ranges:
        values["lower_groups"] = np.maximum(values["lower_groups"], -far * family.n_cells)
        values["upper_groups"] = np.minimum(values["upper_groups"], far * family.n_cells)
    return values, origin, far


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


def _stated(data: Mapping[str, Any], *, once: bool) -> tuple[cp.Problem, cp.Variable]:
    """The family's problem: that of its shape, compiled, or stated for this call alone."""
    if once:
        return _state(data)
    problem, x, parameters = _compiled(*((name, array.shape) for name, array in data.items()))
    for name, parameter in parameters.items():
        parameter.value = data[name]
    return problem, x


def solve_with_cvxpy(family: Family, *, once: bool = False, first: int = 0) -> Solution:
    """Solve one family, with the next solver if one does not reach its tolerance.

    Args:
        family: the problem.
        once: do not compile the problem for its shape; quicker where few families have the same.
        first: the number in `SOLVERS` of the solver that is tried first.

    Raises:
        SolverError: none did; the message names the parent and the status of each solver.
    """
    import cvxpy as cp

    data, origin, far = numbers_of(family)
    problem, unknowns = _stated(data, once=once)
    failures = []
    for solver, options in SOLVERS[first:]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(solver=solver, warm_start=False, **options)
        except cp.error.SolverError as error:
            failures.append(f"{solver}: {error}")
            continue
        if problem.status == cp.OPTIMAL and unknowns.value is not None:
            x = origin + np.asarray(unknowns.value, dtype=np.float64)
            worst = violation(family, x)
            if worst <= FEASIBILITY and largest_of(unknowns.value) < 0.5 * far:
                iterations = int(problem.solver_stats.num_iters or 0)
                return Solution(x, f"cvxpy/{solver}", iterations, worst, 0.0)
            failures.append(f"{solver}: a constraint is off by {worst:.1e} persons, allowed is {FEASIBILITY:.0e}")
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
