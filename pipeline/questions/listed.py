"""Noisy counts ordered and cut: the most common values, and the groups above a threshold. Nothing more is spent."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pipeline.privacy.budget import NoiseSpec
from pipeline.questions.intervals import half_width
from postprocess.statistics import COVERAGE

__all__ = ["half_width_at_once", "listed", "most_common", "rank_ends"]


def listed(rows: Iterable[list[str]], counts: Sequence[int], least: int) -> Iterator[list[str]]:
    """The rows whose noisy count is at least so much."""
    return (row for row, count in zip(rows, counts, strict=True) if count >= least)


def most_common(
    keys: Sequence[tuple[str, ...]], counts: Sequence[int], noise: NoiseSpec, number: int
) -> Iterator[list[str]]:
    """The values with the largest noisy counts of each group, each with the ends of its rank and of its count.

    Args:
        keys: of the counts; the value is the last, and the values of a group follow one another.
        counts: noisy.
        noise: on each.
        number: of values; of those with equal noisy counts, that which stands first.
    """
    for group, members in groupby(zip(keys, counts, strict=True), key=lambda pair: pair[0][:-1]):
        found = list(members)
        # Those that are listed were picked by their noise: all counts of the group have to be held at once.
        half = half_width_at_once(noise, len(found))
        ends = rank_ends([count for _, count in found], half)
        order = sorted(range(len(found)), key=lambda i: (-found[i][1], i))[:number]
        for rank, i in enumerate(order, 1):
            (*_, value), count = found[i]
            yield [*group, str(rank), *map(str, ends[i]), value, str(count), str(count - half), str(count + half)]


def half_width_at_once(noise: NoiseSpec, numbers: int) -> int:
    """Half of the width of intervals that hold so many numbers with independent noise all at once, at 90 %."""
    return half_width(noise, COVERAGE ** (1 / numbers))


def rank_ends(counts: Sequence[int], half: int) -> list[tuple[int, int]]:
    """Where each true count may stand among all, the largest first, if every one is within `half` of its noisy one."""
    rising = sorted(counts)
    # Surely above are those that are larger by more than both errors, surely below those that are smaller by as much.
    return [
        (1 + len(rising) - bisect_right(rising, count + 2 * half), len(rising) - bisect_left(rising, count - 2 * half))
        for count in counts
    ]
