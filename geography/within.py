"""A spine of some areas of a public list alone, which still knows the codes that are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from geography.codes import counted, first_few
from geography.errors import SpineError
from geography.spine import LeftOut, Level, Spine


def spine_within(spine: Spine, areas: Mapping[str, Sequence[str]]) -> Spine:
    """The geounits in the named areas, below them, and above them.

    Args:
        spine: of the whole list.
        areas: level -> geocodes; a leaf is kept if it is in one of them.

    Raises:
        SpineError: the list has no such level or area, or a geounit above would be left in part: its count would be
            that of a part under the name of the whole.
    """
    kept = np.zeros(spine.n_leaves, dtype=np.bool_)
    for name, codes in areas.items():
        number = spine.index_of(name)
        known = spine.levels[number].geocodes
        if unknown := [code for code in codes if code not in known]:
            raise SpineError(
                f"within.{name}: the list has no {name} {first_few(np.array(unknown))}; it has {len(known):,}: "
                f"{first_few(known)}"
            )
        kept |= np.isin(known, codes)[spine.leaf_ancestors(number)]
    whole = [_whole(spine, number, kept) for number in range(spine.n_levels)]
    levels: list[Level] = []
    above = np.zeros(0, dtype=np.int64)
    for level, own in zip(spine.levels, whole, strict=True):
        rows = np.flatnonzero(own)
        parents = above[level.parents[rows]] if levels else np.full(len(rows), -1, dtype=np.int64)
        levels.append(Level(level.name, level.geocodes[rows], parents))
        above = np.cumsum(own, dtype=np.int64) - 1
    codes_left_out = tuple(level.geocodes[~own] for level, own in zip(spine.levels, whole, strict=True))
    return replace(Spine(tuple(levels)), left_out=LeftOut(codes_left_out))


def _whole(spine: Spine, number: int, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which geounits `(n,)` of a level have all their leaves kept; SpineError where one has some of them."""
    ancestors, level = spine.leaf_ancestors(number), spine.levels[number]
    leaves = np.bincount(ancestors, minlength=len(level))
    of_kept = np.bincount(ancestors, weights=kept, minlength=len(level))
    if (partly := np.flatnonzero((of_kept > 0) & (of_kept < leaves))).size:
        raise SpineError(
            f"within: {counted(partly.size, 'geounit')} of level {level.name!r} would be left in part: "
            f"{first_few(level.geocodes[partly])}; name all areas below it, or leave the level out of the levels"
        )
    return np.asarray(of_kept > 0)
