"""Which geounits are alike: those whose estimates have the same covariance whatever the measurements come out as.

Covariances depend on what is measured with which variance, on what is known, and on the tree, never on an answer.
Geounits with the same zeros and alike children share a class, so a state with 25,000 blocks has a few hundred
matrices. The upward class of a geounit is that of its subtree; the downward class adds where its parent stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.linear.child_groups import ChildGroups, summed_over
from postprocess.linear.information import information, inverse_off, is_full, known_with_family, off_known
from postprocess.linear.invariants import invariants_of, with_invariants, zero_masks, zero_projector
from postprocess.linear.upward import alike_by_themselves, kinds_above, known_to_children, silent_of
from postprocess.problem import Problem


@dataclass(frozen=True, eq=False)
class _Upward:
    upward: IntArray
    children: sp.csr_array | None
    known: FloatArray
    unmeasured: FloatArray
    excluded: FloatArray | None
    kind: IntArray
    children_informative: BoolArray
    plain: bool


@dataclass(frozen=True, eq=False)
class LevelClasses(_Upward):
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
        plain: whether nothing but zeros is known in the subtrees.
        downward: `(n,)` downward class of each geounit.
        parent: `(n_downward,)` the parent's downward class; -1 at the top.
        own: `(n_downward,)` the upward class.
        single: `(n_downward,)` whether it is its parent's only child, and so equal to it.
        blind: `(n_downward, n_blocks, a, a)` projectors on what stays unmeasured after both passes.
        fixed: the same for what zeros and invariants fix, those of parent and siblings included.
    """

    downward: IntArray
    parent: IntArray
    own: IntArray
    single: BoolArray
    blind: FloatArray
    fixed: FloatArray

    @property
    def sizes(self) -> IntArray:
        """`(n_downward,)` number of geounits in each class."""
        return np.bincount(self.downward, minlength=len(self.own)).astype(np.int64)


def geounit_classes(problem: Problem, basis: Basis) -> tuple[LevelClasses, ...]:
    """The classes of every level, top to bottom.

    Args:
        problem: its answers and variances are not looked at, only what is measured, known, and where.
        basis: of the problem.
    """
    silent = silent_of(problem)
    up, covariance = _leaves(problem, basis)
    upward = [up]
    for level in range(problem.spine.n_levels - 2, -1, -1):
        up, covariance = _above(problem, basis, level, up, covariance, silent)
        upward.append(up)
    return _downward(problem, upward[::-1])


def _own_precision(problem: Problem, basis: Basis, level: int) -> FloatArray:
    """The precision of one level's measurements were all variances 1."""
    return basis.precision([(query.marginal, 1.0) for query in problem.measured[level]])


def _leaves(problem: Problem, basis: Basis) -> tuple[_Upward, FloatArray]:
    """The classes of the leaves, and their covariances were all variances 1."""
    level = problem.spine.n_levels - 1
    classes, kind, known = alike_by_themselves(problem, basis, level)
    own = _own_precision(problem, basis, level)
    info = information(np.broadcast_to(own, known.shape), known, is_full(own))
    plain = not invariants_of(problem.constraints.bounds[level])
    silent = np.zeros(len(kind), dtype=bool)
    return _Upward(classes, None, known, info.unmeasured, None, kind, silent, plain), info.covariance


def _above(
    problem: Problem, basis: Basis, level: int, below: _Upward, covariance: FloatArray, silent: Sequence[BoolArray]
) -> tuple[_Upward, FloatArray]:
    """The same of the level above `below`, whose covariances are given."""
    masks, (kind, informative) = zero_masks(problem, basis, level), kinds_above(problem, level, silent)
    groups = ChildGroups.of(
        problem.spine.child_offsets(level),
        below.upward,
        np.column_stack([masks, kind, informative]),
        counted=True,
    )
    inherited, excluded = known_to_children(groups, below.known, below.unmeasured, plain=below.plain)
    known = zero_projector(basis, masks[groups.first])
    invariants = invariants_of(problem.constraints.bounds[level])
    full = problem.estimator == "full"
    if invariants or not below.plain:
        passed_on = inherited - known @ inherited if full else None
        known, _ = with_invariants(basis, known, invariants, passed_on)
    kind, informative = kind[groups.first].astype(np.int64), informative[groups.first]
    own = _own_precision(problem, basis, level)
    precision = np.where((kind < 0)[:, None, None, None], 0.0, own)
    complete = is_full(own)
    if full:
        from_children = inverse_off(summed_over(groups.children, covariance), excluded)
        precision = precision + np.where(informative[:, None, None, None], from_children, 0.0)
        complete = bool((complete and not (kind < 0).any()) or (informative.all() and not below.unmeasured.any()))
    info = information(precision, known, complete)
    plain = below.plain and not invariants
    up = _Upward(groups.classes, groups.children, known, info.unmeasured, excluded, kind, informative, plain)
    return up, info.covariance


def _downward(problem: Problem, upward: list[_Upward]) -> tuple[LevelClasses, ...]:
    out: list[LevelClasses] = []
    for level, up in enumerate(upward):
        if level == 0:
            own, downward = np.unique(up.upward, return_inverse=True)
            parent = np.full(len(own), -1, dtype=np.int64)
            single = np.zeros(len(own), dtype=bool)
            blind, fixed = up.unmeasured[own], up.known[own]
        else:
            above = out[-1]
            of_parent = above.downward[problem.spine.levels[level].parents]
            pairs, downward = np.unique(np.stack([of_parent, up.upward]), axis=1, return_inverse=True)
            parent, own = pairs
            members = above.children
            assert members is not None
            single = np.asarray(members.sum(axis=1)).ravel()[above.own[parent]] == 1
            unknown = summed_over(members, np.eye(up.known.shape[-1]) - up.known)[above.own[parent]]
            fixed = known_with_family(up.known[own], above.fixed[parent], unknown)
            blind = np.where(single[:, None, None, None], above.blind[parent], up.unmeasured[own])
            blind = off_known(blind, fixed)
        downward = downward.ravel().astype(np.int64)
        out.append(
            LevelClasses(**vars(up), downward=downward, parent=parent, own=own, single=single, blind=blind, fixed=fixed)
        )
    return tuple(out)
