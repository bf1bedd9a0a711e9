"""Public facts as inequalities at every level of the spine: declared, then carried up and down the spine.

Bounds on every set of groups at once: the shape of what a subtree allows.

For each of n geounits, `lower[:, S] <= x(S) <= upper[:, S]` for every set S of g groups, a set being the bits of its
number. Where the bounds are tight and paramodular, the whole numbers x that keep them form a generalised polymatroid
(Frank and Tardos 1988, "Generalized polymatroids and submodular flows"). Three of its properties are used: the sum of
two is the one with the added bounds (also in whole numbers); bounding the sum over all groups, or one group, gives
another; and two of them that intersect have whole numbers in common.

What the children of a geounit allow together, as bounds on the geounit; see `propagation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from geography.errors import InputError
from geography.spine import Spine
from postprocess.algebra import chunks
from postprocess.arrays import BoolArray, IntArray, runs
from postprocess.marginal import Marginal, refines
from postprocess.problem import Constraints, GroupBounds

#: Stands for no upper bound; four of them still fit in int64.
UNBOUNDED = 1 << 52
#: Numbers that are added up, or of the arrays that are held, at a time.
_CHUNK = 1 << 22


def bounded_sum(upper: IntArray, starts: IntArray) -> IntArray:
    """Sums of upper bounds over runs of rows that begin at `starts`; unbounded where any row is."""
    out = np.empty((len(starts), *upper.shape[1:]), dtype=np.int64)
    offsets = np.append(starts, len(upper))
    # Some at a time, of a level that may have millions of rows.
    for first, last in runs(offsets, max(1, _CHUNK // max(1, upper[:1].size))):
        part, own = upper[offsets[first] : offsets[last]], starts[first:last] - starts[first]
        # First as real numbers: sums that do not fit in 64-bit integers are not bounds either.
        unbounded = np.add.reduceat(part.astype(np.float64), own, axis=0) >= UNBOUNDED
        out[first:last] = np.where(unbounded, UNBOUNDED, np.add.reduceat(part, own, axis=0))
    return out


def sum_of_upper(upper: IntArray) -> IntArray:
    """Sums `(n,)` of upper bounds over the columns, without a bound where one has none."""
    return bounded_sum(upper.T, np.zeros(1, dtype=np.int64))[0] if upper.shape[1] else np.zeros(len(upper), np.int64)


def _added(upper: IntArray, more: IntArray, less: IntArray | int = 0) -> IntArray:
    """The sum of two arrays of upper bounds, either of which may be `UNBOUNDED`, less a third one."""
    return np.where((upper >= UNBOUNDED) | (more >= UNBOUNDED), UNBOUNDED, upper + more - less)


@dataclass(frozen=True, eq=False)
class SetBounds:
    """`lower` and `upper`, both `(n, 2 ** g)` int64 persons."""

    lower: IntArray
    upper: IntArray

    @classmethod
    def of_groups(cls, lower: IntArray, upper: IntArray) -> SetBounds:
        """The bounds on sets that follow from those on single groups, `(n, g)`."""
        n, g = lower.shape
        low, high = np.zeros((n, 1 << g), dtype=np.int64), np.zeros((n, 1 << g), dtype=np.int64)
        for group in range(g):
            half = 1 << group
            low[:, half : 2 * half] = low[:, :half] + lower[:, [group]]
            high[:, half : 2 * half] = _added(high[:, :half], upper[:, [group]])
        return cls(low, high)

    @property
    def _sets(self) -> IntArray:
        return np.arange(self.lower.shape[1])

    def with_block(self, block: int, lower: IntArray, upper: IntArray) -> SetBounds:
        """With `lower <= x(block) <= upper`, both `(n,)`; a block of several groups is tied to no others before."""
        outside, joined, rest = self._sets & ~block, self._sets | block, block & ~self._sets
        sums = _added(self.upper[:, joined], self.upper[:, self._sets & block])
        high = np.minimum(
            _added(self.upper[:, outside], upper[:, None], self.lower[:, rest]), _added(sums, -lower[:, None])
        )
        low = np.maximum(
            self.lower[:, outside] + lower[:, None] - self.upper[:, rest],
            self.lower[:, joined] + self.lower[:, self._sets & block] - upper[:, None],
        )
        return SetBounds(np.maximum(self.lower, low), np.minimum(self.upper, high))

    def added_up(self, starts: IntArray) -> SetBounds:
        """Sums over runs of geounits that begin at `starts`."""
        return SetBounds(np.add.reduceat(self.lower, starts, axis=0), bounded_sum(self.upper, starts))

    def not_implied(self, stated: list[int]) -> list[tuple[int, BoolArray, BoolArray]]:
        """The sets whose bounds do not follow from those of the `stated` sets and of the sets listed before.

        Every single group must be stated. Returns the set, and where its lower and where its upper bound is needed,
        both `(n,)`. A set's bound follows where it is the sum of the bounds of two sets that make it up, or where the
        sum over all groups and the bounds of the others give it.
        """
        every = self.lower.shape[1] - 1
        groups = every.bit_length()
        known = set(stated)
        needed = []
        for subset in sorted(set(range(1, every + 1)) - known, key=lambda s: (s.bit_count(), not s & 1)):
            low, high = self.lower[:, subset], self.upper[:, subset]
            implied_low, implied_high = np.zeros_like(low), np.full_like(high, UNBOUNDED)
            first = subset & -subset
            part = (subset - 1) & subset
            while part:
                if part & first:
                    implied_low = np.maximum(implied_low, self.lower[:, part] + self.lower[:, subset ^ part])
                    implied_high = np.minimum(implied_high, _added(self.upper[:, part], self.upper[:, subset ^ part]))
                part = (part - 1) & subset
            if every in stated:
                # Of the others, what is known so far: their own bounds, or else those of the single groups.
                complement = every ^ subset
                parts = (
                    [complement]
                    if complement in known
                    else [1 << group for group in range(groups) if complement >> group & 1]
                )
                others_low = self.lower[:, parts].sum(axis=1)
                others_high = sum_of_upper(self.upper[:, parts])
                left = _added(self.upper[:, every], -others_low)
                implied_low = np.maximum(implied_low, self.lower[:, every] - others_high)
                implied_high = np.minimum(implied_high, left)
            known.add(subset)
            need_low, need_high = low > implied_low, high < implied_high
            if need_low.any() or need_high.any():
                needed.append((subset, need_low, need_high))
        return needed


#: Groups of the finest query up to which the bounds of all their sets are computed: 2^10 sets.
MOST_GROUPS = 10


@dataclass(frozen=True, eq=False)
class Fact:
    """What one level's geounits allow their parents.

    Attributes:
        bounds: on the parents, of the queries that were bounded below.
        on_sets: on the parents, of further sets of groups, where `bounds` do not imply them.
        finest: the query on whose sets of answers `sets` has bounds; None where `bounds` are complete.
        sets: of the parents; None as above.
        gap: why the bounds may be incomplete; empty where they are complete.
    """

    bounds: tuple[GroupBounds, ...]
    on_sets: tuple[GroupBounds, ...] = ()
    finest: Marginal | None = None
    sets: SetBounds | None = None
    gap: str = ""


def trivial(bound: GroupBounds) -> bool:
    """Whether the bound restricts nothing."""
    return not (bound.lower > 0).any() and not (bound.upper < UNBOUNDED).any()


def merged(bounds: Iterable[GroupBounds]) -> list[GroupBounds]:
    """Each query once: the largest lower and the smallest upper bound."""
    by_query: dict[tuple[bytes, ...], GroupBounds] = {}
    for bound in bounds:
        before = by_query.setdefault(bound.marginal.grouping, bound)
        if before is not bound:
            name = " & ".join(dict.fromkeys([*before.name.split(" & "), *bound.name.split(" & ")]))
            lower, upper = np.maximum(before.lower, bound.lower), np.minimum(before.upper, bound.upper)
            by_query[bound.marginal.grouping] = GroupBounds(name, before.marginal, lower, upper)
    return list(by_query.values())


def nested(bounds: Sequence[GroupBounds], possible: BoolArray) -> list[GroupBounds] | None:
    """The bounds from the coarsest to the finest query; None where two queries cross."""
    chain = sorted(bounds, key=lambda bound: len(np.unique(bound.marginal.cell_answer[possible])))
    if all(refines(fine.marginal, coarse.marginal, possible) for coarse, fine in pairwise(chain)):
        return chain
    return None


def _parts(fine: Marginal, coarse: Marginal, possible: BoolArray) -> list[IntArray]:
    """The answers of `fine` in each answer of `coarse`, considering possible cells only."""
    pairs = np.unique(np.stack([coarse.cell_answer[possible], fine.cell_answer[possible]]), axis=1)
    return [pairs[1, pairs[0] == answer] for answer in range(coarse.size)]


def needed(bounds: Sequence[GroupBounds], possible: BoolArray) -> list[GroupBounds]:
    """The bounds without those that another one, on a nested query, implies in every geounit."""
    remaining = [bound for bound in bounds if not trivial(bound)]
    for bound in sorted(remaining, key=lambda b: b.marginal.size):
        rest = [b for b in remaining if b is not bound]
        if any(implies(b, bound, possible) for b in rest):
            remaining = rest
    return remaining


def implies(given: GroupBounds, implied: GroupBounds, possible: BoolArray) -> bool:
    """Whether the bounds `given` imply those on a nested query, in every geounit."""
    if refines(given.marginal, implied.marginal, possible):
        for answer, part in enumerate(_parts(given.marginal, implied.marginal, possible)):
            too_low = given.lower[:, part].sum(axis=1) < implied.lower[:, answer]
            too_high = sum_of_upper(given.upper[:, part]) > implied.upper[:, answer]
            if too_low.any() or too_high.any():
                return False
        return True
    if refines(implied.marginal, given.marginal, possible) and not (implied.lower > 0).any():
        parts = _parts(implied.marginal, given.marginal, possible)
        return all(
            (implied.upper[:, part] >= given.upper[:, [answer]]).all() for answer, part in enumerate(parts) if part.size
        )
    return False


def facts_above(spine: Spine, level: int, own: Sequence[GroupBounds], below: Fact, possible: BoolArray) -> Fact:
    """What the geounits of a level allow their parents, from their own bounds and those that their children imply."""
    offsets = spine.child_offsets(level - 1)
    listed = [bound for bound in merged([*own, *below.bounds]) if not trivial(bound)]
    finest, gap = below.finest, below.gap
    stated = needed(listed, possible) if finest is None else [bound for bound in own if not trivial(bound)]
    chain = nested(stated, possible)
    if finest is not None:
        for bound in stated:
            in_one = len(np.unique(bound.marginal.cell_answer[possible])) == 1
            if not in_one and bound.marginal.grouping != finest.grouping:
                gap = gap or f'"{bound.marginal.name}" is bounded above bounds on "{finest.name}" and coarser queries'
    elif chain is None:
        names = " and ".join(f'"{bound.marginal.name}"' for bound in stated)
        gap = gap or f"the bounded queries {names} cross each other"
    elif len(chain) > 1:
        finest = chain[-1].marginal
        if finest.size > MOST_GROUPS:
            gap = gap or f'"{finest.name}" has {finest.size:,} groups and coarser queries are bounded too'
    if chain is None or gap:
        # Only sums of the bounds, tightened by what nested ones imply for each other.
        return Fact(tuple(summed(bound, offsets[:-1]) for bound in _tightened(listed, possible)), gap=gap)
    if finest is None:
        return Fact(tuple(summed(bound, offsets[:-1]) for bound in listed))
    return _stated(_of_parents(finest, below.sets, chain, offsets, possible), listed, offsets[:-1], finest, possible)


def _of_parents(
    finest: Marginal, sets: SetBounds | None, chain: Sequence[GroupBounds], offsets: IntArray, possible: BoolArray
) -> SetBounds:
    """The bounds on all sets of the finest query's groups, summed over each parent; some parents at a time.

    Args:
        finest: the query.
        sets: what the children's subtrees allow; None for anything.
        chain: their own bounds, coarse to fine.
        offsets: `(n_parents + 1,)` the children of each parent.
        possible: `(n_cells,)`.
    """
    if sets is None:
        none = np.ones(finest.size, dtype=bool)
        none[finest.cell_answer[possible]] = False
        sets = SetBounds.of_groups(chain[-1].lower, np.where(none, 0, chain[-1].upper))
        chain = chain[:-1]
    parts: list[SetBounds] = []
    for first, last in runs(offsets, max(1, _CHUNK >> finest.size)):
        rows = slice(int(offsets[first]), int(offsets[last]))
        part_sets = SetBounds(sets.lower[rows], sets.upper[rows])
        for bound in reversed(chain):
            for answer, part in enumerate(_parts(finest, bound.marginal, possible)):
                if part.size:
                    block = int(np.bitwise_or.reduce(1 << part))
                    part_sets = part_sets.with_block(block, bound.lower[rows, answer], bound.upper[rows, answer])
        parts.append(part_sets.added_up(offsets[first:last] - offsets[first]))
    return SetBounds(np.concatenate([s.lower for s in parts]), np.concatenate([s.upper for s in parts]))


def _stated(
    sets: SetBounds, listed: Sequence[GroupBounds], starts: IntArray, finest: Marginal, possible: BoolArray
) -> Fact:
    """The sets' bounds as bounds on queries: those of nested ones, and on single sets where these do not imply theirs.

    Args:
        sets: of the parents.
        listed: bounds of the level, which are added up too.
        starts: `(n_parents,)` each parent's first child.
        finest, possible: as of `_of_parents`.
    """
    stated: list[int] = [1 << group for group in range(finest.size)]
    bounds = []
    for bound in listed:
        own = summed(bound, starts)
        if refines(finest, bound.marginal, possible):
            for answer, part in enumerate(_parts(finest, bound.marginal, possible)):
                if part.size:
                    number = int(np.bitwise_or.reduce(1 << part))
                    stated.append(number)
                    own.lower[:, answer] = np.maximum(own.lower[:, answer], sets.lower[:, number])
                    own.upper[:, answer] = np.minimum(own.upper[:, answer], sets.upper[:, number])
        bounds.append(own)
    if finest.grouping not in {bound.marginal.grouping for bound in listed}:
        singles = [1 << group for group in range(finest.size)]
        bounds.append(GroupBounds(finest.name, finest, sets.lower[:, singles], sets.upper[:, singles]))
    gap = ""
    on_sets = []
    for number, need_low, need_high in sets.not_implied(stated):
        members = np.array([group for group in range(finest.size) if number >> group & 1])
        placed = query_of_set(finest, members)
        if placed is None:
            gap = f'a set of groups of "{finest.name}" is limited that no query can state'
            continue
        query, answer = placed
        lower, upper = np.zeros((len(starts), query.size), np.int64), np.full((len(starts), query.size), UNBOUNDED)
        lower[:, answer] = np.where(need_low, sets.lower[:, number], 0)
        upper[:, answer] = np.where(need_high, sets.upper[:, number], UNBOUNDED)
        on_sets.append(GroupBounds(query.name, query, lower, upper))
    return Fact(tuple(bounds), tuple(merged(on_sets)), finest, sets, gap)


def query_of_set(finest: Marginal, members: IntArray) -> tuple[Marginal, int] | None:
    """A query with the groups `members` as one answer, and that answer's number; None where it takes more than one."""
    places = np.unravel_index(members, finest.sizes)
    chosen = [np.unique(place) for place in places]
    if int(np.prod([len(values) for values in chosen])) != len(members):
        return None
    groups, answer = [], 0
    for group, values, size in zip(finest.groups, chosen, finest.sizes, strict=True):
        inside = np.isin(group, values)
        if len(values) == size:
            groups.append(np.zeros_like(group))
            continue
        # The first value's side is group 0, so that a set and its complement give the same query.
        groups.append((inside != inside[0]).astype(np.int64))
        answer = answer * 2 + (0 if inside[0] else 1)
    return Marginal(f"{finest.name} (set)", tuple(groups)), answer


def summed(bound: GroupBounds, starts: IntArray) -> GroupBounds:
    """Bounds on the sums over the runs of geounits that begin at `starts`."""
    lower = np.add.reduceat(bound.lower, starts, axis=0)
    return GroupBounds(bound.name, bound.marginal, lower, bounded_sum(bound.upper, starts))


def _tightened(bounds: Sequence[GroupBounds], possible: BoolArray) -> list[GroupBounds]:
    """What nested bounds imply for each other, and all of them for the total and back; two rounds."""
    tightened = [GroupBounds(b.name, b.marginal, b.lower.copy(), b.upper.copy()) for b in bounds]
    if not tightened:
        return tightened
    total = Marginal("total", tuple(np.zeros_like(group) for group in tightened[0].marginal.groups))
    if not any(bound.marginal.size == 1 for bound in tightened):
        n = len(tightened[0].lower)
        tightened.append(GroupBounds("total", total, np.zeros((n, 1), np.int64), np.full((n, 1), UNBOUNDED)))
    for _ in range(2):
        for coarse in sorted(tightened, key=lambda b: -b.marginal.size):
            for fine in tightened:
                if fine is not coarse and refines(fine.marginal, coarse.marginal, possible):
                    _tighten(coarse, fine, possible)
    return [bound for bound in tightened if not trivial(bound)]


def _tighten(coarse: GroupBounds, fine: GroupBounds, possible: BoolArray) -> None:
    """Tighten in place: the coarse answer is the sum of its parts, and each part is what the others leave."""
    for answer, part in enumerate(_parts(fine.marginal, coarse.marginal, possible)):
        if not part.size:
            continue
        low, high = fine.lower[:, part], fine.upper[:, part]
        coarse.lower[:, answer] = np.maximum(coarse.lower[:, answer], low.sum(axis=1))
        coarse.upper[:, answer] = np.minimum(coarse.upper[:, answer], sum_of_upper(high))
        sum_low, sum_high = coarse.lower[:, [answer]], coarse.upper[:, [answer]]
        others_low = low.sum(axis=1, keepdims=True) - low
        left = _added(sum_high, -others_low)
        for column, group in enumerate(part):
            others_high = sum_of_upper(np.delete(high, column, axis=1))
            fine.lower[:, group] = np.maximum(fine.lower[:, group], sum_low[:, 0] - others_high)
        fine.upper[:, part] = np.minimum(high, left)


__all__ = ["UNBOUNDED", "FacilityBounds", "Invariant", "Propagation", "declare", "propagation"]

#: In the counts of facilities: the answer has no column, so it is not bounded.
NO_COLUMN = -1


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
      `MOST_GROUPS` answers, and the levels above these bound the finest or the total only. The
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
    below = Fact(())
    for level in range(spine.n_levels - 1, -1, -1):
        own = merged(bounds[level])
        levels[level] = merged([*own, *below.bounds])
        on_sets[level] = below.on_sets
        if level:
            known = below.gap
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
