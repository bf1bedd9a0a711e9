"""What a release says of itself to people: publisher, reference date, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

#: What is stated in one text each, in the order in which it is shown.
LINES: Final = (
    "title",
    "publisher",
    "reference_date",
    "publication_date",
    "version",
    "next_release",
    "contact",
    "licence",
    "citation",
    "software_url",
)


@dataclass(frozen=True)
class About:
    """Words of the publisher; a text is "" where none is stated."""

    title: str = ""
    publisher: str = ""
    reference_date: str = ""
    publication_date: str = ""
    version: str = ""
    next_release: str = ""
    contact: str = ""
    licence: str = ""
    citation: str = ""
    software_url: str = ""
    notes: Sequence[str] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, str]]:
        """What is stated, in its order: key and text; a note and a definition a row each."""
        rows = [(key, str(getattr(self, key))) for key in LINES if getattr(self, key)]
        rows += [("note", note) for note in self.notes]
        return rows + [(f"definition of {term}", text) for term, text in self.definitions.items()]
