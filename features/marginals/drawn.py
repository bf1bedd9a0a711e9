"""Numbers inside the bins of amounts, one for each record of the microdata.

The number is the bin's first plus a hash, modulo the bin's size: a hash of the public seed, the attribute, the leaf and
the record's place in it. Every whole number of a bin has the same chance, but for a part of 2^-13 at most (a bin has
fewer than 2^51 numbers, a hash 64 bits). It depends on the records by their released bin alone, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from features.marginals.bins import Bins
from features.marginals.domain import Domain
from features.marginals.records import Records
from features.marginals.whole import Seed
from postprocess.arrays import IntArray

__all__ = ["drawn_numbers"]

#: Use of the public seed here.
_DRAWN: Final = 0x6D617264


def drawn_numbers(records: Records, amounts: Sequence[Bins], domain: Domain, seed: Seed) -> IntArray:
    """A number inside the bin of each record and amount, `(N, number of amounts)`.

    Args:
        records: whole leaves, in the order in which they are written.
        amounts: attributes of the domain whose values are bins.
        domain: of the records.
        seed: the public one.
    """
    place = np.arange(len(records.leaf)) - np.searchsorted(records.leaf, records.leaf)
    out = np.empty((len(records.leaf), len(amounts)), dtype=np.int64)
    for number, one in enumerate(amounts):
        attribute = domain.names.index(one.name)
        code = records.values[:, attribute]
        size = np.array([bin_.size for bin_ in one.ranges], dtype=np.uint64)[code]
        first = np.array([bin_.first for bin_ in one.ranges], dtype=np.int64)[code]
        drawn = seed.bits(_DRAWN, np.array(attribute), records.leaf, place) % size
        out[:, number] = first + drawn.astype(np.int64)
    return out
