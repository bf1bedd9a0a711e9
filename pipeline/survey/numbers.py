"""How many reports each leaf has, and counts from the totals of its reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.collect.collected import Collected
from pipeline.model.public_key import public_key
from postprocess.arrays import adding_up


@dataclass(frozen=True, eq=False)
class DebiasedCounts:
    """Makes counts of the totals of some leaves.

    Attributes:
        collected: how answers were randomised.
        reports: `(n_leaves,)` of each leaf.
    """

    collected: Collected
    reports: NDArray[np.int64]

    def __call__(self, stored: NDArray[np.signedinteger], first: int) -> NDArray[np.float64]:
        """See `source.ToCounts`; a cell that is the rest of the reports has 0 (`Marginal.answered`)."""
        counts = self.collected.debiased(stored.astype(np.int64), self.reports[first : first + len(stored)])
        return np.where(self.collected.counted, counts, 0.0)


@dataclass(frozen=True, eq=False)
class ErrorsOfReports:
    """By what the standard errors of counts differ from those that estimation states.

    Attributes:
        collected: how answers were randomised.
        mixed: whether counts of a central release, whose errors do not depend on the counts, are part of estimates.
    """

    collected: Collected
    mixed: bool

    def __call__(
        self,
        answers: NDArray[np.int64],
        cells: NDArray[np.int64],
        counts: NDArray[np.int64],
        reports: NDArray[np.int64],
        standard: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """See `Collected.own_errors`; `standard` are the stated errors.

        Of an estimate with the variance V, where reports alone have V_r, the reports have the weight w = V / V_r. They
        add w^2 V_r = w V to the variance, what is known otherwise adds the rest: so the factor f of reports alone
        becomes sqrt(w f^2 + 1 - w).
        """
        factors = self.collected.own_errors(answers, cells, counts, reports)
        if not self.mixed:
            return factors
        alone = self.collected.stated_variances(answers, cells, reports)
        weight = np.clip(standard**2 / np.where(alone > 0, alone, 1), 0, 1)
        mixed: NDArray[np.float64] = np.sqrt(weight * factors**2 + 1 - weight)
        return mixed

    def variances(
        self, answers: NDArray[np.int64], cells: NDArray[np.int64], persons: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """See `Collected.stated_variances`."""
        return self.collected.stated_variances(answers, cells, persons)

    def alone(self, stored: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Debiased counts `(n, n_cells)` of areas with such totals; of each area they add up to its reports."""
        return adding_up(self.collected.debiased(stored, sizes), sizes)


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
        """Debiased counts of new reports, `(n, n_cells)`, of leaves from number `first` on with such answers.

        A cell that is the rest of the reports has 0.
        """
        generator = self._generator("reports", replicate, first)
        reports = counts.sum(axis=1)
        counted = self.collected.debiased(self.collected.totals_of(counts, generator), reports)
        counted = counted + reports[:, None] * self._moved(replicate)
        return np.where(self.collected.counted, counted, 0.0)

    def _moved(self, replicate: int) -> NDArray[np.float64]:
        """By what a report moves each count for answers that are not listed: the same everywhere in one run."""
        return self.collected.moved(self._generator("words", replicate))

    def _generator(self, what: str, *numbers: int) -> np.random.Generator:
        key = public_key(f"spinewise simulated {what} 1", self.seed, self.universe, *numbers)
        return np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))
