"""Private choice of the pairs of attributes that are measured together, at the top of the spine. It sees the records.

Guarantee: the pairs chosen satisfy rho-zCDP with the rho that `Choice.rho` states. Each of the choices is one of the
exponential mechanism among the pairs left, with probability proportional to exp(epsilon score / (2 sensitivity)), which
is epsilon^2 / 8-zCDP (`pipeline.privacy.noise.exponential`); they compose by adding up. Which pairs are left follows
from the choices before. What scores use besides the records, the attributes' own noisy tables, is measured and charged
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from features.marginals.choice import Pairs, candidates, largest_epsilon, score
from features.marginals.domain import Clique
from pipeline.privacy.budget import Neighbours
from pipeline.privacy.noise.exponential import Exponential
from postprocess.arrays import IntArray

__all__ = ["Choice", "choose"]


@dataclass(frozen=True)
class Choice:
    """Pairs that were chosen, and what the choices cost.

    Attributes:
        pairs: in the order of the choices.
        rho: of all of them, exact; at most what was given.
    """

    pairs: tuple[Clique, ...]
    rho: Fraction


def choose(
    pairs: Pairs, values: IntArray, ones: Sequence[IntArray], rho: Fraction, neighbours: Neighbours, stream: bytes
) -> Choice:
    """A spanning tree of the attributes, chosen privately.

    Args:
        pairs: what is chosen from.
        values: `(n, attributes)` of all records, confidential.
        ones: noisy tables of each attribute at the top, public.
        rho: for all choices together, evenly divided.
        neighbours: of the release.
        stream: key of these choices, see `MasterKey.stream_key`; choice t is drawn at position t.
    """
    domain = pairs.domain
    rounds = len(domain.names) - 1
    if rounds < 1:
        return Choice((), Fraction(0))
    epsilon = largest_epsilon(rho / rounds)
    sensitivity = pairs.sensitivity(neighbours)
    # Losses are moved by at most `sensitivity`, not 1, so the mechanism's scale is divided by it.
    mechanism = Exponential(epsilon / sensitivity)
    scores: dict[Clique, int] = {}
    for pair in pairs.possible:
        cell = values[:, pair[0]] * domain.sizes[pair[1]] + values[:, pair[1]]
        table = np.bincount(cell, minlength=domain.size(pair))
        scores[pair] = score(pairs, pair, table, pairs.expected(ones, pair))
    chosen: list[Clique] = []
    while left := candidates(pairs, chosen):
        losses = np.array([[-scores[pair] for pair in left]], dtype=np.int64)
        chosen.append(left[int(mechanism.draw(stream, losses, len(chosen))[0])])
    return Choice(tuple(chosen), len(chosen) * epsilon**2 / 8)
