"""Numbers of attributes that no clique has together: what the model of independence guesses, with no interval.

The model: the tables of the cliques, and nothing else. Given a separator, what is on one side of it is independent of
what is on the other, in every area (maximum entropy). A table that crosses cliques is the product of their tables over
those of their separators, summed over all other attributes: from the last bag to the first, each passes on a table of
its separator and of what is asked for below it. No table over the whole schema is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from features.marginals.cliques import MOST_CELLS, JunctionTree, filling
from features.marginals.domain import Clique
from features.marginals.residuals import marginal
from geography.errors import InputError
from postprocess.arrays import FloatArray, IntArray

__all__ = ["Needed", "guess", "measured_pairs", "needed"]


@dataclass(frozen=True)
class Needed:
    """What would have to be measured for a number to be more than a guess.

    Attributes:
        clique: that has its attributes.
        wider: further tables that would be estimated without being measured, if that clique came to the others.
        text: for the reader.
    """

    clique: Clique
    wider: tuple[Clique, ...]
    text: str


def needed(tree: JunctionTree, attributes: Clique) -> Needed | None:
    """What a table of these attributes would need; None if it lies within a clique, and has intervals."""
    if tree.bag_of(attributes) is not None:
        return None
    domain = tree.domain
    wider = filling(domain, [*tree.bags, attributes]).wider
    text = (
        f"{domain.text(attributes)} is no table of this release: its numbers would be guessed from tables that share "
        f"attributes, as if all else were independent. To measure it, the clique {domain.text(attributes)} "
        f"({domain.size(attributes):,} cells) would be needed"
    )
    if wider:
        text += ", with " + " and ".join(f"{domain.text(one)} ({domain.size(one):,} cells)" for one in wider)
    return Needed(attributes, wider, text)


def measured_pairs(tree: JunctionTree) -> list[list[bool]]:
    """A row and a column for each attribute: whether some clique has both."""
    together = {pair for bag in tree.bags for pair in combinations(bag, 2)}
    n = range(len(tree.domain.names))
    return [[one == other or (min(one, other), max(one, other)) in together for other in n] for one in n]


def guess(
    tree: JunctionTree, tables: Sequence[IntArray], attributes: Clique, most_cells: int = MOST_CELLS
) -> FloatArray:
    """The expected table `(n, cells)` of any attributes in each area, from the tables of the bags.

    Args:
        tree: of the cliques.
        tables: of each bag `(n, cells)`, which agree on separators.
        attributes: in ascending order.
        most_cells: of the tables on the way.

    Raises:
        InputError: a table on the way would have more cells than that.
    """
    domain, n = tree.domain, len(tables[0])
    messages: dict[int, list[tuple[Clique, FloatArray]]] = {number: [] for number in range(len(tree.bags))}
    for number in reversed(range(len(tree.bags))):
        bag, separator = tree.bags[number], tree.separators[number] if number else ()
        below = {a for carried, _ in messages[number] for a in carried}
        asked = set(attributes) & ({*bag} | below)
        if number and asked <= set(separator) and not below - {*bag}:
            continue  # nothing that is asked for lies below: it would pass on ones
        joined = tuple(sorted({*bag} | below))
        kept = tuple(sorted({*separator} | asked))
        if domain.size(joined) > most_cells:
            raise InputError(
                f"{domain.text(attributes)}: a guess would go through a table of {domain.size(joined):,} cells; "
                f"at most {most_cells:,} are allowed"
            )
        own = tables[number].astype(np.float64)
        if number:
            sums = _spread(marginal(own, bag, separator, domain), separator, bag, tree)
            own = np.divide(own.reshape(sums.shape), sums, out=np.zeros(sums.shape), where=sums > 0)
        product = _spread(own.reshape(n, -1), bag, joined, tree)
        for carried, message in messages[number]:
            product = product * _spread(message, carried, joined, tree)
        passed = marginal(np.ascontiguousarray(product).reshape(n, -1), joined, kept, domain)
        if number == 0:
            return passed
        messages[tree.parents[number]].append((kept, passed))
    raise AssertionError("the first bag ends the loop")


def _spread(values: FloatArray, kept: Clique, onto: Clique, tree: JunctionTree) -> FloatArray:
    """A table as one of more attributes, repeated over those that it has not: `(n, sizes of onto ...)`."""
    domain = tree.domain
    shape = [domain.sizes[a] if a in kept else 1 for a in onto]
    return np.broadcast_to(values.reshape(len(values), *shape), (len(values), *domain.shape(onto)))
