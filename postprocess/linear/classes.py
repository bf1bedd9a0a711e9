"""Which geounits are alike: those whose estimates have the same covariance whatever the measurements come out as.

Covariances depend on what is measured with which variance, on what is known, and on the tree, never on an answer.
Geounits with the same zeros and alike children share a class, so a state with 25,000 blocks has a few hundred
matrices. The upward class of a geounit is that of its subtree; the downward class adds where its parent stands.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.information import (
    information,
    inverse_off,
    is_full,
    known_with_family,
    off_known,
    with_unmeasured,
)
from postprocess.linear.invariants import common_known, invariants_of, with_invariants, zero_masks, zero_projector
from postprocess.linear.upward import silent_of
from postprocess.problem import Problem


@dataclass(frozen=True, eq=False)
class LevelClasses:
    """The classes of one level.

    Attributes:
        upward: `(n,)` upward class of each geounit.
        children: `(n_upward, n_upward of the level below)` children of each class in one geounit; None at the leaves.
        known: `(n_upward, n_blocks, a, a)` projectors on the directions that are fixed.
        unmeasured: the same for the directions that nothing is measured of.
        excluded: the same for the directions that the children's sum does not determine; None at the leaves.
        kind: `(n_upward,)` how precisely each class is measured, as in `Problem`; -1 where it is not measured itself.
        children_informative: `(n_upward,)` whether the children add information; not where the geounit stands for
            all below it.
        downward: `(n,)` downward class of each geounit.
        parent: `(n_downward,)` the parent's downward class; -1 at the top.
        own: `(n_downward,)` the upward class.
        single: `(n_downward,)` whether it is its parent's only child, and so equal to it.
        blind: `(n_downward, n_blocks, a, a)` projectors on what stays unmeasured after both passes.
        fixed: the same for what zeros and invariants fix, those of parent and siblings included.
    """

    upward: IntArray
    children: sp.csr_array | None
    known: FloatArray
    unmeasured: FloatArray
    excluded: FloatArray | None
    kind: IntArray
    children_informative: NDArray[np.bool_]
    downward: IntArray
    parent: IntArray
    own: IntArray
    single: NDArray[np.bool_]
    blind: FloatArray
    fixed: FloatArray

    @property
    def sizes(self) -> IntArray:
        """`(n_downward,)` number of geounits in each class."""
        return np.bincount(self.downward, minlength=len(self.own)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Upward:
    classes: IntArray
    children: sp.csr_array | None
    known: FloatArray
    unmeasured: FloatArray
    excluded: FloatArray | None
    kind: IntArray
    children_informative: NDArray[np.bool_]
    #: Whether nothing but zeros is known in the subtrees.
    plain: bool


def geounit_classes(problem: Problem, basis: Basis) -> tuple[LevelClasses, ...]:
    """The classes of every level, top to bottom.

    Args:
        problem: its answers and variances are not looked at, only what is measured, known, and where.
        basis: of the problem.
    """
    n_levels = problem.spine.n_levels
    silent = silent_of(problem)
    upward = [_leaves(problem, basis)]
    covariance = _covariance(problem, basis, n_levels - 1, upward[0])
    for level in range(n_levels - 2, -1, -1):
        up = _above(problem, basis, level, upward[-1], covariance, silent)
        covariance = _covariance(problem, basis, level, up, upward[-1], covariance)
        upward.append(up)
    return _downward(problem, upward[::-1])


def summed_over(children: sp.csr_array, blocks: FloatArray) -> FloatArray:
    """Blocks of the classes below, summed over the children of each class: `(n_upward, n_blocks, a, a)`."""
    out: FloatArray = (children @ blocks.reshape(len(blocks), -1)).reshape(children.shape[0], *blocks.shape[1:])
    return out


def own_precision(problem: Problem, basis: Basis, level: int) -> FloatArray:
    """The precision of one level's measurements were all variances 1."""
    return basis.precision([(query.marginal, 1.0) for query in problem.measured[level]])


def _leaves(problem: Problem, basis: Basis) -> _Upward:
    level = problem.spine.n_levels - 1
    masks, kinds = zero_masks(problem, basis, level), problem.kinds_of(level)
    # What is not measured counts as kind 0: it is a copy of its parent, and nothing is computed from it.
    kind_of = np.zeros(len(masks), dtype=np.int8) if kinds is None else np.maximum(kinds, 0)
    rows, classes = np.unique(np.column_stack([kind_of, masks.astype(np.int8)]), axis=0, return_inverse=True)
    patterns = rows[:, 1:].astype(bool)
    known = zero_projector(basis, patterns)
    invariants = invariants_of(problem.constraints.bounds[level])
    if invariants:
        known, _ = with_invariants(basis, known, invariants)
    own = own_precision(problem, basis, level)
    info = information(np.broadcast_to(own, (len(patterns), *own.shape)), known, is_full(own))
    return _Upward(
        classes.ravel().astype(np.int64),
        None,
        known,
        info.unmeasured,
        None,
        rows[:, 0].astype(np.int64),
        np.zeros(len(patterns), dtype=bool),
        not invariants,
    )


def _above(
    problem: Problem, basis: Basis, level: int, below: _Upward, covariance: FloatArray, silent: Sequence[BoolArray]
) -> _Upward:
    """The classes of the level above `below`, whose covariances (with variances of 1) are given."""
    patterns, pattern = np.unique(zero_masks(problem, basis, level), axis=0, return_inverse=True)
    offsets = problem.spine.child_offsets(level)
    ordered = np.split(below.classes, offsets[1:-1])
    kind, children_informative = _kinds(problem, level, silent)
    keys: dict[Hashable, int] = {}
    classes = np.empty(len(ordered), dtype=np.int64)
    rows: list[tuple[IntArray, IntArray]] = []
    of_pattern: list[int] = []
    first: list[int] = []
    for i, children in enumerate(ordered):
        kinds, numbers = np.unique(children, return_counts=True)
        key = (int(pattern.ravel()[i]), int(kind[i]), bool(children_informative[i]), kinds.tobytes(), numbers.tobytes())
        if key not in keys:
            keys[key] = len(keys)
            rows.append((kinds, numbers))
            of_pattern.append(key[0])
            first.append(i)
        classes[i] = keys[key]
    members = sp.csr_array(
        (
            np.concatenate([numbers for _, numbers in rows]).astype(np.float64),
            np.concatenate([kinds for kinds, _ in rows]),
            np.cumsum([0, *(len(kinds) for kinds, _ in rows)]),
        ),
        shape=(len(rows), len(below.known)),
    )
    identity = np.eye(basis.n_asymmetric)
    inherited = common_known(summed_over(members, identity - below.known), plain=below.plain)
    excluded = inherited
    if below.unmeasured.any():
        excluded = with_unmeasured(inherited, summed_over(members, below.unmeasured))
    known = zero_projector(basis, patterns[of_pattern])
    invariants = invariants_of(problem.constraints.bounds[level])
    full = problem.estimator == "full"
    if invariants or not below.plain:
        passed_on = inherited - known @ inherited if full else None
        known, _ = with_invariants(basis, known, invariants, passed_on)
    kind, children_informative = kind[first], children_informative[first]
    own = own_precision(problem, basis, level)
    precision = np.where((kind < 0)[:, None, None, None], 0.0, own)
    complete = is_full(own)
    if full:
        from_children = inverse_off(summed_over(members, covariance), excluded)
        precision = precision + np.where(children_informative[:, None, None, None], from_children, 0.0)
        complete = bool(
            (complete and not (kind < 0).any()) or (children_informative.all() and not below.unmeasured.any())
        )
    unmeasured = information(precision, known, complete).unmeasured
    return _Upward(
        classes, members, known, unmeasured, excluded, kind, children_informative, below.plain and not invariants
    )


def _kinds(problem: Problem, level: int, silent: Sequence[BoolArray]) -> tuple[IntArray, BoolArray]:
    """Per geounit of a level with children: how it is measured, and whether its children are heard."""
    n = len(problem.spine.levels[level])
    kinds = problem.kinds_of(level)
    if kinds is None:
        return np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
    stands = silent[level + 1][problem.spine.child_offsets(level)[:-1]] & ~silent[level]
    between = (kinds < 0) & ~silent[level] & (problem.estimator == "full")
    return np.where(between, -1, np.maximum(kinds, 0)).astype(np.int64), ~stands


def _covariance(
    problem: Problem,
    basis: Basis,
    level: int,
    up: _Upward,
    below: _Upward | None = None,
    covariance: FloatArray | None = None,
) -> FloatArray:
    """Covariances of the upward classes were all variances 1."""
    precision = np.where((up.kind < 0)[:, None, None, None], 0.0, own_precision(problem, basis, level))
    if below is not None and covariance is not None and up.children is not None and problem.estimator == "full":
        assert up.excluded is not None
        from_children = inverse_off(summed_over(up.children, covariance), up.excluded)
        precision = precision + np.where(up.children_informative[:, None, None, None], from_children, 0.0)
    return inverse_off(precision, up.known + up.unmeasured)


def _downward(problem: Problem, upward: list[_Upward]) -> tuple[LevelClasses, ...]:
    out: list[LevelClasses] = []
    for level, up in enumerate(upward):
        if level == 0:
            own, downward = np.unique(up.classes, return_inverse=True)
            parent = np.full(len(own), -1, dtype=np.int64)
            single = np.zeros(len(own), dtype=bool)
            blind, fixed = up.unmeasured[own], up.known[own]
        else:
            above = out[-1]
            of_parent = above.downward[problem.spine.levels[level].parents]
            pairs, downward = np.unique(np.stack([of_parent, up.classes]), axis=1, return_inverse=True)
            parent, own = pairs
            members = above.children
            assert members is not None
            single = np.asarray(members.sum(axis=1)).ravel()[above.own[parent]] == 1
            unknown = summed_over(members, np.eye(up.known.shape[-1]) - up.known)[above.own[parent]]
            fixed = known_with_family(up.known[own], above.fixed[parent], unknown)
            blind = np.where(single[:, None, None, None], above.blind[parent], up.unmeasured[own])
            blind = off_known(blind, fixed)
        out.append(
            LevelClasses(
                up.classes,
                up.children,
                up.known,
                up.unmeasured,
                up.excluded,
                up.kind,
                up.children_informative,
                downward.ravel().astype(np.int64),
                parent,
                own,
                single,
                blind,
                fixed,
            )
        )
    return tuple(out)
