"""The same noise on every table apart, drawn by OpenDP itself, where it is installed.

OpenDP states what its mechanisms promise, and draws without a seed: the figures differ a little from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.fitness.methods.apart import Apart
from pipeline.model.texts.message import Message, message
from pipeline.model.universe import Table, Universe

#: Numbers that OpenDP is given at a time: its vectors are lists of Python.
_AT_ONCE = 1 << 20
_NAME = Message("OpenDP")


def opendp_noise(universe: Universe, truth: Sequence[sp.csr_array]) -> OpenDP | None:
    """The way, if OpenDP is installed."""
    return OpenDP(Apart(universe, truth, 0)) if find_spec("opendp") else None


@dataclass(eq=False)
class OpenDP:
    """The true counts of a universe with OpenDP's noise on every table.

    Attributes:
        apart: the budget of each table.
        drawn: the numbers of the table and level that were asked for last: asked again, they are the same.
    """

    apart: Apart
    drawn: dict[tuple[str, int], NDArray[np.int64]] = field(default_factory=dict)
    name: Message = _NAME

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""
        return message(
            "OpenDP's own {noise} on every table of every level apart, with the release's budget divided "
            "evenly; negative numbers are published as 0. The same promise as the release, without invariants. Numbers "
            "do not add up. Drawn without a seed: figures differ a little when they are computed again.",
            noise=str(self.apart.noise),
        )

    def answers(self, table: Table, level: int, rows: slice) -> NDArray[np.int64]:
        """Published numbers `(n, size)`: true ones with noise, at least 0."""
        key = table.name, level
        if key not in self.drawn:
            counts = table.query.answer_csr(self.apart.truth[level])
            self.drawn = {key: np.maximum(self._with_noise(counts.ravel()), 0).reshape(counts.shape)}
        return self.drawn[key][rows]

    def _with_noise(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        parts = [counts[at : at + _AT_ONCE] for at in range(0, len(counts), _AT_ONCE)]
        return np.concatenate([np.array(mechanism(self.apart, len(part))(part.tolist())) for part in parts])


def mechanism(apart: Apart, size: int):  # type: ignore[no-untyped-def]  # OpenDP's measurement has no public type
    """OpenDP's measurement of a vector of so many whole numbers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=size)
    if apart.noise.mechanism == "discrete_gaussian":
        return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=math.sqrt(apart.noise.scale))
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(apart.noise.scale))
