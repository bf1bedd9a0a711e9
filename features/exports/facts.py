"""What every export says of its release, whatever the layout: whether it may be published, at what epsilon, by whom."""

from __future__ import annotations

from pathlib import Path

from pipeline.model.texts.message import marked
from pipeline.published import PublishedRelease

#: Beside the files of a layout that has no place for such words.
STATUS_FILE = "STATUS.txt"
#: Of the epsilon of a release that promises nothing in one number.
NOT_STATED = marked("not stated")


def facts(release: PublishedRelease) -> dict[str, str]:
    """Status, epsilon, source, and the citation where one is stated, in this order."""
    manifest, about = release.manifest, release.spec.about
    source = [about.title or release.spec.name, about.publisher, about.reference_date]
    found = {
        "status": manifest.status,
        "epsilon": NOT_STATED if manifest.joint is None else str(manifest.joint.epsilon),
        "source": ", ".join(part for part in source if part),
    }
    return found | ({"citation": about.citation} if about.citation else {})


def about_rows(release: PublishedRelease) -> list[tuple[str, str]]:
    """The facts, then what the release says of itself, as key and text; the citation once."""
    found = facts(release)
    return [*found.items(), *(row for row in release.spec.about.rows() if row[0] not in found)]


def fact_lines(release: PublishedRelease) -> str:
    """The facts as text, one a line."""
    return "".join(f"{key}: {text}\n" for key, text in facts(release).items())


def write_status(release: PublishedRelease, folder: Path) -> None:
    """Write STATUS.txt."""
    (folder / STATUS_FILE).write_text(fact_lines(release), encoding="utf-8")
