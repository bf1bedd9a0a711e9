"""Members of each group to expect in a household of each kind, about, where bounds are all that is known of it."""

from __future__ import annotations

import numpy as np

from features.joins.mathematics.kinds import Kinds
from features.joins.mathematics.membership import NO_MOST
from postprocess.arrays import FloatArray, IntArray

#: Members beside those that are needed, where nothing limits them.
_FREE_ROOM = 4
_SWEEPS = 4


def typical_members(kinds: Kinds) -> FloatArray:
    """The middle of what the bounds of all sets imply for each group, `(n_groups, n_kinds)`.

    Bounds are implied from the smallest sets up, then down again; a group takes what the other parts of its set leave.
    """
    below = [np.flatnonzero(kinds.parent == at) for at in range(kinds.n_sets)]
    least, most = kinds.least.copy(), kinds.most.copy()
    for at in reversed(range(kinds.n_sets)):
        least[at] = np.maximum(least[at], least[below[at]].sum(axis=0))
    for at in range(kinds.n_sets):
        for child in below[at]:
            beside = least[below[at]].sum(axis=0) - least[child]
            most[child] = np.minimum(most[child], most[at] - beside)
    smallest = kinds.set_of_group
    low = np.stack([least[at] - most[below[at]].sum(axis=0) for at in smallest.tolist()] or [least[:0].sum(axis=0)])
    high = np.stack([most[at] - least[below[at]].sum(axis=0) for at in smallest.tolist()] or [least[:0].sum(axis=0)])
    low = np.maximum(low, 0)
    high = np.where(high >= NO_MOST // 2, low + _FREE_ROOM, np.maximum(high, low))
    return (0.5 * (low + high))[: kinds.n_groups]


def proportional_shares(
    members: FloatArray, home: IntArray, place: IntArray, persons: IntArray, low: IntArray, high: IntArray
) -> FloatArray:
    """Persons of each group in each home, about in proportion to `members`, scaled to the sums (iterative fitting).

    Args:
        members: to begin with, `(n,)`.
        home: of each, `(n,)`.
        place: the pair of leaf and group of each, `(n,)`.
        persons: of each such pair, `(n_places,)`.
        low, high: members of each home, `(n_homes,)`.
    """
    fitted: FloatArray = np.maximum(members, 0.0)
    for _ in range(_SWEEPS):
        sums = np.bincount(home, weights=fitted, minlength=len(low)).astype(np.float64)
        fitted = fitted * _factor(np.clip(sums, low, high), sums)[home]
        sums = np.bincount(place, weights=fitted, minlength=len(persons)).astype(np.float64)
        fitted = fitted * _factor(persons, sums)[place]
    return fitted


def _factor(wanted: IntArray | FloatArray, found: FloatArray) -> FloatArray:
    return np.divide(wanted.astype(np.float64), found, out=np.zeros(len(found)), where=found > 0)
