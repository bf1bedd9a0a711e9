"""Which cells of the tables of a tree some record can have, where some cells of some of them are impossible.

Two passes of messages along the tree: a cell of a separator that no possible cell of one table lies in is impossible in
the other. As a network of constraints that is a tree (Freuder 1982), after both passes a cell is possible exactly if
some whole record has it; so no area can come to a number that its records cannot have.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from features.marginals.cliques import JunctionTree
from features.marginals.domain import Clique, Domain
from features.marginals.residuals import marginal
from geography.errors import InputError
from postprocess.arrays import BoolArray

__all__ = ["any_cell", "possible_cells", "spread"]


def possible_cells(tree: JunctionTree, zeros: Mapping[Clique, BoolArray]) -> list[BoolArray]:
    """Of each bag the cells `(cells,)` that some record can have.

    Args:
        tree: of the cliques.
        zeros: clique -> which of its cells can be positive anywhere, `(cells,)`.

    Raises:
        InputError: there are zeros of attributes that cross bags, or no record is possible.
    """
    domain = tree.domain
    out = [np.ones(domain.size(bag), dtype=np.bool_) for bag in tree.bags]
    for clique, can in zeros.items():
        if (number := tree.bag_of(clique)) is None:
            raise InputError(f"zeros of {domain.text(clique)}: no clique has all of these attributes")
        out[number] &= spread(can, clique, tree.bags[number], domain)
    edges = [(n, tree.parents[n], tree.separators[n]) for n in range(1, len(tree.bags))]
    for below, up, separator in reversed(edges):
        out[up] &= spread(any_cell(out[below], tree.bags[below], separator, domain), separator, tree.bags[up], domain)
    for below, up, separator in edges:
        out[below] &= spread(any_cell(out[up], tree.bags[up], separator, domain), separator, tree.bags[below], domain)
    if not all(can.any() for can in out):
        raise InputError("zeros: no record is possible; at least one cell of each clique must be")
    return out


def any_cell(can: BoolArray, bag: Clique, kept: Clique, domain: Domain) -> BoolArray:
    """Of a bag's table, the cells of a coarser one in which some cell is set."""
    return marginal(can[None].astype(np.int64), bag, kept, domain)[0] > 0


def spread(can: BoolArray, kept: Clique, bag: Clique, domain: Domain) -> BoolArray:
    """The cells of a bag that lie in some cells of a coarser table."""
    shape = [domain.sizes[a] if a in kept else 1 for a in bag]
    return np.broadcast_to(can.reshape(shape), domain.shape(bag)).ravel()
