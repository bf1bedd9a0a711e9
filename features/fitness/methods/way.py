"""What every way to protect counts gives: answers of tables, whole numbers, for some geounits of a level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.model.texts.message import Message
from pipeline.model.universe import Table


class Way(Protocol):
    """One way to protect the counts of a universe."""

    @property
    def name(self) -> Message:
        """Short, for a column."""

    @property
    def about(self) -> Message:
        """What it is, with its parameters, and what it promises."""

    def answers(self, table: Table, level: int, rows: slice) -> NDArray[np.int64]:
        """Published numbers `(n, size)` of a table for some geounits of a level."""


@dataclass(frozen=True, eq=False)
class Histograms:
    """A way that gives protected records, from which all tables are counted.

    Attributes:
        levels: `(n_geounits, n_cells)` of each level.
    """

    name: Message
    about: Message
    levels: Sequence[sp.csr_array]

    def answers(self, table: Table, level: int, rows: slice) -> NDArray[np.int64]:
        """Published numbers `(n, size)`, counted from the histograms."""
        return table.query.answer_csr(self.levels[level][rows])


def summed_up(leaves: sp.csr_array, spine: Spine) -> list[sp.csr_array]:
    """The histograms of all levels, top first, from those of the leaves `(n_leaves, n_cells)`."""
    found = []
    for number, level in enumerate(spine.levels):
        offsets = spine.leaf_offsets(number)
        ones = np.ones(spine.n_leaves, dtype=leaves.dtype)
        below = sp.csr_array(
            (ones, np.arange(spine.n_leaves), offsets), shape=(len(level), spine.n_leaves), dtype=leaves.dtype
        )
        found.append(sp.csr_array(below @ leaves))
    return found
