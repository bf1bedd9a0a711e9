"""What households of each kind imply for the persons in them, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.marginal import Marginal

#: Groups of persons that the joins with one companion may tell apart: bounds on all 2^10 sets of them are computed.
MOST_GROUPS = 10
#: In `Membership.most`: nothing limits the members.
NO_MOST = 1 << 40


@dataclass(frozen=True, eq=False)
class Membership:
    """Which members a household has: one of kind b has `least[a, b]` to `most[a, b]` whose answer is a.

    Attributes:
        name: in messages.
        persons: a query on persons.
        households: a query on households.
        least, most: `(persons.size, households.size)` members; `NO_MOST` where nothing limits them.
        inside: `(persons.size,)` True for the answers that members of households fall in; rows of the others are 0.
        others: persons outside of households fall in these answers, too: the households limit them from below only.
        expected: `(persons.size, households.size)` members to expect, about; NaN where that is not known.
    """

    name: str
    persons: Marginal
    households: Marginal
    least: IntArray
    most: IntArray
    inside: BoolArray
    others: bool
    expected: FloatArray
