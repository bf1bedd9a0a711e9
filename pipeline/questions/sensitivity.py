"""How far one person moves the numbers of a part, and the noise that a budget buys for it.

A record adds a whole number x, low <= x <= high, to one number of the part, or nothing (`resolved.Part`). So

- `add-remove`: one number moves by |x| <= A = max(|low|, |high|). L1 <= A, L2 squared <= A^2.
- `change-one`, to another place or group, or from counted to not: two numbers move by at most A each, L1 <= 2 A,
  L2 squared <= 2 A^2; within its place and group: one number moves by at most high - low <= 2 A, so that L1 <= 2 A,
  but L2 squared is up to (high - low)^2, which is 4 A^2 where low = -high.

`reach` is the least whole R with L1 <= m R and L2 squared <= m R^2, m = 2 or 1 as `budget.MOVED`: the numbers move as
if m of them moved by R each. For a count R = 1. Numbers of different places and groups need no composition: this
counts all of them at once. k records of one person move them by at most k times as much, in L1 and in L2.

Of units with several records there are two more ways. Where the ends are those of a unit's total, all of its records
together move numbers as one of them would (`budget.reach_of_total`), however many they are. Where units are counted,
each once in every number that it has a record in, in n of them at most, it moves n numbers by one each: L1 <= m n, and
L2 squared <= m n, not m n^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipeline.errors import InputError
from pipeline.model.promise import Promise
from pipeline.privacy.budget import (
    MOVED,
    Neighbours,
    reach_between,
    reach_of_total,
    rounded_text,
)
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import NOISE
from pipeline.questions.resolved import Part


def reach(part: Part, neighbours: Neighbours) -> int:
    """The least whole number R such that a record's change, or a unit's total, is at most `MOVED` numbers by R each.

    >>> reach(Part("sum", 0, 600), "change-one"), reach(Part("sum", -300, 300), "change-one")
    (600, 425)
    """
    return reach_of_total(part.low, part.high) if part.of == "total" else reach_between(part.low, part.high, neighbours)


@dataclass(frozen=True)
class MeasuredPart:
    """A part with its noise.

    Attributes:
        part: what is measured.
        reach: see `reach`.
        budget: that it costs, rho or epsilon, exact.
        mechanism: the noise added to each of its numbers.
        numbers: in how many of them a unit is counted; 1 where records are.
    """

    part: Part
    reach: int
    budget: Fraction
    mechanism: NoiseSpec
    numbers: int


def measured(parts: Sequence[Part], promise: Promise, numbers: int = 1) -> tuple[MeasuredPart, ...]:
    """The noise of each part; each gets the same share of the budget, which add up to it (sequential composition).

    zcdp: sigma^2 = m R^2 k^2 / (2 rho); pure: b = m R k / epsilon. Of a unit's total k is 1; of units that are counted,
    n numbers of each in place of k: sigma^2 = m n / (2 rho), b = m n / epsilon.

    Args:
        parts: what is measured.
        promise: its budget is that of all parts together, above 0; in as many numbers as it has records a unit is
            counted, at most.
        numbers: that a unit could be in, if it had enough records.

    Raises:
        InputError: the budget is not above 0, or buys only noise that is larger than can be drawn.
    """
    budget, records = promise.budget, promise.records
    if budget <= 0:
        raise InputError(f"budget: found {budget}; it must be above 0")
    share, found = budget / len(parts), []
    for part in parts:
        several = min(records, numbers) if part.of == "unit" else 1
        kind, moves = NOISE[promise.framework], reach(part, promise.neighbours)
        together = records if part.of == "record" else 1
        scale = kind.scale_for(share, MOVED[promise.neighbours] * several, moves * together)
        if scale > kind.largest:
            raise InputError(
                f"budget: found {budget}; for the {part.name} it buys noise of scale {rounded_text(scale, 3)}, above "
                f"the {float(kind.largest):.3g} that can be drawn: spend more"
                + ("" if part.name == "count" else ", or take a larger unit or ends nearer to each other")
            )
        found.append(MeasuredPart(part, moves, share, kind(scale), several))
    return tuple(found)
