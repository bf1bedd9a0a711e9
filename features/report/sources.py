"""What the report is made from: the public facts of a release, and what other processes work out of its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from features.report.moments import PackedMoments
from features.report.table_numbers import PackedTable
from pipeline.model.universe import Table
from pipeline.pages.facts import ReleaseFacts


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportSources(ReleaseFacts):
    """The public inputs of a report.

    Attributes:
        exact: universe, level, table -> which answers are certain, `(n_classes, size)` for classes of alike geounits,
            and the class of each geounit; the rule is that of `pipeline.reading.margins.HalfWidths.exact_of_level`.
            None where there are too many classes to work it out.
        moments: universe, level, table -> how the errors of its numbers go together in and between areas; None as well.
        whole: universe -> half the width of the 90 % interval of all areas and cells together, by the linear estimate;
            None as well.
        packed: universe, level, table -> the numbers of a table; None for those that are read part by part.
    """

    exact: Callable[[str, int, Table], tuple[NDArray[np.bool_], NDArray[np.int64]] | None]
    moments: Callable[[str, int, Table], PackedMoments | None]
    packed: Callable[[str, int, Table], PackedTable | None]
    whole: Callable[[str], float | None]


def source_lines(sources: ReportSources) -> list[str]:
    """Status, title, publisher, dates and version, a line each; the status only where the release is not official."""
    texts, about = sources.texts, sources.spec.about
    day = texts.numerals.day
    status = [] if sources.status == "official" else [texts(sources.status)]
    lines = [*status, _title(sources)]
    if about.publisher:
        lines.append(texts("Publisher: {publisher}", publisher=about.publisher))
    if about.period:
        lines.append(texts("Period: {period}", period=about.period.name))
    if about.reference_date:
        lines.append(texts("Reference date: {day}", day=day(about.reference_date)))
    if about.publication_date:
        lines.append(texts("Published: {day}", day=day(about.publication_date)))
    if about.version:
        lines.append(texts("Version: {version}", version=about.version))
    return lines


def _title(sources: ReportSources) -> str:
    return sources.spec.report.title or sources.spec.name
