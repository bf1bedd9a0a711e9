"""Whether the persons of every geounit can be the members of its households, as the spec's joins say."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.reading.counts import Counts
from auditor.reading.files import LARGEST
from auditor.reading.findings import Findings
from auditor.reading.joins import NO_LIMIT, JoinedGroup
from auditor.reading.spine import Level


def check_group(
    group: JoinedGroup,
    level: Level,
    persons: Counts,
    households: Counts,
    names: tuple[str, str],
    findings: Findings,
) -> None:
    """Report the geounits of a level in which the persons of a group are too few or too many for its households.

    Args:
        group: of persons.
        level: whose counts these are.
        persons, households: histograms of the level, as counts of cells.
        names: of the files of both.
        findings: to which they are added.
    """
    n = len(level.codes)
    found = _by_geounit(persons, group.persons.astype(np.int64), n)
    least = _by_geounit(households, group.least, n)
    most = _by_geounit(households, np.maximum(group.most, 0), n)
    unlimited = _by_geounit(households, (group.most == NO_LIMIT).astype(np.int64), n) > 0

    def sentence(at: int) -> str:
        allowed = f"{least[at]:,} or more" if unlimited[at] else f"{least[at]:,} to {most[at]:,}"
        low = found[at] < least[at]
        by = f"{least[at] - found[at]:,} too few" if low else f"{found[at] - most[at]:,} too many"
        return (
            f"{level.label(at)}, {group.label!r}: found {found[at]:,}, allowed {allowed} by the households in "
            f"{names[1]}, {by} (the join {group.join!r})"
        )

    broken = np.asarray((found < least) | ((found > most) & ~unlimited), dtype=np.bool_)
    findings.check(names[0], f"counts that break the join {group.join!r}").add(broken, sentence)


def _by_geounit(counts: Counts, weights: NDArray[np.int64], n: int) -> NDArray[Any]:
    """The sum of counts times the weight of their cell in each geounit, `(n,)`, exact."""
    large = float(np.abs(counts.counts).sum()) * max(int(weights.max(initial=0)), 1) > LARGEST
    out = np.zeros(n, dtype=object if large else np.int64)
    np.add.at(
        out, counts.geounits, (counts.counts.astype(object) if large else counts.counts) * weights[counts.columns]
    )
    return out
