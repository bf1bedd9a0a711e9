"""The input of the post-processing: measurements, public constraints and the spine, as plain arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from geography.spine import Spine
from postprocess.arrays import BoolArray, FloatArray, IntArray, wide_enough
from postprocess.marginal import Marginal

if TYPE_CHECKING:
    from postprocess.members import Implied
    from postprocess.positive import PositiveAnswers
    from postprocess.shares.shared import Shared


@dataclass(frozen=True, eq=False)
class MeasuredAnswers:
    """Noisy answers of one query at one level: `values` `(n_geounits, size)`.

    They are whole numbers; or floats, where they are made from randomised reports.

    Attributes:
        variance: of the noise on each answer, in geounits of kind 0; zeros stand in `values` for those of kind -1.
        others: the same for kinds 1, 2 ...
    """

    marginal: Marginal
    values: NDArray[np.signedinteger] | FloatArray
    variance: float
    others: tuple[float, ...] = ()

    def by_row(self, kinds: NDArray[np.signedinteger] | None) -> float | FloatArray:
        """The variance of all geounits or, given their kinds, `(n, 1)` of each; arbitrary where nothing is measured."""
        if kinds is None:
            return self.variance
        return np.array([self.variance, *self.others])[np.maximum(kinds, 0)][:, None]


@dataclass(frozen=True, eq=False)
class GroupBounds:
    """Inequalities on groups of cells at one level: `lower <= answer <= upper`, both `(n_geounits, size)` int64.

    Attributes:
        exact: of some geounits of a level, whether the bounds are an invariant of the level; None for a whole level.
    """

    name: str
    marginal: Marginal
    lower: IntArray
    upper: IntArray
    exact: bool | None = None

    @cached_property
    def invariant(self) -> bool:
        """Whether the answers are fixed in every geounit of the level, and not merely impossible everywhere.

        Where that holds of some geounits alone it makes no invariant: their estimates would depend on which others
        are worked on beside them.
        """
        if self.exact is not None:
            return self.exact
        return bool(np.array_equal(self.lower, self.upper) and self.upper.any())

    def of_rows(self, rows: slice | IntArray) -> GroupBounds:
        """The bounds of some geounits of the level."""
        return replace(self, lower=self.lower[rows], upper=self.upper[rows], exact=self.invariant)

    def compact(self) -> GroupBounds:
        """The same in the smallest types that hold them, to be kept and sent; `in_64_bits` before they are used."""
        lower, upper = (numbers.astype(wide_enough(np.dtype(np.int8), numbers)) for numbers in (self.lower, self.upper))
        return replace(self, lower=lower, upper=upper, exact=self.invariant)

    def in_64_bits(self) -> GroupBounds:
        """The same as they are worked with."""
        lower, upper = (numbers.astype(np.int64, copy=False) for numbers in (self.lower, self.upper))
        return replace(self, lower=lower, upper=upper, exact=self.invariant)


@dataclass(frozen=True, eq=False)
class Constraints:
    """Public facts that estimates and release keep exactly.

    Attributes:
        structural_zeros: `(n_cells,)` True where a cell is impossible everywhere.
        bounds: per level of the spine, the inequalities and invariants on groups of cells.
    """

    structural_zeros: BoolArray
    bounds: tuple[tuple[GroupBounds, ...], ...]


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that a release is computed from.

    Attributes:
        spine: the geounits.
        shape: number of values of each attribute; cells are in C order.
        measured: per level, top to bottom, the noisy answers; an empty tuple where nothing was measured.
        constraints: what is known exactly.
        passes: coarse queries whose whole numbers are fixed, in this order, before the detail; each refines the one
            before.
        rounding: nested queries, coarse to fine, whose rounded answers stay within one of the solution.
        estimator: "full" uses every measurement of the subtree, "topdown" only the geounit's own.
        solver: "auto", "batched" or "cvxpy".
        seed: public seed of ties and samples.
        first_level: level of the whole release that the spine's top level is; 0 unless it is a part of one.
        first_rows: per level, the number in the whole release of the level's first geounit; empty for all 0.
        kinds: per level, the kind of each geounit `(n,)`, which says how precisely it was measured; -1 where it was
            not, since it is the only child of one that was measured instead. None where all are of kind 0.
        further: queries beside the measured and bounded ones that are told apart: those of joins.
        joined: per level, bounds from released households. The release keeps them; linear estimates do not know them.
        implied: per level, the persons that households are to have; empty for none.
        shares: per level, how public numbers share a parent's answers among its children; empty for none.
        positive: per level, the queries whose noisy answers are drawn only where the released parent is positive; empty
            for none. Their values are put in when a level is solved; linear estimates do not know them.
        completed: queries that children may be fitted to where nothing measures their detail; with none, their parent's
            numbers are divided evenly.
    """

    spine: Spine
    shape: tuple[int, ...]
    measured: tuple[tuple[MeasuredAnswers, ...], ...]
    constraints: Constraints
    passes: tuple[Marginal, ...]
    estimator: str = "full"
    solver: str = "auto"
    seed: int = 0
    rounding: tuple[Marginal, ...] = ()
    first_level: int = 0
    first_rows: tuple[int, ...] = ()
    kinds: tuple[NDArray[np.signedinteger] | None, ...] = ()
    further: tuple[Marginal, ...] = ()
    joined: tuple[tuple[GroupBounds, ...], ...] = ()
    implied: tuple[Implied, ...] = ()
    shares: tuple[tuple[Shared, ...], ...] = ()
    completed: tuple[Marginal, ...] = ()
    positive: tuple[tuple[PositiveAnswers, ...], ...] = ()

    @property
    def n_cells(self) -> int:
        """Cells of a histogram."""
        return math.prod(self.shape)

    def bounds_of(self, level: int) -> tuple[GroupBounds, ...]:
        """All bounds that the release keeps at a level."""
        stated = self.constraints.bounds[level]
        return (*stated, *self.joined[level]) if self.joined else stated

    def shares_of(self, level: int) -> tuple[Shared, ...]:
        """What public numbers say about a level."""
        return self.shares[level] if self.shares else ()

    def positive_of(self, level: int) -> tuple[PositiveAnswers, ...]:
        """What is drawn at a level only where the released parent is positive."""
        return self.positive[level] if self.positive else ()

    def first_row(self, level: int) -> int:
        """The number in the whole release of the first geounit of a level."""
        return self.first_rows[level] if self.first_rows else 0

    def kinds_of(self, level: int) -> NDArray[np.signedinteger] | None:
        """The kinds of a level's geounits, `(n,)`; None where all are of kind 0."""
        return self.kinds[level] if self.kinds else None

    def in_64_bits(self) -> Problem:
        """As it is worked with, where the bounds are in the smallest types that hold them."""
        bounds = tuple(tuple(bound.in_64_bits() for bound in level) for level in self.constraints.bounds)
        return replace(self, constraints=replace(self.constraints, bounds=bounds))
