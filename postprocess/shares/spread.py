"""How far the areas of a level are from their public shares: tau^2 and a of docs/mathematics.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray

#: Persons: areas are not expected to be fewer than this where it is asked how far off they may be.
LEAST_EXPECTED = 1.0
#: What a share must add to the precision of the measurements, as a part of it, to be used.
WORTH = 0.1


@dataclass(frozen=True)
class Spread:
    """How far one answer of the areas of a level is from what the public numbers say.

    Attributes:
        tau2: variance for each expected person, of a small area.
        a: by how much it grows with the size: the variance is `tau2 (m + a m^2)` for m expected persons.
        alone: variance, in persons squared, of an area whose public number is 0.
        noise: the measurements' own variance of an area's answer, the median; infinite where nothing is measured.
        standard_error: of `tau2`, as if the rest were known; infinite where nothing is measured.
        geounits: how many it was estimated from.
        factors: (octave of the public number, by how much the variance is larger there), where that is clear.
    """

    tau2: float
    a: float
    alone: float
    noise: float
    standard_error: float
    geounits: int
    factors: tuple[tuple[int, float], ...] = ()

    def variances(self, expected: FloatArray, number: FloatArray) -> FloatArray:
        """f_c in persons squared for expected persons and public numbers, of any shape; those of 0 stand alone."""
        m = np.maximum(expected, LEAST_EXPECTED)
        factor = np.ones(np.shape(number))
        size = octaves(number)
        for octave, larger in self.factors:
            factor = np.where(size == octave, larger, factor)
        return np.where(number > 0, factor * self.tau2 * (m + self.a * m * m), self.alone)

    def used(self, variances: FloatArray) -> FloatArray:
        """The variances with which terms are used: infinite where they would add less than `WORTH` to what is measured.

        A share that says hardly more than nothing pulls small areas up and large ones down for hardly any gain on
        average, so its weight is less by this part of the measurements'.
        """
        weight = 1.0 / variances - (WORTH / self.noise if np.isfinite(self.noise) and self.noise > 0 else 0.0)
        return np.where(weight > 0, 1.0 / np.where(weight > 0, weight, 1.0), np.inf)

    def public(self) -> dict[str, object]:
        """What is said of it in the manifest."""
        return {
            "tau2": self.tau2,
            "a": self.a,
            "without_number": self.alone,
            "noise": self.noise if np.isfinite(self.noise) else None,
            "standard_error": self.standard_error if np.isfinite(self.standard_error) else None,
            "geounits": self.geounits,
            "factors": [[f"{2.0**octave:g}", factor] for octave, factor in self.factors],
        }


def octaves(number: FloatArray) -> FloatArray:
    """The class of each public number: those of a class are within a factor of two."""
    return np.floor(np.log2(np.where(number > 0, number, 1.0)))
