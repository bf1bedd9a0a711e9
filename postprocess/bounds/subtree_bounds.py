"""What the children of a geounit allow together, as bounds on the geounit; see `constraints.propagation`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from geography.spine import Spine
from postprocess.arrays import BoolArray, IntArray, runs
from postprocess.bounds.set_bounds import UNBOUNDED, SetBounds, bounded_sum, sum_of_upper
from postprocess.marginal import Marginal, refines
from postprocess.problem import GroupBounds

#: Groups of the finest query up to which the bounds of all their sets are computed: 2^10 sets.
MOST_GROUPS = 10
#: Numbers in the arrays that are held at once.
_CHUNK = 1 << 22


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


def facts_above(spine: Spine, level: int, own: Sequence[GroupBounds], below: Fact | None, possible: BoolArray) -> Fact:
    """What the geounits of a level allow their parents, from their own bounds and those that their children imply."""
    starts = spine.child_offsets(level - 1)[:-1]
    listed = [bound for bound in merged([*own, *(below.bounds if below else ())]) if not trivial(bound)]
    if below is not None and below.gap:
        return _open(listed, starts, possible, below.gap)
    if below is not None and below.sets is not None and below.finest is not None:
        return _above_sets(own, listed, below.finest, below.sets, starts, possible)
    chain = nested(needed(listed, possible), possible)
    if chain is None:
        names = " and ".join(f'"{bound.marginal.name}"' for bound in needed(listed, possible))
        return _open(listed, starts, possible, f"the bounded queries {names} cross each other")
    if len(chain) <= 1:
        return Fact(tuple(_summed(bound, starts) for bound in listed))
    finest = chain[-1].marginal
    if finest.size > MOST_GROUPS:
        reason = f'"{finest.name}" has {finest.size:,} groups and coarser queries are bounded too'
        return _open(listed, starts, possible, reason)
    sets = _sets_of_chain(chain, starts, possible)
    return _stated(sets, chain, listed, starts, possible)


def _sets_of_chain(chain: Sequence[GroupBounds], starts: IntArray, possible: BoolArray) -> SetBounds:
    """The bounds on all sets of the finest query's groups, summed over each parent; some parents at a time."""
    finest = chain[-1]
    exists = np.zeros(finest.marginal.size, dtype=bool)
    exists[finest.marginal.cell_answer[possible]] = True
    offsets = np.append(starts, len(finest.lower))
    parts: list[SetBounds] = []
    for first, last in runs(offsets, max(1, _CHUNK >> finest.marginal.size)):
        rows = slice(int(offsets[first]), int(offsets[last]))
        sets = SetBounds.of_groups(finest.lower[rows], np.where(exists, finest.upper[rows], 0))
        for bound in reversed(chain[:-1]):
            for answer, part in enumerate(_parts(finest.marginal, bound.marginal, possible)):
                block = int(np.bitwise_or.reduce(1 << part)) if part.size else 0
                sets = sets.with_block(block, bound.lower[rows, answer], bound.upper[rows, answer])
        parts.append(sets.added_up(starts[first:last] - starts[first]))
    return SetBounds(np.concatenate([s.lower for s in parts]), np.concatenate([s.upper for s in parts]))


def _above_sets(
    own: Sequence[GroupBounds],
    listed: Sequence[GroupBounds],
    finest: Marginal,
    sets: SetBounds,
    starts: IntArray,
    possible: BoolArray,
) -> Fact:
    """The parents of a level whose subtrees have bounds on sets: its own bounds may be on single groups or the sum."""
    fine: list[GroupBounds] = []
    total: list[GroupBounds] = []
    for bound in own:
        if bound.marginal.grouping == finest.grouping:
            fine.append(bound)
        elif len(np.unique(bound.marginal.cell_answer[possible])) == 1:
            total.append(bound)
        elif not trivial(bound):
            reason = f'"{bound.marginal.name}" is bounded above bounds on "{finest.name}" and coarser queries'
            return _open(listed, starts, possible, reason)
    for bound in fine:
        for group in range(finest.size):
            sets = sets.with_group(group, bound.lower[:, group], bound.upper[:, group])
    for bound in total:
        answer = int(bound.marginal.cell_answer[possible][0])
        sets = sets.with_block(sets.lower.shape[1] - 1, bound.lower[:, answer], bound.upper[:, answer])
    chain = [b for b in listed if refines(finest, b.marginal, possible)]
    return _stated(sets.added_up(starts), chain, listed, starts, possible, finest)


def _stated(
    sets: SetBounds,
    chain: Sequence[GroupBounds],
    listed: Sequence[GroupBounds],
    starts: IntArray,
    possible: BoolArray,
    finest: Marginal | None = None,
) -> Fact:
    """The sets' bounds as bounds on queries: those of the chain, and on single sets where these do not imply theirs."""
    finest = chain[-1].marginal if finest is None else finest
    stated: list[int] = [1 << group for group in range(finest.size)]
    bounds = []
    in_chain = {bound.marginal.grouping for bound in chain} | {finest.grouping}
    for bound in listed:
        summed = _summed(bound, starts)
        if bound.marginal.grouping in in_chain:
            lower, upper = summed.lower.copy(), summed.upper.copy()
            for answer, part in enumerate(_parts(finest, bound.marginal, possible)):
                if part.size:
                    number = int(np.bitwise_or.reduce(1 << part))
                    stated.append(number)
                    lower[:, answer] = np.maximum(lower[:, answer], sets.lower[:, number])
                    upper[:, answer] = np.minimum(upper[:, answer], sets.upper[:, number])
            summed = replace(summed, lower=lower, upper=upper)
        bounds.append(summed)
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


def _open(listed: Sequence[GroupBounds], starts: IntArray, possible: BoolArray, gap: str) -> Fact:
    """Only sums of the bounds, tightened by what nested ones imply for each other."""
    return Fact(tuple(_summed(bound, starts) for bound in _tightened(listed, possible)), gap=gap)


def _summed(bound: GroupBounds, starts: IntArray) -> GroupBounds:
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
        left = np.where(sum_high >= UNBOUNDED, UNBOUNDED, sum_high - others_low)
        for column, group in enumerate(part):
            others_high = sum_of_upper(np.delete(high, column, axis=1))
            fine.lower[:, group] = np.maximum(fine.lower[:, group], sum_low[:, 0] - others_high)
        fine.upper[:, part] = np.minimum(high, left)
