"""A join: what each household of a companion implies for the persons in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.model.query import Query

#: In `Join.most`: nothing limits the members.
NO_MOST = 1 << 40


@dataclass(frozen=True, eq=False)
class Join:
    """For each answer of a query on persons and each of one on households, the members of one such household.

    A household of kind b has at least `least[a, b]` and at most `most[a, b]` members whose answer is a.

    Attributes:
        name: in messages.
        companion: the universe of households.
        persons: on the release's own universe.
        households: on the companion.
        least, most: `(persons.size, households.size)` int64 members; `NO_MOST` where nothing limits them.
        inside: `(persons.size,)` True for the answers that members of households fall in; rows of the others are 0.
        others: persons outside of households fall in these answers, too: the households limit them from below only.
        expected: `(persons.size, households.size)` float64 members to expect, about; NaN where that is not known.
    """

    name: str
    companion: str
    persons: Query
    households: Query
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    inside: NDArray[np.bool_]
    others: bool
    expected: NDArray[np.float64]
