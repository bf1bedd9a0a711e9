"""What a question needs of the release that it is put to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.model.schema import Schema
from pipeline.reading.margins import Ends, Groups, HalfWidths


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
