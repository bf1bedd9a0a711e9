"""What the report is made from: the public facts of a release, and what other processes work out of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.pages.templates import ReleaseFacts

if TYPE_CHECKING:
    from features.report.workers import ReportNumbers
    from pipeline.publishing.promises import Promises


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportSources(ReleaseFacts):
    """The public inputs of a report.

    Attributes:
        promises: what the release promises, of each universe in their order.
        numbers: what follows from areas and tables.
    """

    promises: Promises
    numbers: ReportNumbers


def source_lines(sources: ReportSources) -> list[str]:
    """Status, title, publisher, dates and version, a line each; the status only where the release is not official."""
    texts, about = sources.texts, sources.spec.about
    day = texts.numerals.day
    status = [] if sources.status == "official" else [texts(sources.status)]
    lines = [*status, sources.spec.report.title or sources.spec.name]
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
