"""Who computes the margin of a sum: a module of estimation, which is found by name.

The margin of a sum needs the covariances of the estimation, which `postprocess` computes from spec and spine, and the
rule by which published margins are made. The reader, which estimation stands on, states what it needs here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

import numpy as np
import pandas as pd

from geography.spine import Spine
from pipeline.errors import ReleaseError
from pipeline.model.universe import Universe
from pipeline.release.published_files import UniverseFiles
from postprocess.arrays import BoolArray, FloatArray, IntArray, Weights
from postprocess.statistics import Moments


def answer_weights(groups: Sequence[IntArray], answers: IntArray) -> tuple[FloatArray, ...]:
    """Zeros and ones that pick some answers, by their numbers, out of those that groups of values make."""
    sizes = tuple(int(group.max()) + 1 for group in groups)
    codes = np.unravel_index(answers, sizes)
    return tuple(
        (code[:, None] == group[None, :]).astype(np.float64) for code, group in zip(codes, groups, strict=True)
    )


def together(allowed: Sequence[BoolArray], k: int) -> tuple[FloatArray, ...]:
    """Ones for all that is counted, k times."""
    return tuple(np.repeat(mask[None, :].astype(np.float64), k, axis=0) for mask in allowed)


#: Imported when a margin of a sum is asked for, so that reading a table needs no solver.
_PROVIDER = ("pipeline.reading.sum_margins", "LinearVariances")

#: For each attribute, the group that each of its values is summed into.
Groups = Sequence[IntArray]


def ends_column(values: FloatArray) -> pd.arrays.IntegerArray:
    """Ends of intervals, or margins, which are whole persons, as a column of "Int64": missing where unknown (NaN).

    Raises:
        ReleaseError: they are not whole.
    """
    unknown = np.isnan(values)
    with np.errstate(invalid="ignore"):  # no whole number either
        whole = np.where(unknown, 0, values).astype(np.int64)
    if not ((whole == values) | unknown).all():
        raise ReleaseError("an interval of the release has an end that is no whole number")
    return pd.arrays.IntegerArray(whole, unknown)


class HalfWidths(ABC):
    """Half the widths of the 90 % intervals of sums of cells, in whole persons.

    0 where a sum is exact, else 1 at least; NaN where the measurements do not determine it.
    """

    @abstractmethod
    def of_level(self, level: int, groups: Groups) -> FloatArray:
        """`(n_geounits, size)`, of the answers that `groups` make, for every geounit of a level."""

    @abstractmethod
    def of_area(self, leaves: BoolArray, groups: Groups) -> FloatArray:
        """`(size,)`, of the answers for the leaves `(n_leaves,)` together."""

    @abstractmethod
    def estimate_of_area(self, leaves: BoolArray, groups: Groups) -> FloatArray:
        """`(size,)`: unbiased estimates of the answers for the leaves `(n_leaves,)` together, from the measurements.

        Unlike a sum of released counts they have no bias from non-negativity. NaN where they are not computed.
        """

    @abstractmethod
    def estimate_of_level(self, level: int, groups: Groups, counts: IntArray) -> FloatArray:
        """`(n_geounits, size)`: unbiased estimates for every geounit of a level, where intervals are around them.

        These are numbers that non-negativity moves far. NaN for all others. `counts` are the released answers.
        """

    @abstractmethod
    def exact_of_level(self, level: int, groups: Groups) -> BoolArray:
        """`(n_geounits, size)`: which answers are certain, by the public problem and by no margin's value.

        These are invariants, impossible cells, groups without a facility, and what they force: sums of such, the same
        in areas above, and in an area whose parent and siblings are certain.
        """

    @abstractmethod
    def exact_of_area(self, leaves: BoolArray, groups: Groups) -> BoolArray:
        """`(size,)`, the same of the leaves `(n_leaves,)` together."""

    @abstractmethod
    def moments_of_level(self, level: int, left: Weights, right: Weights) -> Moments:
        """Variances and covariances `(n_geounits, k)` of two weighted sums of cells, each with its partner."""

    @abstractmethod
    def moments_of_leaves(self, leaves: FloatArray, left: Weights, right: Weights) -> Moments:
        """The same `(1, k)` of a weighted sum over leaves, with weights `(n_leaves,)`."""


#: (universe, its public files, spine, estimator) -> half-widths.
Provider = Callable[[Universe, UniverseFiles, Spine, str], HalfWidths]


def provider() -> Provider:
    """Who computes half-widths."""
    module, name = _PROVIDER
    return cast("Provider", getattr(import_module(module), name))


def columns_of(groups: Groups, table: Groups) -> IntArray:
    """For each answer that `groups` make, the answer of `table` that counts the same cells; -1 where none does."""
    column = np.zeros(1, dtype=np.int64)
    for asked, published in zip(groups, table, strict=True):
        size = int(published.max()) + 1
        match = np.full(int(asked.max()) + 1, -1, dtype=np.int64)
        for number in range(len(match)):
            values = asked == number
            same = published[int(values.argmax())]
            if np.array_equal(published == same, values):
                match[number] = same
        pairs = column[:, None] * size + match[None, :]
        column = np.where((column[:, None] < 0) | (match[None, :] < 0), -1, pairs).ravel()
    return column
