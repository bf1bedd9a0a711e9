"""Sentences that were found hard to read, or untrue, do not come back: not on a page, in a help, in README or docs."""

from __future__ import annotations

import re
from functools import cache

import pytest
from project.documents import PROJECT
from project.messages import PAGE, messages

#: Where texts for readers stand: pages, scripts, catalogues, help, exports, and what is written about them.
_PLACES = (
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "pyproject.toml",
    "mkdocs.yml",
)
_FOLDERS = ("docs", "examples", "features", "flows", "pipeline", "postprocess", "geography", "spinewise", "auditor")
_SUFFIXES = {".cff", ".css", ".j2", ".js", ".md", ".po", ".py", ".toml", ".yml"}
#: What each said, and what it says now.
GONE = {
    '"The promise"': "Privacy guarantee",
    '"In short"': "Key facts",
    "but not none": "but it is not free of error",
    "Whatever somebody already knows": "No matter what someone already knows",
    "what they can learn from it about any one record has a limit": "there is a limit on what they can learn about",
    "That is the worst case": "This worst case assumes an attacker who knows everyone else's records",
    "the true rank may be anywhere": "true rank: 192 to 201",
    "as someone would who does not trust you": "verified it as a sceptic would",
    "no budget accounts for": "spends privacy budget that nobody counts",
    "Refuse every further charge": "Permanently close a dataset's budget",
    "how much it cuts off": "the amount lost",
    "Exact, without protection": "Published exactly (not protected)",
    "Protected release ·": "Statistical release",
    "Protected releases ·": "Statistical releases",
    "accounts for the correlation between the errors": "allowing for correlated errors",
    "further apart than both margins": "if they differ by more than the sum of their margins of error",
    "Square the two margins": "Add the squared margins of error and take the square root",
    "the same to the last byte": "reproducible byte for byte",
    "Of the numbers above zero": "Share of non-zero counts, by table and level",
    "have a margin of error no larger than this": "median margin of error of block counts",
    "Intervals hold the true count": "90 % intervals contain the true count",
    "would be exact that was not declared": "an undeclared count would be published exactly",
    "or secure the machine it runs on": "It does not secure your server",
    "Both need only": "Both use public files only",
    "a directory made from other records": "a directory that belongs to other records or another spec",
    "failed for want of": "for lack of disk, memory or a worker",
    "whether the spec has it": "marks the words already in the spec",
    "which the invariants fix": "changing one record within the same state",
    "whole, never negative": "non-negative integers that sum exactly",
    "whole and never negative": "non-negative integers that sum exactly",
}


def read(text: str) -> str:
    """A file's text as its readers see it: the lines of a paragraph, and the parts of a string, follow each other."""
    return " ".join(re.sub(r'"\s*\n\s*f?"', "", text).split())


@cache
def texts() -> dict[str, str]:
    """The text of each file, by its path."""
    files = [PROJECT / name for name in _PLACES]
    files += [path for folder in _FOLDERS for path in sorted((PROJECT / folder).rglob("*")) if path.suffix in _SUFFIXES]
    assert len(files) > 500
    return {str(path.relative_to(PROJECT)): read(path.read_text("utf-8")) for path in files if path.name != "vega.js"}


@pytest.mark.parametrize("sentence", GONE)
def test_a_sentence_that_was_better_said_stays_away(sentence: str) -> None:
    assert [path for path, text in texts().items() if sentence in text] == [], f"now: {GONE[sentence]}"


def test_a_sentence_is_found_over_several_lines() -> None:
    """In the parts of a string, and in a paragraph."""
    assert read('("further apart than "\n    "both margins")') == '("further apart than both margins")'
    assert read("further apart than\n  both margins") == "further apart than both margins"


def test_messages_of_errors_are_those_that_people_read() -> None:
    """After a change: `make docs`, and read the lines that are other than before."""
    assert messages() == PAGE.read_text("utf-8")
    assert "{" in messages()
