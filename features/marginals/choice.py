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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

import numpy as np

from features.marginals.domain import Clique, Domain
from geography.errors import InputError
from pipeline.privacy.budget import MOVED, Neighbours
from postprocess.arrays import IntArray

__all__ = ["Pairs", "candidates", "from_sample", "largest_epsilon", "score"]

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
    """

    domain: Domain
    penalty: Fraction = Fraction(0)
    weights: Mapping[Clique, int] = field(default_factory=dict)
    most_cells: int = 1 << 16

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

    def sensitivity(self, neighbours: Neighbours) -> int:
        """How far one record moves the score of any pair, at most."""
        return MOVED[neighbours] * max(map(self.weight, self.possible), default=1)

    def expected(self, ones: Sequence[IntArray], pair: Clique) -> IntArray:
        """The table of a pair `(cells,)`, rounded, if its attributes were independent; `ones` are public tables."""
        first, second = (np.maximum(ones[a], 0) for a in pair)
        total = max(1, round((int(first.sum()) + int(second.sum())) / 2))
        return np.rint(np.outer(first, second) / total).astype(np.int64).ravel()


def score(pairs: Pairs, pair: Clique, table: IntArray, expected: IntArray) -> int:
    """Of a pair with this table `(cells,)`; a whole number, which may be negative."""
    away = int(np.abs(table - expected).sum())
    return pairs.weight(pair) * (away - math.floor(pairs.penalty * len(table)))


def candidates(pairs: Pairs, chosen: Sequence[Clique]) -> list[Clique]:
    """The pairs that close no cycle with those that were chosen."""
    group = list(range(len(pairs.domain.names)))
    for one, other in chosen:
        old, new = group[one], group[other]
        group = [new if number == old else number for number in group]
    return [pair for pair in pairs.possible if group[pair[0]] != group[pair[1]]]


def from_sample(pairs: Pairs, values: IntArray, persons: int) -> tuple[Clique, ...]:
    """The pairs of a public sample's spanning tree, in the order of their scores; pairs with no gain are left out.

    Args:
        pairs: what is chosen from.
        values: `(n, attributes)` of the sample, or of an earlier release.
        persons: in the population that will be measured; the sample's counts are brought to it.
    """
    domain, n = pairs.domain, max(1, len(values))
    ones = [np.bincount(values[:, a], minlength=size) * persons // n for a, size in enumerate(domain.sizes)]
    scores = {}
    for pair in pairs.possible:
        cell = values[:, pair[0]] * domain.sizes[pair[1]] + values[:, pair[1]]
        table = np.bincount(cell, minlength=domain.size(pair)) * persons // n
        scores[pair] = score(pairs, pair, table, pairs.expected(ones, pair))
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
        raise InputError(f"cliques: found rho = {rho} for one private choice; at least 2^-43 is needed")
    return Fraction(steps, _PARTS)
