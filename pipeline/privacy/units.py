"""Units with several records: of each at most so many are counted, and its amounts add up to no more than they may.

A unit is whoever is protected as a whole, such as a patient with several visits. What is counted of a unit depends on
its own records and the key alone, never on other units or on the order of the file: else one unit's change could alter
what is counted of others. Which of its records these are nobody can tell without the key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: A keyed hash of some bytes; without the key it looks random.
KeyedHash = Callable[[bytes], bytes]


def kept_records(
    units: NDArray[np.int64],
    cells: NDArray[np.int64],
    names: list[str],
    at_most: int,
    keyed: KeyedHash,
    beside: Sequence[NDArray[np.int64]] = (),
) -> NDArray[np.bool_]:
    """Which records are counted, `(n,)`: of each unit those whose keyed hashes come first.

    Args:
        units: `(n,)` number of each record's unit.
        cells: `(n,)` leaf * n_cells + cell of each record.
        names: of the units.
        at_most: records of a unit that are counted.
        keyed: the hash.
        beside: whatever else of a record is counted, such as amounts, `(n,)` each. Records of a unit that are equal in
            all of it are told apart by their number alone.
    """
    kept = np.ones(len(units), dtype=bool)
    above = np.flatnonzero(np.bincount(units, minlength=len(names))[units] > at_most)
    if not len(above):
        return kept
    for rows in _of_each(units, above):
        name = names[int(units[rows[0]])].encode()
        # Equal records have numbers of their own, so that the choice among a unit's records is one among all of them.
        seen: Counter[tuple[int, ...]] = Counter()
        hashes = []
        for record in zip(*(column[rows].tolist() for column in (cells, *beside)), strict=True):
            told = b" ".join(b"%d" % number for number in (*record, seen[record]))
            hashes.append(keyed(b"%d %s %s" % (len(name), name, told)))
            seen[record] += 1
        ranked = sorted(range(len(rows)), key=hashes.__getitem__)
        kept[rows[ranked[at_most:]]] = False
    return kept


def kept_numbers(
    units: NDArray[np.int64], numbers: NDArray[np.int64], names: list[str], at_most: int, keyed: KeyedHash
) -> NDArray[np.int64]:
    """Of each unit one record in each number that it is counted in, as rows; at most so many numbers of a unit.

    Args:
        units: `(n,)` number of each record's unit.
        numbers: `(n,)` which number the record would be counted in.
        names: of the units.
        at_most: numbers of a unit; those whose keyed hashes come first.
        keyed: the hash.
    """
    pairs, first = np.unique(np.stack([units, numbers]), axis=1, return_index=True)
    rows: NDArray[np.int64] = first[kept_records(pairs[0], pairs[1], names, at_most, keyed)]
    return rows


def within_ends(units: NDArray[np.int64], amounts: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
    """The amounts of each unit taken down, in proportion, until they add up to what a unit may have, `(n,)` whole.

    Those above 0 then add up to at most `high`, and those below 0 to at least `low`: so the numbers of any areas and
    groups that they are summed into have an L1 and an L2 norm of at most `high` (and `-low`). A bound on their sum
    alone would not do, since a gain in one place and a loss in another cancel.

    Each amount a of a unit with the total T becomes a high / T, rounded down; what is then missing goes, one each, to
    those with the largest fractions. Equal amounts get the same: what a record is taken down to depends on the unit's
    amounts alone, not on where or what its records are.

    Args:
        units: `(n,)` number of each record's unit.
        amounts: `(n,)` whole, of either sign.
        low, high: 0 or below, and 0 or above.

    Raises:
        ValueError: 0 is not between the ends.
    """
    if low > 0 or high < 0:
        raise ValueError("0 must be between the ends of a unit's total")
    found = amounts.copy()
    for sign, most in ((1, high), (-1, -low)):
        part = np.maximum(sign * amounts, 0)
        totals = np.zeros(int(units.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(totals, units, part)
        above = np.flatnonzero((totals[units] > most) & (part > 0))
        for rows in _of_each(units, above):
            found[rows] = sign * np.array(_taken_down(part[rows].tolist(), most), dtype=np.int64)
    return found


def _of_each(units: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows of each unit, some of all rows, in their order."""
    order = rows[np.argsort(units[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(units[order], prepend=-1))
    for first, last in pairwise([*starts.tolist(), len(order)]):
        yield order[first:last]


def _taken_down(amounts: list[int], most: int) -> list[int]:
    """Amounts above 0, in all above `most`, in proportion: whole, and in all at most `most`."""
    total, times = sum(amounts), Counter(amounts)
    down = {amount: amount * most // total for amount in times}
    left = most - sum(down[amount] * n for amount, n in times.items())
    for amount in sorted(times, key=lambda one: (one * most % total, one), reverse=True):
        if times[amount] <= left and amount * most % total:
            down[amount] += 1
            left -= times[amount]
    return [down[amount] for amount in amounts]
