"""Cell-key perturbation, as statistical offices in Australia and Europe use it for census tables.

Every record has a random key. The key of a table's cell is the sum of the keys of the records that it counts, without
the whole part; it decides how much is added to the count, by a table of probabilities. The same records are therefore
published with the same error wherever they are counted, but tables do not add up (Fraser and Wooton 2005, Australian
Bureau of Statistics). The probabilities are those of maximum entropy with mean 0, a variance of at most V and errors of
at most D, such that no count is below 0 or from 1 to js (Giessing 2016, doi:10.1007/978-3-319-45381-1_18; the R
packages ptable and cellKey, whose parameters have the same names). Empty cells stay empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq

from features.fitness.methods.way import summed_up
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.model.texts.message import Message, message
from pipeline.model.universe import Table

#: Keys are fractions with so many bits.
_BITS: Final = 32
_WHOLE: Final = 1 << _BITS

Floats = NDArray[np.float64]


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


def probabilities(count: int, parameters: CellKeyParameters) -> tuple[NDArray[np.int64], Floats]:
    """Errors that a count may get, and their probabilities: p(v) = exp(a v - b v^2) with b >= 0, normalised.

    a is such that the mean is 0. b is 0 if the variance is within V then, else such that it is V.
    """
    if count == 0:
        return np.zeros(1, dtype=np.int64), np.ones(1)
    errors = np.arange(-min(count, parameters.most), parameters.most + 1)
    errors = errors[(count + errors == 0) | (count + errors > parameters.unpublished)]

    def of(b: float) -> Floats:
        def weights(a: float) -> Floats:
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


@dataclass(frozen=True, eq=False)
class CellKeys:
    """The true counts of a universe, perturbed.

    Attributes:
        parameters: D, V and js.
        counts, keys: of each level, histograms of true counts and of cell keys `(n_geounits, n_cells)`.
    """

    parameters: CellKeyParameters
    counts: Sequence[sp.csr_array]
    keys: Sequence[sp.csr_array]

    @classmethod
    def of(
        cls, truth: Sequence[sp.csr_array], spine: Spine, seed: int, parameters: CellKeyParameters | None = None
    ) -> CellKeys:
        """Perturb the true histograms of all levels, with keys that `seed` gives."""
        leaves = truth[-1]
        # The sum of the uniform keys of one record or more is uniform, so that one key for them all will do.
        drawn = np.random.default_rng(seed).integers(0, _WHOLE, len(leaves.data), dtype=np.int64)
        keys = summed_up(sp.csr_array((drawn, leaves.indices, leaves.indptr), shape=leaves.shape), spine)
        return cls(parameters or CellKeyParameters(), truth, keys)

    @property
    def name(self) -> Message:
        """Short, for a column."""
        return message("cell keys")

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""
        one = self.parameters
        return message(
            "Cell-key perturbation with D = {most}, V = {variance}, js = {unpublished}: the error of each number is "
            "determined by the records that it counts. Numbers do not add up. There is no bound on what many "
            "tables together reveal about a person.",
            most=one.most,
            variance=f"{one.variance:g}",
            unpublished=one.unpublished,
        )

    def answers(self, table: Table, level: int, rows: slice) -> NDArray[np.int64]:
        """Published numbers `(n, size)`: true ones with their errors."""
        counts = table.query.answer_csr(self.counts[level][rows])
        keys = table.query.answer_csr(self.keys[level][rows]) % _WHOLE
        plain = self.parameters.most + self.parameters.unpublished + 1
        out = counts.copy()
        for count in np.unique(np.minimum(counts, plain)).tolist():
            errors, shares = probabilities(count, self.parameters)
            where = np.minimum(counts, plain) == count
            ends = np.ceil(np.cumsum(shares) * _WHOLE)
            ends[-1] = math.inf
            out[where] += errors[np.searchsorted(ends, keys[where], side="right")]
        return out
