"""Noise on every table apart: what a library of mechanisms such as OpenDP gives, without any estimation.

Each table of each level gets the same part of the release's budget, discrete Gaussian or Laplace noise of the scale
that this part buys (as `make_gaussian` and `make_laplace` of OpenDP on whole numbers, whose distribution is the same),
and what is below 0 is published as 0. Nothing adds up, and no invariant is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.model.texts.message import Message, message
from pipeline.model.universe import Table, Universe
from pipeline.privacy.budget import NoiseSpec, noise_for
from pipeline.privacy.noise.sampler import sampler_for


@dataclass(frozen=True, eq=False)
class Apart:
    """The true counts of a universe with noise on every table.

    Attributes:
        universe: whose budget is divided.
        truth: histograms of each level `(n_geounits, n_cells)`.
        seed: of the noise, which protects nothing: its sums are for the agency alone.
    """

    universe: Universe
    truth: Sequence[sp.csr_array]
    seed: int

    @property
    def noise(self) -> NoiseSpec:
        """The noise of every number."""
        tables = sum(len(table.levels) for table in self.universe.tables)
        one = self.universe
        return noise_for(one.framework, one.record_budget, Fraction(1, tables), Fraction(1), one.neighbours)

    @property
    def name(self) -> Message:
        """Short, for a column."""
        return message("noise apart")

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""
        return message(
            "Noise on every table of every level apart, as OpenDP draws it, with the release's own budget divided "
            "evenly ({noise}); negative numbers are published as 0. The same promise as the release, without "
            "invariants. Numbers do not add up.",
            noise=str(self.noise),
        )

    def answers(self, table: Table, level: int, rows: slice) -> NDArray[np.int64]:
        """Published numbers `(n, size)`: true ones with noise, at least 0."""
        counts = table.query.answer_csr(self.truth[level][rows])
        label = f"fitness {self.seed} {self.universe.name} {level} {table.name}"
        key = hashlib.sha256(label.encode()).digest()
        drawn = sampler_for(self.noise).draw(key, rows.start * table.query.size, counts.size)
        return np.maximum(counts + drawn.reshape(counts.shape), 0)
