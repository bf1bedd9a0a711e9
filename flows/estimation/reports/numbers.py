"""How many reports each leaf has, and counts from the totals of its reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flows.estimation.public_key import public_key
from pipeline.collect.collected import Collected


@dataclass(frozen=True, eq=False)
class DebiasedCounts:
    """Makes counts of the totals of some leaves.

    Attributes:
        collected: how answers were randomised.
        reports: `(n_leaves,)` of each leaf.
    """

    collected: Collected
    reports: NDArray[np.int64]

    def __call__(self, totals: NDArray[np.signedinteger], first: int) -> NDArray[np.float64]:
        """See `measurement_files.Debiased`."""
        return self.collected.debiased(totals.astype(np.int64), self.reports[first : first + len(totals)])


@dataclass(frozen=True, eq=False)
class SimulatedReports:
    """Reports that respondents with the released answers might have sent, from the public seed.

    Attributes:
        collected: how answers were randomised.
        seed, universe: public; runs of two universes share no numbers.
    """

    collected: Collected
    seed: int
    universe: str

    def __call__(self, replicate: int, first: int, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Debiased counts of new reports, `(n, n_cells)`, of leaves from number `first` on with such answers."""
        key = public_key("spinewise simulated reports 1", self.seed, self.universe, replicate, first)
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))
        totals = self.collected.totals_of(counts, generator)
        return self.collected.debiased(totals, counts.sum(axis=1))
