"""Which candidates the reports of a survey with an open list contain, before it is decided which words are released."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from features.local.collect.finding import FoundWords, find_words
from features.local.collect.mechanism import Counts
from features.local.collect.rappor import Rappor
from features.local.collected_words import CollectedWords
from features.local.confidential import count_reports
from features.local.survey import Survey
from features.local.unlisted import CohortBits, unlisted_words
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.spec.release_spec import load_spec
from pipeline.storage.small_files import read_small

#: Bytes of a list of candidates.
_LONGEST: Final = 1 << 30


@dataclass(frozen=True)
class WordsOfReports:
    """What is found.

    Attributes:
        attribute: of the spec, whose values the words can be.
        rest: its last value, any other word.
        reports: how many are used.
        unused: reason -> how many are not.
        found: the words, the most frequent first.
        listed: the words that the spec has.
        signs: what to tell of frequent words that are neither found nor candidates; empty for nothing.
    """

    attribute: str
    rest: str
    reports: int
    unused: dict[str, int]
    found: FoundWords
    listed: tuple[str, ...]
    signs: tuple[str, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The attribute's values, for the spec."""
        return (*self.found.words, self.rest)

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        low, high = (np.rint(end).astype(np.int64).tolist() for end in self.found.interval())
        counts = np.rint(self.found.counts).astype(np.int64).tolist()
        rows = zip(self.found.words, counts, low, high, strict=True)
        known = set(self.listed)
        return {
            "attribute": self.attribute,
            "values": list(self.values),
            "reports": self.reports,
            "not used": self.unused,
            "candidates": self.found.n_candidates,
            "words": [
                {"word": word, "count": n, "low90": least, "high90": most, "listed": word in known}
                for word, n, least, most in rows
            ],
            "remarks": list(self.signs),
        }


#: Draws one report of each respondent: public, so that the same reports give the same words. A run has its own key.
_DRAWING: Final = hashlib.sha256(b"spinewise words: one report of each respondent").digest()


def words_of_reports(spec_file: Path, candidates: Path, *, level: float = 0.05) -> WordsOfReports:
    """Find the candidates that are significantly present in all reports of a survey together.

    What is found follows from reports that were randomised before they were sent, so that it may be published. Of
    several reports of a respondent, where the spec says to count them, one is drawn, by a public key: always the same.
    A run draws by its own key, and may take another.

    Args:
        spec_file: of a release from reports by RAPPOR; its words are not looked at.
        candidates: a text file with a word in each line.
        level: the probability that any word is found that nobody says.

    Raises:
        InputError: the spec is of no such release; a candidate is listed twice; there is no report, or one that cannot
            be used and the spec does not say to count it.
    """
    spec = load_spec(spec_file)
    universe = spec.universes()[0]
    survey = universe.source
    if not isinstance(survey, Survey) or not isinstance(survey.collected, CollectedWords):
        raise InputError(f'{spec_file}: collect.mechanism: "rappor" is needed, whose answers are words of an open list')
    listed = _lines(candidates)
    records, mechanism = universe.require_input(), survey.collected.mechanism
    counting = CohortBits(mechanism)
    counted = count_reports(records, counting, read_spine(spec.geography), _DRAWING, together=True)
    if records.bad_reports != "count":
        counted.log.raise_if_any()
    if not counted.reports.any():
        raise InputError(f"{records.file}: no report can be used; at least one is needed")
    bits, cohorts = counting.apart(counted.totals[0])
    found = find_words(mechanism, listed, bits, cohorts, level=level)
    (attribute,) = universe.schema.attributes
    *spec_words, rest = attribute.values
    signs = _signs_of_others(mechanism, found, bits, cohorts)
    numbers = int(counted.reports[0]), counted.unused
    return WordsOfReports(attribute.name, rest, *numbers, found, tuple(spec_words), signs)


def _signs_of_others(mechanism: Rappor, found: FoundWords, bits: Counts, cohorts: Counts) -> tuple[str, ...]:
    """What to tell where frequent words seem to be said that are not found; nothing where no words can be listed."""
    try:
        collected = CollectedWords(mechanism, found.words)
    except InputError:  # none are found, or too many
        return ()
    unlisted = unlisted_words(collected, found.counts, bits, cohorts)
    if unlisted is None or not unlisted.signs:
        return ()
    return (
        "the reports hold signs of frequent words that were not found, as of one word in "
        f"{unlisted.like_one_word(collected):,} of them: they may be no candidates",
    )


def _lines(candidates: Path) -> tuple[str, ...]:
    """The words of a file; InputError where it cannot be read, or has one twice."""
    try:
        lines = read_small(candidates, _LONGEST).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{candidates}: cannot be read as a text file (UTF-8): {error}") from None
    words = [line.strip() for line in lines if line.strip()]
    seen: dict[str, int] = {}
    for number, word in enumerate(words, 1):
        if word in seen:
            raise InputError(f"{candidates}: {word!r} is the word number {seen[word]} and {number}; list each once")
        seen[word] = number
    return tuple(words)
