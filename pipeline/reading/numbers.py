"""What a question needs of the release that it is put to.

The numbers of a question as weighted sums of cells: what shares, medians and differences need of the covariances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.model.schema import Schema
from pipeline.reading.margins import Ends, Groups, HalfWidths


def answer_weights(groups: Sequence[NDArray[np.int64]], answers: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    """Zeros and ones that pick some answers, by their numbers, out of those that groups of values make."""
    sizes = tuple(int(group.max()) + 1 for group in groups)
    codes = np.unravel_index(answers, sizes)
    return tuple(
        (code[:, None] == group[None, :]).astype(np.float64) for code, group in zip(codes, groups, strict=True)
    )


def together(allowed: Sequence[NDArray[np.bool_]], k: int) -> tuple[NDArray[np.float64], ...]:
    """Ones for all that is counted, k times."""
    return tuple(np.repeat(mask[None, :].astype(np.float64), k, axis=0) for mask in allowed)


class Numbers(Protocol):
    """The released numbers of one universe and their margins; `pipeline.reading.reader.Reader` has them."""

    @property
    def name(self) -> str:
        """The release's name, and the companion's."""

    @property
    def schema(self) -> Schema:
        """Attributes and their values."""

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels' names, top first."""

    @property
    def half_widths(self) -> HalfWidths:
        """Half-widths of 90 % intervals of any sums."""

    spine: Spine

    def are_those_of(self, other: Numbers) -> bool:
        """Whether another's numbers are the same, of one universe of one release."""

    def index_of(self, level: str) -> int:
        """The number of a level, 0 at the top; InputError where there is none."""

    def histogram(self, level: str) -> sp.csr_array:
        """The released counts `(n_geounits, n_cells)` of a level."""

    def published_intervals(self, level: str, groups: Groups) -> tuple[Ends, NDArray[np.bool_]]:
        """The intervals of published tables for these answers, and for which there are some."""

    def geounit_of(self, inside: NDArray[np.bool_]) -> tuple[str, int] | None:
        """The level and number of the geounit with exactly these leaves; None where there is none."""

    def leaves_of(self, codes: Sequence[str], area: str) -> NDArray[np.bool_]:
        """`(n_leaves,)` which leaves are in an area."""
