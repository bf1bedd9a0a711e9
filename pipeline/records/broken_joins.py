"""Joins that the records themselves do not keep; the release keeps them all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pipeline.model.join import NO_MOST, Join

#: Answers that are held at a time.
_MOST_HELD = 1 << 22


def broken_joins(
    joins: Sequence[Join], histograms: Mapping[str, sp.csr_array], level: str, geocodes: NDArray[np.str_]
) -> list[str]:
    """A sentence for each join that does not hold for the records in every geounit, with confidential counts.

    A join that holds in the leaves holds in all geounits above them, so the leaves are enough.

    Args:
        joins: of the spec.
        histograms: universe's name -> the confidential histogram of a level, `(n_geounits, n_cells)`.
        level: its name.
        geocodes: `(n_geounits,)`.
    """
    sentences = (_broken_join(join, histograms[""], histograms[join.companion], level, geocodes) for join in joins)
    return [sentence for sentence in sentences if sentence]


def _broken_join(
    join: Join, persons: sp.csr_array, households: sp.csr_array, level: str, geocodes: NDArray[np.str_]
) -> str:
    step = max(1, _MOST_HELD // max(join.persons.size, join.households.size))
    n_broken, first = 0, ""
    for start in range(0, len(geocodes), step):
        rows = slice(start, start + step)
        found = join.persons.answer_csr(persons[rows])
        kinds = join.households.answer_csr(households[rows])
        least = kinds @ join.least.T
        limited = join.most < NO_MOST
        most = kinds @ np.where(limited, join.most, 0).T
        unlimited = (kinds @ (~limited).T.astype(np.int64) > 0) | join.others
        broken = join.inside & ((found < least) | ((found > most) & ~unlimited))
        if broken.any() and not n_broken:
            row, answer = (int(place[0]) for place in np.nonzero(broken))
            allowed = f"{least[row, answer]:,} " + (
                "or more" if unlimited[row, answer] else f"to {most[row, answer]:,}"
            )
            persons_in = f"{found[row, answer]:,} person{'s' * (found[row, answer] != 1)} in"
            first = (
                f"first in {geocodes[start + row]}: {persons_in} "
                f"{join.persons.answer_labels()[answer]!r}, where its households imply {allowed}"
            )
        n_broken += int(broken.any(axis=1).sum())
    if not n_broken:
        return ""
    units = f"{n_broken:,} geounit{'s' * (n_broken != 1)}"
    return f"join {join.name!r}: the records break it in {units} of level {level!r}, {first}"
