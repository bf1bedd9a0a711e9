"""A release cut into subtrees, so that its peak memory is set by the largest of them and not by the whole spine.

The spine is cut at one level. There are two passes over the subtrees below it, in any order and on any machine:

1. the upward pass of each subtree, of which only its top level's estimate is kept; these estimates are all that the
   levels above need, and those are then solved as if the cut were the leaf level;
2. given the whole numbers at the cut, each subtree's upward pass again and its levels below the cut, top down.

The numbers are the same as from the whole spine at once: every parent is solved by itself, from the same terms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from geography.spine import Level, Spine
from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray, members, owners
from postprocess.downward.batch import Pass, SolverReport
from postprocess.downward.level import downward_level
from postprocess.linear.information import Information
from postprocess.linear.upward import ChildrenSum, LevelEstimate, upward_pass
from postprocess.problem import MeasuredAnswers, Problem

#: Leaf cells from which a spine is cut: 2,016 cells in 130,000 blocks.
MOST_CELLS = 1 << 28
#: Memory of a cell of a geounit at the cut, in leaf cells: it has estimates beside measurements in small integers.
ABOVE = 8
#: Leaf cells of the small subtrees that are worked on together.
PART_CELLS = 1 << 26
#: Most numbers of measurements that are held for all parts, in leaf cells of the largest part.
HELD = 2
#: Bytes of a number of these: of most two are enough. Bytes per cell of a geounit at the cut, and per number of the
#: matrices there, of which no two parts share any.
VALUE_BYTES, TOP_BYTES, TOP_MATRIX_BYTES = 2.0, 110.0, 48.0


@dataclass(frozen=True)
class Cut:
    """Where a spine is cut.

    Attributes:
        level: geounits of this level are the tops of the subtrees.
        parts: runs of successive geounits `(first, last)` of the level, the last excluded; a part is worked on at once.
    """

    level: int
    parts: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """Unique to the cut, so that parts of two cuts are never mistaken for each other."""
        return f"{self.level}-{len(self.parts)}-{hashlib.sha256(repr(self.parts).encode()).hexdigest()[:12]}"

    def largest(self, spine: Spine) -> int:
        """Leaves of the largest part."""
        leaves = spine.leaf_offsets(self.level)
        return max(int(leaves[last] - leaves[first]) for first, last in self.parts)


def cut_of(spine: Spine, n_cells: int, most: int = MOST_CELLS, part: int = PART_CELLS) -> Cut | None:
    """Where to cut, so that neither the largest subtree nor the levels above take much; None if no cut is needed.

    Args:
        spine: the geounits.
        n_cells: of the schema.
        most: leaf cells that a spine may have without being cut.
        part: leaf cells of the small subtrees that share a part.
    """
    level = cut_level(spine)
    if spine.n_leaves * n_cells <= most or level is None:
        return None
    leaves = spine.leaf_offsets(level)
    # Successive subtrees share a part until it is full.
    starts, begun = [0], 0
    for number in range(1, len(leaves) - 1):
        if (int(leaves[number + 1]) - begun) * n_cells > part:
            starts.append(number)
            begun = int(leaves[number])
    starts.append(len(leaves) - 1)
    return Cut(level, tuple(pairwise(starts)))


def tops_bytes(n_geounits: int, n_cells: int, n_numbers: int) -> float:
    """Bytes of the geounits at the cut, with matrices of so many numbers, in the process that hands out parts."""
    return n_geounits * (TOP_BYTES * n_cells + TOP_MATRIX_BYTES * n_numbers)


def held_bytes(largest: int, n_cells: int, measured: int) -> float:
    """Bytes of the measurements that are held for all parts; `largest`: leaves of the largest part."""
    return VALUE_BYTES * min(HELD * largest * n_cells, measured)


def cut_level(spine: Spine) -> int | None:
    """The level at which a spine is cut if it is: it follows from the spine alone; None where there is none between."""
    if spine.n_levels < 3:
        return None
    levels = range(1, spine.n_levels - 1)
    largest = [int(np.diff(spine.leaf_offsets(level)).max()) for level in levels]
    held = [max(below, ABOVE * len(spine.levels[level])) for level, below in zip(levels, largest, strict=True)]
    return levels[int(np.argmin(held))]


def part_of(problem: Problem, cut: Cut, number: int) -> Problem:
    """The problem of the subtrees of one part, by its number; its top level is the cut."""
    first, last = cut.parts[number]
    rows = problem.spine.rows_below(cut.level, first, last)
    measured = [
        tuple(replace(measurement, values=measurement.values[own]) for measurement in level)
        for level, own in zip(problem.measured[cut.level :], rows, strict=True)
    ]
    return replace(
        _rows_below(problem, cut.level, rows),
        spine=problem.spine.slice(cut.level, first, last),
        measured=tuple(measured),
        first_rows=tuple(problem.first_row(cut.level + i) + own.start for i, own in enumerate(rows)),
    )


def chosen_subtrees(problem: Problem, level: int, tops: IntArray) -> tuple[Problem, list[IntArray]]:
    """The problem of some subtrees, wherever they are, without its measurements; and the rows of each of its levels.

    Bounds stay as they are kept (`compact_below`), since runs are sent with many of these.

    Args:
        problem: of the whole release.
        level: of their tops.
        tops: rows of the tops in that level, increasing.
    """
    spine = problem.spine
    rows, levels = [tops], [spine.levels[level]]
    levels[0] = Level(levels[0].name, levels[0].geocodes[tops], np.full(len(tops), -1, dtype=np.int64))
    for number in range(level, spine.n_levels - 1):
        own, starts = members(spine.child_offsets(number), rows[-1])
        below = spine.levels[number + 1]
        levels.append(Level(below.name, below.geocodes[own], owners(starts)))
        rows.append(own)
    measured = tuple(without_values(queries) for queries in problem.measured[level:])
    spine = Spine(tuple(levels), part=True)
    return replace(_rows_below(problem, level, rows), spine=spine, measured=measured, first_rows=()), rows


def _rows_below(problem: Problem, top: int, rows: Sequence[slice | IntArray]) -> Problem:
    """The problem from a level down with some `rows` of each level, but for its spine and its measurements."""

    def own(levels: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], ...]:
        """What there is of each level, of these rows; of no level where there is nothing at any."""
        pairs = zip(levels[top:], rows, strict=False)
        return tuple(tuple(one.of_rows(of_level) for one in level) for level, of_level in pairs)

    return replace(
        problem,
        constraints=replace(problem.constraints, bounds=own(problem.constraints.bounds)),
        kinds=tuple(
            None if kinds is None else kinds[of_level]
            for kinds, of_level in zip(problem.kinds[top:], rows, strict=False)
        ),
        joined=own(problem.joined),
        implied=tuple(one.of_rows(of_level) for one, of_level in zip(problem.implied[top:], rows, strict=False)),
        shares=own(problem.shares),
        first_level=problem.first_level + top,
    )


def without_values(queries: Sequence[MeasuredAnswers]) -> tuple[MeasuredAnswers, ...]:
    """The measurements' queries and variances, without answers."""
    return tuple(replace(query, values=np.zeros((0, 0), dtype=np.int8)) for query in queries)


def above_cut(problem: Problem, cut: Cut) -> Problem:
    """The problem of the levels down to the cut, which is its leaf level."""
    n_levels = cut.level + 1
    return replace(
        problem,
        spine=Spine(problem.spine.levels[:n_levels]),
        measured=problem.measured[:n_levels],
        constraints=replace(problem.constraints, bounds=problem.constraints.bounds[:n_levels]),
        kinds=problem.kinds[:n_levels],
        joined=problem.joined[:n_levels],
        implied=problem.implied[:n_levels],
        shares=problem.shares[:n_levels],
    )


def compact_below(problem: Problem, cut: Cut) -> Problem:
    """The problem with the bounds of the levels below the cut as small as can be, until some rows are worked with."""
    bounds = problem.constraints.bounds
    first = cut.level + 1
    below = tuple(tuple(bound.compact() for bound in level) for level in bounds[first:])
    return replace(problem, constraints=replace(problem.constraints, bounds=(*bounds[:first], *below)))


def joined(estimates: Sequence[LevelEstimate]) -> LevelEstimate:
    """The estimates of all parts at the cut, joined into one level's."""
    offsets = np.cumsum([0, *(len(estimate.info.known) for estimate in estimates[:-1])])
    info = Information(
        *(
            joined_blocks([getattr(estimate.info, name) for estimate in estimates])
            for name in ("precision", "known", "unmeasured", "covariance")
        )
    )
    children = [child.children for child in estimates if child.children is not None]
    return LevelEstimate(
        classes=np.concatenate([estimate.classes + first for estimate, first in zip(estimates, offsets, strict=True)]),
        info=info,
        fixed=_joined_fixed(estimates),
        children=ChildrenSum(
            *(np.concatenate([getattr(child, name) for child in children]) for name in ("mean", "precision", "term"))
        )
        if children
        else None,
    )


def joined_blocks(blocks: Sequence[FloatArray]) -> FloatArray:
    """Stacked matrices one after the other; where all are 0 as an array that nothing is written to: it takes no memory.

    Where nothing is known or unmeasured, as in most releases, these are two of five arrays of a wide schema.
    """
    if any(one.any() for one in blocks):
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    return np.zeros((sum(map(len, blocks)), *blocks[0].shape[1:]))


def _joined_fixed(estimates: Sequence[LevelEstimate]) -> FloatArray | None:
    """The fixed histograms; zero where a part has none, because there only zeros are known."""
    if all(estimate.fixed is None for estimate in estimates):
        return None
    n_cells = next(estimate.fixed.shape[1] for estimate in estimates if estimate.fixed is not None)
    nothing = [np.zeros((len(estimate.classes), n_cells)) for estimate in estimates]
    return np.concatenate(
        [zero if estimate.fixed is None else estimate.fixed for estimate, zero in zip(estimates, nothing, strict=True)]
    )


def downward_part(
    part: Problem,
    basis: Basis,
    counts: sp.csr_array,
    checked: Sequence[BoolArray],
    passes: Sequence[Pass],
) -> list[tuple[sp.csr_array, SolverReport]]:
    """Whole-number histograms of a part's levels below the cut, top down.

    Args:
        part: its problem.
        basis: of the whole release.
        counts: of the part's geounits at the cut, `(n, n_cells)`.
        checked: per level below the cut, which parents' children are solved again.
        passes: of the whole release.
    """
    estimates = upward_pass(part, basis)
    solved: list[tuple[sp.csr_array, SolverReport]] = []
    for level in range(1, part.spine.n_levels):
        above = solved[-1][0] if solved else counts
        solved.append(
            downward_level(part, basis, level, estimates[level], above, checked=checked[level - 1], passes=passes)
        )
    return solved
