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
from pipeline.privacy.budget import (
    LARGEST_SCALE,
    MOVED,
    Framework,
    Mechanism,
    Neighbours,
    NoiseSpec,
    reach_between,
    reach_of_total,
    rounded_text,
)
from pipeline.questions.resolved import Part


def reach(part: Part, neighbours: Neighbours) -> int:
    """The least whole number R such that a record's change, or a unit's total, is at most `MOVED` numbers by R each.

    >>> reach(Part("sum", 0, 600), "change-one"), reach(Part("sum", -300, 300), "change-one")
    (600, 425)
    """
    return reach_of_total(part.low, part.high) if part.of == "total" else reach_between(part.low, part.high, neighbours)


def scale_for(
    part: Part, framework: Framework, neighbours: Neighbours, cost: Fraction, people: tuple[int, int]
) -> tuple[Mechanism, Fraction]:
    """The noise that costs so much: sigma^2 = D / (2 rho), or b = s / epsilon.

    The same turned round is what noise of a scale costs: the scale and the cost stand for each other in both.

    Args:
        part: what is measured.
        framework, neighbours: of the dataset.
        cost: rho or epsilon; or the scale, to know its cost.
        people: of one person how many records may change together, and in how many numbers a unit is counted.
    """
    records, numbers = people
    moved = MOVED[neighbours] * (numbers if part.of == "unit" else 1)
    far = reach(part, neighbours) * (records if part.of == "record" else 1)
    if framework == "zcdp":
        return "discrete_gaussian", moved * Fraction(far) ** 2 / (2 * cost)
    return "discrete_laplace", moved * far / cost


@dataclass(frozen=True)
class MeasuredPart:
    """A part with its noise.

    Attributes:
        part: what is measured.
        reach: see `reach`.
        budget: that it costs, rho or epsilon, exact.
        noise: added to each of its numbers.
        numbers: in how many of them a unit is counted; 1 where records are.
    """

    part: Part
    reach: int
    budget: Fraction
    noise: NoiseSpec
    numbers: int

    @property
    def mechanism(self) -> Mechanism:
        """Of the noise."""
        return self.noise.mechanism

    @property
    def scale(self) -> Fraction:
        """Of the noise, sigma^2 or b."""
        return self.noise.scale


def measured(
    parts: Sequence[Part],
    framework: Framework,
    neighbours: Neighbours,
    budget: Fraction,
    records: int,
    numbers: int = 1,
) -> tuple[MeasuredPart, ...]:
    """The noise of each part; each gets the same share of the budget, which add up to it (sequential composition).

    zcdp: sigma^2 = m R^2 k^2 / (2 rho); pure: b = m R k / epsilon. Of a unit's total k is 1; of units that are counted,
    n numbers of each in place of k: sigma^2 = m n / (2 rho), b = m n / epsilon.

    Args:
        parts: what is measured.
        framework: "zcdp" (discrete Gaussian) or "pure" (discrete Laplace).
        neighbours: "change-one" or "add-remove".
        budget: of all parts together, above 0.
        records: of one person that may change together; so many numbers, at most, a unit is counted in.
        numbers: that a unit could be in, if it had enough records.

    Raises:
        InputError: the budget is not above 0, or buys only noise that is larger than can be drawn.
    """
    if budget <= 0:
        raise InputError(f"budget: found {budget}; it must be above 0")
    share, found = budget / len(parts), []
    for part in parts:
        several = min(records, numbers) if part.of == "unit" else 1
        name, scale = scale_for(part, framework, neighbours, share, (records, several))
        if scale > LARGEST_SCALE[name]:
            raise InputError(
                f"budget: found {budget}; for the {part.name} it buys noise of scale {rounded_text(scale, 3)}, above "
                f"the {float(LARGEST_SCALE[name]):.3g} that can be drawn: spend more"
                + ("" if part.name == "count" else ", or take a larger unit or ends nearer to each other")
            )
        found.append(MeasuredPart(part, reach(part, neighbours), share, NoiseSpec(name, scale), several))
    return tuple(found)
