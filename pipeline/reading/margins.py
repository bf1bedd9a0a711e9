"""Who tells the variance of a sum: a provider that the installed distribution names.

The variance of a sum needs the covariances of the estimation, which `postprocess` computes from spec and spine. The
reader states what it needs here; the entry point "linear" of the group `spinewise.margins` provides it.
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
#: 90 % quantile of the absolute value of a standard normal.
NORMAL_QUANTILE = 1.6448536269514722
#: Variances below this, in persons squared, are those of numbers that are exact.
_EXACT = 1e-9

#: For each attribute, the group that each of its values is summed into.
Groups = Sequence[NDArray[np.int64]]


class Variances(Protocol):
    """Variances of sums of cells; NaN where the measurements do not determine a sum."""

    def of_level(self, level: int, groups: Groups) -> NDArray[np.float64]:
        """`(n_geounits, size)` variances of the answers that `groups` make, for every geounit of a level."""

    def of_area(self, leaves: NDArray[np.bool_], groups: Groups) -> NDArray[np.float64]:
        """`(size,)` variances of the answers for the leaves `(n_leaves,)` together."""


#: (universe, its public files, spine, estimator) -> variances.
Provider = Callable[[Universe, UniverseDirectory, Spine, str], Variances]


def provider() -> Provider:
    """The installed provider; ReleaseError where there is none."""
    for found in metadata.entry_points(group=GROUP, name=NAME):
        return cast("Provider", found.load())
    raise ReleaseError(
        f"margins of sums: no {NAME!r} is installed in the entry points {GROUP!r}; install spinewise anew (make setup)"
    )


def half_widths(variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the width of a 90 % interval, rounded up to whole persons; 0 where exact, NaN where unknown."""
    exact = variances < _EXACT
    return np.where(exact, 0.0, np.ceil(NORMAL_QUANTILE * np.sqrt(np.where(exact, 0.0, variances)) - 1e-6))
