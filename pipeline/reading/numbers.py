"""What a question needs of the release that it is put to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.model.schema import Schema
from pipeline.reading.margins import Groups, HalfWidths


class Numbers(Protocol):
    """The released numbers of one universe and their margins; `pipeline.reading.release.Release` has them."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def levels(self) -> tuple[str, ...]: ...
    @property
    def half_widths(self) -> HalfWidths: ...

    spine: Spine

    def index_of(self, level: str) -> int: ...
    def histogram(self, level: str) -> sp.csr_array: ...
    def published_margins(self, level: str, groups: Groups) -> tuple[NDArray[np.float64], NDArray[np.bool_]]: ...
    def geounit_of(self, inside: NDArray[np.bool_]) -> tuple[str, int] | None: ...
    def leaves_of(self, codes: Sequence[str], area: str) -> NDArray[np.bool_]: ...
