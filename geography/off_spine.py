"""Off-spine areas, such as places and reservations: their leaves, distance from the spine, and units of leaves.

The off-spine entity distance of an area is the least number of geounits that have to be added and subtracted to get its
count; the noise in the count grows with it. Source: Cumings-Menon et al., "Geographic Spines in the 2020 Census
Disclosure Avoidance System" (arXiv 2203.16654), definition 2.

Within each geounit of the level above (a tract) the leaves that lie in the same areas form one unit. Where that gives
more units than the cap on the fan-out allows, units are joined, first those whose joining costs the areas least,
counted in units and leaves to be added and subtracted. Units of more leaves than the cap are divided. This is the
"optimised block group" of the 2020 system; source: Cumings-Menon et al., arXiv 2203.16654, section 4.2, here with a
greedy choice of what is joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geography.errors import SpineError
from geography.spine import Level, Spine, check_nul, first_few


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


def regroup(spine: Spine, areas: OffSpineAreas, fan_out: int, *, keep: bool = True) -> Spine:
    """The spine with other geounits at the level above the leaves.

    Args:
        spine: to be regrouped; its leaves stay.
        areas: those that are to be unions of few units.
        fan_out: no geounit above has more units than this, and no unit has more leaves, where both are possible; the
            first takes precedence.
        keep: the present units count as areas too: a unit is divided by areas, and then joined no further than the
            cap requires.

    Returns:
        A spine in which a unit that has the same leaves as a unit of the old spine keeps its geocode; other units are
        named after the geounit above, with a number: "44007000101-02".

    Raises:
        SpineError: the spine has fewer than three levels, or the cap is below 1.
    """
    if spine.n_levels < 3:
        raise SpineError(
            f"regrouping needs three levels, with units between the leaves and a level above; found {spine.n_levels}: "
            f"{', '.join(spine.level_names)}"
        )
    if fan_out < 1:
        raise SpineError(f"fan_out: found {fan_out}; at least 1 is needed")
    above = spine.levels[-3]
    old_unit = spine.leaf_level.parents
    parent = spine.levels[-2].parents[old_unit]
    signature = _signatures(spine.n_leaves, areas, old_unit if keep else None)
    unit = np.empty(spine.n_leaves, dtype=np.int64)
    offsets = spine.leaf_offsets(spine.n_levels - 3)
    members = _Members(areas, old_unit if keep else None)
    total = 0
    for number in range(len(above)):
        rows = slice(int(offsets[number]), int(offsets[number + 1]))
        unit[rows] = _units(signature[rows], rows.start, members, fan_out) + total
        total = int(unit[rows].max()) + 1
    return _rebuilt(spine, unit, parent)


def _signatures(n_leaves: int, areas: OffSpineAreas, old_unit: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """`(n_leaves,)`: equal for leaves that are in the same areas (and, if given, in the same old unit)."""
    counts = np.bincount(areas.leaf, minlength=n_leaves)
    width = int(counts.max(initial=0))
    table = np.full((n_leaves, width + 1), -1, dtype=np.int64)
    order = np.argsort(areas.leaf, kind="stable")
    leaf = areas.leaf[order]
    place = np.arange(len(leaf)) - np.concatenate([[0], np.cumsum(counts)])[leaf]
    table[leaf, place] = areas.area[order]
    if old_unit is not None:
        table[:, width] = old_unit
    return np.unique(table, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


class _Members:
    """The areas of each leaf; old units are areas too, where they are given."""

    def __init__(self, areas: OffSpineAreas, old_unit: NDArray[np.int64] | None) -> None:
        order = np.argsort(areas.leaf, kind="stable")
        self._leaf, self._area = areas.leaf[order], areas.area[order]
        self._old_unit, self._n = old_unit, len(areas)

    def counts(self, first: int, group: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
        """`(n_areas here, n_groups)` leaves of each area in each group of the leaves from `first` on."""
        low, high = np.searchsorted(self._leaf, [first, first + len(group)])
        area, of = self._area[low:high], group[self._leaf[low:high] - first]
        if self._old_unit is not None:
            area = np.concatenate([area, self._old_unit[first : first + len(group)] + self._n])
            of = np.concatenate([of, group])
        names, row = np.unique(area, return_inverse=True)
        out = np.zeros((len(names), n_groups), dtype=np.int64)
        np.add.at(out, (row, of), 1)
        return out


def _units(signature: NDArray[np.int64], first: int, members: _Members, fan_out: int) -> NDArray[np.int64]:
    """The unit, from 0, of each leaf of one geounit; its first leaf is leaf `first` of the spine."""
    starts, group = np.unique(signature, return_index=True, return_inverse=True)[1:]
    group = np.argsort(np.argsort(starts))[group.ravel()]  # numbered by their first leaf
    n_groups = len(starts)
    if n_groups > fan_out:
        joined = _joined(members.counts(first, group, n_groups), np.bincount(group, minlength=n_groups), fan_out)
        group = joined[group]
        n_groups = int(group.max()) + 1
    sizes = np.bincount(group, minlength=n_groups)
    pieces = _pieces(sizes, fan_out)
    if (pieces == 1).all():
        return group
    rank = np.empty(len(group), dtype=np.int64)
    order = np.argsort(group, kind="stable")
    rank[order] = np.arange(len(group)) - np.concatenate([[0], np.cumsum(sizes)])[group[order]]
    piece = rank * pieces[group] // sizes[group]
    return np.unique(np.concatenate([[0], np.cumsum(pieces)])[group] + piece, return_inverse=True)[1].ravel()


def _pieces(sizes: NDArray[np.int64], fan_out: int) -> NDArray[np.int64]:
    """Into how many units each group is divided: as many as the cap on leaves requires and the cap on units allows."""
    pieces = np.ones(len(sizes), dtype=np.int64)
    for _ in range(max(0, fan_out - len(sizes))):
        largest = int(np.argmax(sizes / pieces))
        if sizes[largest] <= fan_out * pieces[largest]:
            break
        pieces[largest] += 1
    return pieces


def _joined(counts: NDArray[np.int64], sizes: NDArray[np.int64], fan_out: int) -> NDArray[np.int64]:
    """The new number of each group after as many joins as the cap requires, the cheapest first.

    Args:
        counts: `(n_areas, n_groups)` leaves of each area in each group.
        sizes: `(n_groups,)` leaves of each group.
        fan_out: the cap on the number of groups.
    """
    counts, sizes = counts.copy(), sizes.copy()
    number = np.arange(len(sizes))
    own = _distance(counts, sizes).sum(axis=0)
    for _ in range(len(sizes) - fan_out):
        leaves_inside = counts[:, :, None] + counts[:, None, :]
        joint_sizes = sizes[:, None] + sizes[None, :]
        cost = (_distance(leaves_inside, joint_sizes).sum(axis=0) - own[:, None] - own[None, :]).astype(np.float64)
        # Ties go to the smallest resulting unit, then to the first pair; a unit is never joined with itself.
        cost += joint_sizes / (2.0 * sizes.sum() + 1.0)
        cost[np.tril_indices(len(sizes))] = np.inf
        unit, absorbed = np.unravel_index(int(np.argmin(cost)), cost.shape)
        counts[:, unit] += counts[:, absorbed]
        sizes[unit] += sizes[absorbed]
        counts, sizes = np.delete(counts, absorbed, axis=1), np.delete(sizes, absorbed)
        own = np.delete(own, absorbed)
        own[unit] = _distance(counts[:, unit], sizes[unit]).sum()
        number = np.where(number == absorbed, unit, number)
        number = np.where(number > absorbed, number - 1, number)
    return number


def _distance(inside: NDArray[np.int64], sizes: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
    """Geounits to add and subtract for an area's part of a unit: the unit, some leaves, or the unit less some."""
    return np.where(inside == sizes, 1, np.minimum(inside, 1 + sizes - inside))


def _rebuilt(spine: Spine, unit: NDArray[np.int64], parent: NDArray[np.int64]) -> Spine:
    """The spine with the given `unit` of each leaf and the `parent` of that unit in the level above, `(n_leaves,)`."""
    n_units = int(unit.max()) + 1
    first = np.unique(unit, return_index=True)[1]
    unit_parent = parent[first]
    old = spine.levels[-2]
    old_of = spine.leaf_level.parents
    same = np.bincount(unit) == np.diff(spine.child_offsets(spine.n_levels - 2))[old_of[first]]
    same &= np.bincount(unit, weights=(old_of != old_of[first][unit]).astype(np.float64), minlength=n_units) == 0
    taken = set(old.geocodes.tolist())
    codes: list[str] = []
    counters: dict[int, int] = {}
    names = spine.levels[-3].geocodes.tolist()
    for number in range(n_units):
        if same[number]:
            codes.append(str(old.geocodes[old_of[first[number]]]))
            continue
        code = ""
        while not code or code in taken:
            counters[int(unit_parent[number])] = counters.get(int(unit_parent[number]), 0) + 1
            code = f"{names[unit_parent[number]]}-{counters[int(unit_parent[number])]:02d}"
        codes.append(code)
    geocodes = np.array(codes)
    order = np.lexsort((geocodes, unit_parent))
    position = np.empty(n_units, dtype=np.int64)
    position[order] = np.arange(n_units)
    leaf_parent = position[unit]
    leaf_order = np.lexsort((spine.leaf_level.geocodes, leaf_parent))
    return Spine(
        (
            *spine.levels[:-2],
            Level(old.name, geocodes[order], unit_parent[order]),
            Level(spine.leaf_level.name, spine.leaf_level.geocodes[leaf_order], leaf_parent[leaf_order]),
        )
    )
