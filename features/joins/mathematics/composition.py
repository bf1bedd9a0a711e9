"""Whom the households of each kind can consist of: bounds on every set of groups of persons.

The persons' queries of joins are nested, so the whole numbers of members that a household of one kind may have in each
group form a generalised polymatroid (see `bounds.set_bounds`). Those of many households add up to another, whose bounds
on every set are the sums of theirs. So bounds on sets, added up over released households, say exactly which persons
these can consist of; and as they add up from children to parents, too, children can always meet them where their parent
does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from features.joins.mathematics.membership import NO_MOST, Membership
from postprocess.arrays import BoolArray, IntArray
from postprocess.bounds.set_bounds import UNBOUNDED, SetBounds
from postprocess.marginal import Marginal, join

#: Groups of persons that joins may tell apart; the sets of them are looked at one by one.
MOST_GROUPS = 10


@dataclass(frozen=True, eq=False)
class Composition:
    """The members of households of each kind.

    Attributes:
        memberships: the joins; the persons' queries are nested.
        persons: the query on persons that refines all of theirs.
        households: the same of households; its answers are the kinds.
        groups: `(g,)` the answers of `persons` that members fall in; a set of groups is the bits of a number.
        sets: bounds on the members of one household in every set of groups; a row for each kind.
    """

    memberships: tuple[Membership, ...]
    persons: Marginal
    households: Marginal
    groups: IntArray
    sets: SetBounds

    @classmethod
    def of(cls, memberships: Sequence[Membership]) -> Composition:
        """Of all joins with one companion.

        Raises:
            ValueError: the joins tell apart more than `MOST_GROUPS` groups; the spec is checked for that before.
        """
        persons = join([m.persons for m in memberships])
        households = join([m.households for m in memberships])
        answers = [persons.answers_in(m.persons) for m in memberships]
        inside = reduce(np.logical_or, [m.inside[answer] for m, answer in zip(memberships, answers, strict=True)])
        groups = np.flatnonzero(inside)
        if len(groups) > MOST_GROUPS:
            raise ValueError(f"joins of {len(groups)} groups of persons; at most {MOST_GROUPS} are allowed")
        kinds = households.size
        nothing = np.zeros((kinds, len(groups)), dtype=np.int64)
        sets = SetBounds.of_groups(nothing, np.full_like(nothing, UNBOUNDED))
        blocks: dict[int, tuple[IntArray, IntArray]] = {}
        for m, answer in zip(memberships, answers, strict=True):
            kind = households.answers_in(m.households)
            for a in np.flatnonzero(m.inside):
                block = _bits(np.flatnonzero(answer[groups] == a))
                most = np.where(m.most[a] >= NO_MOST, UNBOUNDED, m.most[a])
                low, high = blocks.get(block, (np.zeros(kinds, dtype=np.int64), np.full(kinds, UNBOUNDED)))
                blocks[block] = np.maximum(low, m.least[a][kind]), np.minimum(high, most[kind])
        for block in sorted(blocks, key=lambda bits: bits.bit_count()):
            sets = sets.with_block(block, *blocks[block])
        return cls(tuple(memberships), persons, households, groups, sets)

    def block(self, membership: Membership, answer: int) -> int:
        """The set of groups that an answer of a join's query on persons consists of."""
        return _bits(np.flatnonzero(self.persons.answers_in(membership.persons)[self.groups] == answer))

    @property
    def others(self) -> bool:
        """Whether persons outside of households fall in the same answers."""
        return any(m.others for m in self.memberships)

    @cached_property
    def possible(self) -> BoolArray:
        """`(n_kinds,)` whether there can be a household of the kind."""
        return np.asarray((self.sets.lower <= self.sets.upper).all(axis=1))

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Sets whose bounds do not follow, whatever the households, from those of groups and of the joins' answers.

        A bound follows where one sum of bounds that are stated, or follow, gives it for every kind of household. Where
        persons outside of households fall in the same answers, nothing bounds them from above: lower bounds follow from
        those of parts alone.
        """
        stated = {1 << group for group in range(len(self.groups))} | {
            self.block(m, int(a)) for m in self.memberships for a in np.flatnonzero(m.inside)
        }
        every = (1 << len(self.groups)) - 1
        found = []
        for subset in sorted(set(range(1, every + 1)) - stated, key=lambda bits: bits.bit_count()):
            low, high = self.sets.lower[self.possible, subset], self.sets.upper[self.possible, subset]
            follows = [False, self.others]
            for implied_low, implied_high in self._implied(subset, set() if self.others else stated):
                follows[0] = follows[0] or bool((implied_low >= low).all())
                follows[1] = follows[1] or bool((implied_high <= high).all())
            if not all(follows):
                found.append(subset)
        return tuple(found)

    def _implied(self, subset: int, stated: set[int]) -> Iterator[tuple[IntArray, IntArray]]:
        """What follows for a set: from two sets that make it up, and from a stated set without the rest of it."""
        lower, upper = self.sets.lower[self.possible], self.sets.upper[self.possible]
        yield np.zeros(len(lower), dtype=np.int64), np.full(len(lower), UNBOUNDED)
        part = (subset - 1) & subset
        while part:
            yield lower[:, part] + lower[:, subset ^ part], _sum(upper[:, part], upper[:, subset ^ part])
            part = (part - 1) & subset
        for whole in stated:
            if whole & subset == subset:
                rest = whole ^ subset
                pieces = [rest] if rest in stated else [1 << bit for bit in range(rest.bit_length()) if rest >> bit & 1]
                least = reduce(np.add, [lower[:, piece] for piece in pieces])
                most = reduce(_sum, [upper[:, piece] for piece in pieces])
                bounded = upper[:, whole] < UNBOUNDED
                yield lower[:, whole] - most, np.where(bounded, upper[:, whole] - least, UNBOUNDED)


def _bits(groups: NDArray[np.intp]) -> int:
    return sum(1 << int(group) for group in groups)


def _sum(first: IntArray, second: IntArray) -> IntArray:
    return np.where((first >= UNBOUNDED) | (second >= UNBOUNDED), UNBOUNDED, first + second)
