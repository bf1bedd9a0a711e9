"""Which geounit is measured for a chain of geounits that hold the same persons.

A geounit without siblings holds the same persons as its parent. If both are measured, two shares of the budget are
spent on the same numbers; with bypassing, the upper one alone is measured, with both shares. Source: Cumings-Menon,
Abowd, Ashmead, Kifer, Leclerc, Ocker, Ratcliffe and Zhuravlev, "Geographic Spines in the 2020 Census Disclosure
Avoidance System" (arXiv 2203.16654), section 4.3, and the published production code of 2020, which "reallocates child
geounit proportions to parent geounits, for each child geounit without siblings".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine

#: The last level of a geounit that is not measured, because one above is measured in its place.
NOT_MEASURED = -1


def only_children(spine: Spine) -> list[NDArray[np.bool_]]:
    """Per level, top first, `(n,)` True where a geounit has a parent and no siblings."""
    only_child = [np.zeros(len(spine.levels[0]), dtype=np.bool_)]
    for number in range(spine.n_levels - 1):
        alone = np.diff(spine.child_offsets(number)) == 1
        only_child.append(alone[spine.levels[number + 1].parents])
    return only_child


def last_levels(spine: Spine, measured: Sequence[bool]) -> list[NDArray[np.int64]]:
    """The lowest level whose share of the budget the measurement of each geounit takes.

    Of a chain of geounits, each the only child of the one above, the highest at a level with queries is measured, with
    the shares of its own level and of all levels of the chain below it. So on every path from the top to a leaf the
    shares add up to what they do without bypassing.

    Args:
        spine: the geounits.
        measured: per level, whether the strategy has queries there.

    Returns:
        Per level, top first, `(n,)`: the index of that level, which is the geounit's own where nothing is bypassed;
        `NOT_MEASURED` where a geounit above is measured instead, or where the level has no queries.
    """
    alone = only_children(spine)
    bottom = [np.full(len(level), number, dtype=np.int64) for number, level in enumerate(spine.levels)]
    for number in range(spine.n_levels - 2, -1, -1):
        first = spine.child_offsets(number)[:-1]
        bottom[number] = np.where(alone[number + 1][first], bottom[number + 1][first], number)
    last: list[NDArray[np.int64]] = []
    taken = np.zeros(0, dtype=np.bool_)
    for number, level in enumerate(spine.levels):
        above = taken[level.parents] & alone[number] if number else np.zeros(len(level), dtype=np.bool_)
        keeps = ~above & bool(measured[number])
        last.append(np.where(keeps, bottom[number], NOT_MEASURED))
        taken = above | keeps
    return last
