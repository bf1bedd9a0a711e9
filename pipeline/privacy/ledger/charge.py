"""What a ledger is charged for a universe: a group of equal costs for each query at each level, and for each choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.privacy.accounting.uses import choices_of, measurements_of
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.chain import BYPASSED, Group
from pipeline.privacy.ledger.charges import Charge, run_fingerprint
from pipeline.privacy.ledger.events import by_up_to, over_series, per_person
from pipeline.privacy.ledger.series import SeriesUse

if TYPE_CHECKING:
    from pipeline.model.universe import Universe


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
    several = by_up_to(universe.reach) + per_person(universe.unit.records)
    several += "" if universe.series is None else over_series(universe.series.terms.distance)
    groups = [
        Group(
            m.level,
            m.query + (BYPASSED if universe.bypass else "") + several,
            m.use.mechanism,
            m.use.scale,
            m.size * measured[m.level],
        )
        for m in measurements_of(universe)
    ]
    groups += [
        Group(m.level, m.query + several, m.use.mechanism, m.use.scale, m.size * sizes[m.level])
        for m in choices_of(universe)
    ]
    return Charge(dataset, run, release, universe.neighbours, tuple(groups), series=_series_use(universe))


def _series_use(universe: Universe) -> SeriesUse | None:
    if (series := universe.series) is None:
        return None
    fingerprint, place = universe.series_fingerprint, (series.number, series.period, series.predecessor)
    return SeriesUse(series.name, fingerprint, len(series.periods), *place)
