"""Random families of every kind that solvers are for, and what must be true of a solution, by dense algebra alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import strategies as st

from oracles.random_problems import random_marginals
from postprocess.algebra import Basis
from postprocess.downward.batch import UNBOUNDED
from postprocess.families import solve as solve_module
from postprocess.families.family import Family, GroupRange, Solution, violation
from postprocess.families.precisions import Dense, Precisions
from postprocess.families.solve import solve_families
from postprocess.families.sum_weights import MeasuredWeights, OnCells
from postprocess.marginal import Marginal, detail_of

#: What the precisions of a measured family can be kept as.
FORMS: Final = ("dense", "weights")


def random_family(
    seed: int,
    *,
    children: int,
    cells: int,
    kinds: int = 1,
    parent: bool = True,
    held: bool = False,
    ranges: bool = False,
    zeros: bool = False,
) -> Family:
    """A feasible family around a whole-number truth, with strongly varying precisions of any structure."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(kinds, cells, cells)) * rng.choice([0.05, 0.3, 1.0], size=(kinds, cells, 1))
    precision = np.swapaxes(root, 1, 2) @ root + np.eye(cells) * 0.05
    kind = np.arange(children) % kinds
    truth = rng.poisson(rng.gamma(0.5, 4.0, (children, cells))).astype(np.float64)
    possible = rng.random(truth.shape) >= (0.2 if zeros else 0.0)
    truth[~possible] = 0.0
    upper = np.where(possible, truth.sum(axis=0) if parent else UNBOUNDED, 0.0)
    centre = truth + rng.normal(0, 3.0, truth.shape)
    group, extra = np.sort(rng.integers(0, 2, cells)), np.arange(cells) % 3
    sums = _sums(truth, extra, 3)
    return Family(
        name=f"parent {seed}",
        precision=Dense(precision),
        linear=np.matmul(precision[kind], centre[:, :, None])[:, :, 0],
        upper=upper,
        parent=truth.sum(axis=0) if parent else None,
        held=GroupRange.fixed(group, _sums(truth, group, 2)) if held else None,
        ranges=(GroupRange(extra, np.maximum(sums - 1, 0), sums + 2),) if ranges else (),
        kind=kind if kinds > 1 else None,
    )


#: Families of all kinds.
RANDOM = st.builds(
    random_family,
    seed=st.integers(0, 10**6),
    children=st.integers(2, 7),
    cells=st.integers(3, 9),
    kinds=st.integers(1, 3),
    held=st.booleans(),
    ranges=st.booleans(),
    zeros=st.booleans(),
) | st.builds(
    random_family,
    seed=st.integers(0, 10**6),
    children=st.just(1),
    cells=st.integers(2, 8),
    parent=st.just(False),
    held=st.booleans(),
    ranges=st.booleans(),
)


def measured_family(
    seed: int,
    children: int,
    *,
    shape: tuple[int, ...] = (12, 2, 6),
    kinds: int = 1,
    held: int = 0,
    zeros: bool = False,
    form: str = "dense",
) -> Family:
    """A sparse family, measured by every cell, by pairs of values and by some sums; `held`: groups that are held."""
    rng = np.random.default_rng(seed)
    n_cells = int(np.prod(shape))
    truth = rng.poisson(rng.gamma(0.1, 10.0, n_cells) * rng.gamma(1.0, 0.3, (children, 1))).astype(np.float64)
    cells = np.flatnonzero(truth.sum(axis=0)) if children > 1 else np.arange(n_cells)
    whole, nothing = [np.arange(n) for n in shape], [np.zeros(n, dtype=np.int64) for n in shape]
    queries = [
        Marginal("total", tuple(nothing)),
        Marginal("ages", (whole[0] // 3, *nothing[1:])),
        Marginal("sex * age", (whole[0], whole[1], nothing[2])),
        Marginal("origin", (nothing[0], nothing[1], whole[2])),
        detail_of(shape),
    ]
    basis = Basis.of(shape, queries)
    linear, blocks = np.zeros((children, n_cells)), []
    kind = rng.integers(0, kinds, children)
    for number in range(kinds):
        measured = [(query, float(rng.choice([2.0, 9.0, 40.0]))) for query in queries]
        blocks.append(basis.precision(measured))
        for child in np.flatnonzero(kind == number):
            for query, variance in measured:
                noisy = query.answer(truth[child][None])[0] + rng.normal(0, variance**0.5, query.size)
                linear[child] += (noisy / variance)[query.cell_answer]
    truth = truth[:, cells]
    parent = truth.sum(axis=0) if children > 1 else None
    upper = np.broadcast_to(float(UNBOUNDED) if parent is None else parent, truth.shape).copy()
    if zeros:
        upper[(rng.random(truth.shape) < 0.3) & (truth == 0)] = 0.0
    sums = None
    if held:
        _, group = np.unique(cells % held, return_inverse=True)
        sums = GroupRange.fixed(group, _sums(truth, group, int(group.max()) + 1))
        upper = np.minimum(upper, sums.lower[:, group])
    return Family(
        name=f"family {seed}",
        precision=_in_form(form, basis, np.stack(blocks), cells),
        linear=linear[:, cells],
        upper=upper,
        parent=parent,
        held=sums,
        kind=kind if kinds > 1 else None,
    )


def random_area(seed: int, shape: tuple[int, ...], *, held: bool, ranges: bool, zeros: bool) -> Family:
    """A sparse area at the top with noisy answers of some queries and of every cell."""
    rng = np.random.default_rng(seed)
    n_cells = int(np.prod(shape))
    truth = rng.poisson(rng.gamma(0.1, 20.0, n_cells)).astype(np.float64)
    upper = np.full(n_cells, UNBOUNDED)
    if zeros:
        upper[rng.random(n_cells) < 0.2] = 0.0
        truth[upper == 0] = 0.0
    queries = [detail_of(shape), *random_marginals(rng, shape, recode=True)]
    first = Marginal("first", (np.arange(shape[0]), *(np.zeros(n, dtype=np.int64) for n in shape[1:])))
    second = Marginal("second", (np.zeros(shape[0], dtype=np.int64), np.arange(shape[1]), *first.groups[2:]))
    basis = Basis.of(shape, [*queries, first, second])
    linear, measured = np.zeros(n_cells), []
    for query in queries:
        variance = float(rng.choice([2.0, 9.0, 40.0]))
        noisy = query.answer(truth[None])[0] + rng.normal(0, variance**0.5, query.size)
        linear += (noisy / variance)[query.cell_answer]
        measured.append((query, variance))
    exact, about = first.answer(truth[None]), second.answer(truth[None])
    fixed = GroupRange.fixed(first.cell_answer, exact) if held else None
    limits = (GroupRange(second.cell_answer, np.maximum(about - 1, 0), about + 2),) if ranges else ()
    if fixed is not None:
        upper = np.minimum(upper, exact[0, first.cell_answer])
    precision = _in_form("weights", basis, basis.precision(measured)[None], np.arange(n_cells))
    return Family(f"area {seed}", precision, linear[None], upper[None], None, fixed, limits)


def _in_form(form: str, basis: Basis, blocks: np.ndarray, cells: np.ndarray) -> Precisions:
    own = OnCells(MeasuredWeights(basis, blocks), np.arange(len(blocks)), cells)
    return own if form == "weights" else Dense(own.matrices())


def _sums(values: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
    return np.stack([values[:, group == g].sum(axis=1) for g in range(n_groups)], axis=1)


def times_as_many(family: Family, times: float) -> Family:
    """The same family of so many times the persons."""
    held = None if family.held is None else GroupRange.fixed(family.held.group, times * family.held.lower)
    parent = None if family.parent is None else times * family.parent
    return replace(family, linear=times * family.linear, upper=times * family.upper, parent=parent, held=held)


def objective(family: Family, x: np.ndarray) -> float:
    """The objective's value; for comparing solutions, up to a constant."""
    return float((0.5 * x * family.times(x) - family.linear * x).sum())


def as_large(family: Family) -> Solution:
    """The solution if every family counts as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve_module, "MOST_TOGETHER", 0)
        return solve_families([family], "batched")[0]


def off(family: Family, x: np.ndarray) -> float:
    """How far a family without ranges is from its conditions of optimality (KKT), in persons.

    Multipliers of the sums are those that fit the gradients of the cells between their limits best: nothing may be left
    there; no cell that is 0 may have a gradient below 0, and none at its limit one above. Where sums are held the
    latter is not looked at: multipliers of a sum without such a cell are not those of the fit.
    """
    gradient = np.einsum("cij,cj->ci", family.matrices[family.kinds], x) - family.linear
    gradient /= np.diagonal(family.matrices, axis1=1, axis2=2).max()
    limit = family.upper if family.parent is None else np.where(family.upper < family.parent, family.upper, np.inf)
    full, free = (x > 1e-6) & (x > limit - 1e-6), (x > 1e-6) & (x < limit - 1e-6)
    worst = violation(family, x)
    if family.held is not None:
        of_group = family.held.matrix
        sums = np.kron(np.eye(len(x)), of_group)
        if family.parent is not None:
            sums = np.hstack([sums, np.tile(np.eye(family.n_cells), (len(x), 1))])
        fit = np.linalg.lstsq(sums[free.ravel()], gradient[free], rcond=None)[0]
        left = (gradient.ravel() - sums @ fit).reshape(x.shape)
        return max(worst, float(np.abs(left[free]).max(initial=0.0)))
    if family.parent is not None:  # the multiplier of a cell's sum is the gradient of its free children
        gradient = gradient - np.where(free, gradient, 0.0).sum(axis=0) / np.maximum(free.sum(axis=0), 1)
        gradient = gradient * free.any(axis=0)
    none = (x <= 1e-6) & (family.upper > 0)
    wrong = np.abs(gradient[free]).max(initial=0.0), -gradient[none].min(initial=0.0), gradient[full].max(initial=0.0)
    return max(worst, *map(float, wrong))
