"""Public facts as inequalities at every level of the spine: declared, then carried up and down the spine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from geography.errors import InputError
from geography.spine import Spine
from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, IntArray
from postprocess.bounds.set_bounds import UNBOUNDED
from postprocess.bounds.subtree_bounds import Fact, facts_above, implies, merged, needed
from postprocess.marginal import Marginal, refines
from postprocess.problem import Constraints, GroupBounds

__all__ = ["UNBOUNDED", "FacilityBounds", "Invariant", "Propagation", "declare", "propagation"]

#: In the counts of facilities: the answer has no column, so it is not bounded.
NO_COLUMN = -1
#: Numbers of a level's bounds that are worked on at a time.
_CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class Invariant:
    """Answers that are kept exactly: `values` `(n, size)` persons, one row per geounit of the level."""

    level: str
    marginal: Marginal
    values: IntArray


@dataclass(frozen=True, eq=False)
class FacilityBounds:
    """`lower` to `upper` persons per facility.

    Attributes:
        name: its name in messages.
        counts: `(n, size)` number of facilities; NO_COLUMN where an answer is not bounded.
    """

    name: str
    level: str
    marginal: Marginal
    counts: IntArray
    lower: int
    upper: int


def declare(
    spine: Spine,
    structural_zeros: BoolArray,
    invariants: Iterable[Invariant] = (),
    facilities: Iterable[FacilityBounds] = (),
) -> Constraints:
    """The constraints as they are stated, each at its own level only; `propagation` carries them to the others.

    Args:
        spine: the geounits.
        structural_zeros: `(n_cells,)` True where a cell is impossible everywhere.
        invariants: answers that are kept exactly.
        facilities: bounds on persons by the number of facilities.

    Raises:
        SpineError: a level is not in the spine.
        InputError: a number of facilities is negative, or so large that persons cannot be counted.
        ValueError: an array does not have the shape of its level and query.
    """
    stated: list[list[GroupBounds]] = [[] for _ in spine.levels]
    for invariant in invariants:
        level = spine.index_of(invariant.level)
        values = _shaped(spine, level, invariant.marginal, invariant.values, f"invariant {invariant.marginal.name!r}")
        stated[level].append(GroupBounds(f"invariant {invariant.marginal.name}", invariant.marginal, values, values))
    for bound in facilities:
        level = spine.index_of(bound.level)
        counts = _shaped(spine, level, bound.marginal, bound.counts, f"bounds {bound.name!r}")
        _check_counts(spine, level, bound, counts)
        stated[level].append(GroupBounds(bound.name, bound.marginal, *_limits(bound, counts)))
        del bound, counts  # of a country's leaves half a gigabyte, which is not kept until the next is made
    return Constraints(structural_zeros, tuple(tuple(level) for level in stated))


def _limits(bound: FacilityBounds, counts: IntArray) -> tuple[IntArray, IntArray]:
    """The least and the most persons `(n, size)` of facilities; some rows at a time, beside which nothing is held."""
    lower, upper = np.zeros_like(counts), np.full_like(counts, UNBOUNDED)
    for rows in chunks(counts.shape[0], counts.shape[1], _CHUNK):
        known = counts[rows] != NO_COLUMN
        most = np.minimum(counts[rows].astype(np.float64) * bound.upper, UNBOUNDED).astype(np.int64)
        np.copyto(lower[rows], counts[rows] * bound.lower, where=known)
        np.copyto(upper[rows], most, where=known)
    return lower, upper


def _shaped(spine: Spine, level: int, marginal: Marginal, values: IntArray, name: str) -> IntArray:
    shape = (len(spine.levels[level]), marginal.size)
    if values.shape != shape or values.dtype.kind not in "iu":
        raise ValueError(f"{name}: whole numbers of shape {shape} are needed, got {values.dtype} {values.shape}")
    return values.astype(np.int64, copy=False)


def _check_counts(spine: Spine, level: int, bound: FacilityBounds, counts: IntArray) -> None:
    most = (UNBOUNDED - 1) // max(1, bound.lower)
    wrong = ((counts < 0) & (counts != NO_COLUMN)) | (counts > most)
    if wrong.any():
        row, answer = (int(i[0]) for i in np.nonzero(wrong))
        raise InputError(
            f"bounds {bound.name!r}: {counts[row, answer]:,} facilities in {bound.level} "
            f"{spine.levels[level].geocodes[row]}; allowed are 0 to {most:,}"
        )


@dataclass(frozen=True, eq=False)
class Propagation:
    """Bounds of every level, and the cases in which they do not guarantee that the levels below can be solved.

    Attributes:
        bounds: per level, top to bottom; each query once.
        gaps: one sentence for each reason why the bounds of a level and those above it do not guarantee that.
    """

    bounds: tuple[tuple[GroupBounds, ...], ...]
    gaps: tuple[str, ...]


def propagation(
    spine: Spine,
    bounds: Sequence[Sequence[GroupBounds]],
    structural_zeros: BoolArray | None = None,
    passes: Sequence[Marginal] = (),
) -> Propagation:
    """Carry bounds up the spine, where they add up, and zeros down.

    Bounds on one query (the same groups) at one level are merged: the largest lower and the smallest upper bound. What
    a geounit's own bounds imply for each other is added up too: where a total is exact, no group can have more of it
    than the others leave. Bounds that are implied in every geounit of a level by those on another query are left out.

    For feasible bounds this guarantees, at every level for which `gaps` has no sentence: whole numbers that keep a
    geounit's bounds are the sum of whole numbers that keep its children's, down to the leaves; and wherever real
    numbers keep them, so do whole numbers next to these. So the top-down pass never meets a dead end. This holds

    - where from some level down only one query is bounded (sums of boxes are boxes), and
    - where in each geounit the bounded queries are nested (each refines the one before), the finest has at most
      `subtree_bounds.MOST_GROUPS` answers, and the levels above these bound the finest or the total only. The
      histograms that a subtree allows then form a generalised polymatroid; sums of these are generalised polymatroids
      too, with bounds that add up on every set of groups (Frank and Tardos 1988). Bounds on sets that the queries
      themselves do not imply are added, named "<finest query> (set)".

    Queries that cross each other below the top (sex and age, both bounded in the same blocks) have no such description;
    their sums are still carried up, and `gaps` reports them. It also reports passes that cross a bounded query: their
    whole numbers can be kept with the bounds, but perhaps not by whole numbers next to a given solution.

    Args:
        spine: the geounits.
        bounds: per level, top to bottom, as declared.
        structural_zeros: `(n_cells,)`; None where every cell is possible.
        passes: queries whose whole numbers are fixed before the detail.
    """
    if not any(bounds):
        return Propagation(tuple(() for _ in spine.levels), ())
    cells = next(bound for level in bounds for bound in level).marginal.cell_answer.size
    possible = np.ones(cells, dtype=bool) if structural_zeros is None else ~structural_zeros
    levels: list[list[GroupBounds]] = [[] for _ in spine.levels]
    on_sets: list[tuple[GroupBounds, ...]] = [() for _ in spine.levels]
    gaps: list[str] = []
    below: Fact | None = None
    for level in range(spine.n_levels - 1, -1, -1):
        own = merged(bounds[level])
        levels[level] = merged([*own, *below.bounds]) if below else own.copy()
        on_sets[level] = below.on_sets if below else ()
        if level:
            known = below is not None and below.gap
            below = facts_above(spine, level, own, below, possible)
            if below.gap and not known:
                gaps.append(
                    f"at level {spine.level_names[level]}, {below.gap}: whole numbers that keep the bounds of a "
                    "geounit above it may be no sum of ones that keep these; the run would stop there"
                )
    gaps += _crossing_passes(spine, levels, passes, possible)
    _carry_zeros_down(spine, levels)
    carried = []
    for listed, sets in zip(levels, on_sets, strict=True):
        on_queries = needed(listed, possible)
        on_further_sets = [
            on_set for on_set in sets if not any(implies(bound, on_set, possible) for bound in on_queries)
        ]
        carried.append(tuple(merged([*on_queries, *on_further_sets])))
    return Propagation(tuple(carried), tuple(reversed(gaps)))


def _crossing_passes(
    spine: Spine, levels: Sequence[Sequence[GroupBounds]], passes: Sequence[Marginal], possible: BoolArray
) -> list[str]:
    """Passes and queries with bounds below the top that are more than zeros, neither of which refines the other."""
    crossing = {}
    for name, level in zip(spine.level_names[1:], levels[1:], strict=True):
        for bound in level:
            if not ((bound.lower > 0) | ((bound.upper > 0) & (bound.upper < UNBOUNDED))).any():
                continue
            for fixed in passes:
                pair = (bound.marginal, fixed)
                if not refines(*pair, possible) and not refines(*pair[::-1], possible):
                    crossing[fixed.name, bound.marginal.name] = name
    return [
        f'at level {level}, the pass "{fixed}" crosses the bounded query "{query}": there may be no whole numbers next '
        "to a solution; the run would stop there"
        for (fixed, query), level in crossing.items()
    ]


def _carry_zeros_down(spine: Spine, levels: list[list[GroupBounds]]) -> None:
    """Where a group is empty in a geounit, it is empty in its children."""
    for level in range(1, spine.n_levels):
        parents = spine.levels[level].parents
        for above in levels[level - 1]:
            empty = (above.upper == 0)[parents]
            if not empty.any():
                continue
            same = [b for b in levels[level] if b.marginal.grouping == above.marginal.grouping]
            if not same or (empty & (same[0].upper > 0)).any():
                upper = np.where(empty, 0, UNBOUNDED)
                inherited = GroupBounds(above.name, above.marginal, np.zeros_like(upper), upper)
                levels[level] = merged([*levels[level], inherited])
