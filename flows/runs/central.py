"""Counts that a central release has measured, from the directory that a spec names."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from geography.codes import first_few
from geography.spine import Spine
from pipeline.errors import InputError, SpinewiseError
from pipeline.model.strategy import Central
from pipeline.model.universe import Universe
from pipeline.published import PublishedRelease, open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.release.status import EXAMPLE, FROM_RECORDS, Status

#: Of a release whose budget a ledger has counted.
_CHARGED: Final[tuple[Status, ...]] = ("official", FROM_RECORDS)


def read_central(universe: Universe, spine: Spine, *, example: bool) -> dict[str, NDArray[np.int64]]:
    """The noisy counts of the cells `(n_geounits, n_cells)` of each level that a central release has measured.

    Args:
        universe: of the reports; without central counts there are none.
        spine: of the reports.
        example: whether the release is about made-up data, and its central counts may be as well.

    Raises:
        InputError: the release is not there or damaged; it is not charged; its measurements, attributes or areas are
            not those that the spec states.
    """
    central = universe.central
    if central is None:
        return {}
    where = f"collect.central.release: {central.release}"
    try:
        release = open_finished(central.release, check_hashes=True)
    except SpinewiseError as error:
        raise InputError(f"collect.central.release: {error}") from None
    status = release.manifest.status
    if status not in _CHARGED and not (example and status == EXAMPLE):
        raise InputError(f"{where}: its status is {status!r}; a release that is charged to a ledger is needed")
    _check_same(universe, central, release, where)
    return {level: _counts(universe, central, release, spine, level, where) for level in central.shares}


def _check_same(universe: Universe, central: Central, release: PublishedRelease, where: str) -> None:
    """Refuse a release of other attributes, or with another promise."""
    main = release.universes[0]
    stated = (central.framework, central.budget)
    if main.collected is not None or (main.framework, main.budget) != stated:
        raise InputError(
            f"{where}: its framework and budget are {main.framework}, {main.budget}; the spec says "
            f"{central.framework}, {central.budget}"
        )
    if main.neighbours != "change-one" or main.amount is not None or main.records_per_person > 1:
        raise InputError(
            f'{where}: a release is needed in which every person is one record and neighbours are "change-one", as '
            "with reports"
        )
    own, other = ([(a.name, *a.values) for a in one.schema.attributes] for one in (universe, main))
    if own != other:
        raise InputError(f"{where}: its attributes and values are not those of the reports, in this order")


def _counts(
    universe: Universe, central: Central, release: PublishedRelease, spine: Spine, level: str, where: str
) -> NDArray[np.int64]:
    """The noisy counts of one level, in the order of the spine."""
    (measured,) = universe.strategy.levels[-1].queries
    main, level_of = release.universes[0], {one.level: one for one in release.universes[0].strategy.levels}
    at_level = level_of[level].queries if level in level_of else ()
    named = [one.query.name for one in at_level if one.query.terms == measured.query.terms]
    if not named:
        raise InputError(f"{where}: it does not measure {measured.query.name!r} at the level {level!r}")
    found = read_measurement(release.run.universe(main.name).measurement(level, named[0]))
    noise, header = central.noise(level), found.header
    if (header.mechanism, header.scale) != (noise.mechanism, noise.scale) or header.others:
        raise InputError(
            f"{where}: its noise at the level {level!r} is {header.mechanism} of scale {header.scale}; by the budget "
            f"and share in the spec it is {noise.mechanism} of scale {noise.scale}"
        )
    wanted = spine.level(level).geocodes
    order = np.argsort(found.geocodes)
    places = np.searchsorted(found.geocodes[order], wanted) if len(order) else np.zeros(len(wanted), dtype=np.int64)
    places = order[np.minimum(places, len(order) - 1)] if len(order) else places
    missing = np.ones(len(wanted), dtype=bool) if not len(order) else found.geocodes[places] != wanted
    if missing.any():
        raise InputError(
            f"{where}: {int(missing.sum()):,} areas of the level {level!r} are not in it: {first_few(wanted[missing])}"
        )
    return found.values[places]


def read_public_central(run: RunDirectory, universe: Universe) -> dict[str, NDArray[np.int64]]:
    """The same as a release from reports has published them; ReleaseError where a file is damaged or missing."""
    if universe.central is None:
        return {}
    (measured,) = universe.strategy.levels[-1].queries
    return {
        level: read_measurement(run.main.measurement(level, measured.query.name)).values
        for level in universe.central.shares
    }
