"""What the public file of a survey's reports says: how many there are, and of words that are not listed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pipeline.collect.collected import Collected
from pipeline.collect.collected_words import CollectedWords
from pipeline.collect.unlisted import UNLISTED, Unlisted
from pipeline.errors import ReleaseError
from pipeline.model.strategy import Central
from pipeline.release.privacy_statement import decimal_text


def told(collected: Collected, file: Path) -> Collected:
    """How answers were randomised, with what the public file of the reports says of words that are not listed.

    Raises:
        ReleaseError: the file is not that of a release.
    """
    if not isinstance(collected, CollectedWords):
        return collected
    try:
        found = json.loads(file.read_bytes())
        if found[UNLISTED] is None:
            return collected
        unlisted = Unlisted.of_data(found[UNLISTED], int(found["used"]))
        return collected.told(unlisted.excess, unlisted.reports)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise ReleaseError(f"{file}: not what a release says of its reports: {error!r}") from None


@dataclass(frozen=True)
class CollectedView:
    """How many reports a release is made from, and how many times as likely an answer can make one as another does.

    Attributes:
        epsilon: of one report.
        central: the name of the release whose counts are used too; empty for none.
        moved: by how much 1,000 reports of a word that is not listed typically move a count; None without words.
        tested: whether it is known if there are frequent words that are not listed.
        like: reports of one word that does what all those seem to do; 0 where there are no signs of frequent ones.
        larger: by how many percent this makes errors of counts of all reports larger.
    """

    used: int
    unused: int
    ratio: str
    epsilon: str
    central: str = ""
    moved: int | None = None
    tested: bool = True
    like: int = 0
    larger: int = 0


def view_of(collected: Collected, releases: Sequence[Central], file: Path) -> CollectedView:
    """The reports that a release is made from, for its own report, from their public file."""
    found = json.loads(file.read_bytes())
    unlisted = found.get(UNLISTED)
    signs = unlisted is not None and unlisted["signs of frequent ones"]
    return CollectedView(
        used=found["used"],
        unused=sum(found["not used"].values()),
        ratio=decimal_text(collected.mechanism.ratio),
        epsilon=decimal_text(Fraction(collected.mechanism.epsilon)),
        central="".join(one.release.name for one in releases),
        moved=None if collected.shift is None else round(1000 * collected.shift),
        tested=unlisted is not None,
        like=unlisted["as of one word in"] if signs else 0,
        larger=round(100 * (math.sqrt(1 + unlisted["excess variance"]) - 1)) if signs else 0,
    )
