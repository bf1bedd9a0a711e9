"""Records on a spine, and the tables of cliques that they have in its areas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.marginals.cliques import JunctionTree
from features.marginals.domain import Clique
from features.marginals.records import Records, count
from postprocess.arrays import IntArray

__all__ = ["Population"]


@dataclass(frozen=True, eq=False)
class Population:
    """Records of the leaves of a spine.

    Attributes:
        tree: of the cliques.
        records: all of them.
        parents: of each level but the top, the parent of each area.
        sizes: number of areas of each level.
    """

    tree: JunctionTree
    records: Records
    parents: tuple[IntArray, ...]
    sizes: tuple[int, ...]

    def area_of_leaf(self, level: int) -> IntArray:
        """The area of a level that each leaf lies in."""
        area = np.arange(self.sizes[-1])
        for parent in reversed(self.parents[level:]):
            area = parent[area]
        return area

    def table(self, clique: Clique, level: int) -> IntArray:
        """Of a clique in each area of a level, `(n, cells)`."""
        return count(self.records, clique, self.tree.domain, self.area_of_leaf(level), self.sizes[level])

    def tables(self, level: int) -> list[IntArray]:
        """Of all bags of the tree."""
        return [self.table(bag, level) for bag in self.tree.bags]
