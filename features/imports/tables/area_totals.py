"""Areas of a table that are the sums of other areas in every cell: found by arithmetic, whatever they are called.

A country before its regions, regions before or behind their municipalities, a block of regions below one of
municipalities: each would count everybody once more. They become the levels above.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: So many bits of agreement make a sum no accident.
_BITS = 12.0
#: The same of one area that is the sum of all others.
_BITS_OF_TOP = 7.0
#: Sums that are this close, and not equal, are mistakes to be told.
_CLOSE = 0.005
_FEWEST = 4
_MOST_LAYERS = 6

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class AreaTotals:
    """What is the sum of what.

    Attributes:
        parent: area -> the area above it, for every area that is a part of a sum, where it is known which.
        totals: areas that are sums, from the top down as far as that is known.
        unplaced: those of them of which it is not known which areas they are the sum of.
        problem: a sentence on a sum that is almost right, or may be an accident; "" where there is none.
        suspects: the areas that it is about.
    """

    parent: Mapping[str, str]
    totals: tuple[str, ...]
    unplaced: tuple[str, ...] = ()
    problem: str = ""
    suspects: tuple[str, ...] = ()

    def chains(self, leaves: Sequence[str]) -> list[dict[str, str]]:
        """Leaf -> area above it, for each level from the top; empty where not every leaf has as many areas above it."""
        paths = []
        for leaf in leaves:
            path, area = [], leaf
            while area in self.parent:
                area = self.parent[area]
                path.append(area)
            paths.append(path[::-1])
        depths = {len(path) for path in paths}
        if len(depths) != 1:
            return []
        return [{leaf: path[i] for leaf, path in zip(leaves, paths, strict=True)} for i in range(depths.pop())]


_NONE = AreaTotals({}, ())


def find_area_totals(areas: Sequence[str], counts: Counts) -> AreaTotals:
    """The sums among areas.

    Args:
        areas: codes, in the order of the file.
        counts: `(n_areas, n_cells)`.
    """
    if len(areas) < 3 or not counts.any():
        return _NONE
    rows = list(range(len(areas)))
    tops, problem = _tops(counts)
    if problem is not None:
        has = int(counts[problem].sum())
        layers = round(int(counts.sum()) / has) - 1
        whole = int(counts.sum() - has)
        if layers > 1:
            sentence = _almost(areas[problem], has, whole / layers, f"each of {layers} layers of all others")
            return AreaTotals({}, (), problem=sentence)
        return AreaTotals({}, (), problem=_almost(areas[problem], has, whole, "all others"), suspects=(areas[problem],))
    rest = [i for i in rows if i not in tops]
    parent: dict[int, int] = {}
    totals: list[int] = list(tops)
    unplaced: list[int] = []
    layered = len(rest) > 2 and (
        _nested_codes(areas, counts, rest)
        or _in_order(counts, rest)
        or _layers(areas, counts, rest, None if not tops else counts[tops[0]])
    )
    if isinstance(layered, str):
        return AreaTotals({}, (), problem=layered)
    if layered:
        found, loose = layered
        parent |= found
        sums = set(found.values()) | set(loose)
        totals += [i for i in rest if i in sums]
        unplaced += loose
    elif tops and len(tops) == 1 and _layers_needed(counts, tops[0]) > 1:
        several = _layers_needed(counts, tops[0])
        problem_of_layers = (
            f"all others add up to {several} times {areas[tops[0]]!r} in every cell, and nothing in the order or the "
            "codes of the areas shows which of them are sums of which"
        )
        return AreaTotals({}, (), problem=problem_of_layers)
    for i in rest:
        if tops and i not in parent and i not in unplaced:
            parent[i] = tops[0]
    for below, above in zip(tops[1:], tops, strict=False):
        parent[below] = above
        parent |= {i: below for i, over in parent.items() if over == above and i != below}
    names = {areas[i]: areas[j] for i, j in parent.items()}
    order = sorted(totals, key=lambda i: (-int(counts[i].sum()), i))
    return AreaTotals(names, tuple(areas[i] for i in order), tuple(areas[i] for i in unplaced))


def _almost(area: str, has: int, expected: float, others: str) -> str:
    difference = has - expected
    if not difference:
        return f"{area!r} has {has:,}, and so have {others} together: it may be their sum"
    return (
        f"{area!r} has {has:,} and {others} add up to {expected:,.10g} ({abs(difference):,.10g} "
        f"{'less' if difference > 0 else 'more'}): it looks like their sum and is not in every cell"
    )


def _layers_needed(counts: Counts, top: int) -> int:
    """How many times the others hold everybody of the top."""
    return round(int(counts.sum()) / int(counts[top].sum())) - 1


def _bits(counts: Counts) -> float:
    """How surprising it is that numbers of this size agree in every cell."""
    return float(np.log2(1.0 + counts.astype(np.float64)).sum())


def _tops(counts: Counts) -> tuple[list[int], int | None]:
    """The areas that are the sum of all others, or of each layer of them; or one that is so in most cells only."""
    whole, n = counts.sum(axis=0), len(counts)
    sizes = counts.sum(axis=1)
    total = int(sizes.sum())
    tops = []
    for i in np.flatnonzero(sizes * 2 >= total // _MOST_LAYERS).tolist():
        if not sizes[i] or total % int(sizes[i]):
            continue
        times = total // int(sizes[i])
        if (
            2 <= times <= _MOST_LAYERS
            and (counts[i] * times == whole).all()
            and _bits(counts[i]) > _BITS_OF_TOP + np.log2(n)
        ):
            tops.append(i)
    # As many equal ones as there are layers, and none below them, would be areas of their own.
    if tops and len(tops) < n:
        return (tops if len(tops) == 1 or len(tops) < total // int(sizes[tops[0]]) else []), None
    if n >= _FEWEST:
        for i in np.flatnonzero(np.abs(2 * sizes - total) <= _CLOSE * total).tolist():
            others = whole - counts[i]
            n_equal, n_cells = int((counts[i] == others).sum()), int((counts[i] + others > 0).sum())
            if (n_cells == 1 or 2 * n_equal >= n_cells or n_cells > 3) and _bits(counts[i]) > 3:
                return [], i
        for i in np.flatnonzero(sizes).tolist():
            times = round(total / int(sizes[i]))
            same = (counts[i] * times == whole) & (whole > 0)
            if 3 <= times <= _MOST_LAYERS and 2 * int(same.sum()) > int((whole > 0).sum()) > 1:
                return [], i
    return [], None


_Layered = tuple[dict[int, int], list[int]]


def _nested_codes(areas: Sequence[str], counts: Counts, rest: Sequence[int]) -> _Layered | str | None:
    """Areas whose codes begin with that of the sum, as NL11 lies in NL1."""
    places = {areas[i]: i for i in rest}
    parent: dict[int, int] = {}
    for i in rest:
        code = areas[i]
        start = next((code[:end] for end in range(len(code) - 1, 0, -1) if code[:end] in places), None)
        if start is not None:
            parent[i] = places[start]
    children: dict[int, list[int]] = {}
    for i, above in parent.items():
        children.setdefault(above, []).append(i)
    children = {above: some for above, some in children.items() if len(some) > 1 or counts[above].any()}
    if not children:
        return None
    right = {i: bool((counts[some].sum(axis=0) == counts[i]).all()) for i, some in children.items()}
    near = {
        i: abs(int(counts[some].sum() - counts[i].sum())) <= 0.02 * max(int(counts[i].sum()), 1)
        for i, some in children.items()
    }
    bits = sum(_bits(counts[i]) for i, is_sum in right.items() if is_sum)
    if all(right.values()) and bits > _BITS:
        return parent, []
    if (any(right.values()) and bits > _BITS) or (
        all(near.values()) and sum(near.values()) > 0 and len(rest) >= _FEWEST
    ):
        i = next(i for i, is_sum in right.items() if not is_sum)
        return _almost(
            areas[i], int(counts[i].sum()), int(counts[children[i]].sum()), "the areas whose codes begin with it"
        )
    return None


def _in_order(counts: Counts, rest: Sequence[int]) -> _Layered | str | None:
    """Each sum stands before, or behind, the areas that it is the sum of."""
    for order in (list(reversed(rest)), list(rest)):
        parent, _ = _reduced(counts, order)
        above = set(parent.values())
        if not above or len(rest) - len(above) < 2:
            continue
        depths = {_depth(i, parent) for i in rest if i not in above}
        if len(depths) == 1 and 0 not in depths:
            bits = sum(_bits(counts[i]) for i in above)
            # Among many small numbers some agree by accident.
            if bits > _BITS + len(above) * np.log2(2 + len(rest) / len(above)):
                return parent, []
    return None


def _depth(i: int, parent: Mapping[int, int]) -> int:
    depth = 0
    while i in parent:
        i, depth = parent[i], depth + 1
    return depth


def _reduced(counts: Counts, order: Sequence[int]) -> tuple[dict[int, int], list[int]]:
    """Parents, where each area takes those just before it in `order` that add up to it; and those left at the top."""
    sizes = counts.sum(axis=1)
    stack: list[int] = []
    parent: dict[int, int] = {}
    has_children: set[int] = set()
    for i in order:
        size, taken = 0, 0
        while taken < len(stack) and size < sizes[i]:
            taken += 1
            size += int(sizes[stack[-taken]])
        members = stack[len(stack) - taken :]
        enough = taken > 1 or (taken == 1 and (counts[i] > 0).sum() > 2)
        if sizes[i] and size == sizes[i] and enough and (counts[members].sum(axis=0) == counts[i]).all():
            # Empty areas beyond the last one belong to it as well.
            while taken < len(stack) and not sizes[stack[-taken - 1]] and stack[-taken - 1] not in has_children:
                taken += 1
            for member in stack[len(stack) - taken :]:
                parent[member] = i
            del stack[len(stack) - taken :]
            has_children.add(i)
        stack.append(i)
    return parent, stack


def _kind(code: str) -> str:
    """The form of a code: its letters at the front, and the length."""
    letters = re.match(r"[A-Za-z]*", code)
    start = letters[0] if letters else ""
    return f"{start}{code[len(start) : len(start) + 2] if start and len(code) == 9 else ''}:{len(code)}"


def _layers(areas: Sequence[str], counts: Counts, rest: Sequence[int], top: Counts | None) -> _Layered | str | None:
    """Blocks of areas with the same sum in every cell, by the form of their codes or in the order of the file."""
    kinds: dict[str, list[int]] = {}
    for i in rest:
        kinds.setdefault(_kind(areas[i]), []).append(i)
    blocks = list(kinds.values())
    for form in (blocks, _cuts(counts, rest, top)):
        if not 2 <= len(form) <= _MOST_LAYERS:
            continue
        sums = [counts[block].sum(axis=0) for block in form]
        sizes = [int(one.sum()) for one in sums]
        if all((one == sums[0]).all() for one in sums) and _bits(sums[0]) > _BITS:
            return _placed(areas, counts, sorted(form, key=len))
        close = max(sizes) - min(sizes) <= _CLOSE * max(sizes)
        n_equal = sum(int(((one == sums[0]) & (one > 0)).sum()) for one in sums[1:])
        most = 2 * n_equal > len(sums[0]) * (len(sums) - 1)
        if close and (min(map(len, form)) > 1 or most) and len(rest) > _FEWEST:
            first, second = sorted(form, key=len)[:2]
            return _almost(
                f"{areas[first[0]]} to {areas[first[-1]]}", int(counts[first].sum()), int(counts[second].sum()),
                f"{areas[second[0]]} to {areas[second[-1]]}",
            )  # fmt: skip
    return None


def _cuts(counts: Counts, rest: Sequence[int], top: Counts | None) -> list[list[int]]:
    """The areas in blocks that follow each other, each with the sum of the top, or two halves."""
    ordered = counts[list(rest)]
    running = ordered.cumsum(axis=0)
    whole = running[-1]
    for times in [int(whole.sum() // max(int(top.sum()), 1))] if top is not None else range(2, _MOST_LAYERS):
        if times < 2 or (whole % times).any():
            continue
        each = whole // times
        ends = [np.flatnonzero((running == each * k).all(axis=1)) for k in range(1, times + 1)]
        if all(len(some) for some in ends):
            stops = [0, *(int(some[-1]) + 1 for some in ends[:-1]), len(rest)]
            return [list(rest[a:b]) for a, b in pairwise(stops)]
    return []


def _placed(areas: Sequence[str], counts: Counts, layers: Sequence[Sequence[int]]) -> _Layered:
    """Which area of each layer lies in which of the layer above: by codes, or where they follow each other."""
    parent: dict[int, int] = {}
    loose: list[int] = []
    for upper, lower in pairwise(layers):
        found = _by_codes(areas, counts, upper, lower) or _by_runs(counts, upper, lower)
        if found is None:
            loose += list(upper)
        else:
            parent |= found
    if loose:
        return {}, [i for layer in layers[:-1] for i in layer]
    return parent, []


def _by_codes(
    areas: Sequence[str], counts: Counts, upper: Sequence[int], lower: Sequence[int]
) -> dict[int, int] | None:
    codes = {areas[i]: i for i in upper}
    parent = {}
    for i in lower:
        above = next((codes[areas[i][:end]] for end in range(len(areas[i]), 0, -1) if areas[i][:end] in codes), None)
        if above is None:
            return None
        parent[i] = above
    return parent if _adds_up(counts, parent, upper) else None


def _by_runs(counts: Counts, upper: Sequence[int], lower: Sequence[int]) -> dict[int, int] | None:
    parent: dict[int, int] = {}
    at = 0
    for i in upper:
        size = 0
        start = at
        while at < len(lower) and size < int(counts[i].sum()):
            size += int(counts[lower[at]].sum())
            at += 1
        if not (counts[list(lower[start:at])].sum(axis=0) == counts[i]).all():
            return None
        parent |= dict.fromkeys(lower[start:at], i)
    last = upper[-1]
    return parent | {i: last for i in lower[at:] if not counts[i].any()} if not counts[list(lower[at:])].any() else None


def _adds_up(counts: Counts, parent: Mapping[int, int], upper: Sequence[int]) -> bool:
    sums = {i: np.zeros(counts.shape[1], dtype=np.int64) for i in upper}
    for i, above in parent.items():
        sums[above] += counts[i]
    return all((sums[i] == counts[i]).all() for i in upper)
