"""How far one person moves the numbers of a part, and the noise that a budget buys for it.

A record adds a whole number x, low <= x <= high, to one number of the part, or nothing (`resolved.Part`). So

- `add-remove`: one number moves by |x| <= A = max(|low|, |high|). L1 <= A, L2 squared <= A^2.
- `change-one`, to another place or group, or from counted to not: two numbers move by at most A each, L1 <= 2 A,
  L2 squared <= 2 A^2; within its place and group: one number moves by at most high - low <= 2 A, so that L1 <= 2 A,
  but L2 squared is up to (high - low)^2, which is 4 A^2 where low = -high.

`reach` is the least whole R with L1 <= m R and L2 squared <= m R^2, m = 2 or 1 as `budget.MOVED`: the numbers move as
if m of them moved by R each. For a count R = 1. Numbers of different places and groups need no composition: this
counts all of them at once. k records of one person move them by at most k times as much, in L1 and in L2.
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
)
from pipeline.questions.resolved import Part

__all__ = ["Measured", "measured", "reach"]


def reach(part: Part, neighbours: Neighbours) -> int:
    """The least whole number R such that a record's change is at most `MOVED` numbers moved by R each.

    >>> reach(Part("sum", 0, 600), "change-one"), reach(Part("sum", -300, 300), "change-one")
    (600, 425)
    """
    return reach_between(part.low, part.high, neighbours)


@dataclass(frozen=True)
class Measured:
    """A part with its noise.

    Attributes:
        part: what is measured.
        reach: see `reach`.
        budget: that it costs, rho or epsilon, exact.
        noise: added to each of its numbers.
    """

    part: Part
    reach: int
    budget: Fraction
    noise: NoiseSpec

    @property
    def mechanism(self) -> Mechanism:
        """Of the noise."""
        return self.noise.mechanism

    @property
    def scale(self) -> Fraction:
        """Of the noise, sigma^2 or b."""
        return self.noise.scale


def measured(
    parts: Sequence[Part], framework: Framework, neighbours: Neighbours, budget: Fraction, records: int
) -> tuple[Measured, ...]:
    """The noise of each part; each gets the same share of the budget, which add up to it (sequential composition).

    zcdp: sigma^2 = m R^2 k^2 / (2 rho); pure: b = m R k / epsilon.

    Args:
        parts: what is measured.
        framework: "zcdp" (discrete Gaussian) or "pure" (discrete Laplace).
        neighbours: "change-one" or "add-remove".
        budget: of all parts together, above 0.
        records: of one person that may change together.

    Raises:
        InputError: the budget is not above 0, or buys only noise that is larger than can be drawn.
    """
    if budget <= 0:
        raise InputError(f"budget: found {budget}; it must be above 0")
    share, found = budget / len(parts), []
    for part in parts:
        far = reach(part, neighbours)
        if framework == "zcdp":
            name, scale = "discrete_gaussian", MOVED[neighbours] * Fraction(far * records) ** 2 / (2 * share)
        else:
            name, scale = "discrete_laplace", MOVED[neighbours] * far * records / share
        if scale > LARGEST_SCALE[name]:
            raise InputError(
                f"budget: found {budget}; for the {part.name} it buys noise of scale {float(scale):.3g}, above the "
                f"{float(LARGEST_SCALE[name]):.3g} that can be drawn: spend more"
                + ("" if part.name == "count" else ", or take a larger unit or ends nearer to each other")
            )
        found.append(Measured(part, far, share, NoiseSpec(name, scale)))  # type: ignore[arg-type]
    return tuple(found)
