"""Bounds on every set of groups at once: the shape of what a subtree allows.

For each of n geounits, `lower[:, S] <= x(S) <= upper[:, S]` for every set S of g groups, a set being the bits of its
number. Where the bounds are tight and paramodular, the whole numbers x that keep them form a generalised polymatroid
(Frank and Tardos 1988, "Generalized polymatroids and submodular flows"). Three of its properties are used: the sum of
two is the one with the added bounds (also in whole numbers); bounding the sum over all groups, or one group, gives
another; and two of them that intersect have whole numbers in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.arrays import BoolArray, IntArray, runs

#: Stands for no upper bound; four of them still fit in int64.
UNBOUNDED = 1 << 52
#: Numbers that are added up at a time.
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


def _added(upper: IntArray, more: IntArray) -> IntArray:
    """The sum of two arrays of upper bounds, either of which may be `UNBOUNDED`."""
    return np.where((upper >= UNBOUNDED) | (more >= UNBOUNDED), UNBOUNDED, upper + more)


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
        """With `lower <= x(block) <= upper`, both `(n,)`; nothing so far may tie the block to groups outside of it."""
        outside, rest = self._sets & ~block, block & ~self._sets
        high = np.where(
            upper[:, None] >= UNBOUNDED,
            UNBOUNDED,
            _added(self.upper[:, outside], upper[:, None] - self.lower[:, rest]),
        )
        low = self.lower[:, outside] + lower[:, None] - self.upper[:, rest]
        return SetBounds(np.maximum(self.lower, low), np.minimum(self.upper, high))

    def with_group(self, group: int, lower: IntArray, upper: IntArray) -> SetBounds:
        """With `lower <= x(group) <= upper` for one group, both `(n,)`."""
        bit = 1 << group
        inside = (self._sets & bit) > 0
        without, joined = self._sets & ~bit, self._sets | bit
        high_in = _added(self.upper[:, without], upper[:, None])
        high_out = np.where(self.upper[:, joined] >= UNBOUNDED, UNBOUNDED, self.upper[:, joined] - lower[:, None])
        low_in = self.lower[:, without] + lower[:, None]
        low_out = self.lower[:, joined] - upper[:, None]
        return SetBounds(
            np.maximum(self.lower, np.where(inside, low_in, low_out)),
            np.minimum(self.upper, np.where(inside, high_in, high_out)),
        )

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
                upper_of_all = self.upper[:, every]
                left = np.where(upper_of_all >= UNBOUNDED, UNBOUNDED, upper_of_all - others_low)
                implied_low = np.maximum(implied_low, self.lower[:, every] - others_high)
                implied_high = np.minimum(implied_high, left)
            known.add(subset)
            need_low, need_high = low > implied_low, high < implied_high
            if need_low.any() or need_high.any():
                needed.append((subset, need_low, need_high))
        return needed
