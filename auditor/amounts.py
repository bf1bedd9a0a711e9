"""Whether the sums of an amount are what so many records can have within its public ends; one record is not seen."""

from __future__ import annotations

import numpy as np

from auditor.findings import Found, holds
from auditor.form import Universe
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
    low, high = int(amount.low / amount.unit), int(amount.high / amount.unit)
    names = [name for name, _ in own.attributes]
    if any(attribute not in own.attributes for attribute in universe.attributes):
        raise FormError(f"{universe.name}: has attributes that the release itself has not")
    shape = [len(values) for _, values in own.attributes]
    counts, sums = release.truth(own, leaves), release.truth(universe, leaves)
    codes = np.unravel_index(counts.cells, shape)
    cells = np.zeros(len(counts.cells), dtype=np.int64)
    for name, values in universe.attributes:
        cells = cells * len(values) + codes[names.index(name)]
    records = np.zeros(len(leaves.codes) * universe.n_cells, dtype=np.int64)
    np.add.at(records, counts.geounits * universe.n_cells + cells, counts.persons)
    units = np.zeros_like(records)
    np.add.at(units, sums.geounits * universe.n_cells + sums.cells, sums.persons)
    wrong = int(((units < low * records) | (units > high * records)).sum())
    return (
        [f"{wrong} cells of {leaves.name} have a sum outside of the clip: records count more than it"] if wrong else []
    )
