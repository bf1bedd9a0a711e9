"""What a run asks of the ledger, and what it is answered.

A universe is charged a group of equal costs for each query at each level, and for each choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pipeline.errors import InputError
from pipeline.model.content import content_sha256
from pipeline.privacy.keys import DERIVATION, MasterKey
from pipeline.privacy.ledger.dataset import SeriesUse
from pipeline.privacy.ledger.events import BYPASSED, HEX, Exact, Group, KeyUse, Moved, Subject
from pipeline.privacy.ledger.notes import Head

if TYPE_CHECKING:
    from pipeline.model.universe import Universe


def run_fingerprint(key: MasterKey, *, input_fingerprint: str, spine_fingerprint: str, privacy_fingerprint: str) -> str:
    """SHA-256 over all that the noise of one universe of a run is determined by; it holds nothing confidential.

    Args:
        key: the run's master key; its commitment goes in.
        input_fingerprint: of the confidential records, keyed with the master key.
        spine_fingerprint: of the public spine.
        privacy_fingerprint: of the privacy-relevant part of the spec. The three fingerprints are the context that
            the stream keys are derived from.

    Returns:
        64 hex digits.

    Raises:
        InputError: the key is a test key, whose noise anyone can compute.
    """
    if key.insecure:
        raise InputError(
            "ledger: a run with an insecure-test key cannot draw on a ledger: its noise is public, and so no "
            "budget covers what it shows; leave the key out of the spec, or the dataset"
        )
    context = [input_fingerprint, spine_fingerprint, privacy_fingerprint]
    if not all(context):
        raise ValueError("a run's fingerprint needs the fingerprints of input, spine and privacy spec")
    return content_sha256(["spinewise run 1", DERIVATION, key.commitment(), *context])


@dataclass(frozen=True)
class Charge:
    """What one universe of a run is going to measure, and of which dataset.

    Attributes:
        run: its `run_fingerprint`.
        release: name of the release, for the record.
        neighbours: that the noise was made for; they must be the dataset's.
        groups: every query at every level, each once.
        exact: what the run discloses exactly of the universe.
        key: the key that its noise is drawn from; None where it is not recorded.
        units: the records' column of units that are protected as a whole; "" where each record is alone.
        series: the place in a series, whose groups are then for all of its periods.
        later: what the run is going to be charged after this, rho or epsilon: it must be left, too, and is not charged.
    """

    dataset: str
    run: str
    release: str
    neighbours: str
    groups: tuple[Group, ...]
    exact: tuple[Exact, ...] = ()
    key: KeyUse | None = None
    units: str = ""
    series: SeriesUse | None = None
    later: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not HEX.fullmatch(self.run):
            raise ValueError("a run's fingerprint is 64 hex digits")
        if not self.groups:
            raise ValueError("a charge needs what it is for")
        if len({(group.level, group.query) for group in self.groups}) < len(self.groups):
            raise ValueError("a charge names a query at a level twice; both would draw the same noise")

    @property
    def due(self) -> tuple[Group, ...]:
        """The groups that are charged with it: none of a later period, since its series was charged with the first."""
        return self.groups if self.series is None or self.series.number == 0 else ()


@dataclass(frozen=True)
class Charged:
    """Where a ledger has a release's charges to one dataset: what a receipt states. The same run gives the same one.

    Attributes:
        head: the last event of the run's own charges and exact disclosures, not of the ledger.
        unit: rho or epsilon; `cost`: of all of the run's charges to the dataset, exact.
        exact: universe and subject of each exact disclosure.
    """

    dataset: str
    head: Head
    unit: str
    cost: Fraction
    exact: tuple[tuple[str, Subject], ...]


@dataclass(frozen=True)
class Reservation:
    """A run may draw what its charges are for.

    Attributes:
        new: whether any of it was charged now; False if all of it was charged to the same run before.
        head: the ledger's last event, to be noted in the run's directory before anything is drawn.
        charged: one for each dataset, in the order of the charges.
    """

    charges: tuple[Charge, ...]
    new: bool
    head: Head
    charged: tuple[Charged, ...] = ()


def charge_for(
    universe: Universe,
    *,
    dataset: str,
    release: str,
    key: MasterKey,
    input_fingerprint: str,
    spine_fingerprint: str,
    sizes: Mapping[str, int],
    measured: Mapping[str, int],
) -> Charge:
    """The charge that a ledger must accept before anything of the universe is measured.

    Args:
        universe: what is measured.
        dataset: the ledger's name for what the universe's records are about.
        release: the release's name.
        key: the run's master key.
        input_fingerprint: of the universe's confidential records, keyed with it.
        spine_fingerprint: of the public spine.
        sizes: number of geounits of each level; none is bypassed by a choice.
        measured: number of those in which something is drawn, of each level that has draws. Where others are bypassed,
            their share of the budget is spent above, and what is charged is the cost of a path on which none is: all
            cost the same.

    Raises:
        InputError: the key is a test key, or there is no noise for the budget.
    """
    run = run_fingerprint(
        key,
        input_fingerprint=input_fingerprint,
        spine_fingerprint=spine_fingerprint,
        privacy_fingerprint=universe.privacy_fingerprint(),
    )
    distance = 1 if universe.series is None else universe.series.terms.distance
    moved = Moved.by(reach=universe.reach, records=universe.unit.records, series=distance)
    groups = tuple(
        Group(
            one.level,
            one.query + (BYPASSED if universe.bypass and not one.chosen else ""),
            one.mechanism.mechanism,
            one.mechanism.scale,
            one.size * (sizes if one.chosen else measured)[one.level],
            moved,
        )
        for one in universe.uses
    )
    use = None
    if (series := universe.series) is not None:
        fingerprint, place = universe.series_fingerprint, (series.number, series.period, series.predecessor)
        use = SeriesUse(series.name, fingerprint, len(series.periods), *place)
    return Charge(dataset, run, release, universe.neighbours, groups, series=use)
