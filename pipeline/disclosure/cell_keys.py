"""Errors of cell-key perturbation, and their probabilities.

Cell-key perturbation is used by statistical offices in Australia and Europe for census tables. Every record has a
random key. The key of a table's cell is the sum of the keys of the records that it counts, without the whole part; it
decides how much is added to the count, by a table of probabilities. The same records are therefore published with the
same error wherever they are counted, but tables do not add up (Fraser and Wooton 2005, Australian Bureau of
Statistics). The probabilities are those of maximum entropy with mean 0, a variance of at most V and errors of at most
D, such that no count is below 0 or from 1 to js (Giessing 2016, doi:10.1007/978-3-319-45381-1_18; the R packages ptable
and cellKey, whose parameters have the same names). Empty cells stay empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from pipeline.errors import InputError
from postprocess.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class CellKeyParameters:
    """Parameters of the perturbation.

    Attributes:
        most: D, the largest error, persons.
        variance: V, the largest variance of an error, persons squared.
        unpublished: js; counts from 1 to this are not published.

    Raises:
        InputError: no distribution has these parameters.
    """

    most: int = 5
    variance: float = 3.0
    unpublished: int = 2

    def __post_init__(self) -> None:
        least = max((i * (self.unpublished + 1 - i) for i in range(1, self.unpublished + 1)), default=0)
        if self.most < 1 or not 0 <= self.unpublished < self.most or not self.variance > 0 or self.variance < least:
            raise InputError(
                f"cell keys: found D = {self.most}, V = {self.variance:g}, js = {self.unpublished}; D must be at least "
                f"1, js from 0 to D - 1, and V above 0 and, with this js, at least {least}"
            )


def probabilities(count: int, parameters: CellKeyParameters) -> tuple[IntArray, FloatArray]:
    """Errors that a count may get, and their probabilities: p(v) = exp(a v - b v^2) with b >= 0, normalised.

    a is such that the mean is 0. b is 0 if the variance is within V then, else such that it is V.
    """
    if count == 0:
        return np.zeros(1, dtype=np.int64), np.ones(1)
    errors = np.arange(-min(count, parameters.most), parameters.most + 1)
    errors = errors[(count + errors == 0) | (count + errors > parameters.unpublished)]

    def of(b: float) -> FloatArray:
        def weights(a: float) -> FloatArray:
            exponents = a * errors - b * errors**2
            raw = np.exp(exponents - exponents.max())
            return np.asarray(raw / raw.sum())

        end = 60.0 + 2 * b * parameters.most
        slope = float(brentq(lambda a: float(weights(a) @ errors), -end, end, xtol=1e-14))
        return weights(slope)

    found = of(0.0)
    if found @ errors**2 > parameters.variance:
        found = of(float(brentq(lambda b: float(of(b) @ errors**2) - parameters.variance, 0.0, 30.0, xtol=1e-14)))
    return errors, found
