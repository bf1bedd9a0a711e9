"""What a release of marginals is made by: areas, cliques, noise, what is known; and the release from measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from features.marginals.cliques import JunctionTree
from features.marginals.domain import Clique
from features.marginals.linear import Level, Measurement, downward, upward
from features.marginals.whole import First, Seed, whole_numbers
from pipeline.privacy.budget import NoiseSpec
from postprocess.arrays import BoolArray, IntArray

__all__ = ["Design", "Release"]

#: Noisy tables of a level: clique -> `(n, cells)`.
Tables = Mapping[Clique, IntArray]


@dataclass(frozen=True, eq=False)
class Release:
    """What is published of all areas.

    Attributes:
        estimates: of each level, linear and unbiased, with exact variances.
        whole: of each level a table `(n, cells)` of each bag, in the order of the tree.
    """

    estimates: list[Level]
    whole: list[list[IntArray]]


@dataclass(frozen=True, eq=False)
class Design:
    """All that a release follows from besides its measurements.

    Attributes:
        tree: of the cliques.
        parents: of each level but the top, the parent of each area.
        noise: of each level, clique -> the noise in each cell of its table; not all cliques need be at each level.
        first: what is known of the first tables.
        zeros: clique -> which of its cells can be positive, `(cells,)`.
        alike: whether the parts of an area are expected to be alike (`alike`).
    """

    tree: JunctionTree
    parents: Sequence[IntArray]
    noise: Sequence[Mapping[Clique, NoiseSpec]]
    first: First = field(default_factory=First)
    zeros: Mapping[Clique, BoolArray] = field(default_factory=dict)
    alike: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of areas of each level."""
        return (1 + int(self.parents[0].max()) if self.parents else 1, *map(len, self.parents))

    def release(self, measured: Sequence[Tables], seed: Seed, *, drawn: bool = False) -> Release:
        """The release of noisy tables of each level.

        Args:
            measured: of each level those of `noise`.
            seed: public, for ties.
            drawn: see `whole_numbers`.
        """
        levels = [self._measurements(number, tables) for number, tables in enumerate(measured)]
        up = upward(levels, self.parents, self.tree.domain, self.sizes)
        whole = whole_numbers(self.tree, up, self.parents, seed, self.first, self.zeros, alike=self.alike, drawn=drawn)
        return Release(downward(up, self.parents), whole)

    def _measurements(self, level: int, tables: Tables) -> list[Measurement]:
        n = self.sizes[level]
        out = [
            Measurement(clique, tables[clique], np.full(n, noise.variance))
            for clique, noise in self.noise[level].items()
        ]
        if self.first.exact is not None and (exact := self.first.exact[level]) is not None:
            out.append(Measurement(exact.clique, exact.numbers, np.zeros(n)))
        return out
