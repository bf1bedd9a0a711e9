"""Whether the share of an area's largest group is right: the rule of the accuracy target of 2020.

The target: within five points in 95 % of the areas of 500 people or more (US Census Bureau, "Census Bureau Sets Key
Parameters to Protect Privacy in 2020 Census Results", 9 June 2021). How reliable areas of each size are, in classes of
50 people: Wright and Irimata (2021), "Empirical Study of Two Aspects of the TopDown Algorithm Output for Redistricting:
Reliability and Variability", SSS2021-02, who find 450 to 499 people for block groups, and 200 to 249 for places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import BoolArray, IntArray

#: A share is right within so many points, in so much of the areas of at least so many people.
POINTS, SHARE, PEOPLE = 5, 0.95, 500
#: People of a class, and the number of classes; the last has all larger areas.
WIDTH, CLASSES = 50, 21


def fits(published: IntArray, truth: NDArray[np.generic]) -> BoolArray:
    """`(n,)`: whether the share of the truly largest group is within the points, of numbers `(n, k)`."""
    true = np.asarray(truth, dtype=np.float64)
    group = true.argmax(axis=1)[:, None]
    share = np.take_along_axis(published, group, 1)[:, 0] / np.maximum(published.sum(axis=1), 1)
    true_share = np.take_along_axis(true, group, 1)[:, 0] / np.maximum(true.sum(axis=1), 1.0)
    return np.abs(share - true_share) <= POINTS / 100 + 1e-12


@dataclass(frozen=True)
class Target:
    """How well a table at a level meets the target.

    Attributes:
        areas, fit: areas of `PEOPLE` people or more, and how many of them are within `POINTS` points; expected numbers
            where the truth is not known.
        all_areas, all_fit: the same of all areas with anybody in them.
        reliable_from: the least number of people, in steps of `WIDTH`, from which on `SHARE` of the areas of every
            class are within them; None if that is not so of the largest.
    """

    areas: int
    fit: float
    all_areas: int
    all_fit: float
    reliable_from: int | None

    @property
    def share(self) -> float | None:
        """Of the areas of `PEOPLE` people or more, those within the points; None where there are none."""
        return self.fit / self.areas if self.areas else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there are no such areas."""
        return self.fit >= SHARE * self.areas if self.areas else None


class TargetSums:
    """Areas by size, and how many are within the points; filled part by part."""

    def __init__(self) -> None:
        self.areas, self.fit = np.zeros(CLASSES), np.zeros(CLASSES)

    def add(self, people: IntArray, fit: NDArray[np.generic], weight: float = 1.0) -> None:
        """Add areas with so many people `(n,)`, and for each whether it fits, or with what probability."""
        inhabited = people > 0
        numbers = np.minimum(people[inhabited] // WIDTH, CLASSES - 1)
        fits = np.asarray(fit, dtype=np.float64)[inhabited]
        self.areas += weight * np.bincount(numbers, minlength=CLASSES)
        self.fit += weight * np.bincount(numbers, weights=fits, minlength=CLASSES)

    def target(self) -> Target | None:
        """The result; None where there are no inhabited areas."""
        if not self.areas.any():
            return None
        first = PEOPLE // WIDTH
        reliable = CLASSES
        while reliable and self.fit[reliable - 1] >= SHARE * self.areas[reliable - 1] - 1e-9:
            reliable -= 1
        largest = int(np.flatnonzero(self.areas)[-1])
        return Target(
            areas=round(float(self.areas[first:].sum())),
            fit=float(self.fit[first:].sum()),
            all_areas=round(float(self.areas.sum())),
            all_fit=float(self.fit.sum()),
            reliable_from=None if reliable > largest else reliable * WIDTH,
        )
