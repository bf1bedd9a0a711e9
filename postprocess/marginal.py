"""Queries as plain arrays: which cells each answer sums, and how two queries relate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from postprocess.arrays import BoolArray, IntArray, owners

if TYPE_CHECKING:
    import scipy.sparse as sp

#: The groups of a query's attributes.
MarginalKey = tuple[bytes, ...]
#: Cells up to which an array of the answer that each is in is made.
MOST_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Marginal:
    """A query as plain arrays: for each attribute, the group that each of its values is summed into.

    Attributes:
        name: its name in messages and files.
        groups: one array per attribute, value -> group number; zeros where the attribute is summed out.
        answered: one array per attribute, `(n_groups,)`: which of its groups were measured, where a measurement has a
            condition; empty where all were. Answers with a group that was not are zeros, which say nothing.
    """

    name: str
    groups: tuple[IntArray, ...]
    answered: tuple[BoolArray, ...] = ()

    def __getstate__(self) -> dict[str, object]:
        """What is sent of it: not what was worked out, which is arrays over cells."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def grouping(self) -> MarginalKey:
        """What distinguishes it from queries with other groups, whatever was measured of them."""
        return tuple(group.tobytes() for group in self.groups)

    @cached_property
    def key(self) -> MarginalKey:
        """What distinguishes it from other queries, whatever their names."""
        return (*self.grouping, *(part.tobytes() for part in self.answered))

    @cached_property
    def asked(self) -> BoolArray:
        """Which answers were measured, `(size,)`."""
        out = np.ones(1, dtype=np.bool_)
        for part in self.answered:
            out = (out[:, None] & part[None, :]).ravel()
        return out if self.answered else np.ones(self.size, dtype=np.bool_)

    @property
    def n_asked(self) -> int:
        """Number of answers that were measured."""
        return int(self.asked.sum())

    def is_partial(self, attribute: int) -> bool:
        """Whether not all groups of an attribute were measured."""
        return bool(self.answered) and not self.answered[attribute].all()

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups of each attribute."""
        return tuple(int(group.max()) + 1 for group in self.groups)

    @property
    def size(self) -> int:
        """Number of answers."""
        return math.prod(self.sizes)

    @cached_property
    def cell_answer(self) -> IntArray:
        """The answer that each cell falls in, `(n_cells,)`."""
        index = np.zeros(1, dtype=np.int64)
        for group, size in zip(self.groups, self.sizes, strict=True):
            index = (index[:, None] * size + group[None, :]).ravel()
        return index

    def answers_at(self, cells: IntArray) -> IntArray:
        """The answer that each of some cells falls in, `(k,)`; of a wide schema no array over all cells is made."""
        shape = tuple(map(len, self.groups))
        if math.prod(shape) <= MOST_AT_ONCE:
            return self.cell_answer[cells]
        index = np.zeros(len(cells), dtype=np.int64)
        for group, size, code in zip(self.groups, self.sizes, np.unravel_index(cells, shape), strict=True):
            index = index * size + group[code]
        return index

    @cached_property
    def representative(self) -> IntArray:
        """A cell in each answer, `(size,)`."""
        index = np.zeros(1, dtype=np.int64)
        for group in self.groups:
            first = np.unique(group, return_index=True)[1]
            index = (index[:, None] * len(group) + first[None, :]).ravel()
        return index

    def answers_in(self, coarse: Marginal) -> IntArray:
        """The answer of `coarse`, which this query refines, that each answer lies in, `(size,)`."""
        out = np.zeros(self.size, dtype=np.int64)
        out[self.cell_answer] = coarse.cell_answer
        return out

    def answer_csr(self, counts: sp.csr_array) -> IntArray:
        """Answers `(n_rows, size)` int64 for the sparse histograms `(n_rows, n_cells)`."""
        out = np.zeros((counts.shape[0], self.size), dtype=np.int64)
        self.add_answers(counts, out)
        return out

    def add_answers(self, counts: sp.csr_array, out: IntArray) -> None:
        """Add the answers for the sparse histograms `(n_rows, n_cells)` to `out`, contiguous `(n_rows, size)`."""
        rows = owners(counts.indptr)
        np.add.at(out.reshape(-1), rows * self.size + self.cell_answer[counts.indices], counts.data)

    def answer(self, histograms: NDArray[Any]) -> NDArray[Any]:
        """Answers `(n, size)` of the dense histograms `(n, n_cells)`, in their own dtype."""
        out = np.zeros((histograms.shape[0], self.size), dtype=histograms.dtype)
        order = np.argsort(self.cell_answer, kind="stable")
        starts = np.searchsorted(self.cell_answer[order], np.arange(self.size))
        out[:] = np.add.reduceat(histograms[:, order], starts, axis=1)
        return out


def refines(fine: Marginal, coarse: Marginal, possible: BoolArray | None = None) -> bool:
    """Whether each answer of `fine` lies within one answer of `coarse`.

    Args:
        fine, coarse: on the same attributes.
        possible: `(n_cells,)`; others are not considered. None for all cells.
    """
    if possible is None:
        return _nested(fine, coarse)
    return each_in_one(fine.cell_answer[possible], coarse.cell_answer[possible])


@lru_cache(maxsize=4096)
def _nested(fine: Marginal, coarse: Marginal) -> bool:
    """Attribute by attribute, as both are products."""
    return all(each_in_one(many, few) for many, few in zip(fine.groups, coarse.groups, strict=True))


def answers_within(fine: Marginal, coarse: Marginal) -> int:
    """The most answers of `fine` that an answer of `coarse` is the sum of; 0 unless `fine` refines it."""
    if not refines(fine, coarse):
        return 0
    parts = (
        np.unique(np.unique(np.stack([many, few]), axis=1)[1], return_counts=True)[1].max()
        for many, few in zip(fine.groups, coarse.groups, strict=True)
    )
    return math.prod(int(part) for part in parts)


def each_in_one(fine: IntArray, coarse: IntArray) -> bool:
    """Whether what has one number in `fine` has one in `coarse`; both are of the same things, numbered from 0."""
    coarse_of = np.zeros(int(fine.max(initial=-1)) + 1, dtype=np.int64)
    coarse_of[fine] = coarse
    return bool((coarse_of[fine] == coarse).all())


def join(marginals: Sequence[Marginal]) -> Marginal:
    """The coarsest product of recodes that refines all of `marginals`."""
    groups = []
    for per_attribute in zip(*(marginal.groups for marginal in marginals), strict=True):
        _, joined = np.unique(np.stack(per_attribute), axis=1, return_inverse=True)
        groups.append(joined.ravel().astype(np.int64))
    return Marginal(" & ".join(dict.fromkeys(m.name for m in marginals)), tuple(groups))


def detail_of(shape: Sequence[int]) -> Marginal:
    """The query that keeps every cell."""
    return Marginal("detailed", tuple(np.arange(n, dtype=np.int64) for n in shape))
