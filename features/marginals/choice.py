"""Which pairs of attributes are measured together: from a public sample, or privately from the records at the top.

The score of a pair is how far its table is from what is known without it, the product of the two attributes' own
tables (L1 distance in persons, as in MST: McKenna, Miklau and Sheldon 2021, arXiv 2108.04978), less what measuring it
would add in noise (as in AIM: McKenna, Mullins, Sheldon and Miklau 2022, arXiv 2201.12677), times its weight for users.
Pairs are taken one by one, those that would close a cycle left out: the spanning tree of the largest scores (Kruskal).

Scores are whole numbers: expected tables are rounded, what is subtracted as well, weights are whole. If one record is
replaced, two cells of a pair's table change by 1, and its distance by at most 2; if one is added, one cell does, and
the distance by at most 1. All else in a score is public. So the sensitivity is that times the largest weight.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from features.marginals.cliques import homes, triangulated
from features.marginals.domain import Clique, Domain
from geography.errors import InputError
from pipeline.privacy.budget import MOVED, Neighbours
from postprocess.arrays import IntArray

__all__ = [
    "Pairs",
    "candidates",
    "from_sample",
    "largest_epsilon",
    "score",
    "scores_of",
    "tables_of",
    "unlike_a_choice",
]

#: epsilon is a multiple of one over this.
_PARTS = 1 << 20


@dataclass(frozen=True)
class Pairs:
    """What pairs are chosen from, and by what.

    Attributes:
        domain: the attributes.
        penalty: persons of expected error in each cell of a table that is measured; 0 for none.
        weights: pair -> how much it matters to users, whole and above 0; 1 where none is given.
        most_cells: of a pair's table; larger ones are not chosen.
        further: how many are chosen, at most, once each of the others would close a cycle.
        all_cells: of the bags of the junction tree together, where further pairs are chosen.
    """

    domain: Domain
    penalty: Fraction = Fraction(0)
    weights: Mapping[Clique, int] = field(default_factory=dict)
    most_cells: int = 1 << 16
    further: int = 0
    all_cells: int = 1 << 16

    def __post_init__(self) -> None:
        for pair, weight in self.weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
                raise InputError(
                    f"workload: found the weight {weight!r} of {self.domain.text(pair)}; "
                    "whole numbers from 1 are allowed"
                )

    @property
    def possible(self) -> tuple[Clique, ...]:
        """All pairs whose tables are not too large."""
        pairs = combinations(range(len(self.domain.names)), 2)
        return tuple(pair for pair in pairs if self.domain.size(pair) <= self.most_cells)

    def weight(self, pair: Clique) -> int:
        """Of a pair."""
        return self.weights.get(pair, 1)

    @property
    def largest_weight(self) -> int:
        """Of all pairs that can be chosen."""
        return max(map(self.weight, self.possible), default=1)

    def sensitivity(self, neighbours: Neighbours) -> int:
        """How far one record moves the score of any pair, at most."""
        return MOVED[neighbours] * self.largest_weight

    def forest(self, order: Sequence[Clique] | None = None) -> tuple[Clique, ...]:
        """A spanning forest of the pairs, the first of an order that close no cycle; all of them have as many pairs."""
        chosen: list[Clique] = []
        for pair in self.possible if order is None else order:
            if pair in self.joining(chosen):
                chosen.append(pair)
        return tuple(chosen)

    def joining(self, chosen: Sequence[Clique]) -> list[Clique]:
        """The pairs that close no cycle with those that were chosen."""
        group = list(range(len(self.domain.names)))
        for one, other in chosen:
            old, new = group[one], group[other]
            group = [new if number == old else number for number in group]
        return [pair for pair in self.possible if group[pair[0]] != group[pair[1]]]

    @cached_property
    def rounds(self) -> int:
        """How many choices there are: until each of the others would close a cycle, and further ones."""
        forest = len(self.forest())
        return forest + min(self.further, len(self.possible) - forest)

    def fits(self, chosen: Sequence[Clique]) -> bool:
        """Whether the bags of these pairs are small enough, and each has a pair of its own (`cliques.homes`)."""
        bags = triangulated(self.domain, chosen)
        measured = self.cliques(chosen)
        return sum(map(self.domain.size, bags)) <= self.all_cells and homes(bags, measured) is not None

    def cliques(self, chosen: Sequence[Clique]) -> tuple[Clique, ...]:
        """Pairs that were chosen, then each attribute that is in none of them."""
        alone = [(a,) for a in range(len(self.domain.names)) if not any(a in pair for pair in chosen)]
        return (*chosen, *alone)

    def expected(self, ones: Sequence[IntArray], pair: Clique) -> IntArray:
        """The table of a pair `(cells,)`, rounded, if its attributes were independent; `ones` are public tables."""
        first, second = (np.maximum(ones[a], 0) for a in pair)
        total = max(1, (int(first.sum()) + int(second.sum()) + 1) // 2)
        return ((2 * np.outer(first, second) + total) // (2 * total)).astype(np.int64).ravel()


def score(pairs: Pairs, pair: Clique, table: IntArray, expected: IntArray) -> int:
    """Of a pair with this table `(cells,)`; a whole number, which may be negative."""
    away = int(np.abs(table - expected).sum())
    return pairs.weight(pair) * (away - math.floor(pairs.penalty * len(table)))


def candidates(pairs: Pairs, chosen: Sequence[Clique], among: Collection[Clique] | None = None) -> list[Clique]:
    """The pairs that can be chosen next: those that close no cycle, and where all do, those with which tables fit.

    `among` says of which pairs it is asked; by default of all.
    """
    if len(chosen) >= pairs.rounds:
        return []
    left = pairs.joining(chosen)
    asked = [pair for pair in left or pairs.possible if among is None or pair in among]
    return asked if left else [pair for pair in asked if pair not in chosen and pairs.fits([*chosen, pair])]


def unlike_a_choice(pairs: Pairs, chosen: Sequence[Clique]) -> str:
    """Why these pairs, in their order, cannot have been chosen, whatever the records are; "" if they can."""
    for number, pair in enumerate(chosen):
        if not candidates(pairs, chosen[:number], among=[pair]):
            return f"{pairs.domain.text(pair)} could not be chosen after those before it"
    if candidates(pairs, chosen):
        return f"found {len(chosen)} pairs; {pairs.rounds} are chosen, or until no other leaves room"
    return ""


def scores_of(pairs: Pairs, tables: Mapping[Clique, IntArray], ones: Sequence[IntArray]) -> dict[Clique, int]:
    """Of all pairs that can be chosen; `tables` are theirs, and `ones` public tables of the attributes."""
    return {pair: score(pairs, pair, tables[pair], pairs.expected(ones, pair)) for pair in pairs.possible}


def tables_of(pairs: Pairs, values: IntArray) -> dict[Clique, IntArray]:
    """The tables `(cells,)` of all pairs that can be chosen, of records `(n, attributes)`."""
    sizes, size = pairs.domain.sizes, pairs.domain.size
    return {
        (a, b): np.bincount(values[:, a] * sizes[b] + values[:, b], minlength=size((a, b))) for a, b in pairs.possible
    }


def from_sample(pairs: Pairs, values: IntArray, persons: int) -> tuple[Clique, ...]:
    """The pairs of a public sample's spanning tree, in the order of their scores; pairs with no gain are left out.

    Args:
        pairs: what is chosen from.
        values: `(n, attributes)` of the sample, or of an earlier release.
        persons: in the population that will be measured; the sample's counts are brought to it.
    """
    domain, n = pairs.domain, max(1, len(values))
    ones = [np.bincount(values[:, a], minlength=size) * persons // n for a, size in enumerate(domain.sizes)]
    scores = scores_of(pairs, {pair: table * persons // n for pair, table in tables_of(pairs, values).items()}, ones)
    chosen: list[Clique] = []
    while left := candidates(pairs, chosen):
        best = max(left, key=lambda pair: (scores[pair], [-a for a in pair]))
        if scores[best] <= 0:
            break
        chosen.append(best)
    return tuple(chosen)


def largest_epsilon(rho: Fraction) -> Fraction:
    """The largest epsilon in steps of 2^-20 with epsilon^2 / 8 <= rho: what one private choice may use, exactly.

    Raises:
        InputError: rho is too small for any.
    """
    steps = math.isqrt(math.floor(8 * rho * _PARTS**2))
    if steps < 1:
        raise InputError(f"choose: found rho = {rho} for one private choice; at least 2^-43 is needed")
    return Fraction(steps, _PARTS)
