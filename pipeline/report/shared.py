"""What the report says of public shares: which numbers, at which levels, and how far areas are from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pipeline.report.sources import ReportSources


def shared_rows(sources: ReportSources) -> list[dict[str, str]]:
    """One row for each public share, level and answer, with the standard deviation of an area of usual size.

    That size is 100 expected persons: `sqrt(tau^2 (100 + a 100^2))`.
    """
    return [
        {
            "name": name,
            "columns": columns,
            "level": level,
            "answer": answer,
            "spread": f"{spread:,.0f}",
            "own": own,
        }
        for name, columns, level, answer, spread, own in _found(sources)
    ]


def _found(sources: ReportSources) -> Iterator[tuple[str, str, str, str, float, str]]:
    main = sources.universes[0]
    for share in main.shares:
        for level in share.levels:
            notes = cast("dict[str, Any]", sources.notes.get(f"estimate {level}", {}))
            for answer, found in notes.get("shares", {}).get(share.name, {}).items():
                spread = (found["tau2"] * (100.0 + found["a"] * 100.0**2)) ** 0.5
                own = "nothing is measured" if found["noise"] is None else f"{found['noise'] ** 0.5:,.0f}"
                yield share.name, ", ".join(share.distinct_columns), level, answer, spread, own
