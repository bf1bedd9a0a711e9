"""Whether the sums of an amount are what so many records can have within its public ends; one record is not seen."""

from __future__ import annotations

from auditor.findings import Found, holds
from auditor.form import Universe
from auditor.reading.counts import impossible_sums
from auditor.reading.errors import FormError
from auditor.release import Release


def amount_findings(release: Release) -> list[Found]:
    """Of each companion of an amount, by the true counts and sums of the leaves; nothing where there is none."""
    own = release.form.universes[0]
    return [
        holds("truth", f"{universe.name}: clip", clip_problems(release, own, universe))
        for universe in release.form.universes
        if universe.amount is not None
    ]


def clip_problems(release: Release, own: Universe, universe: Universe) -> list[str]:
    """Cells of leaves whose sum so many records cannot have, each between the ends; no number of them is told."""
    amount, leaves = universe.amount, release.spine[-1]
    assert amount is not None
    try:
        cells = own.cells.cells_of(universe.cells)
    except (KeyError, ValueError) as error:
        raise FormError(f"{universe.name}: has attributes that the release itself has not ({error})") from None
    *_, outside = impossible_sums(release.truth(own, leaves), release.truth(universe, leaves), cells, amount)
    wrong = int(outside.sum())
    return (
        [f"{wrong} cells of {leaves.name} have a sum outside of the clip: records count more than it"] if wrong else []
    )
