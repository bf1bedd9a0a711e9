"""Generalised least squares by dense algebra over all cells of all leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from geography.spine import Spine
from postprocess.marginal import Marginal
from postprocess.problem import Problem


@dataclass
class DenseEstimate:
    """Estimate and covariance `(n_cells,)`, `(n_cells, n_cells)` of one geounit, on its estimable directions.

    `estimable`: projector on the directions that the measurements and constraints determine.
    """

    mean: np.ndarray
    covariance: np.ndarray
    estimable: np.ndarray


def query_matrix(marginal: Marginal, n_cells: int) -> np.ndarray:
    matrix = np.zeros((marginal.size, n_cells))
    matrix[marginal.cell_answer, np.arange(n_cells)] = 1.0
    if marginal.answered:
        matrix[~answered(marginal)] = 0.0
    return matrix


def answered(marginal: Marginal) -> np.ndarray:
    """Which answers were measured, `(size,)`: those of which each attribute's group was."""
    codes = np.unravel_index(np.arange(marginal.size), marginal.sizes)
    found = np.ones(marginal.size, dtype=bool)
    for of_group, code in zip(marginal.answered, codes, strict=False):
        found &= of_group[code]
    return found


def descendants(spine: Spine, level: int, index: int) -> list[tuple[int, int]]:
    found = [(level, index)]
    frontier = [index]
    for below in range(level + 1, spine.n_levels):
        parents = spine.levels[below].parents
        frontier = [i for i in range(len(parents)) if parents[i] in frontier]
        found += [(below, i) for i in frontier]
    return found


def leaves_below(spine: Spine, level: int, index: int) -> list[int]:
    last = spine.n_levels - 1
    return [i for lev, i in descendants(spine, level, index) if lev == last]


def subtree_gls(problem: Problem, level: int, index: int, *, whole: bool = False) -> DenseEstimate:
    """Best linear unbiased estimate of one geounit from its subtree's measurements (`whole`: from all of them)."""
    top = tuple((0, i) for i in range(len(problem.spine.levels[0]))) if whole else ((level, index),)
    gls = _solved(problem, top)
    selector = gls.selector(problem.spine, level, index)
    functional = selector @ gls.free
    missed = functional @ gls.kernel @ gls.kernel.T @ functional.T
    eigenvalues, vectors = np.linalg.eigh(missed)
    good = vectors[:, eigenvalues < 1e-9]
    return DenseEstimate(
        mean=selector @ gls.solution, covariance=functional @ gls.inverse @ functional.T, estimable=good @ good.T
    )


@dataclass(frozen=True, eq=False)
class _Solved:
    """Cells of some leaves: their solution, the directions that are free, and in these what is known."""

    leaves: list[int]
    n_cells: int
    solution: np.ndarray
    free: np.ndarray
    inverse: np.ndarray
    kernel: np.ndarray

    def selector(self, spine: Spine, level: int, index: int) -> np.ndarray:
        return _selector(spine, self.leaves, self.n_cells, level, index)


def _selector(spine: Spine, leaves: list[int], n_cells: int, level: int, index: int) -> np.ndarray:
    """From the cells of some leaves to those of a geounit."""
    return np.kron(np.isin(leaves, leaves_below(spine, level, index)).astype(float), np.eye(n_cells))


@lru_cache(maxsize=4)
def _solved(problem: Problem, top: tuple[tuple[int, int], ...]) -> _Solved:
    spine, n_cells = problem.spine, problem.n_cells
    units = [unit for root in top for unit in descendants(spine, *root)]
    leaves = sorted({leaf for root in top for leaf in leaves_below(spine, *root)})
    n = len(leaves) * n_cells
    rows, weights, values, fixed_rows, fixed_values = [], [], [], [], []
    for lev, i in units:
        selector = _selector(spine, leaves, n_cells, lev, i)
        kinds = problem.kinds_of(lev)
        kind = 0 if kinds is None else int(kinds[i])
        for one in problem.measured[lev] if kind >= 0 else ():
            rows.append(query_matrix(one.marginal, n_cells) @ selector)
            values.append(one.values[i])
            weights.append(np.full(one.marginal.size, 1.0 / (one.variance, *one.others)[kind]))
        for bound in problem.constraints.bounds[lev]:
            fixed = np.flatnonzero(bound.lower[i] == bound.upper[i])
            fixed_rows.append((query_matrix(bound.marginal, n_cells) @ selector)[fixed])
            fixed_values.append(bound.lower[i][fixed])
            for answer in np.flatnonzero(bound.upper[i] == 0):
                cells = np.flatnonzero(bound.marginal.cell_answer == answer)
                fixed_rows.append(selector[cells])
                fixed_values.append(np.zeros(len(cells)))
    zero = np.flatnonzero(np.tile(problem.constraints.structural_zeros, len(leaves)))
    fixed_rows.append(np.eye(n)[zero])
    fixed_values.append(np.zeros(len(zero)))
    equalities, right = np.vstack(fixed_rows), np.concatenate(fixed_values)
    _, singular, vt = np.linalg.svd(equalities)
    rank = int((singular > 1e-9).sum())
    particular = np.linalg.pinv(equalities, rcond=1e-9) @ right
    free = vt[rank:].T
    design = np.vstack(rows) if rows else np.zeros((0, n))
    weight = np.concatenate(weights) if weights else np.zeros(0)
    observed = np.concatenate(values).astype(float) if values else np.zeros(0)
    reduced = design @ free
    precision = reduced.T @ (weight[:, None] * reduced)
    # What is rounding is told by the weights: a precision of nothing but rounding is none.
    spectrum, axes = np.linalg.eigh(precision)
    seen = axes[:, spectrum > 1e-9 * weight.max(initial=0.0)]
    inverse = seen @ np.linalg.inv(seen.T @ precision @ seen) @ seen.T
    solution = particular + free @ (inverse @ (reduced.T @ (weight * (observed - design @ particular))))
    return _Solved(leaves, n_cells, solution, free, inverse, np.eye(free.shape[1]) - inverse @ precision)


def dense_covariance(problem: Problem) -> np.ndarray:
    """The covariance of the estimates of all leaves' cells, `(n_leaves * n_cells, ...)`, with all constraints."""
    gls = _solved(problem, tuple((0, i) for i in range(len(problem.spine.levels[0]))))
    return np.asarray(gls.free @ gls.inverse @ gls.free.T)
