"""Records of the leaves of a spine and the cliques of their attributes: what is true in tests of `[marginals]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, junction_tree
from features.marginals.intervals import CliqueDesign, SimulatedErrors
from features.marginals.linear import NoisyTable
from features.marginals.records import WholeRecords
from postprocess.arrays import FloatArray, IntArray
from postprocess.marginal import Marginal, detail_of


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


def population(
    seed: int, cliques: Sequence[Clique] = ((0, 1), (1, 2, 3), (3, 4)), n: int = 400, *, first: Clique = ()
) -> Population:
    """Five attributes that hang together, in six leaves of two of three parents; one leaf is empty."""
    rng = np.random.default_rng(seed)
    domain = AttributeSizes(tuple("abcde"), (2, 3, 2, 4, 3))
    parents = (np.zeros(3, dtype=np.int64), np.array([0, 0, 0, 1, 1, 2, 2]))
    leaf = np.sort(rng.choice(7, n, p=[0.3, 0.2, 0.1, 0.2, 0.1, 0.1, 0.0]))
    values = np.zeros((n, 5), dtype=np.int64)
    values[:, 0] = rng.random(n) < 0.2 + 0.1 * leaf
    for a in range(1, 5):
        values[:, a] = (values[:, a - 1] + rng.choice(3, n, p=[0.7, 0.2, 0.1])) % domain.sizes[a]
    return Population(junction_tree(domain, cliques, first=first), WholeRecords(leaf, values), parents, (1, 3, 7))


def measured(
    people: Population, seed: int, variance: float, cliques: Sequence[Clique] | None = None
) -> list[list[NoisyTable]]:
    """Noisy tables of all cliques at all levels."""
    rng = np.random.default_rng(seed)
    out = []
    for level, n in enumerate(people.sizes):
        here = []
        for clique in cliques if cliques is not None else people.tree.bags:
            truth = people.table(clique, level)
            noise = np.rint(rng.normal(0, np.sqrt(variance), truth.shape)).astype(np.int64)
            here.append(NoisyTable(clique, truth + noise, np.full(n, variance)))
        out.append(here)
    return out


def details(design: CliqueDesign) -> Callable[[int, int], list[Marginal]]:
    """Of each level and bag the table of all its attributes."""
    domain, bags = design.tree.domain, design.tree.bags
    return lambda _, bag: [Marginal(domain.text(bags[bag]), detail_of(domain.shape(bags[bag])).groups)]


def ends_of(
    errors: SimulatedErrors, level: int, bag: int, query: Marginal | None = None
) -> tuple[FloatArray, FloatArray]:
    """The intervals of all areas of a level; by default of all attributes of the bag."""
    asked = query or details(errors.design)(level, bag)[0]
    counts = asked.answer_csr(sp.csr_array(errors.release.whole[level][bag]))
    return errors.ends(level, bag, asked, counts, slice(0, len(counts)))
