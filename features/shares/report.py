"""What the report says of public shares: which numbers, at which levels, and how far areas are from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from features.shares.public_share import PublicShare
from pipeline.report.sources import ReportSources


class SharedRow(NamedTuple):
    """One public share, level and answer; `own`: of what is measured of an area, None where nothing is."""

    name: str
    columns: str
    level: str
    answer: str
    spread: float
    own: float | None


def shared_rows(shares: Sequence[PublicShare], sources: ReportSources) -> list[SharedRow]:
    """One row for each public share, level and answer, with the standard deviation of an area of usual size.

    That size is 100 expected persons: `sqrt(tau^2 (100 + a 100^2))`.
    """
    return list(_found(shares, sources))


def _found(shares: Sequence[PublicShare], sources: ReportSources) -> Iterator[SharedRow]:
    for share in shares:
        for level in share.levels:
            notes = cast("dict[str, Any]", sources.notes.get(f"estimate {level}", {}))
            for answer, found in notes.get("shares", {}).get(share.name, {}).items():
                spread = (found["tau2"] * (100.0 + found["a"] * 100.0**2)) ** 0.5
                own = None if found["noise"] is None else found["noise"] ** 0.5
                yield SharedRow(share.name, ", ".join(share.distinct_columns), level, answer, spread, own)
