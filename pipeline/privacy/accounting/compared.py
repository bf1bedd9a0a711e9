"""What decides which inputs a guarantee compares: the part of a universe that neighbours depend on.

The privacy code imports nothing of the pipeline: it declares here what it needs of a
`pipeline.model.universe.Universe`; `uses.UniverseLike` adds what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.privacy.accounting.local import CentralLike
from pipeline.privacy.budget import Framework, Neighbours

__all__ = ["Compared", "QueryLike"]


class QueryLike(Protocol):
    """The part of a query that privacy depends on; see `pipeline.model.query.Query`."""

    @property
    def name(self) -> str:
        """As the spec calls it."""

    @property
    def size(self) -> int:
        """The number of answers."""

    @property
    def n_asked(self) -> int:
        """The number of answers that are measured."""

    @property
    def groups(self) -> tuple[Any, ...]:
        """For each attribute the group of each value; zeros where it is summed out."""


class _Attribute(Protocol):
    @property
    def values(self) -> tuple[str, ...]: ...


class _Schema(Protocol):
    @property
    def names(self) -> tuple[str, ...]: ...
    def attribute(self, name: str) -> _Attribute: ...


class _Level(Protocol):
    @property
    def level(self) -> str: ...


class _Levels(Protocol):
    @property
    def levels(self) -> Sequence[_Level]: ...


class Compared(Protocol):
    """The part of a universe that says which inputs are compared, and at what budget."""

    @property
    def name(self) -> str:
        """The companion's name; "" for the release's own universe."""

    @property
    def schema(self) -> _Schema:
        """The attributes of a record."""

    @property
    def framework(self) -> Framework:
        """Which loss adds up: "zcdp" or "pure"; "local" of reports."""

    @property
    def budget(self) -> Fraction:
        """The whole budget, rho or epsilon, exact."""

    @property
    def delta(self) -> Fraction:
        """The delta of the (epsilon, delta) statement; 0 with framework "pure"."""

    @property
    def central(self) -> CentralLike | None:
        """A central release whose counts are used beside reports; None where there is none."""

    @property
    def population(self) -> int | None:
        """About how many records there are, where that is public."""

    @property
    def neighbours(self) -> Neighbours:
        """Which inputs are neighbours: "change-one" or "add-remove"."""

    @property
    def of_total(self) -> bool:
        """Whether records are compared a unit at a time, whose amounts are bounded in all."""

    @property
    def invariants(self) -> Sequence[tuple[str, QueryLike]]:
        """Level and query of what is published exactly."""

    @property
    def structural_zeros(self) -> NDArray[np.bool_]:
        """Which cells are impossible, `(n_cells,)`."""

    @property
    def strategy(self) -> _Levels:
        """The levels, top first."""
