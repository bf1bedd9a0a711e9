"""Records of every leaf, drawn along the junction tree so that they reproduce the table of every clique exactly.

The records of the first clique are its counts. For each further clique, the records of a leaf that are in one cell of
the separator are given the clique's new values, as many of each as its table has there. Given the separator, the model
knows of no relation between old values and new ones (maximum entropy): a new value is spread evenly over the records,
which stand in the order of the values that they have (systematic sampling with a random start for each value), so that
each old value gets its share of it, nearly. Only which record gets which value is drawn; no count depends on it.

A number inside the bin of an amount is the bin's first plus a hash, modulo the bin's size: a hash of the public seed,
the attribute, the leaf and the record's place in it. Every whole number of a bin has the same chance, but for a part
of 2^-13 at most (a bin has fewer than 2^51 numbers, a hash 64 bits). It depends on the records by their released bin
alone, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from features.marginals.cliques import AttributeSizes, Clique, JunctionTree
from features.marginals.section import Bins
from features.marginals.whole import Seed
from postprocess.arrays import IntArray

#: Uses of the public seed here.
_START, _ORDER = 0x6D617272, 0x6D61726F


@dataclass(frozen=True, eq=False)
class WholeRecords:
    """Whole records, in the order of the leaves.

    Attributes:
        leaf: `(N,)` the leaf of each.
        values: `(N, number of attributes)` from 0.
    """

    leaf: IntArray
    values: IntArray


def draw_records(tree: JunctionTree, tables: Sequence[IntArray], seed: Seed, first_leaf: int = 0) -> WholeRecords:
    """The records of some leaves.

    Args:
        tree: of the cliques.
        tables: of each bag `(n_leaves, cells)` whole numbers, which agree on separators (`whole.whole_numbers`).
        seed: with which values are paired.
        first_leaf: number of the first of these leaves: pairs do not depend on which others are drawn with it.

    Raises:
        ValueError: tables do not agree on a separator.
    """
    domain = tree.domain
    there = np.nonzero(tables[0])
    leaf, cell = (np.repeat(one, tables[0][there]) for one in there)
    values = np.full((len(leaf), len(domain.names)), -1, dtype=np.int64)
    values[:, tree.bags[0]] = _values(cell, tree.bags[0], domain)
    known: list[int] = list(tree.bags[0])
    copies = np.arange(len(leaf)) - np.searchsorted(leaf, leaf)  # number of a record in its leaf
    for number, (bag, separator) in enumerate(zip(tree.bags, tree.separators, strict=True)):
        if number == 0:
            continue
        new = tuple(a for a in bag if a not in separator)
        up = tree.bags[tree.parents[number]]
        # Values of the neighbouring clique are nearest to what is added, then those of the others.
        order = [a for a in up if a not in separator]
        order += [a for a in known if a not in order and a not in separator]
        group = leaf * domain.size(separator) + _cells(values, separator, domain)
        luck = seed.numbers(_ORDER, np.array(number), leaf + first_leaf, copies)
        ordered = np.lexsort((luck, *reversed(_packed(values, order, domain)), group))
        their_group, their_cell = _spread(tables[number], bag, separator, new, domain, seed, (number, first_leaf))
        if not np.array_equal(group[ordered], their_group):
            raise ValueError(f"tables of {domain.text(bag)} and {domain.text(up)} do not agree on their separator")
        values[ordered[:, None], list(new)] = _values(their_cell, new, domain)
        known += new
    return WholeRecords(leaf, values)


def _spread(
    counts: IntArray,
    bag: Clique,
    separator: Clique,
    new: Clique,
    domain: AttributeSizes,
    seed: Seed,
    place: tuple[int, int],
) -> tuple[IntArray, IntArray]:
    """The clique's own records in the order in which they are dealt: group of each, and its cell of new values."""
    number, first_leaf = place
    shape = domain.shape(bag)
    axes = [1 + bag.index(a) for a in (*separator, *new)]
    table = np.transpose(counts.reshape(-1, *shape), (0, *axes)).reshape(len(counts) * domain.size(separator), -1)
    group, cell = np.nonzero(table)
    many = table[group, cell]
    leaf, inside = np.divmod(group, domain.size(separator))
    size = table.shape[1]
    start = seed.numbers(_START, np.array(number), leaf + first_leaf, inside * size + cell) + 0.5
    at = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    position = (at + np.repeat(start / (1 << 14), many)) / np.repeat(many, many)
    group, cell = np.repeat(group, many), np.repeat(cell, many)
    order = np.lexsort((cell, position, group))
    return group[order], cell[order]


def _packed(values: IntArray, order: Sequence[int], domain: AttributeSizes) -> list[IntArray]:
    """Keys by which records stand in the order of their values, as many attributes in each as a number holds."""
    out: list[IntArray] = []
    room = 0
    for a in order:
        if room < domain.sizes[a]:
            out.append(np.zeros(len(values), dtype=np.int64))
            room = 1 << 62
        out[-1] = out[-1] * domain.sizes[a] + values[:, a]
        room //= domain.sizes[a]
    return out


def _values(cell: IntArray, attributes: Clique, domain: AttributeSizes) -> IntArray:
    """The values `(N, attributes)` of cells of their table."""
    if not attributes:
        return np.empty((len(cell), 0), dtype=np.int64)
    return np.stack(np.unravel_index(cell, domain.shape(attributes)), axis=1)


def _cells(values: IntArray, attributes: Clique, domain: AttributeSizes) -> IntArray:
    """The cell of each record in the table of some attributes."""
    cell = np.zeros(len(values), dtype=np.int64)
    for a in attributes:
        cell = cell * domain.sizes[a] + values[:, a]
    return cell


#: Use of the public seed here.
_DRAWN: Final = 0x6D617264


def drawn_numbers(records: WholeRecords, amounts: Sequence[Bins], domain: AttributeSizes, seed: Seed) -> IntArray:
    """A number inside the bin of each record and amount, `(N, number of amounts)`.

    Args:
        records: whole leaves, in the order in which they are written.
        amounts: attributes of the domain whose values are bins.
        domain: of the records.
        seed: the public one.
    """
    place = np.arange(len(records.leaf)) - np.searchsorted(records.leaf, records.leaf)
    out = np.empty((len(records.leaf), len(amounts)), dtype=np.int64)
    for number, one in enumerate(amounts):
        attribute = domain.names.index(one.name)
        code = records.values[:, attribute]
        size = np.array([bin_.size for bin_ in one.ranges], dtype=np.uint64)[code]
        first = np.array([bin_.first for bin_ in one.ranges], dtype=np.int64)[code]
        drawn = seed.bits(_DRAWN, np.array(attribute), records.leaf, place) % size
        out[:, number] = first + drawn.astype(np.int64)
    return out
