"""What every export says of its release, whatever the layout: whether it may be published, at what epsilon, by whom."""

from __future__ import annotations

from pathlib import Path

from pipeline.metadata.facts import fact_lines, release_facts
from pipeline.published import PublishedRelease

#: Beside the files of a layout that has no place for such words.
STATUS_FILE = "STATUS.txt"


def facts(release: PublishedRelease) -> dict[str, str]:
    """See `release_facts`."""
    return release_facts(release.spec.name, release.spec.about, release.manifest.status, release.manifest.joint)


def about_rows(release: PublishedRelease) -> list[tuple[str, str]]:
    """The facts, then what the release says of itself, as key and text; the citation once."""
    found = facts(release)
    return [*found.items(), *(row for row in release.spec.about.rows() if row[0] not in found)]


def write_status(release: PublishedRelease, folder: Path) -> None:
    """Write STATUS.txt."""
    (folder / STATUS_FILE).write_text(fact_lines(facts(release)), encoding="utf-8")
