"""Who computes the margin of a sum: a provider that the installed distribution names.

The margin of a sum needs the covariances of the estimation, which `postprocess` computes from spec and spine, and the
rule by which published margins are made. The reader states what it needs here; the entry point "linear" of the group
`spinewise.margins` provides it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.model.universe import Universe
from pipeline.release.layout import UniverseDirectory

GROUP, NAME = "spinewise.margins", "linear"

#: For each attribute, the group that each of its values is summed into.
Groups = Sequence[NDArray[np.int64]]


class HalfWidths(Protocol):
    """Half the widths of the 90 % intervals of sums of cells, in whole persons.

    0 where a sum is exact, NaN where the measurements do not determine it.
    """

    def of_level(self, level: int, groups: Groups) -> NDArray[np.float64]:
        """`(n_geounits, size)`, of the answers that `groups` make, for every geounit of a level."""

    def of_area(self, leaves: NDArray[np.bool_], groups: Groups) -> NDArray[np.float64]:
        """`(size,)`, of the answers for the leaves `(n_leaves,)` together."""


#: (universe, its public files, spine, estimator) -> half-widths.
Provider = Callable[[Universe, UniverseDirectory, Spine, str], HalfWidths]


def provider() -> Provider:
    """The installed provider; ReleaseError where there is none."""
    for found in metadata.entry_points(group=GROUP, name=NAME):
        return cast("Provider", found.load())
    raise ReleaseError(
        f"margins of sums: no {NAME!r} is installed in the entry points {GROUP!r}; install spinewise anew (make setup)"
    )
