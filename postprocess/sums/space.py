"""The space of the few sums that the lower levels of a wide schema are measured by.

Where the queries of a level and of all levels below it have few answers, everything that is known of a geounit is known
of these answers: with A the matrix of all of them (`(s, n_cells)` zeros and ones, s some hundreds), W = A'Q is an
orthonormal basis of what they tell apart, where Q comes from the eigenvalues of G = A A',

    Q = U S^-1/2,   G = U S U',   W'W = I,   A W = G Q,

and every precision is W M W', every linear term W t. G has a number for each two answers: in how many cells both are.
As queries are products of groupings it is a product over the attributes, and no array over cells is made.
`SumsBasis` states M and t in the form in which `postprocess.linear` works with them: one block, of the size of M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from postprocess.algebra import Basis
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.marginal import Marginal, join, refines

#: Eigenvalues of G below this, relative to the largest, count as zero.
RANK = 1e-10
#: Of how much of an answer, as a share, it may be left unsaid whether the sums determine it.
INSIDE = 1e-9
#: Answers of a level's queries up to which it is estimated by its sums.
MOST_SUMS = 2000


def is_whole(marginal: Marginal, attribute: int) -> bool:
    """Whether a query keeps all values of an attribute apart."""
    return marginal.sizes[attribute] == len(marginal.groups[attribute])


def kronecker(parts: Sequence[FloatArray]) -> FloatArray:
    """The Kronecker product of some arrays, the last one's index running fastest."""
    out: FloatArray = parts[0]
    for part in parts[1:]:
        out = np.asarray(np.kron(out, part), dtype=np.float64)
    return out


def overlaps(first: Marginal, second: Marginal) -> FloatArray:
    """How many cells each answer of one query shares with each of another, `(size, size)`."""
    parts = []
    for own, other, n_own, n_other in zip(first.groups, second.groups, first.sizes, second.sizes, strict=True):
        both = np.bincount(own * n_other + other, minlength=n_own * n_other)
        parts.append(both.reshape(n_own, n_other).astype(np.float64))
    return kronecker(parts)


@dataclass(frozen=True, eq=False)
class Space:
    """The sums of some queries.

    Attributes:
        queries: the distinct queries, none of which has a condition.
    """

    queries: tuple[Marginal, ...]

    @classmethod
    def of(cls, marginals: Sequence[Marginal]) -> Space:
        """Of the distinct ones of some queries."""
        return cls(tuple({marginal.key: marginal for marginal in marginals}.values()))

    @property
    def n_sums(self) -> int:
        """s, the answers of all queries."""
        return sum(query.size for query in self.queries)

    @cached_property
    def places(self) -> dict[tuple[bytes, ...], slice]:
        """Which of the sums each query has, by its key."""
        ends = np.cumsum([query.size for query in self.queries])
        return {
            query.key: slice(int(end) - query.size, int(end)) for query, end in zip(self.queries, ends, strict=True)
        }

    @cached_property
    def cells(self) -> Marginal:
        """The coarsest product of groupings that tells apart what any of the queries does."""
        return join(self.queries)

    def sums(self, cells: IntArray) -> sp.csr_array:
        """A on some cells of the schema, `(s, k)`."""
        columns, rows, first = np.arange(len(cells)), [], 0
        for query in self.queries:
            rows.append(first + query.answers_at(cells))
            first += query.size
        index = np.concatenate(rows)
        shape = (self.n_sums, len(cells))
        return sp.csr_array((np.ones(len(index)), (index, np.tile(columns, len(rows)))), shape=shape)

    def with_all(self, marginal: Marginal) -> FloatArray:
        """In how many cells an answer of a query and one of the sums are, `(size, s)`."""
        return np.hstack([overlaps(marginal, query) for query in self.queries])

    @cached_property
    def q(self) -> FloatArray:
        """Q, `(s, r)`."""
        gram = np.vstack([self.with_all(query) for query in self.queries])
        values, vectors = _eigen(gram)
        return vectors / np.sqrt(values)

    @cached_property
    def on_cells(self) -> FloatArray:
        """B = U S^1/2, `(s, r)`, where A A' = U S U' with A on the cells of `cells`.

        The eigenvalues of a matrix A'X A over these cells are those of B'X B, and 0.
        """
        sums = self.sums(self.cells.representative)
        values, vectors = _eigen((sums @ sums.T).toarray())
        return vectors * np.sqrt(values)

    @cached_property
    def inverse_on_cells(self) -> FloatArray:
        """The inverse of A A' where A is on the cells of `cells`, on its range: `(s, s)`.

        A'(A A')^-1 A is the projector on what the sums say of such cells.
        """
        on_cells = self.on_cells
        squares = np.square(on_cells).sum(axis=0)
        return (on_cells / squares**2) @ on_cells.T

    def rows(self, marginal: Marginal) -> FloatArray:
        """The query's matrix times W, `(size, r)`."""
        return self.with_all(marginal) @ self.q

    def determines(self, marginal: Marginal) -> bool:
        """Whether each answer of a query is a combination of the sums."""
        sizes = overlaps(marginal, marginal).diagonal()
        within = np.square(self.rows(marginal)).sum(axis=1)
        return bool((np.abs(within - sizes) <= INSIDE * np.maximum(sizes, 1.0)).all())

    @cached_property
    def finest(self) -> tuple[Marginal, ...]:
        """The queries that none of the others refines."""
        return tuple(
            query
            for query in self.queries
            if not any(other is not query and refines(other, query) for other in self.queries)
        )


def _eigen(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The eigenvalues `(r,)` of A A' that are not 0, and their eigenvectors `(s, r)`."""
    values, vectors = np.linalg.eigh(gram)
    used = values > RANK * values[-1]
    return values[used], vectors[:, used]


@dataclass(frozen=True, eq=False)
class SumsBasis(Basis):
    """The basis W of a `Space`: its "cells" are the r coordinates, and matrices have one block `(r, r)`."""

    space: Space

    @classmethod
    def of_space(cls, space: Space) -> SumsBasis:
        """The basis of a space."""
        return cls((space.q.shape[1],), (), space)

    @cached_property
    def _recodes(self) -> dict[tuple[bytes, ...], FloatArray]:
        return {}

    def recode(self, marginal: Marginal) -> FloatArray:
        """The query's matrix times W, `(size, r)`."""
        if marginal.key not in self._recodes:
            self._recodes[marginal.key] = self.space.rows(marginal)
        return self._recodes[marginal.key]

    def back_project(self, marginal: Marginal, answers: NDArray[np.generic], keep: BoolArray) -> FloatArray:  # noqa: ARG002
        """W'A'y for answers `(n, size)`: `(n, r)`."""
        return answers.astype(np.float64) @ self.recode(marginal)

    projected = back_project


def narrow_from(levels: Sequence[Sequence[Marginal]], most: int = MOST_SUMS) -> int:
    """The first level from which on the queries of all levels together have at most so many answers.

    Args:
        levels: per level, top first, the queries that are measured.
        most: answers of the distinct queries.
    """
    seen: dict[tuple[bytes, ...], int] = {}
    for number in range(len(levels) - 1, -1, -1):
        seen |= {marginal.key: marginal.size for marginal in levels[number]}
        if sum(seen.values()) > most:
            return number + 1
    return 0
