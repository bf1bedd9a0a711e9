"""Units with several records: of each at most so many are counted, by a keyed choice.

A unit is whoever is protected as a whole, such as a patient with several visits. What is counted of a unit depends on
its own records and the key alone, never on other units or on the order of the file: else one unit's change could alter
what is counted of others. Which of its records these are nobody can tell without the key.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

#: A keyed hash of some bytes; without the key it looks random.
KeyedHash = Callable[[bytes], bytes]


def kept_records(
    units: NDArray[np.int64], cells: NDArray[np.int64], names: list[str], at_most: int, keyed: KeyedHash
) -> NDArray[np.bool_]:
    """Which records are counted, `(n,)`: of each unit those whose keyed hashes come first.

    Args:
        units: `(n,)` number of each record's unit.
        cells: `(n,)` leaf * n_cells + cell of each record; equal ones of a unit are told apart by their number alone.
        names: of the units.
        at_most: records of a unit that are counted.
        keyed: the hash.
    """
    kept = np.ones(len(units), dtype=bool)
    above = np.flatnonzero(np.bincount(units, minlength=len(names))[units] > at_most)
    if not len(above):
        return kept
    order = above[np.lexsort((cells[above], units[above]))]
    starts = np.flatnonzero(np.diff(units[order], prepend=-1))
    for first, last in zip(starts, np.append(starts[1:], len(order)), strict=True):
        rows = order[first:last]
        name = names[int(units[rows[0]])].encode()
        # Equal records have numbers of their own, so that the choice among a unit's records is one among all of them.
        again = np.arange(len(rows)) - np.searchsorted(cells[rows], cells[rows])
        hashes = [
            keyed(b"%d %s %d %d" % (len(name), name, cell, number))
            for cell, number in zip(cells[rows].tolist(), again.tolist(), strict=True)
        ]
        ranked = sorted(range(len(rows)), key=hashes.__getitem__)
        kept[rows[ranked[at_most:]]] = False
    return kept
