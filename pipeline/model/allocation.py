"""How much of the budget each geounit's measurement gets: its level's share, and more where it stands for others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from geography.bypass import NOT_MEASURED, last_levels
from geography.spine import Spine
from pipeline.collect.collected import ReportNoise
from pipeline.model.strategy import AddedAnswer, LevelStrategy, MeasuredQuery
from pipeline.model.universe import Universe
from pipeline.privacy.budget import NoiseSpec, noise_for


@dataclass(frozen=True, eq=False)
class Allocation:
    """The budget of one level, geounit by geounit.

    Attributes:
        strategy: of the level.
        shares: of the strategy's budget, one for each kind of geounit; the first is the level's own.
        kinds: `(n,)` whole numbers, the kind of each geounit, -1 where it is not measured because one above stands for
            it; None where all geounits of the level are of the first kind.
        reports: of each kind, how many reports a geounit has, where the counts are made from reports; else empty.
        central: the noise on counts that another release has measured; None where this one measures.
        added: answers of questions at the level, which stand beside the strategy's queries.
    """

    strategy: LevelStrategy
    shares: tuple[Fraction, ...]
    kinds: NDArray[np.signedinteger] | None = None
    reports: tuple[int, ...] = ()
    central: NoiseSpec | None = None
    added: tuple[AddedAnswer, ...] = ()

    @property
    def queries(self) -> tuple[MeasuredQuery | AddedAnswer, ...]:
        """All that is known with noise at the level: the strategy's queries, then answers of questions."""
        return (*self.strategy.queries, *self.added)

    def measured(self, geocodes: NDArray[np.str_]) -> NDArray[np.str_]:
        """The geocodes of the geounits that are measured, given those of the level."""
        return geocodes if self.kinds is None else geocodes[self.kinds >= 0]

    def n_measured(self, n_geounits: int) -> int:
        """How many of the level's `n_geounits` geounits are measured."""
        return n_geounits if self.kinds is None else int((self.kinds >= 0).sum())

    def noises(self, universe: Universe, measured: MeasuredQuery | AddedAnswer) -> tuple[NoiseSpec | ReportNoise, ...]:
        """The noise on one query of the level, for each kind of geounit; InputError where there is none."""
        if isinstance(measured, AddedAnswer):
            return (measured.noise,) * len(self.shares)
        if self.central is not None:
            return (self.central,)
        if universe.collected is not None:
            return tuple(universe.collected.noise(reports) for reports in self.reports)
        return tuple(
            noise_for(universe.framework, universe.strategy_budget, share, measured.share, universe.neighbours)
            for share in self.shares
        )


def allocations(universe: Universe, spine: Spine, reports: NDArray[np.int64] | None = None) -> tuple[Allocation, ...]:
    """Of each level, top first; a function of the public spec and spine alone, and of the numbers of reports.

    Args:
        universe: what is measured.
        spine: the geography.
        reports: `(n_leaves,)` how many reports each leaf has, where counts are made from reports; without them as many
            as the spec expects.
    """
    levels = universe.strategy.levels
    if universe.collected is not None:
        expected = universe.collected.respondents or 1
        numbers = np.full(spine.n_leaves, expected) if reports is None else reports
        distinct, kinds = np.unique(numbers, return_inverse=True)
        of_leaves = Allocation(levels[-1], (levels[-1].share,) * len(distinct), kinds, tuple(distinct.tolist()))
        return (*(_above_reports(universe, level) for level in levels[:-1]), of_leaves)
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


def _above_reports(universe: Universe, level: LevelStrategy) -> Allocation:
    """Of a level above the leaves that have reports: what a central release has measured there, or nothing."""
    central = universe.central
    if central is None or level.level not in central.shares:
        return Allocation(level, (level.share,))
    (measured,) = universe.strategy.levels[-1].queries
    strategy = LevelStrategy(level.level, central.shares[level.level], (MeasuredQuery(measured.query, Fraction(1)),))
    return Allocation(strategy, (strategy.share,), central=central.noise(level.level))


def allocation_of(allocations: tuple[Allocation, ...], level: str) -> Allocation:
    """The one of the level called `level`."""
    return next(allocation for allocation in allocations if allocation.strategy.level == level)
