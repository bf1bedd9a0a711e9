"""What the public numbers of a level say of some answers, several shares of one answer together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from postprocess.arrays import FloatArray, IntArray
from postprocess.shares.shared import Shared


@dataclass(frozen=True, eq=False)
class Expected:
    """Centres and variances `(n, k)` of answers, in persons; the latter infinite where nothing is said."""

    centres: FloatArray
    variances: FloatArray


def expectations(shared: Sequence[Shared], answers: IntArray, above: FloatArray, parents: IntArray) -> Expected:
    """What is expected of each child before it is measured; several shares of an answer have their weighted mean.

    Args:
        shared: of one query at one level, with their spreads.
        answers: `(k,)` of the query, increasing.
        above: `(n_parents, k)` the parents' counts of them.
        parents: `(n,)`.
    """
    precision, weighted = (np.zeros((len(parents), len(answers))) for _ in range(2))
    for one in shared:
        for place, (answer, spread) in enumerate(zip(one.answers, one.spreads, strict=True)):
            column = int(np.searchsorted(answers, answer))
            share, number = one.shares[:, place], one.numbers[:, place]
            size = np.where(np.isfinite(share), share, 0.0) * above[parents, column]
            said = np.where(np.isfinite(share), 1.0 / spread.variances(size, number), 0.0)
            precision[:, column] += said
            weighted[:, column] += said * size
    known = precision > 0
    some = np.where(known, precision, 1.0)
    return Expected(np.where(known, weighted / some, 0.0), np.where(known, 1.0 / some, np.inf))
