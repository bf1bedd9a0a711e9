"""Whether answers and a release are of the same records, as far as their noise lets that be seen.

Public files cannot prove it: what both state of their records is keyed and salted, so that nobody can compare records
by it. Numbers can be compared. Two that are of the same records differ by noise alone, whose size both state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pipeline.errors import InputError
from pipeline.estimation.answers.together import PartByPartError
from pipeline.published import PublishedRelease
from pipeline.questions.manifest import AnswerManifest
from pipeline.runs.questions.combining import put_together

__all__ = ["doubt_of_records"]

#: The share of answers of the same records that are refused.
_REFUSED: Final = 1e-9


def doubt_of_records(path: Path, folder: Path, manifest: AnswerManifest, release: PublishedRelease) -> str | None:
    """Why an answer and a release may be of other records, a sentence; None where nothing speaks for it.

    Args:
        path: what messages call the answer.
        folder: with its public files.
        manifest: of the answer.
        release: finished.

    Raises:
        InputError: they are of other records, but for a probability of one in a billion.
        ReleaseError: a file of either is damaged.
    """
    root = release.run.root
    try:
        combined = put_together(folder, manifest, release)
    except PartByPartError:
        return f"{path} was not compared with {root}, which is estimated part by part: are both of the same records?"
    surely, usual = combined.agreement(manifest.framework, _REFUSED), combined.agreement(manifest.framework)
    if not surely.agree:
        raise InputError(
            f"{path}: its counts are not of the records of {root}: the largest distance of {surely.numbers:,} numbers "
            f"is {surely.largest:g} standard deviations of their noise, and {surely.allowed:g} is exceeded with a "
            "probability of one in a billion"
        )
    if not usual.agree:
        return (
            f"{path} may not be of the records of {root}: the largest distance of {usual.numbers:,} numbers is "
            f"{usual.largest:g} standard deviations of their noise, and {usual.allowed:g} is exceeded with a "
            "probability of 0.1 %"
        )
    return None
