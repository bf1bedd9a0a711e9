"""Off-spine areas, such as places and reservations: which leaves are in them, and their distance from the spine.

The off-spine entity distance of an area is the least number of geounits that have to be added and subtracted to get its
count; the noise in the count grows with it. Source: Cumings-Menon et al., "Geographic Spines in the 2020 Census
Disclosure Avoidance System" (arXiv 2203.16654), definition 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geography.codes import check_nul, first_few
from geography.errors import SpineError
from geography.spine import Spine


@dataclass(frozen=True, eq=False)
class OffSpineAreas:
    """Areas that are unions of leaves; its length is the number of areas.

    Attributes:
        kinds, codes: `(n_areas,)` text, such as "place" and "59000"; together they name an area.
        area, leaf: `(n_members,)` the leaves of each area, sorted by area and leaf, each pair once.
    """

    kinds: NDArray[np.str_]
    codes: NDArray[np.str_]
    area: NDArray[np.int64]
    leaf: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of(
        cls,
        spine: Spine,
        kinds: Sequence[str] | NDArray[np.str_],
        codes: Sequence[str] | NDArray[np.str_],
        leaves: Sequence[str] | NDArray[np.str_],
    ) -> OffSpineAreas:
        """From a list with one row for each area and leaf: the area's kind and code, the leaf's geocode.

        Raises:
            SpineError: a leaf is not on the spine, or a kind or code is empty or has a NUL character.
        """
        for name, column in (("kind", kinds), ("code", codes), ("leaf", leaves)):
            if not isinstance(column, np.ndarray):
                check_nul(column, name)
        kind, code, geocodes = (np.asarray(column, dtype=np.str_) for column in (kinds, codes, leaves))
        for name, column in (("kind", kind), ("code", code)):
            if (empty := np.flatnonzero(column == "")).size:
                raise SpineError(f"no {name} in row {first_few(empty + 1, quoted=False)}; each row names an area")
        leaf = spine.find_leaves(geocodes)
        if (strange := np.unique(geocodes[leaf < 0])).size:
            raise SpineError(
                f"{len(strange):,} leaves are not on the spine: {first_few(strange)}; give leaves of level "
                f"{spine.leaf_level.name!r}"
            )
        names, kind_of = np.unique(kind, return_inverse=True)
        numbers, code_of = np.unique(code, return_inverse=True)
        keys, area = np.unique(kind_of * np.int64(max(1, len(numbers))) + code_of, return_inverse=True)
        pairs = np.unique(area * np.int64(spine.n_leaves) + leaf)
        return cls(
            names[keys // max(1, len(numbers))] if len(keys) else names,
            numbers[keys % max(1, len(numbers))] if len(keys) else numbers,
            pairs // spine.n_leaves,
            pairs % spine.n_leaves,
        )

    def moved(self, old: Spine, new: Spine) -> OffSpineAreas:
        """The same areas on a spine with the same leaves in another order."""
        leaf = new.find_leaves(old.leaf_level.geocodes)[self.leaf]
        pairs = np.sort(self.area * np.int64(new.n_leaves) + leaf)
        return OffSpineAreas(self.kinds, self.codes, pairs // new.n_leaves, pairs % new.n_leaves)


def off_spine_distances(spine: Spine, areas: OffSpineAreas) -> NDArray[np.int64]:
    """The off-spine entity distance of each area, `(n_areas,)`.

    Computed from the leaves up: the part of an area in a geounit costs 1 where it is the whole geounit; otherwise the
    lesser of the sum of its parts in the children, and 1 for the geounit plus the missing parts of the children.
    """
    area, node = areas.area, areas.leaf
    inside = np.ones(len(area), dtype=np.int64)
    added, missing = np.ones(len(area), dtype=np.int64), np.zeros(len(area), dtype=np.int64)
    for number in range(spine.n_levels - 2, -1, -1):
        offsets, leaves = spine.child_offsets(number), np.diff(spine.leaf_offsets(number))
        n = len(spine.levels[number])
        key = area * np.int64(n) + spine.levels[number + 1].parents[node]
        pairs, of = np.unique(key, return_inverse=True)
        area, node = pairs // n, pairs % n

        def summed(values: NDArray[np.int64], of: NDArray[np.int64] = of, size: int = len(pairs)) -> NDArray[np.int64]:
            out = np.zeros(size, dtype=np.int64)
            np.add.at(out, of, values)
            return out

        touched = summed(np.ones(len(of), dtype=np.int64))
        inside = summed(inside)
        plus, minus = summed(added), summed(missing) + np.diff(offsets)[node] - touched
        complete = inside == leaves[node]
        added = np.where(complete, 1, np.minimum(plus, 1 + minus))
        missing = np.where(complete, 0, np.minimum(minus, 1 + plus))
    out = np.zeros(len(areas), dtype=np.int64)
    np.add.at(out, area, added)
    return out
