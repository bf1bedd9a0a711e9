"""What two histories of one person can differ by, by going through all of them, answer by answer; up to five periods.

Shares no code with the program. A history is a list of answers, one a period, -1 where the person is in none; a pair
of histories is one list of 2 T, and two pairs are the same if their answers are renamed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def all_pairs(periods: int) -> Ints:
    """All pairs of histories `(n, 2, T)` up to the names of answers, numbered as they first occur."""
    lists = np.zeros((1, 0), dtype=np.int64)
    for _ in range(2 * periods):
        used = lists.max(axis=1, initial=-1)
        longer = [np.concatenate([lists, np.full((len(lists), 1), -1)], axis=1)]
        for answer in range(2 * periods):
            some = lists[used + 1 >= answer]
            longer.append(np.concatenate([some, np.full((len(some), 1), answer)], axis=1))
        lists = np.concatenate(longer)
    return lists.reshape(len(lists), 2, periods)


def n_spells(histories: Ints) -> Ints:
    """Rows of successive periods in one answer, `(n,)` of histories `(n, T)`."""
    starts = np.array(histories >= 0)
    starts[:, 1:] &= histories[:, 1:] != histories[:, :-1]
    return np.asarray(starts.sum(axis=1))


def distances(pairs: Ints, gram: Ints) -> Ints:
    """The sum over answers of d'G d, d the periods of the one history in the answer less those of the other, `(n,)`."""
    total = np.zeros(len(pairs), dtype=np.int64)
    for answer in range(int(pairs.max(initial=-1)) + 1):
        difference = (pairs[:, 0] == answer).astype(np.int64) - (pairs[:, 1] == answer)
        total += np.einsum("ns,st,nt->n", difference, gram, difference)
    return total


def farthest(gram: Ints, neighbours: str, *, sharing: bool = True) -> list[int]:
    """The largest distance with at most 1, 2 ... T spells.

    Args:
        gram: `(T, T)`.
        neighbours: "add-remove" (the other history is in no answer ever) or "change-one".
        sharing: whether two histories may be in the same answer; without, a planted fault.
    """
    pairs = all_pairs(len(gram))
    spells = np.maximum(n_spells(pairs[:, 0].copy()), n_spells(pairs[:, 1].copy()))
    kept = np.ones(len(pairs), dtype=bool)
    if neighbours == "add-remove":
        kept = pairs[:, 1].max(axis=1) < 0
    elif not sharing:
        shared = (pairs[:, 0, :, None] == pairs[:, 1, None, :]) & (pairs[:, 0, :, None] >= 0)
        kept = shared.sum(axis=(1, 2)) == 0
    pairs, spells = pairs[kept], spells[kept]
    found = distances(pairs, gram)
    return [int(found[spells <= most].max()) for most in range(1, len(gram) + 1)]
