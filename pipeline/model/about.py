"""What a release says of itself to people: publisher, reference date, notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class About:
    """Words of the publisher; a text is "" where none is stated."""

    title: str = ""
    publisher: str = ""
    reference_date: str = ""
    contact: str = ""
    licence: str = ""
    citation: str = ""
    notes: Sequence[str] = ()
    definitions: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, str]]:
        """What is stated, in its order: key and text; a note and a definition a row each."""
        keys = ("title", "publisher", "reference_date", "contact", "licence", "citation")
        rows = [(key, str(getattr(self, key))) for key in keys if getattr(self, key)]
        rows += [("note", note) for note in self.notes]
        return rows + [(f"definition of {term}", text) for term, text in self.definitions.items()]
