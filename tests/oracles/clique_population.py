"""Records of the leaves of a spine and the cliques of their attributes: what is true in tests of `[marginals]`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from features.marginals.cliques import AttributeSizes, Clique, JunctionTree
from features.marginals.records import WholeRecords
from postprocess.arrays import IntArray


def count(
    records: WholeRecords, attributes: Clique, domain: AttributeSizes, area_of_leaf: IntArray, n: int
) -> IntArray:
    """The table `(n, cells)` of any attributes in n areas; `area_of_leaf` says which of them each leaf lies in."""
    table = np.zeros((n, *domain.shape(attributes)), dtype=np.int64)
    np.add.at(table, (area_of_leaf[records.leaf], *records.values[:, list(attributes)].T), 1)
    return table.reshape(n, -1)


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
    records: WholeRecords
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
