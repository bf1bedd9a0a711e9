"""How much of the budget each geounit's measurement gets: its level's share, and more where it stands for others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from geography.bypass import NOT_MEASURED, last_levels
from geography.spine import Spine
from pipeline.model.mixed import MixedNoise
from pipeline.model.strategy import AddedAnswer, LevelStrategy, MeasuredQuery, Strategy
from pipeline.privacy.budget import NoiseSpec


@dataclass(frozen=True)
class ReportNoise:
    """The noise on counts that are made of so many reports, whose senders drew it.

    Attributes:
        scale: the variance, exact.
    """

    scale: Fraction
    #: As measurement files name it, whatever the senders drew.
    mechanism: ClassVar[Literal["reports"]] = "reports"

    @property
    def variance(self) -> float:
        """The variance of each count, persons squared."""
        return float(self.scale)


#: On counts: drawn by this program, or by the senders of reports, or left by what is drawn on mixed numbers.
Noise = NoiseSpec | ReportNoise | MixedNoise


class Allocating(Protocol):
    """Where the noise is from, see `source.Source`."""

    def allocations(self, universe: Allocated, spine: Spine, sizes: NDArray[np.int64] | None) -> tuple[Allocation, ...]:
        """The allocation of each level, top first."""

    def on_counts(self, drawn: NoiseSpec) -> NoiseSpec | MixedNoise:
        """The noise on counts, given that which is drawn."""


class Allocated(Protocol):
    """Of a universe, what its noise depends on."""

    @property
    def strategy(self) -> Strategy:
        """What is measured, with which shares."""

    @property
    def bypass(self) -> bool:
        """Whether geounits without siblings are not measured."""

    @property
    def source(self) -> Allocating:
        """Where the noise is from."""

    def noise_at(self, level_share: Fraction, share: Fraction) -> NoiseSpec:
        """The noise that shares of its budget buy."""

    def added_at(self, level: str) -> tuple[AddedAnswer, ...]:
        """The answers of questions at a level."""


@dataclass(frozen=True, eq=False)
class Allocation:
    """The budget of one level, geounit by geounit.

    Attributes:
        strategy: of the level.
        shares: of the strategy's budget, one for each kind of geounit; the first is the level's own.
        kinds: `(n,)` whole numbers, the kind of each geounit, -1 where it is not measured because one above stands for
            it; None where all geounits of the level are of the first kind.
        drawn: of each kind the noise on the level's one query, where others drew it; else empty.
        added: answers of questions at the level, which stand beside the strategy's queries.
    """

    strategy: LevelStrategy
    shares: tuple[Fraction, ...]
    kinds: NDArray[np.signedinteger] | None = None
    drawn: tuple[Noise, ...] = ()
    added: tuple[AddedAnswer, ...] = ()

    @property
    def queries(self) -> tuple[MeasuredQuery | AddedAnswer, ...]:
        """What is known with noise of every geounit: the strategy's queries, then answers of questions.

        Without those that are drawn only where the released parent is positive: linear estimates do not use them.
        """
        return (*self.strategy.everywhere, *self.added)

    def measured(self, geocodes: NDArray[np.str_]) -> NDArray[np.str_]:
        """The geocodes of the geounits that are measured, given those of the level."""
        return geocodes if self.kinds is None else geocodes[self.kinds >= 0]

    def n_measured(self, n_geounits: int) -> int:
        """How many of the level's `n_geounits` geounits are measured."""
        return n_geounits if self.kinds is None else int((self.kinds >= 0).sum())

    def noises(self, universe: Allocated, measured: MeasuredQuery | AddedAnswer) -> tuple[Noise, ...]:
        """The noise on one query of the level, for each kind of geounit; InputError where there is none."""
        if isinstance(measured, AddedAnswer):
            return (measured.noise,) * len(self.shares)
        return self.drawn or tuple(universe.source.on_counts(one) for one in self.draws(universe, measured))

    def draws(self, universe: Allocated, measured: MeasuredQuery) -> tuple[NoiseSpec, ...]:
        """What is drawn for it on stored numbers, where this program does, for each kind; InputError as above."""
        return tuple(universe.noise_at(share, measured.share) for share in self.shares)


def allocations(universe: Allocated, spine: Spine, sizes: NDArray[np.int64] | None = None) -> tuple[Allocation, ...]:
    """Of each level, top first; a function of the public spec and spine alone, and of the sizes of leaves.

    Args:
        universe: what is measured.
        spine: the geography.
        sizes: see `source.Source.sizes`; without them noise is as the spec expects it.
    """
    return universe.source.allocations(universe, spine, sizes)


def budgeted(universe: Allocated, spine: Spine) -> tuple[Allocation, ...]:
    """The same where the run draws the noise by its budget."""
    levels = universe.strategy.levels
    if not universe.bypass:
        return tuple(Allocation(level, (level.share,), added=universe.added_at(level.level)) for level in levels)
    allotted = []
    shares = [level.share for level in levels]
    for number, (level, last) in enumerate(zip(levels, last_levels(spine, [bool(s) for s in shares]), strict=True)):
        totals: list[Fraction] = [level.share]
        kinds = np.full(len(last), NOT_MEASURED, dtype=np.int8)
        for end in range(number, len(levels)):
            total = sum(shares[number : end + 1], Fraction(0))
            if total not in totals:
                if not (last == end).any():
                    continue
                totals.append(total)
            kinds[last == end] = totals.index(total)
        allotted.append(Allocation(level, tuple(totals), None if not level.share or not kinds.any() else kinds))
    return tuple(allotted)


def allocation_of(allocations: tuple[Allocation, ...], level: str) -> Allocation:
    """The one of the level called `level`."""
    return next(allocation for allocation in allocations if allocation.strategy.level == level)
