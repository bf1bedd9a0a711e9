"""The bounds that released households are on the persons of the same geounits."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from features.joins.mathematics.composition import Composition
from postprocess.arrays import IntArray
from postprocess.bounds.set_bounds import UNBOUNDED
from postprocess.bounds.subtree_bounds import merged, query_of_set
from postprocess.errors import InfeasibleError
from postprocess.marginal import Marginal
from postprocess.problem import GroupBounds

#: Households' answers held at a time.
_CHUNK = 1 << 20


def joined_queries(composition: Composition) -> tuple[Marginal, ...]:
    """The queries on persons that `joined_bounds` bounds.

    Raises:
        InfeasibleError: the households limit a set of groups that no query has as its answer.
    """
    return tuple({query.key: query for query, _, _ in stated_sets(composition)}.values())


def joined_bounds(composition: Composition, households: sp.csr_array) -> tuple[GroupBounds, ...]:
    """The bounds on the persons of a level that its released households imply, each query once.

    Persons that keep them are members of these households in one way at least, everybody of the joins' answers in one
    household (where no others fall in the same answers). Bounds of children add up to their parent's.

    Args:
        composition: of the joins.
        households: the released histograms of the level, `(n, n_cells)`.

    Raises:
        InfeasibleError: the households limit a set of groups that no query has as its answer.
    """
    kinds = _kinds(composition, households)
    sets, others = composition.sets, composition.others
    bounds = []
    for query, answer, block in stated_sets(composition):
        lower = np.zeros((len(kinds), query.size), dtype=np.int64)
        upper = np.full_like(lower, UNBOUNDED)
        lower[:, answer] = kinds @ np.maximum(sets.lower[:, block], 0)
        if not others:
            open_ended = sets.upper[:, block] >= UNBOUNDED
            most = kinds @ np.where(open_ended, 0, sets.upper[:, block])
            upper[:, answer] = np.where((kinds[:, open_ended] > 0).any(axis=1), UNBOUNDED, most)
        bounds.append(GroupBounds(query.name, query, lower, upper))
    return tuple(merged(bounds))


def stated_sets(composition: Composition) -> list[tuple[Marginal, int, int]]:
    """Queries on persons, one of its answers, and the set of groups that is this answer."""
    stated = [
        (m.persons, int(answer), composition.block(m, int(answer)))
        for m in composition.memberships
        for answer in np.flatnonzero(m.inside)
    ]
    stated += [(composition.persons, int(answer), 1 << bit) for bit, answer in enumerate(composition.groups)]
    for subset in composition.needed:
        members = composition.groups[[bit for bit in range(len(composition.groups)) if subset >> bit & 1]]
        placed = query_of_set(composition.persons, members)
        if placed is None:
            raise InfeasibleError(
                f'joins: the households limit a set of groups of "{composition.persons.name}" that no query can state; '
                "state the join on a coarser query, or on one attribute"
            )
        stated.append((*placed, subset))
    return stated


def _kinds(composition: Composition, households: sp.csr_array) -> IntArray:
    """How many households of each kind there are in each geounit, `(n, n_kinds)`."""
    n, size = households.shape[0], composition.households.size
    out = np.zeros(n * size, dtype=np.int64)
    kind = composition.households.cell_answer
    for first in range(0, n, _CHUNK):
        part = households[first : first + _CHUNK]
        rows = np.repeat(np.arange(part.shape[0], dtype=np.int64) + first, np.diff(part.indptr))
        np.add.at(out, rows * size + kind[part.indices], part.data)
    return out.reshape(n, size)
