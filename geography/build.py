"""Builds a spine from a public list of codes, and reports what is wrong with a list that is not a tree.

Three forms give the same spine: leaf codes whose prefixes are the codes of the levels above, a table with one column
per level, and child-parent pairs. The order of the input never matters.

A spine of some areas of a public list alone, which still knows the codes that are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from geography.errors import SpineError
from geography.spine import (
    SHOWN,
    LeftOut,
    Level,
    Spine,
    check_lengths,
    check_level_names,
    counted,
    first_few,
    strictly_increasing,
    text_array,
    text_column,
)


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


def spine_from_prefixes(
    codes: Sequence[str] | NDArray[np.str_], levels: Mapping[str, int] | Sequence[tuple[str, int]]
) -> Spine:
    """The spine of leaf codes in which each geounit's code is a prefix of its children's.

    Args:
        codes: `(n_leaves,)` leaf codes, all of the last level's length, in any order.
        levels: name and prefix length of each level in characters, top first, lengths increasing.

    Raises:
        SpineError: a code is missing, duplicated or of the wrong length; the levels' names or lengths are wrong.
    """
    pairs = list(levels.items()) if isinstance(levels, Mapping) else list(levels)
    check_level_names([name for name, _ in pairs])
    lengths = [length for _, length in pairs]
    if any(length <= shorter for shorter, length in zip([0, *lengths], lengths, strict=False)):
        stated = ", ".join(f"{name} = {length}" for name, length in pairs)
        raise SpineError(f"levels: found the prefix lengths {stated}; they must be positive and increase downwards")
    leaf_name, width = pairs[-1]
    leaves = text_array(codes, "leaf codes")
    check_lengths(leaves, leaf_name, width)
    leaves = np.ascontiguousarray(leaves, dtype=f"<U{width}")
    if not strictly_increasing(leaves):
        leaves = np.sort(leaves)
        if (twice := np.unique(leaves[1:][leaves[1:] == leaves[:-1]])).size:
            raise SpineError(f"level {leaf_name!r}: codes given twice: {first_few(twice)}; give each leaf once")
    # In sorted codes a geounit starts where any character of its prefix differs from the row before.
    characters = leaves.view(np.uint32).reshape(-1, width)
    starts_here = np.zeros(len(leaves), dtype=np.bool_)
    starts_here[0] = True
    built_levels: list[Level] = []
    above_of_row = np.full(len(leaves), -1, dtype=np.int64)
    done = 0
    for name, length in pairs:
        starts_here[1:] |= (characters[1:, done:length] != characters[:-1, done:length]).any(axis=1)
        starts = np.flatnonzero(starts_here)
        built_levels.append(Level(name, leaves[starts].astype(f"<U{length}"), above_of_row[starts]))
        above_of_row = np.cumsum(starts_here, dtype=np.int64) - 1
        done = length
    return Spine(tuple(built_levels))


def spine_from_table(table: pa.Table, levels: Sequence[str]) -> Spine:
    """The spine of a table with one row per leaf and one column per level.

    An empty or null cell below the top pads the branch: the geounit above is repeated as its own only child under the
    same geocode, so that a spine of unequal depth becomes one of equal depth.

    Args:
        table: columns of text or whole numbers; other columns are ignored.
        levels: the columns' names, top first; they become the levels' names.

    Raises:
        SpineError: a column is missing or of another type, a row has no top-level code, a leaf is duplicated, a code
            has two parents, or a geounit is both a leaf and a parent.
    """
    check_level_names(levels)
    for name in levels:
        if (count := table.column_names.count(name)) != 1:
            problem = "no column" if count == 0 else f"{count} columns"
            raise SpineError(f"level {name!r}: {problem} of that name; the columns are {', '.join(table.column_names)}")
    return _assemble([text_column(table.column(name), name) for name in levels], levels)


def spine_from_pairs(
    children: Sequence[str | None] | NDArray[np.str_],
    parents: Sequence[str | None] | NDArray[np.str_],
    levels: Sequence[str],
) -> Spine:
    """The spine of child-parent pairs; a code identifies one geounit of the whole tree.

    A top-level geounit has a row with an empty (or None) parent. A geounit without children above the last level is
    padded as in `spine_from_table`.

    Args:
        children: `(n,)` codes, each once.
        parents: `(n,)` code of each child's parent.
        levels: the levels' names, top first.

    Raises:
        SpineError: a child has several parents or is duplicated, a parent has no row of its own, there is a cycle, or
            the tree is deeper or shallower than `levels`.
    """
    check_level_names(levels)
    if len(children) != len(parents):
        raise SpineError(f"found {len(children):,} children and {len(parents):,} parents; each child needs one")
    codes = text_array(children, "children")
    parent_codes = text_array(parents, "parents", missing_allowed=True)
    order = np.argsort(codes, kind="stable")
    codes, parent_codes = codes[order], parent_codes[order]
    _check_one_way_up(codes, parent_codes)
    is_top = parent_codes == ""
    parent = np.minimum(np.searchsorted(codes, parent_codes), len(codes) - 1).astype(np.int64)
    if (hanging := np.flatnonzero(~is_top & (codes[parent] != parent_codes))).size:
        pairs = [f"{codes[i]} (parent {parent_codes[i]})" for i in hanging[: SHOWN + 1]]
        raise SpineError(
            f"{counted(len(hanging), 'pair')} with a parent that has no row of its own: {', '.join(pairs[:SHOWN])}"
            f"{', ...' if len(pairs) > SHOWN else ''}; give a top-level geounit a row with an empty parent"
        )
    parent[is_top] = -1
    depth = _depths(codes, parent, levels)
    has_children = np.zeros(len(codes), dtype=np.bool_)
    has_children[parent[~is_top]] = True
    node = np.flatnonzero(~has_children)
    columns: list[pa.Array] = []
    for level in reversed(range(len(levels))):
        at_level = depth[node] == level
        columns.append(pa.array(np.where(at_level, codes[node], "").tolist(), pa.string()))
        node = np.where(at_level, parent[node], node)
    return _assemble(columns[::-1], levels)


def _assemble(columns: Sequence[pa.Array], levels: Sequence[str]) -> Spine:
    """The spine of text columns `(n_leaves,)`, one per level, "" where the branch is padded."""
    if not len(columns[0]):
        raise SpineError("the list of leaves is empty; at least one leaf is needed")
    built: list[Level] = []
    above_codes, above = np.zeros(0, dtype=np.str_), np.zeros(0, dtype=np.int64)
    position = np.zeros(0, dtype=np.int64)
    previous: pa.Array | None = None
    for name, texts in zip(levels, columns, strict=True):
        empty = pc.equal(texts, "")
        padded = empty.to_numpy(zero_copy_only=False)
        if previous is None and padded.any():
            rows = np.flatnonzero(padded) + 1
            raise SpineError(
                f"level {name!r}: no code in row {first_few(rows, quoted=False)}; each leaf needs a top-level geounit"
            )
        if padded.all():
            raise SpineError(f"level {name!r}: no geounit has a code of its own at this level; leave the level out")
        column = texts if previous is None else pc.if_else(empty, previous, texts)
        codes, index = _factorize(column)
        n = len(codes)
        parent_of = np.full(n, -1, dtype=np.int64)
        if previous is None:
            rank = np.arange(n, dtype=np.int64)
        else:
            parent_of[index] = above
            _check_one_parent(name, codes, index, above_codes, above, parent_of)
            _check_single_child(name, levels[len(built) - 1], padded, codes, above_codes, above, parent_of)
            rank = position[parent_of] * n + np.arange(n)
        order = np.argsort(rank, kind="stable")
        built.append(Level(name, codes[order], position[parent_of[order]] if len(position) else parent_of))
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(n)
        above_codes, above, previous = codes, index, column
    if (twice := np.flatnonzero(np.bincount(above) > 1)).size:
        raise SpineError(
            f"level {levels[-1]!r}: codes given twice: {first_few(above_codes[twice])}; give each leaf once"
        )
    return Spine(tuple(built))


def _factorize(column: pa.Array) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """The distinct codes in order, and the index of each row's code among them."""
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return np.array(encoded.dictionary.take(order).to_pylist(), dtype=np.str_), rank[encoded.indices.to_numpy()]


def _check_one_parent(
    name: str,
    codes: NDArray[np.str_],
    index: NDArray[np.int64],
    above_codes: NDArray[np.str_],
    above: NDArray[np.int64],
    parent_of: NDArray[np.int64],
) -> None:
    """Raises SpineError where rows of one code (`index`) disagree on the parent (`above`)."""
    rows = np.flatnonzero(parent_of[index] != above)
    children, first = np.unique(index[rows], return_index=True)
    if not len(children):
        return
    conflicts = [
        f"{codes[child]} under {' and '.join(sorted((above_codes[above[row]], above_codes[parent_of[child]])))}"
        for child, row in zip(children[:SHOWN], rows[first[:SHOWN]], strict=True)
    ]
    raise SpineError(
        f"level {name!r}: {counted(len(children), 'code')} with several parents: {'; '.join(conflicts)}"
        f"{'; ...' if len(children) > SHOWN else ''}; a code must be unique in its level and have one parent"
    )


def _check_single_child(
    name: str,
    above_name: str,
    padded: NDArray[np.bool_],
    codes: NDArray[np.str_],
    above_codes: NDArray[np.str_],
    above: NDArray[np.int64],
    parent_of: NDArray[np.int64],
) -> None:
    """Raises SpineError where a geounit that some row pads has other children too."""
    n_children = np.bincount(parent_of, minlength=len(above_codes))
    padded_parents = np.unique(above[padded])
    if (mixed := padded_parents[n_children[padded_parents] > 1]).size:
        other_children = codes[(parent_of == mixed[0]) & (codes != above_codes[mixed[0]])]
        raise SpineError(
            f"level {name!r}: {above_name} {first_few(above_codes[mixed])} has rows without a code at this level and "
            f"rows with one ({first_few(other_children)}); a geounit is either divided or not"
        )


def _check_one_way_up(codes: NDArray[np.str_], parents: NDArray[np.str_]) -> None:
    """Raises SpineError where a code occurs twice in the sorted `codes`."""
    again = np.flatnonzero(codes[1:] == codes[:-1])
    if not again.size:
        return
    differing = again[parents[again] != parents[again + 1]]
    if differing.size:
        pairs = [f"{codes[i]} under {parents[i] or 'none'} and {parents[i + 1] or 'none'}" for i in differing[:SHOWN]]
        raise SpineError(
            f"{counted(len(np.unique(codes[differing])), 'child', 'children')} with several parents: {'; '.join(pairs)}"
            f"{'; ...' if len(differing) > SHOWN else ''}; each child has one parent"
        )
    raise SpineError(f"children given twice: {first_few(np.unique(codes[again]))}; give each pair once")


def _depths(codes: NDArray[np.str_], parent: NDArray[np.int64], levels: Sequence[str]) -> NDArray[np.int64]:
    """Depth of each geounit, 0 at the top; SpineError for a cycle or a tree deeper than the levels."""
    depth = np.where(parent < 0, 0, -1)
    for level in range(1, len(levels)):
        below = (depth < 0) & (depth[parent] == level - 1)
        depth[below] = level
    unreached = np.flatnonzero(depth < 0)
    if not unreached.size:
        return depth
    if (deeper := unreached[depth[parent[unreached]] >= 0]).size:
        raise SpineError(
            f"codes below the last level {levels[-1]!r}: {first_few(codes[deeper])}; "
            f"the tree is deeper than its levels {', '.join(levels)}"
        )
    # What no top-level geounit reaches is on a cycle or below one; walk up until a geounit recurs.
    path: list[int] = []
    geounit = int(unreached[0])
    seen: dict[int, int] = {}
    while geounit not in seen:
        seen[geounit] = len(path)
        path.append(geounit)
        geounit = int(parent[geounit])
    cycle = [*path[seen[geounit] :], geounit]
    named = [str(codes[i]) for i in cycle]
    geounits = [*named[:8], "...", named[-1]] if len(named) > 10 else named
    raise SpineError(f"the pairs form a cycle: {' -> '.join(geounits)} (child -> parent); a spine is a tree")
