"""What is published of a universe's records with noise: one list, of which each entry is one stream and one file.

The sampler, headers, accounts, the ledger, the catalogue, estimation and forecasts read it; none derives it anew.
Answers without noise are `Universe.invariants`, private choices of a table's detail `Universe.selections`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from geography.spine import NOT_MEASURED, Spine, last_levels
from pipeline.model.mixed import MixedNoise
from pipeline.model.query import Query
from pipeline.model.strategy import AddedAnswer
from pipeline.privacy.noise.discrete_gaussian import DiscreteGaussian
from pipeline.privacy.noise.mechanism import NoiseSpec

if TYPE_CHECKING:
    from pipeline.disclosure.method import DisclosureMethod

Universe: TypeAlias = Any  #: of `pipeline.model.universe`, a module above this one


@dataclass(frozen=True)
class _DrawnByOthers:
    """Noise on counts of which the variance is all that is known.

    Attributes:
        scale: the variance, exact.
        mechanism: as measurement files and manifests name it, whatever others drew.
    """

    scale: Fraction
    mechanism: ClassVar[Literal["reports", "received"]]

    @property
    def variance(self) -> float:
        """The variance of each count, persons squared."""
        return float(self.scale)


class ReportNoise(_DrawnByOthers):
    """The noise on counts that are made of so many reports, whose senders drew it."""

    mechanism = "reports"


@dataclass(frozen=True)
class ReceivedNoise(_DrawnByOthers):
    """The noise on counts as others published them.

    Attributes:
        method: how others protected the counts, so that simulated runs do the same; None where only the variance is
            known.
    """

    method: DisclosureMethod | None = None
    mechanism = "received"

    @property
    def simulated(self) -> NoiseSpec | DisclosureMethod:
        """What simulated runs draw: noise on whole numbers with about this variance, where no method is known.

        InputError where there is none.
        """
        return self.method or DiscreteGaussian(self.scale)


#: On counts: drawn by this program, by the senders of reports or by others, or left by what is drawn on mixed numbers.
Noise = NoiseSpec | ReportNoise | ReceivedNoise | MixedNoise


@dataclass(frozen=True, eq=False)
class Draw:
    """Noisy answers of one query at one level: with the universe's name these name the stream.

    Attributes:
        level: its name.
        query: whose answers are drawn, in all geounits of the level.
        noises: on counts, for each kind of geounit; the first kind stands for no level but its own.
        drawn: what the run draws for it on stored numbers, for each kind; none where a question, another release or the
            senders of reports drew it.
        kinds: `(n_geounits,)` whole numbers, the kind of each geounit, -1 where nothing is drawn because one above
            stands for it; None where all are of the first kind.
        where_positive: only the answers are drawn that are positive in the released parent. The budget is charged as if
            all were; linear estimates do not use them.
        share: of what the strategy may spend, that of the first kind, exact; 0 for what others drew.
        asked: of the answer of a question, which stands beside what the strategy measures; else None.
        copied: from another release, of the same records.
    """

    level: str
    query: Query
    noises: tuple[Noise, ...]
    drawn: tuple[NoiseSpec, ...] = ()
    kinds: NDArray[np.signedinteger] | None = None
    where_positive: bool = False
    share: Fraction = Fraction(0)
    asked: AddedAnswer | None = None
    copied: bool = False

    @property
    def own(self) -> bool:
        """Whether the release measures it itself, or receives it from others who did."""
        return self.asked is None and not self.copied

    @property
    def stated(self) -> tuple[NoiseSpec | ReceivedNoise, ...]:
        """What a manifest states of it, for each kind: what the run draws, or the noise on what it received."""
        return self.drawn or tuple(one for one in self.noises if isinstance(one, ReceivedNoise))

    def measured(self, geocodes: NDArray[np.str_]) -> NDArray[np.str_]:
        """The geocodes of the geounits in which something is drawn, given those of the level."""
        return geocodes if self.kinds is None else geocodes[self.kinds >= 0]

    def n_measured(self, n_geounits: int) -> int:
        """In how many of the level's `n_geounits` geounits something is drawn."""
        return n_geounits if self.kinds is None else int((self.kinds >= 0).sum())


def budgeted(
    universe: Universe, spine: Spine | None, on_counts: Callable[[NoiseSpec], NoiseSpec | MixedNoise]
) -> tuple[Draw, ...]:
    """The draws of a universe whose noise the run draws itself, by its budget, top level first; then answers.

    Args:
        universe: what is measured.
        spine: the geography, by which some geounits stand for others where it is bypassed; without one, what each level
            has for itself.
        on_counts: the noise on counts, given that which is drawn.
    """
    draws = []
    for level, (shares, kinds) in zip(universe.strategy.levels, _shares(universe, spine), strict=True):
        for measured in level.queries:
            drawn = tuple(universe.noise_at(share, measured.share) for share in shares)
            noises = tuple(on_counts(one) for one in drawn)
            share = shares[0] * measured.share
            draws.append(Draw(level.level, measured.query, noises, drawn, kinds, measured.where_positive, share))
    return (*draws, *(Draw(one.level, one.query, (one.noise,), asked=one) for one in universe.added))


def _shares(
    universe: Universe, spine: Spine | None
) -> Iterator[tuple[tuple[Fraction, ...], NDArray[np.signedinteger] | None]]:
    """Of each level the shares of the budget, one for each kind of geounit, and the kinds, as `Draw` has them."""
    shares = [level.share for level in universe.strategy.levels]
    if spine is None or not universe.bypass:
        yield from (((share,), None) for share in shares)
        return
    for number, last in enumerate(last_levels(spine, [bool(share) for share in shares])):
        totals: list[Fraction] = [shares[number]]
        kinds = np.full(len(last), NOT_MEASURED, dtype=np.int8)
        for end in range(number, len(shares)):
            total = sum(shares[number : end + 1], Fraction(0))
            if total not in totals:
                if not (last == end).any():
                    continue
                totals.append(total)
            kinds[last == end] = totals.index(total)
        yield tuple(totals), None if not shares[number] or not kinds.any() else kinds


def by_level(draws: Iterable[Draw], levels: Iterable[str]) -> list[list[Draw]]:
    """The draws of each level, in their order."""
    found: dict[str, list[Draw]] = {level: [] for level in levels}
    for draw in draws:
        found[draw.level].append(draw)
    return list(found.values())


def everywhere(draws: Iterable[Draw]) -> list[Draw]:
    """Those that linear estimates use: without what is drawn only where the released parent is positive."""
    return [draw for draw in draws if not draw.where_positive]


def kinds_of(draws: Iterable[Draw]) -> NDArray[np.signedinteger] | None:
    """The kinds of the geounits of a level, given all of its draws; None as there."""
    return next((draw.kinds for draw in draws), None)
