"""Noisy answers that are drawn only where the released parent is positive: which these are, and what they say below it.

The choice is a function of a released histogram alone. A cell that is 0 in the released parent is 0 in all its
children, so that the answers that are not drawn would change no number of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from postprocess.arrays import FloatArray, IntArray, Rows, members, owners
from postprocess.marginal import Marginal


@dataclass(frozen=True, eq=False)
class PositivePlaces:
    """The answers of a query that are positive in each of some released histograms.

    Attributes:
        starts: `(n + 1,)` the first of each histogram's answers, and their number.
        answers: `(n_positive,)` their numbers, ascending within a histogram.
    """

    starts: IntArray
    answers: IntArray

    @classmethod
    def of(cls, released: sp.csr_array, query: Marginal) -> PositivePlaces:
        """Of released histograms `(n, n_cells)`, of numbers that are not negative."""
        n, size = released.shape[0], query.size
        rows = owners(released.indptr)
        keys = rows * size + query.cell_answer[released.indices]
        found = np.unique(keys[released.data > 0])
        starts = np.searchsorted(found, np.arange(n + 1, dtype=np.int64) * size)
        return cls(starts.astype(np.int64), found % size)

    def below(self, parents: IntArray) -> PositivePlaces:
        """The answers that are drawn of geounits with these parents `(n,)`: those that are positive in the parent."""
        of_parent, starts = members(self.starts, parents)
        return PositivePlaces(starts, self.answers[of_parent])

    @property
    def rows(self) -> IntArray:
        """`(n_positive,)` the histogram of each answer."""
        return owners(self.starts)


@dataclass(frozen=True, eq=False)
class PositiveAnswers:
    """Noisy answers of a query in the geounits of a level, of those that are positive in the released parent.

    On the cells that are positive in the parent, the only ones that can have persons, a least-squares problem depends
    on these answers alone.

    Attributes:
        values: `(n, size)` with the answers that were drawn; what is not stored was not. Without rows where they are
            not needed.
        variance: of the noise on each.
    """

    marginal: Marginal
    values: sp.csr_array
    variance: float

    def of_rows(self, rows: slice) -> PositiveAnswers:
        """Those of some geounits."""
        return replace(self, values=self.values[rows])

    def at(self, rows: Rows, answers: IntArray) -> FloatArray:
        """The values of some geounits in some answers, which may repeat: `(n, k)`, 0 where none was drawn."""
        return np.asarray(self.values[rows][:, answers].toarray(), dtype=np.float64)
